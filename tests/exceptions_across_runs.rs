//! One exception through several runs: who tells of it, and how each of them ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use opentelemetry_failproof::Config;
use opentelemetry_failproof::span::Span;
use opentelemetry_failproof::trace::ErrorEvents;
use support::spans::*;

/// `outer` calls the tool `ask`, which runs `inner`.
fn nested(
    dress: Dress,
    outer: impl Fn(Span<'static>) -> Span<'static>,
    ask: impl Fn(Span<'static>) -> Span<'static>,
    inner: impl Fn(Span<'static>) -> Span<'static>,
) -> [Span<'static>; 3] {
    [dress(outer(agent(1, "outer"))), dress(ask(tool(2, "ask").under(1))), dress(inner(agent(3, "inner").under(2)))]
}

#[test]
fn one_exception_through_several_runs_is_one_error_on_the_innermost() {
    for dress in DIALECTS {
        let raises = |span: Span<'static>| span.raises("ValueError", "no");
        assert_eq!(
            story_of(&nested(dress, raises, raises, raises)),
            [
                "agent_start outer",
                "tool_use outer ask",
                "agent_start inner",
                "error inner ValueError",
                "agent_end inner failed",
                "tool_result outer ask ValueError: no",
                "agent_end outer failed"
            ]
        );
        // Also where another run that went well, or a transparent span, lies between.
        let spans = [
            dress(raises(agent(1, "outer"))),
            span(2, "GET /").under(1),
            dress(raises(agent(3, "middle").under(2))),
            dress(raises(agent(4, "inner").under(3))),
        ];
        let errors: Vec<_> = story_of(&spans).into_iter().filter(|line| line.starts_with("error")).collect();
        assert_eq!(errors, ["error inner ValueError"]);
    }
}

#[test]
fn another_exception_of_an_outer_run_is_an_error_of_its_own() {
    for dress in DIALECTS {
        for (outer, message) in [("KeyError", "no"), ("ValueError", "another text")] {
            let told = story_of(&nested(
                dress,
                |span| span.raises(outer, message),
                |span| span.raises(outer, message),
                |span| span.raises("ValueError", "no"),
            ));
            let errors: Vec<_> = told.iter().filter(|line| line.starts_with("error")).cloned().collect();
            assert_eq!(errors, ["error inner ValueError".to_owned(), format!("error outer {outer}")]);
        }
    }
}

#[test]
fn an_outer_run_that_handles_the_exception_of_an_inner_one_succeeds() {
    for dress in DIALECTS {
        let told = story_of(&nested(
            dress,
            same,
            |span| span.raises("pydantic_ai.exceptions.ModelRetry", "no"),
            |span| span.raises("ValueError", "no"),
        ));
        assert_eq!(
            told[3..],
            [
                "error inner ValueError",
                "agent_end inner failed",
                "tool_result outer ask ModelRetry: no",
                "agent_end outer success"
            ]
        );
    }
}

#[test]
fn two_runs_side_by_side_with_equal_exceptions_have_an_error_each_and_the_outer_none() {
    let raises = |span: Span<'static>| span.raises("ValueError", "no");
    let spans = [
        raises(agent(1, "outer")),
        raises(agent(2, "left").under(1).between(2, 10)),
        raises(agent(3, "right").under(1).between(20, 30)),
    ];
    let errors: Vec<_> = story_of(&spans).into_iter().filter(|line| line.starts_with("error")).collect();
    assert_eq!(errors, ["error left ValueError", "error right ValueError"]);
}

#[test]
fn an_error_that_a_leaf_told_can_be_left_to_the_leaf() {
    let config = Config::new().with_error_events(ErrorEvents::UnlessLeaf);
    let raises = |span: Span<'static>| span.raises("ValueError", "no");
    let spans = [raises(agent(1, "a")), raises(tool(2, "t").under(1))];
    assert_eq!(
        story(&events_with(&spans, &config)),
        ["agent_start a", "tool_use a t", "tool_result a t ValueError: no", "agent_end a failed"]
    );
    let spans = [raises(agent(1, "a")), tool(2, "t").under(1).raises("KeyError", "no")];
    assert!(story(&events_with(&spans, &config)).contains(&"error a ValueError".to_owned()));
}
