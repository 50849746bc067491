use std::sync::Arc;

use super::*;
use crate::span::{Resource, Scope};

const SECOND: Duration = Duration::from_secs(1);

fn span(id: u64, parent: Option<u64>, operation: &str) -> Span<'static> {
    let blank = Span::blank(&Arc::new(Scope::default()), &Arc::new(Resource::default()));
    let attributes = [("gen_ai.operation.name", operation), ("gen_ai.agent.name", "bot")];
    Span {
        trace_id: TraceId::from(1),
        span_id: SpanId::from(id),
        parent: parent.map(SpanId::from),
        start: id,
        end: Some(10_000 - id),
        attributes: attributes.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        ..blank
    }
}

/// A [`Pending`] with what has been told.
struct Told(Pending<InMemory>, Instant);

impl Told {
    fn add(&mut self, span: Span<'static>, seconds: u32) {
        self.0.add_span(span, self.1 + seconds * SECOND);
    }

    fn due(&mut self, seconds: u32) -> Vec<Event> {
        let now = self.1 + seconds * SECOND;
        let due = self.0.due(now);
        due.into_iter().flat_map(|id| self.0.tell(id, now).unwrap().unwrap().events).map(|(_, event)| event).collect()
    }
}

fn pending(bounds: Bounds) -> Told {
    let (tell, epoch) = (Tell::WhenDue(Timing::default()), Instant::now());
    Told(Pending::new(InMemory, Mapping::default(), tell, bounds, epoch), epoch)
}

fn told(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| format!("{} {}", event.kind.name(), event.agent_id)).collect()
}

#[test]
fn a_call_waits_for_its_run_longer_than_the_grace() {
    let mut pending = pending(Bounds::LIBRARY);
    pending.add(span(2, Some(1), "chat"), 0);
    assert_eq!(told(&pending.due(10)), [""; 0]);
    pending.add(span(1, None, "invoke_agent"), 10);
    assert_eq!(told(&pending.due(11)), [""; 0], "within the grace");
    let events = pending.due(12);
    assert_eq!(told(&events), ["agent_start bot", "model_request bot", "model_response bot", "agent_end bot"]);
    assert!(events.iter().all(|event| event.extra("fw_synthetic").is_none()));
}

#[test]
fn a_run_that_never_comes_is_waited_for_no_longer_than_the_idle_time() {
    let mut pending = pending(Bounds::LIBRARY);
    pending.add(span(2, Some(1), "chat"), 0);
    assert_eq!(told(&pending.due(29)), [""; 0]);
    assert_eq!(pending.due(30).len(), 4);
}

#[test]
fn spans_that_keep_coming_are_waited_for_no_longer_than_the_maximum() {
    let mut pending = pending(Bounds::LIBRARY);
    for second in 0..600 {
        pending.add(span(1_000 + u64::from(second), Some(1), "chat"), second);
        assert_eq!(told(&pending.due(second)), [""; 0]);
    }
    assert_eq!(pending.due(600).len(), 2 + 2 * 600);
}

#[test]
fn a_late_span_adds_its_own_events_and_one_sent_again_adds_none() {
    let mut pending = pending(Bounds::LIBRARY);
    pending.add(span(1, None, "invoke_agent"), 0);
    assert_eq!(told(&pending.due(2)), ["agent_start bot", "agent_end bot"]);
    pending.add(span(1, None, "invoke_agent"), 3);
    pending.add(span(2, Some(1), "chat"), 3);
    assert_eq!(told(&pending.due(5)), ["model_request bot", "model_response bot"]);
}

#[test]
fn a_span_sent_again_when_its_trace_is_forgotten_tells_nothing_but_who_the_others_belong_to() {
    let mut pending = pending(Bounds::LIBRARY);
    pending.add(span(1, None, "invoke_agent"), 0);
    assert_eq!(pending.due(2).len(), 2);
    assert_eq!(pending.due(40).len(), 0);
    assert!(pending.0.traces.is_empty() && pending.0.agenda.is_empty() && pending.0.memory == 0);
    pending.add(span(1, None, "invoke_agent"), 50);
    assert!(pending.0.traces.is_empty());
    pending.add(span(2, Some(1), "chat"), 51);
    pending.add(span(1, None, "invoke_agent"), 51);
    assert_eq!(told(&pending.due(53)), ["model_request bot", "model_response bot"]);
}

