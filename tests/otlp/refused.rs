//! What is refused, and how it is told.

use super::support::*;

#[test]
fn a_bad_span_in_protobuf_is_told_with_its_place_and_harms_no_other() {
    let with = |change: &dyn Fn(&mut ProtoSpan)| {
        let mut span = proto_span("bad");
        change(&mut span);
        span.encode_to_vec()
    };
    let mut group = proto_span("bad").encode_to_vec();
    group.extend([0x93, 0x01]);
    let mut wrong_type = proto_span("bad").encode_to_vec();
    wrong_type.extend([0x38, 1]);
    let mut not_utf8 = proto_span("bad").encode_to_vec();
    not_utf8.extend([0x4a, 5, 0x0a, 1, b'k', 0x12, 0, 0x4a, 3, 0x0a, 1, 0xff]);
    let mut cut = proto_span("bad").encode_to_vec();
    cut.extend([0x4a, 100, 0]);
    for (span, cause) in [
        (with(&|span| span.trace_id = vec![1; 15]), "trace id that is not 16 bytes"),
        (with(&|span| span.trace_id = vec![0; 16]), "no trace id"),
        (with(&|span| span.trace_id = vec![]), "no trace id"),
        (with(&|span| span.span_id = vec![1; 32]), "span id that is not 8 bytes"),
        (with(&|span| span.span_id = vec![0; 8]), "no span id"),
        (with(&|span| span.parent_span_id = vec![1; 7]), "parent's span id that is not 8 bytes"),
        (with(&|span| span.attributes = vec![nested(65)]), "too deep"),
        (group, "group"),
        (wrong_type, "wire type"),
        (not_utf8, "not UTF-8"),
        (cut, "past the end"),
    ] {
        let spans = [proto_span("before").encode_to_vec(), span, proto_span("after").encode_to_vec()];
        let bytes = wrapped(&spans);
        let found = read_protobuf(&bytes);
        let names: Vec<_> = found.spans.iter().map(|span| span.name.as_ref()).collect();
        assert_eq!(names, ["before", "after"]);
        assert_eq!((found.rejected_spans, found.rejected.len()), (1, 1));
        assert_eq!(found.rejected[0].place, "resourceSpans[0].scopeSpans[0].spans[1] (bad)");
        assert!(found.rejected[0].cause.contains(cause), "{} is not {cause}", found.rejected[0].cause);
    }
}

