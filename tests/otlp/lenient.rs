//! What careless producers write is read all the same.

use super::support::*;

#[test]
fn json_keys_are_read_in_snake_case_too() {
    let snake = r#"{"resource_spans":[{"resource":{"attributes":[{"key":"service.name","value":{"string_value":"shop"}}]},
        "scope_spans":[{"scope":{"name":"lib"},"spans":[{
        "trace_id":"0102030405060708090a0b0c0d0e0f10","span_id":"0102030405060708","parent_span_id":"0102030405060709",
        "name":"chat","start_time_unix_nano":"1","end_time_unix_nano":"2","dropped_attributes_count":3,"flags":768,
        "attributes":[{"key":"a","value":{"int_value":"7"}},{"key":"b","value":{"array_value":{"values":[{"bool_value":true}]}}}],
        "events":[{"time_unix_nano":"5","name":"e"}],"status":{"code":2,"message":"m"}}]}]}]}"#;
    let spans = read_json(snake);
    assert_eq!(spans.rejected, []);
    let [span] = &spans.spans[..] else { panic!("{spans:?}") };
    assert_eq!(span.parent, Some(SpanId::from(0x0102030405060709)));
    assert_eq!((span.start, span.end, span.dropped_attributes), (1, Some(2), 3));
    assert_eq!(span.parent_is_remote, Some(true));
    assert_eq!(span.attributes.get("a"), Some(&Value::Int(7)));
    assert_eq!(span.attributes.get("b"), Some(&Value::Array(vec![Value::Bool(true)])));
    assert_eq!(span.events, [SpanEvent { name: "e".into(), time: 5, attributes: Attributes::default() }]);
    assert_eq!(span.status, Status { code: StatusCode::Error, message: "m".into() });
    assert_eq!((span.scope.name.as_str(), span.resource.attributes.text("service.name")), ("lib", Some("shop")));
}

#[test]
fn the_names_of_old_versions_and_of_tempo_are_read() {
    for lists in [
        r#"{"resourceSpans":[{"instrumentationLibrarySpans":[{"instrumentationLibrary":{"name":"lib"},"spans":[SPAN]}]}]}"#,
        r#"{"resource_spans":[{"instrumentation_library_spans":[{"instrumentation_library":{"name":"lib"},"spans":[SPAN]}]}]}"#,
        r#"{"batches":[{"scopeSpans":[{"scope":{"name":"lib"},"spans":[SPAN]}]}]}"#,
    ] {
        let spans = read_json(&lists.replace("SPAN", MINIMAL_SPAN));
        assert_eq!(spans.spans.len(), 1, "{lists}");
        assert_eq!(spans.spans[0].scope.name, "lib");
    }
}

#[test]
fn parts_of_a_request_are_read_like_a_whole_one() {
    for json in [
        r#"{"scopeSpans":[{"spans":[SPAN]}]}"#,
        r#"[{"scopeSpans":[{"spans":[SPAN]}]}]"#,
        r#"[{"resourceSpans":[{"scopeSpans":[{"spans":[SPAN]}]}]}]"#,
        r#"{"spans":[SPAN]}"#,
        "\u{feff}{\"spans\":[SPAN]}",
    ] {
        assert_eq!(read_json(&json.replace("SPAN", MINIMAL_SPAN)).spans.len(), 1, "{json}");
    }
}

