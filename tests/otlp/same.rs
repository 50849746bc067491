//! The same spans, whatever the form.

use super::support::*;

#[test]
fn protobuf_is_read_as_prost_reads_it() {
    for recording in RECORDINGS {
        let request = request(recording);
        assert_eq!(read_protobuf(&request.encode_to_vec()), expected(&request));
    }
}

#[test]
fn json_and_protobuf_of_a_recording_give_equal_spans() {
    for recording in RECORDINGS {
        let spans = read_json(recording);
        assert!(!spans.spans.is_empty());
        assert_eq!(spans, read_protobuf(&request(recording).encode_to_vec()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn any_request_is_read_as_prost_reads_it(request in any_request()) {
        let bytes = request.encode_to_vec();
        let found = protobuf::read(&bytes, &Budget::REQUEST).unwrap();
        let expected = expected(&request);
        prop_assert_eq!(&found.spans, &expected.spans);
        prop_assert_eq!(found.rejected_spans, expected.rejected_spans);
        prop_assert_eq!(found.rejected.len(), found.rejected_spans);
    }

    #[test]
    fn any_request_gives_the_same_spans_in_json(request in any_request()) {
        let json = serde_json::to_vec(&request).unwrap();
        let found = json::read(&json, &Budget::REQUEST).unwrap();
        let expected = expected(&request);
        prop_assert_eq!(&found.spans, &expected.spans);
        prop_assert_eq!(found.rejected_spans, expected.rejected_spans);
    }
}

/// Spans written and read again, in two portions one behind the other.
fn written_and_read(spans: &[Span<'_>]) -> Vec<Span<'static>> {
    let mut bytes = Vec::new();
    let (one, other) = spans.split_at(spans.len() / 3);
    write::write(one, &mut bytes);
    write::write(other, &mut bytes);
    let read = protobuf::read(&bytes, &Budget::FILE).unwrap().into_owned();
    assert_eq!(read.rejected, []);
    read.spans
}

#[test]
fn spans_of_a_recording_are_written_as_they_were_read() {
    for recording in RECORDINGS {
        let spans = read_json(recording).spans;
        assert_eq!(written_and_read(&spans), spans);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn any_spans_are_written_as_they_were_read(request in any_request()) {
        let spans = expected(&request).spans;
        prop_assert_eq!(written_and_read(&spans), spans);
    }
}

#[test]
fn a_span_of_the_sdk_is_the_span_that_its_exporter_sends() {
    let data = sdk_span();
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            scope_spans: vec![ScopeSpans {
                scope: Some((&data.instrumentation_scope, None).into()),
                spans: vec![data.clone().into()],
                ..Default::default()
            }],
            ..Default::default()
        }],
    };
    let sent = read_protobuf(&request.encode_to_vec());
    assert_eq!(sent.spans, [sdk::span_from_sdk(data, &Arc::default())]);
}

#[test]
fn a_span_that_has_only_started_has_no_end() {
    let open = sdk::open_span_from_sdk(sdk_span(), &Arc::default());
    assert_eq!(open.end, None);
    assert_eq!(open.start, 1_500);
}

#[test]
fn the_resource_of_the_sdk_keeps_its_attributes_in_one_order() {
    let resource = opentelemetry_sdk::Resource::builder_empty()
        .with_service_name("shop")
        .with_attribute(opentelemetry::KeyValue::new("a", 1))
        .build();
    let attributes = sdk::resource_from_sdk(&resource).attributes;
    let pairs: Vec<_> = attributes.iter().collect();
    assert_eq!(pairs, [("a", &Value::Int(1)), ("service.name", &Value::from("shop"))]);
}
