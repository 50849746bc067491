//! What LangGraph puts on the runs of a graph whoever instruments them: the metadata that tells a graph from its nodes, and
//! the stops for a person.

use serde_json::{Map, Value as Json};

use super::python_literal;
use crate::span::Span;

/// What a compiled graph is called that nobody named.
const UNNAMED_GRAPH: &str = "LangGraph";
/// Where a session can stand in the metadata of a run, in the order of the official adapter.
const SESSION_KEYS: [&str; 3] = ["session_id", "conversation_id", "thread_id"];
/// What LangChain and LangGraph add to the metadata starts so.
const OWN_KEYS: [&str; 6] = ["langgraph_", "ls_", "lc_", "checkpoint_", "thread_id", "versions"];
/// `ls_integration` of a model, not of a graph.
const MODEL_INTEGRATION: &str = "langchain_chat_model";
/// A list that was cut has fewer items than this.
const CUT_MEMBERS: usize = 32;
/// Why such a run waits, as the official adapter says it.
const REASON: &str = "langgraph_interrupt";
/// The exceptions that stop a graph for a person.
const INTERRUPTS: [&str; 2] = ["GraphInterrupt", "NodeInterrupt"];
/// Stack traces of Python begin so.
const TRACEBACK: &str = "Traceback (most recent call last)";

/// The metadata of a run. All runs below a node inherit that node's.
#[derive(Debug, Default)]
pub(super) struct RunMetadata(Map<String, Json>);

/// What a run is for its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GraphRole {
    /// The run of a graph.
    Graph,
    /// The run of a node.
    Node,
    /// Neither, or a graph that only the spans of its nodes tell of.
    Other,
}

impl RunMetadata {
    /// The metadata that an attribute holds: all of it, or the whole members at the start of what a limit cut.
    pub fn new(metadata: Option<Json>) -> Self {
        match metadata {
            Some(Json::Object(members)) => RunMetadata(members),
            Some(Json::String(text)) if text.starts_with('{') => RunMetadata(whole_members(&text)),
            _ => RunMetadata::default(),
        }
    }

    /// A text of it.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str().filter(|text| !text.trim().is_empty())
    }

    /// The session that the application gave the run.
    pub fn session(&self) -> Option<Json> {
        SESSION_KEYS.iter().find_map(|key| self.0.get(*key)).filter(|id| id.is_string() || id.is_number()).cloned()
    }

    /// What of it the application attached, if LangChain added to it; null if nothing is left.
    pub fn without_own_keys(&self) -> Option<Json> {
        let is_own = |key: &str| OWN_KEYS.iter().any(|start| key.starts_with(start));
        self.0.keys().any(|key| is_own(key)).then(|| {
            let members: Map<_, _> = self.0.clone().into_iter().filter(|(key, _)| !is_own(key)).collect();
            if members.is_empty() { Json::Null } else { Json::Object(members) }
        })
    }

    /// What a chain is for its graph.
    ///
    /// Only a node's own run is called as the node; names that start with `__` are LangGraph's own. What a node hands down
    /// is on the runs below it as `checkpoint_ns`, so that a subgraph of the node's name is told from the node itself; in
    /// JavaScript (`hands_down_to_itself`) it is on the node's own run as well. Checked with LangGraph 0.2.76 and 1.2.24.
    pub fn role(&self, run_name: &str, hands_down_to_itself: bool) -> GraphRole {
        if run_name == UNNAMED_GRAPH {
            return GraphRole::Graph;
        }
        let Some(node) = self.text("langgraph_node") else {
            let is_graph = self.text("ls_integration").is_some_and(|integration| integration != MODEL_INTEGRATION);
            return if is_graph { GraphRole::Graph } else { GraphRole::Other };
        };
        let handed_down = self.text("checkpoint_ns");
        let is_below = handed_down.is_some() && handed_down == self.text("langgraph_checkpoint_ns");
        match self.text("lc_agent_name") == Some(run_name) {
            true if is_below || run_name != node => GraphRole::Graph,
            _ if run_name != node || node.starts_with("__") => GraphRole::Other,
            _ if is_below && !hands_down_to_itself => GraphRole::Other,
            _ => GraphRole::Node,
        }
    }

    /// The name of the agent that a graph is: its own, else that of the node that it runs in.
    pub fn graph_name<'m>(&'m self, run_name: &'m str) -> &'m str {
        let named = || self.text("langgraph_node").or_else(|| self.text("lc_agent_name"));
        if run_name == UNNAMED_GRAPH { named().unwrap_or(run_name) } else { run_name }
    }
}

fn whole_members(cut: &str) -> Map<String, Json> {
    let ends = cut.rmatch_indices(',').take(CUT_MEMBERS).map(|(end, _)| end);
    let mut objects = ends.filter_map(|end| serde_json::from_str(&format!("{}}}", cut.get(..end)?)).ok());
    objects.next().unwrap_or_default()
}

/// The stops for a person that ended the span, each `{id, value, reason}` as far as its exception tells.
///
/// Python writes `(Interrupt(value=…, id='…'),)`, JavaScript JSON.
pub(super) fn interrupts(span: &Span<'_>) -> Option<Json> {
    let is_interrupt = |class: &str| INTERRUPTS.iter().any(|name| class.rsplit('.').next() == Some(name));
    let told = span.events.iter().rev().filter(|event| event.name == "exception").find_map(|event| {
        let message = event.attributes.text("exception.message").unwrap_or_default();
        if event.attributes.text("exception.type").is_some_and(is_interrupt) {
            return Some(message);
        }
        // LangSmith writes the `repr` of every exception and, right behind it, its stack trace.
        let repr = message.split(TRACEBACK).next()?;
        repr.split_once('(').filter(|(class, _)| is_interrupt(class)).map(|(_, arguments)| arguments)
    });
    // The official instrumentations note no exception, only its type and, as the status, its text.
    let by_status =
        || span.attributes.text("error.type").filter(|class| is_interrupt(class)).map(|_| &*span.status.message);
    told.or_else(by_status).map(stops)
}

