//! Limits: at them, below and beyond.

use super::support::*;

#[test]
fn spans_are_limited_and_one_more_refuses_the_request() {
    let budget = Budget { max_spans: 10, ..Budget::REQUEST };
    for count in [9, 10, 11] {
        let bytes = wrapped(&vec![proto_span("s").encode_to_vec(); count]);
        let json = format!(r#"{{"spans":[{}]}}"#, vec![MINIMAL_SPAN; count].join(","));
        for read in [protobuf::read(&bytes, &budget), json::read(json.as_bytes(), &budget)] {
            match read {
                Ok(found) => assert!(found.spans.len() == count && count <= 10),
                Err(error) => assert!(error == ReadError::TooManySpans { limit: 10 } && count == 11),
            }
        }
    }
}

#[test]
fn attributes_beyond_the_limit_are_left_out_and_counted() {
    let budget = Budget { max_attributes: 10, ..Budget::REQUEST };
    for count in [9, 10, 11] {
        let many: Vec<_> = (0..count).map(|n| key_value(&n.to_string(), text("v"))).collect();
        let span = ProtoSpan {
            attributes: many.clone(),
            dropped_attributes_count: 5,
            events: vec![Event { attributes: many, ..Default::default() }],
            ..proto_span("s")
        };
        for found in read_both(span, &budget) {
            assert_eq!(found.spans[0].attributes.len(), count.min(10));
            assert_eq!(found.spans[0].events[0].attributes.len(), count.min(10));
            assert_eq!(found.spans[0].dropped_attributes, if count == 11 { 7 } else { 5 });
            assert_eq!(found.rejected, []);
        }
    }
}

#[test]
fn events_beyond_the_limit_are_left_out_and_told() {
    let budget = Budget { max_events: 10, ..Budget::REQUEST };
    for count in [9, 10, 11] {
        let span =
            ProtoSpan { events: vec![Event { name: "e".to_owned(), ..Event::default() }; count], ..proto_span("s") };
        for found in read_both(span, &budget) {
            assert_eq!(found.spans[0].events.len(), count.min(10));
            assert_eq!(found.rejected.len(), count - count.min(10));
            assert_eq!(found.rejected_spans, 0);
        }
    }
}

#[test]
fn events_that_say_nothing_are_left_out() {
    let event = Event { time_unix_nano: 1, ..Event::default() };
    let span = ProtoSpan { events: vec![Event::default(), event, Event::default()], ..proto_span("s") };
    for found in read_both(span, &Budget::REQUEST) {
        assert_eq!(found.spans[0].events.len(), 1);
    }
}

#[test]
fn nesting_is_limited() {
    let budget = Budget { max_depth: 10, ..Budget::REQUEST };
    for depth in [9, 10, 11] {
        let span = ProtoSpan { attributes: vec![nested(depth)], ..proto_span("s") };
        for found in read_both(span, &budget) {
            assert_eq!(found.rejected_spans, usize::from(depth == 11));
        }
    }
    let full = ProtoSpan { attributes: vec![nested(64)], ..proto_span("s") };
    assert_eq!(read_protobuf(&wrapped(&[full.encode_to_vec()])).spans.len(), 1);
}

#[test]
fn ten_thousand_levels_are_refused_in_both_forms() {
    let mut value = Vec::new();
    for _ in 0..10_000 {
        value = message(5, &message(1, &value));
    }
    let span = [proto_span("s").encode_to_vec(), message(9, &message(2, &value))].concat();
    let bytes = wrapped(&[span]);
    assert_eq!(read_protobuf(&bytes).rejected_spans, 1);

    let open = r#"{"arrayValue":{"values":["#.repeat(10_000);
    let json = format!(r#""attributes":[{{"value":{open}{}}}]"#, "]}}".repeat(10_000));
    assert_eq!(read_json(&spans_with(&json)).rejected_spans, 1);
}

#[test]
fn eight_mebibytes_of_empty_spans_are_refused_and_take_no_memory() {
    let bomb = message(1, &message(2, &[0x12, 0].repeat(4 << 20)));
    let error = protobuf::read(&bomb, &Budget::REQUEST).unwrap_err();
    assert_eq!(error, ReadError::TooManySpans { limit: 65_536 });

    let bomb = message(1, &message(2, &[0x12, 0].repeat(1 << 18)));
    let found = protobuf::read(&bomb, &Budget::FILE).unwrap();
    assert_eq!((found.rejected_spans, found.rejected.len()), (1 << 18, Spans::MAX_REPORTS));
    assert_eq!(found.more_rejected, (1 << 18) - Spans::MAX_REPORTS);
    assert!(found.spans.capacity() * size_of::<Span<'_>>() <= 10 * bomb.len());

    let json = format!(r#"{{"spans":[{{}}{}]}}"#, ",{}".repeat(1 << 20));
    let error = json::read(json.as_bytes(), &Budget::REQUEST).unwrap_err();
    assert_eq!(error, ReadError::TooManyParts { limit: 262_144 });
}

#[test]
fn a_request_has_so_many_values_and_the_spans_beyond_are_rejected() {
    let value = message(9, &[message(1, b"k"), message(2, &[0x18, 0])].concat());
    let span = |id: u8| [message(1, &[1; 16]), message(2, &[id; 8]), value.repeat(3)].concat();
    let spans = [span(1), span(2), span(3)].map(|span| message(2, &span)).concat();
    let bytes = message(1, &message(2, &spans));
    let read = |max_values| protobuf::read(&bytes, &Budget { max_values, ..Budget::REQUEST }).unwrap();
    for (values, accepted) in [(5, 1), (6, 2), (8, 2), (9, 3)] {
        let found = read(values);
        assert_eq!((found.spans.len(), found.rejected_spans), (accepted, 3 - accepted), "{values} values");
    }
    assert!(read(8).rejected[0].cause.contains("more values than"), "{:?}", read(8).rejected);
    // A longer request may have more.
    assert!(bytes.len() / Budget::BYTES_PER_VALUE >= 5, "{}", bytes.len());
    assert_eq!(read(0).spans.len(), 1);
}