#[test]
fn a_bad_span_in_json_is_told_with_its_place_and_harms_no_other() {
    let deep = format!(r#""x":{}{}"#, "[".repeat(500), "]".repeat(500));
    for (members, cause) in [
        (r#""traceId":"0102""#, "traceId: not 16 bytes"),
        (r#""traceId":"00000000000000000000000000000000""#, "no trace id"),
        (r#""spanId":"zz02030405060708""#, "spanId: not 8 bytes"),
        (r#""spanId":null,"spanId":"""#, "spanId: not 8 bytes"),
        (r#""parentSpanId":"01""#, "parentSpanId: not 8 bytes"),
        (r#""startTimeUnixNano":"soon""#, "startTimeUnixNano: no number"),
        (r#""startTimeUnixNano":-1"#, "startTimeUnixNano: no number"),
        (r#""attributes":{"a":1}"#, "attributes: an object, not a list"),
        (r#""attributes":[{"key":"k","value":{"intValue":"x"}}]"#, "attributes: `k`: text that is no number"),
        (r#""attributes":[{"key":"k","value":{"bytesValue":"?"}}]"#, "not base64"),
        (r#""status":7"#, "status: a number, not an object"),
        (&deep, "recursion limit"),
    ] {
        let bad = MINIMAL_SPAN.replace("minimal", "bad").replacen('}', &format!(",{members}}}"), 1);
        let json =
            format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{MINIMAL_SPAN},{bad},7,{MINIMAL_SPAN}]}}]}}]}}"#);
        let found = read_json(&json);
        assert_eq!((found.spans.len(), found.rejected_spans), (2, 2), "{members}");
        let place = &found.rejected[0].place;
        assert!(place.starts_with("resourceSpans[0].scopeSpans[0].spans[1]"), "{place}");
        assert!(place.ends_with(" (bad)") || cause == "recursion limit", "{place}");
        assert!(found.rejected[0].cause.contains(cause), "{} is not {cause}", found.rejected[0].cause);
        assert_eq!(found.rejected[1].place, "resourceSpans[0].scopeSpans[0].spans[2]");
    }
}

#[test]
fn a_bad_attribute_of_a_resource_or_a_scope_is_told_and_rejects_no_span() {
    let mut resource = vec![0x0a, 3, 0x0a, 1, 0xff];
    resource.extend(message(1, &key_value("good", text("1")).encode_to_vec()));
    let mut scope = message(1, b"lib");
    scope.extend(message(2, &[0xff]));
    let scope_spans = [message(1, &scope), message(2, &proto_span("s").encode_to_vec())].concat();
    let resource_spans = [message(2, &scope_spans), message(1, &resource)].concat();
    let bytes = message(1, &resource_spans);
    let found = read_protobuf(&bytes);
    assert_eq!((found.spans.len(), found.rejected_spans), (1, 0));
    assert_eq!(found.spans[0].resource.attributes.text("good"), Some("1"));
    assert_eq!(found.spans[0].scope.name, "lib");
    let places: Vec<_> = found.rejected.iter().map(|rejected| rejected.place.as_str()).collect();
    assert_eq!(places, ["resourceSpans[0].resource", "resourceSpans[0].scopeSpans[0].scope"]);

    let json = format!(
        r#"{{"resourceSpans":[{{"resource":{{"attributes":[{{"key":"bad","value":3}},{{"key":"good","value":{{"stringValue":"1"}}}}]}},
           "scopeSpans":[{{"scope":{{"name":7}},"spans":[{MINIMAL_SPAN}]}}]}}]}}"#
    );
    let found = read_json(&json);
    assert_eq!((found.spans.len(), found.rejected_spans), (1, 0));
    assert_eq!(found.spans[0].resource.attributes.text("good"), Some("1"));
    let places: Vec<_> = found.rejected.iter().map(|rejected| rejected.place.as_str()).collect();
    assert_eq!(places, ["resourceSpans[0].resource.attributes[0]", "resourceSpans[0].scopeSpans[0].scope"]);
}

#[test]
fn broken_framing_fails_the_whole_request_with_the_place() {
    let error = protobuf::read(&[0x0a, 100, 0], &Budget::REQUEST).unwrap_err();
    assert_eq!(error, ReadError::Protobuf { cause: "a length past the end", offset: 0 });
    let error = protobuf::read(&message(1, &[0x12, 3, 1, 2]), &Budget::REQUEST).unwrap_err();
    assert_eq!(error, ReadError::Protobuf { cause: "a length past the end", offset: 2 });
    let error = json::read(b"{\n \"resourceSpans\": oops}", &Budget::REQUEST).unwrap_err();
    assert!(matches!(error, ReadError::Json { line: 2, column: 19, .. }), "{error:?}");
}

#[test]
fn json_that_holds_something_else_is_named() {
    for (json, found) in [
        (r#"{"resourceLogs":[]}"#, "holds logs, not spans"),
        (r#"{"resource_metrics":[]}"#, "holds metrics, not spans"),
        (r#"{"timestamp":"t","session_id":"s","agent_id":"a","type":"agent_start"}"#, "Failproof events already"),
        (r#"{"data":1,"x":2}"#, "an object with `data`, `x`"),
        (r#"[{"data":1}]"#, "an object with `data`"),
        ("7", "no OTLP/JSON: invalid type: integer `7`, expected an object"),
        ("{\"spans\":\"secret\"}", "no OTLP/JSON: invalid type: text, expected a list"),
    ] {
        let error = json::read(json.as_bytes(), &Budget::REQUEST).unwrap_err().to_string();
        assert!(error.contains(found), "{error}");
    }
}

#[test]
fn lists_that_hold_themselves_end() {
    for list in ["scopeSpans", "resourceSpans", "spans"] {
        let json = format!("{}{}", format!(r#"{{"{list}":["#).repeat(50_000), "]}".repeat(50_000));
        let _ = json::read(json.as_bytes(), &Budget::REQUEST);
    }
}