/// The stops that the text of such an exception tells of.
pub(super) fn stops(message: &str) -> Json {
    let stops: Vec<Json> = match serde_json::from_str(message) {
        Ok(Json::Array(stops)) => stops.iter().map(|stop| stop_of(|key| stop.get(key).cloned())).collect(),
        _ => message.split("Interrupt(").skip(1).map(|stop| stop_of(|key| python_literal::field(stop, key))).collect(),
    };
    Json::Array(stops)
}

fn stop_of(member: impl Fn(&str) -> Option<Json>) -> Json {
    let members = ["id", "value"].into_iter().filter_map(|key| Some((key.to_owned(), member(key)?)));
    let reason = ("reason".to_owned(), Json::from(REASON));
    Json::Object(members.filter(|(_, value)| !value.is_null()).chain([reason]).collect())
}

/// What a person answered: the `resume` of the `Command` that a run was started with.
pub(super) fn resume_value(input: &Json) -> Option<Json> {
    let command = input.as_object().filter(|input| input.contains_key("goto") || input.contains_key("lg_name"))?;
    command.get("resume").filter(|answer| !answer.is_null()).cloned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::span::{SpanEvent, SpanId, TraceId};

    fn stopped_by(message: &str) -> Span<'_> {
        raised("langgraph.errors.GraphInterrupt", message)
    }

    fn raised<'s>(class: &'s str, message: &'s str) -> Span<'s> {
        let attributes = [("exception.type", class), ("exception.message", message)].into_iter().collect();
        Span {
            trace_id: TraceId::from(1),
            span_id: SpanId::from(1),
            parent: None,
            parent_is_remote: None,
            name: "node".into(),
            start: 0,
            end: None,
            attributes: Default::default(),
            dropped_attributes: 0,
            events: vec![SpanEvent { name: "exception".into(), time: 0, attributes }],
            status: Default::default(),
            scope: Default::default(),
            resource: Default::default(),
        }
    }

    #[test]
    fn stops_are_told_as_far_as_they_are_known() {
        let two = "(Interrupt(value={'q': \"can't\"}, id='a1'), Interrupt(value=<Ask object at 0x7f>, id='b2'))";
        let stops = json!([{"id": "a1", "value": {"q": "can't"}, "reason": REASON}, {"id": "b2", "reason": REASON}]);
        assert_eq!(interrupts(&stopped_by(two)), Some(stops));
        let cut = "(Interrupt(value={'q': 'cut in the mi";
        assert_eq!(interrupts(&stopped_by(cut)), Some(json!([{"reason": REASON}])));
        let of_javascript = "[{\"value\": \"sure?\", \"id\": \"a1\", \"when\": \"during\"}]";
        let stops = json!([{"id": "a1", "value": "sure?", "reason": REASON}]);
        assert_eq!(interrupts(&stopped_by(of_javascript)), Some(stops.clone()));
        assert_eq!(interrupts(&stopped_by("")), Some(json!([])));
        let repr = "GraphInterrupt((Interrupt(value='sure?', id='a1'),))Traceback (most recent call last):\n\nlanggraph.errors.GraphInterrupt: (Interrupt(value='sure?', id='a1'),)";
        assert_eq!(interrupts(&raised("Exception", repr)), Some(stops));
        assert_eq!(interrupts(&raised("Exception", "ValueError('Interrupt(')")), None);
    }

    #[test]
    fn a_subgraph_of_its_nodes_name_is_no_second_node() {
        let metadata = |members| RunMetadata::new(Some(members));
        let node = json!({"langgraph_node": "alice", "langgraph_checkpoint_ns": "alice:1"});
        assert_eq!(metadata(node).role("alice", false), GraphRole::Node);
        let below =
            json!({"langgraph_node": "alice", "langgraph_checkpoint_ns": "alice:1", "checkpoint_ns": "alice:1"});
        assert_eq!(metadata(below.clone()).role("alice", false), GraphRole::Other);
        assert_eq!(metadata(below.clone()).role("alice", true), GraphRole::Node);
        assert_eq!(metadata(below).role("LangGraph", false), GraphRole::Graph);
        let model = json!({"ls_integration": "langchain_chat_model"});
        assert_eq!(metadata(model).role("model", false), GraphRole::Other);
        assert_eq!(metadata(json!({"ls_integration": "langgraph"})).role("team", false), GraphRole::Graph);
        assert_eq!(metadata(json!({"langgraph_node": "__start__"})).role("__start__", true), GraphRole::Other);
        assert_eq!(RunMetadata::new(Some(json!("cut {"))).role("agent", false), GraphRole::Other);
        let cut =
            json!("{\"thread_id\": \"t\", \"langgraph_node\": \"model\", \"langgraph_path\": [\"__pregel_pull\", \"mo");
        assert_eq!(metadata(cut).role("model", false), GraphRole::Node);
    }

    #[test]
    fn a_command_resumes_only_with_an_answer() {
        assert_eq!(
            resume_value(&json!({"graph": null, "update": null, "resume": "yes", "goto": []})),
            Some(json!("yes"))
        );
        assert_eq!(resume_value(&json!({"resume": null, "goto": ["bob"]})), None);
        assert_eq!(resume_value(&json!({"resume": "an input of the application's own"})), None);
    }
}
