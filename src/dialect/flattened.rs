//! Attributes that were lists and objects once: `prefix.0.role`, `prefix.1.tool_calls.0.name`, …

use serde_json::{Map, Value as Json};

use crate::span::Span;

/// No emitter nests deeper than half of this; deeper keys are left out.
const DEEPEST: usize = 16;

/// What the attributes below a prefix were before they were flattened. Indices give the order and need be neither dense
/// nor start at 0: attribute limits drop the oldest or the newest keys. Text stays text, JSON or not.
pub(super) fn unflatten(span: &Span<'_>, prefix: &str) -> Option<Json> {
    let mut root = Map::new();
    for (key, value) in span.attributes.iter() {
        let Some(path) = key.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.')) else { continue };
        let mut segments: Vec<&str> = path.split('.').collect();
        if segments.len() > DEEPEST {
            continue;
        }
        let Some(last) = segments.pop() else { continue };
        let mut at = Some(&mut root);
        for segment in segments {
            let inner = at.map(|map| map.entry(segment).or_insert_with(|| Json::Object(Map::new())));
            at = inner.and_then(Json::as_object_mut);
        }
        if let Some(map) = at {
            map.insert(last.to_owned(), value.to_json());
        }
    }
    (!root.is_empty()).then(|| with_lists(Json::Object(root)))
}

/// Objects whose keys are all numbers are lists, in the order of the numbers.
fn with_lists(value: Json) -> Json {
    let Json::Object(members) = value else { return value };
    let mut numbered = Vec::with_capacity(members.len());
    let is_list = members.keys().all(|key| key.bytes().all(|byte| byte.is_ascii_digit()) && key.parse::<u32>().is_ok());
    if !is_list {
        return Json::Object(members.into_iter().map(|(key, value)| (key, with_lists(value))).collect());
    }
    numbered.extend(members.into_iter().filter_map(|(key, value)| Some((key.parse::<u32>().ok()?, with_lists(value)))));
    numbered.sort_by_key(|(index, _)| *index);
    Json::Array(numbered.into_iter().map(|(_, value)| value).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::span::{Attributes, Value};

    fn span(keys: &[&str]) -> Span<'static> {
        let attributes: Attributes<'static> =
            keys.iter().map(|key| ((*key).to_owned(), Value::from((*key).to_owned()))).collect();
        Span {
            trace_id: crate::span::TraceId::from(1),
            span_id: crate::span::SpanId::from(1),
            parent: None,
            parent_is_remote: None,
            name: "".into(),
            start: 0,
            end: None,
            attributes,
            dropped_attributes: 0,
            events: Vec::new(),
            status: Default::default(),
            scope: Default::default(),
            resource: Default::default(),
        }
    }

    #[test]
    fn lost_and_unordered_indices_leave_the_rest_in_order() {
        let span = span(&["p.10.role", "p.2.role", "p.2.calls.1.id", "p.2.calls.0.id", "px.0.role"]);
        assert_eq!(
            unflatten(&span, "p"),
            Some(json!([
                {"role": "p.2.role", "calls": [{"id": "p.2.calls.0.id"}, {"id": "p.2.calls.1.id"}]},
                {"role": "p.10.role"},
            ]))
        );
    }

    #[test]
    fn keys_that_contradict_each_other_or_never_end_do_no_harm() {
        let deep = format!("p.{}", vec!["0"; 100_000].join("."));
        let span = span(&["p.0", "p.0.role", "p.x", &deep]);
        assert_eq!(unflatten(&span, "p"), Some(json!({"0": "p.0", "x": "p.x"})));
        assert_eq!(unflatten(&span, "q"), None);
    }
}
