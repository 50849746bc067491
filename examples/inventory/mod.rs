//! A pretended agent: what an instrumented agent framework does to OpenTelemetry, without a model.
//!
//! `shop` asks a model, which calls a tool; the tool runs a second agent, `warehouse`, whose tool fails.

use opentelemetry::trace::{SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::SdkTracer;

/// One run of `shop`.
pub fn run(tracer: &SdkTracer) {
    let shop = start(
        tracer,
        "invoke_agent shop",
        &[
            ("gen_ai.operation.name", "invoke_agent"),
            ("gen_ai.agent.name", "shop"),
            ("gen_ai.conversation.id", "chat-42"),
            (
                "gen_ai.input.messages",
                r#"[{"role":"user","parts":[{"type":"text","content":"When are bolts back?"}]}]"#,
            ),
        ],
    );
    {
        let _running = shop.clone().attach();
        chat(
            tracer,
            r#"[{"role":"assistant","parts":[{"type":"tool_call","id":"call_1","name":"ask_warehouse","arguments":{"item":"bolt"}}]}]"#,
        );
        let tool = tool(tracer, "ask_warehouse", "call_1", r#"{"item":"bolt"}"#);
        {
            let _running = tool.clone().attach();
            warehouse(tracer);
        }
        set(&tool, "gen_ai.tool.call.result", "no answer from the warehouse");
        tool.span().end();
        chat(tracer, r#"[{"role":"assistant","parts":[{"type":"text","content":"I could not find out."}]}]"#);
    }
    set(
        &shop,
        "gen_ai.output.messages",
        r#"[{"role":"assistant","parts":[{"type":"text","content":"I could not find out."}]}]"#,
    );
    shop.span().end();
}

/// The nested agent: its tool fails, and so does it.
fn warehouse(tracer: &SdkTracer) {
    let warehouse = start(
        tracer,
        "invoke_agent warehouse",
        &[("gen_ai.operation.name", "invoke_agent"), ("gen_ai.agent.name", "warehouse")],
    );
    {
        let _running = warehouse.clone().attach();
        chat(
            tracer,
            r#"[{"role":"assistant","parts":[{"type":"tool_call","id":"call_2","name":"delivery_date","arguments":{"item":"bolt"}}]}]"#,
        );
        let tool = tool(tracer, "delivery_date", "call_2", r#"{"item":"bolt"}"#);
        fail(&tool);
        tool.span().end();
    }
    fail(&warehouse);
    warehouse.span().end();
}

fn chat(tracer: &SdkTracer, answer: &'static str) {
    let chat = start(
        tracer,
        "chat scripted-1",
        &[
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.provider.name", "scripted"),
            ("gen_ai.request.model", "scripted-1"),
            (
                "gen_ai.input.messages",
                r#"[{"role":"user","parts":[{"type":"text","content":"When are bolts back?"}]}]"#,
            ),
        ],
    );
    set(&chat, "gen_ai.response.model", "scripted-1");
    set(&chat, "gen_ai.output.messages", answer);
    chat.span().set_attribute(KeyValue::new("gen_ai.usage.input_tokens", 100));
    chat.span().set_attribute(KeyValue::new("gen_ai.usage.output_tokens", 20));
    chat.span().end();
}

fn tool(tracer: &SdkTracer, name: &'static str, call_id: &'static str, arguments: &'static str) -> Context {
    start(
        tracer,
        name,
        &[
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", name),
            ("gen_ai.tool.call.id", call_id),
            ("gen_ai.tool.call.arguments", arguments),
        ],
    )
}

fn fail(span: &Context) {
    span.span().add_event(
        "exception",
        vec![
            KeyValue::new("exception.type", "shop::SupplierDown"),
            KeyValue::new("exception.message", "no line to the supplier"),
        ],
    );
    span.span().set_status(Status::error("no line to the supplier"));
}

fn start(tracer: &SdkTracer, name: &'static str, attributes: &[(&'static str, &'static str)]) -> Context {
    let attributes = attributes.iter().map(|(key, value)| KeyValue::new(*key, *value));
    let builder =
        tracer.span_builder(name).with_kind(SpanKind::Internal).with_attributes(attributes.collect::<Vec<_>>());
    Context::current().with_span(tracer.build_with_context(builder, &Context::current()))
}

fn set(span: &Context, key: &'static str, value: &'static str) {
    span.span().set_attribute(KeyValue::new(key, value));
}