#[test]
fn over_the_bound_the_oldest_trace_is_told_early() {
    let mut pending = pending(Bounds { bytes: 1_300, ..Bounds::LIBRARY });
    pending.add(span(1, None, "invoke_agent"), 0);
    assert_eq!(told(&pending.due(0)), [""; 0]);
    pending.add(Span { trace_id: TraceId::from(2), ..span(1, None, "invoke_agent") }, 1);
    let events = pending.due(1);
    assert_eq!(told(&events), ["agent_start bot", "agent_end bot"]);
    assert_eq!(&*events[0].session_id, &TraceId::from(1).to_string());
    assert_eq!(pending.0.traces.len(), 1, "the newer one waits on");
}

#[test]
fn a_trace_beyond_its_bound_is_told_in_parts_that_repeat_nothing() {
    let mut pending = pending(Bounds { trace_spans: 2, ..Bounds::LIBRARY });
    let mut events = Vec::new();
    for id in 2..=11 {
        pending.add(span(id, Some(1), "chat"), 0);
        events.extend(pending.due(0));
    }
    pending.add(span(2, Some(1), "chat"), 0);
    events.extend(pending.due(30));
    let calls: std::collections::HashSet<String> =
        events.iter().filter(|event| event.kind.name() == "model_request").map(|event| format!("{event:?}")).collect();
    assert_eq!((calls.len(), pending.0.traces.len()), (10, 1));
    assert_eq!(events.iter().filter(|event| event.kind.name() == "model_request").count(), 10);
}

/// The spans of recordings, each with its name.
fn recordings(folder: &std::path::Path) -> Vec<(String, Vec<Span<'static>>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.display().to_string();
        if path.is_dir() {
            found.extend(recordings(&path));
        } else if name.ends_with(".spans.json.zst") || name.ends_with(".otlp.json.zst") {
            let json = zstd::decode_all(&*std::fs::read(&path).unwrap()).unwrap();
            found.push((name, crate::otlp::json::read(&json, &crate::otlp::Budget::FILE).unwrap().spans));
        }
    }
    found
}

#[test]
fn what_is_told_early_is_what_would_have_been_told_later() {
    let lines = |events: Vec<Event>| {
        let lines = crate::encode(events, crate::Policy::default());
        let mut lines: Vec<String> = String::from_utf8(lines).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let mut early = 0;
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let recordings = ["properties", "frameworks"].iter().flat_map(|folder| recordings(&fixtures.join(folder)));
    let by_trace = recordings.flat_map(|(name, spans)| {
        let mut traces: HashMap<TraceId, Vec<Span<'static>>> = HashMap::new();
        spans.into_iter().for_each(|span| traces.entry(span.trace_id).or_default().push(span));
        let short = traces.into_values().filter(|spans| spans.len() <= 60);
        short.map(move |spans| (name.clone(), spans))
    });
    for (name, mut spans) in by_trace {
        let mapping = Mapping { session_id: Some(Arc::from("chat-7")), ..Mapping::default() };
        let (epoch, timing) = (Instant::now(), Timing { max_wait: 100_000 * SECOND, ..Timing::default() });
        let bounds = Bounds::LIBRARY;
        let mut told = Told(Pending::new(InMemory, mapping.clone(), Tell::WhenDue(timing), bounds, epoch), epoch);
        spans.sort_by_key(|span| span.end);
        let later = lines(super::super::map(&spans, &mapping));
        for (at, span) in spans.iter().enumerate() {
            told.add(span.clone(), 3 * at as u32);
            let events = told.due(3 * at as u32 + 3);
            // What was complete was told as a whole: more that comes then is late.
            if told.0.waiting() > 0 {
                early += events.len();
                lines(events).iter().for_each(|line| assert!(later.contains(line), "{name}: {line}"));
            }
        }
    }
    assert!(early > 0, "nothing was ever told early");
}