#[test]
fn ids_are_read_in_hex_of_any_case_and_in_base64() {
    let trace = TraceId::from(0xabcd_ef01_0203_0405_0607_0809_0a0b_0c0d);
    let span = SpanId::from(0xabcd_ef01_0203_0405);
    for (trace_id, span_id) in [
        ("abcdef0102030405060708090a0b0c0d", "abcdef0102030405"),
        ("ABCDEF0102030405060708090A0B0C0D", "ABCDEF0102030405"),
        ("q83vAQIDBAUGBwgJCgsMDQ==", "q83vAQIDBAU="),
    ] {
        let read = read_span(&format!(r#""traceId":"{trace_id}","spanId":"{span_id}""#));
        assert_eq!((read.trace_id, read.span_id), (trace, span));
    }
}

#[test]
fn status_codes_are_read_as_numbers_and_as_names() {
    for (code, expected) in [
        ("2", StatusCode::Error),
        ("\"2\"", StatusCode::Error),
        ("\"STATUS_CODE_ERROR\"", StatusCode::Error),
        ("\"STATUS_CODE_OK\"", StatusCode::Ok),
        ("\"STATUS_CODE_UNSET\"", StatusCode::Unset),
        ("\"error\"", StatusCode::Error),
        ("7", StatusCode::Unset),
        ("null", StatusCode::Unset),
    ] {
        let span = read_minimal(&format!(r#""kind":"SPAN_KIND_CLIENT","status":{{"code":{code}}}"#));
        assert_eq!(span.status.code, expected, "{code}");
    }
}

#[test]
fn null_is_as_good_as_absent_everywhere() {
    let span = read_minimal(
        r#""parentSpanId":null,"name":null,"startTimeUnixNano":null,"endTimeUnixNano":null,"attributes":null,"events":null,
           "links":null,"status":null,"flags":null,"droppedAttributesCount":null,"traceState":null"#,
    );
    assert_eq!(span, read_minimal(r#""parentSpanId":"","status":{}"#));
    let lists = r#"{"resourceSpans":[null,{"resource":null,"scopeSpans":null},{"scopeSpans":[null,{"scope":null,"spans":null},{"spans":[null]}]}]}"#;
    assert_eq!(read_json(lists), Spans::default());
    assert_eq!(read_json(r#"{"resourceSpans":null}"#), Spans::default());
    assert_eq!(read_json("{}"), Spans::default());
}

#[test]
fn values_of_every_kind_are_read_however_they_are_written() {
    for (json, expected) in [
        (r#"{"intValue":"7"}"#, Some(Value::Int(7))),
        (r#"{"intValue":7}"#, Some(Value::Int(7))),
        (r#"{"intValue":7.0}"#, Some(Value::Int(7))),
        (r#"{"intValue":1.5e18}"#, Some(Value::Int(1_500_000_000_000_000_000))),
        (r#"{"intValue":"-9223372036854775808"}"#, Some(Value::Int(i64::MIN))),
        (r#"{"intValue":18446744073709551615}"#, Some(Value::Double(18_446_744_073_709_551_615.0))),
        (r#"{"doubleValue":3}"#, Some(Value::Double(3.0))),
        (r#"{"doubleValue":"2.5"}"#, Some(Value::Double(2.5))),
        (r#"{"doubleValue":"Infinity"}"#, Some(Value::Double(f64::INFINITY))),
        (r#"{"doubleValue":"-Infinity"}"#, Some(Value::Double(f64::NEG_INFINITY))),
        (r#"{"boolValue":false}"#, Some(Value::Bool(false))),
        (r#"{"bytesValue":"AQID"}"#, Some(Value::Bytes(Cow::Borrowed(&[1, 2, 3])))),
        (r#"{"arrayValue":{}}"#, Some(Value::Array(vec![]))),
        (r#"{"kvlistValue":{}}"#, Some(Value::Map(vec![]))),
        (r#"{"arrayValue":{"values":null}}"#, Some(Value::Array(vec![]))),
        (r#"{"arrayValue":{"values":[null,{},{"intValue":1}]}}"#, Some(Value::Array(vec![Value::Int(1)]))),
        (
            r#"{"kvlistValue":{"values":[null,{"key":"a"},{"key":"b","value":null},{"key":"c","value":{"intValue":1}}]}}"#,
            Some(Value::Map(vec![("c".into(), Value::Int(1))])),
        ),
        (r#"{"stringValue":"a","intValue":1,"unknown":{"deep":[1]}}"#, Some(Value::Int(1))),
        (r#"{"stringValue":null}"#, None),
        ("{}", None),
        ("null", None),
    ] {
        let span = read_minimal(&format!(r#""attributes":[{{"key":"k","value":{json}}}]"#));
        assert_eq!(span.attributes.get("k"), expected.as_ref(), "{json}");
    }
    let nan = read_minimal(r#""attributes":[{"key":"k","value":{"doubleValue":"NaN"}}]"#);
    assert!(matches!(nan.attributes.get("k"), Some(Value::Double(number)) if number.is_nan()));
}

#[test]
fn times_are_read_as_text_as_numbers_and_as_floats() {
    for time in ["\"1500000000000000000\"", "1500000000000000000", "1.5e18", "\"1.5e18\"", "1500000000000000000.0"] {
        assert_eq!(read_minimal(&format!(r#""startTimeUnixNano":{time}"#)).start, 1_500_000_000_000_000_000);
    }
    assert_eq!(read_minimal(r#""endTimeUnixNano":"0""#).end, None);
}

#[test]
fn half_characters_and_bytes_that_are_not_utf8_become_replacement_characters() {
    assert_eq!(read_minimal(r#""name":"a\ud83d""#).name, "a\u{fffd}");
    assert_eq!(read_minimal(r#""name":"\ud83d\ude00""#).name, "😀");
    let mut json = format!(r#"{{"spans":[{}]}}"#, MINIMAL_SPAN.replace("minimal", "a?b")).into_bytes();
    let at = json.iter().position(|byte| *byte == b'?').unwrap();
    json[at] = 0xff;
    assert_eq!(json::read(&json, &Budget::REQUEST).unwrap().spans[0].name, "a\u{fffd}b");
}

#[test]
fn flags_tell_whether_the_parent_is_remote_only_if_they_say_that_they_do() {
    for (flags, expected) in [(0, None), (0x200, None), (0x100, Some(false)), (0x101, Some(false)), (0x301, Some(true))]
    {
        assert_eq!(read_minimal(&format!(r#""flags":{flags}"#)).parent_is_remote, expected);
    }
}
