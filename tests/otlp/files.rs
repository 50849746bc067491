//! Files of every form.

use super::support::*;

#[test]
fn a_file_of_json_is_read_in_every_layout() {
    let span = read_json(SMALLEST).spans;
    let line = SMALLEST.trim();
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    let pretty = serde_json::to_string_pretty(&value).unwrap();
    for (file, times) in [
        (line.to_owned(), 1),
        (pretty.clone(), 1),
        (pretty.replace('\n', "\r\n"), 1),
        (format!("\u{feff}{pretty}"), 1),
        (format!("\n\n  {line}"), 1),
        (format!("{line}\n{line}\n{line}\n"), 3),
        (format!("{line}\r\n\r\n{line}"), 2),
        (format!("{line}{line}"), 2),
        (format!("{pretty}\n{pretty}\n"), 2),
        (format!("[{line},{line}]"), 2),
    ] {
        let contents = read_file(file.as_bytes());
        assert_eq!(contents, good(&vec![span.clone(); times].concat()));
    }
}

#[test]
fn a_file_of_protobuf_is_read_alone_and_behind_lengths() {
    for recording in RECORDINGS {
        let bytes = request(recording).encode_to_vec();
        let spans = read_protobuf(&bytes).spans;
        assert_eq!(read_file(&bytes), good(&spans));
        assert_eq!(read_file(&framed(&[&bytes])), good(&spans));
        let json = read_file(&framed(&[&bytes, &[], recording.as_bytes()]));
        assert_eq!(json, good(&[spans.clone(), spans].concat()));
    }
}

#[test]
fn bad_lines_and_messages_are_told_and_the_others_are_read() {
    let line = SMALLEST.trim();
    for (file, good, place) in [
        (format!("{line}\noops\n{line}\n"), 2, "line 2"),
        (format!("{line}\n{}\n{line}\n", &line[..500]), 2, "line 2"),
        (format!("{line}\n{{\"resourceSpans\":[\n{line}\n{line}"), 3, "line 2"),
        (format!("starting\nserver\n{line}\n"), 1, "line 1"),
        (format!("{line}\n{}", &line[..line.len() - 1]), 1, "line 2"),
        (format!("{line}\n{{\"resourceLogs\":[]}}\n{line}"), 2, "line 2"),
    ] {
        let contents = read_file(file.as_bytes());
        assert_eq!(contents.spans.len(), good * read_json(line).spans.len(), "{file}");
        let places: Vec<_> = contents.problems.iter().map(|problem| problem.place.as_str()).collect();
        assert_eq!(places, [place], "{file}");
    }

    let bytes = request(SMALLEST).encode_to_vec();
    let mut file = framed(&[&bytes, b"\x0a\x50oops", &bytes]);
    let third = 4 + bytes.len() + 10 + 4 + bytes.len();
    let contents = read_file(&file);
    assert_eq!(contents.spans.len(), 2 * read_protobuf(&bytes).spans.len());
    assert_eq!(contents.problems[0].place, format!("message 2 at byte {}", 4 + bytes.len()));
    file.extend([0, 0, 1, 0, 7]);
    let contents = read_file(&file);
    assert_eq!(contents.problems[1].place, format!("message 4 at byte {third}"));
    assert!(contents.problems[1].cause.contains("256 bytes announced, 1 left"));
}

#[test]
fn a_file_of_something_else_says_what_it_is() {
    for (file, cause) in [
        (&b""[..], "it is empty"),
        (b" \n\n ", "it is empty"),
        (b"{\"resourceLogs\":[]}", "holds logs, not spans"),
        (b"{\"resourceMetrics\":[]}", "holds metrics, not spans"),
        (br#"{"timestamp":"t","session_id":"s","agent_id":"a","type":"agent_start"}"#, "Failproof events already"),
        (b"hello", "no JSON"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR", "neither OTLP/JSON nor OTLP protobuf"),
    ] {
        let contents = read_file(file);
        assert_eq!(contents.spans, []);
        assert_eq!(contents.problems.len(), 1, "{contents:?}");
        assert!(contents.problems[0].cause.contains(cause), "{:?}", contents.problems);
    }
}

#[test]
fn a_bad_span_in_a_file_is_told_with_its_line() {
    let bad = spans_with(r#""traceId":"01""#);
    let contents = read_file(format!("{SMALLEST}\n{bad}\n").as_bytes());
    assert_eq!(contents.problems.len(), 1);
    assert!(contents.problems[0].place.ends_with(": spans[0] (minimal)"), "{:?}", contents.problems);
    assert!(contents.problems[0].place.starts_with("line "));
}

#[test]
fn a_file_of_nothing_but_openings_ends() {
    let contents = read_file("[\n".repeat(100_000).as_bytes());
    assert_eq!(contents.problems.len(), FileContents::MAX_PROBLEMS);
    assert_eq!(contents.problems.len() + contents.more_problems, 100_000);
}
