//! rig: a trip desk of two agents with a scripted provider, then a run that fails.
//!
//!     OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317 record-rig
//!
//! Exports over OTLP/gRPC. rig writes no session: `OTEL_RESOURCE_ATTRIBUTES=failproof.session_id=…` says it.

use std::error::Error;
use std::fmt;

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::trace::SdkTracerProvider;
use rig_agent::tool::{Tool, ToolContext};
use rig_agent::{Agent, AgentBuilder};
use rig_core::driver::Model;
use rig_core::providers::openai::OpenAIConfig;
use rig_core::test_utils::{MockHttpResponse, SequencedHttpClient};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

#[derive(Debug)]
struct NoTable(u32);

impl fmt::Display for NoTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "no table for {}", self.0)
    }
}

impl Error for NoTable {}

struct Weather;

#[derive(Deserialize)]
struct City {
    city: String,
}

impl Tool for Weather {
    const NAME: &'static str = "weather";
    type Args = City;
    type Output = String;
    type Error = NoTable;

    fn description(&self) -> String {
        "The weather of a city.".to_owned()
    }

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
    }

    async fn call(&self, _context: &mut ToolContext, City { city }: City) -> Result<String, NoTable> {
        Ok(format!("sunny in {city}"))
    }
}

struct BookTable;

#[derive(Deserialize)]
struct Party {
    people: u32,
}

impl Tool for BookTable {
    const NAME: &'static str = "book_table";
    type Args = Party;
    type Output = String;
    type Error = NoTable;

    fn description(&self) -> String {
        "Books a table.".to_owned()
    }

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {"people": {"type": "integer"}}, "required": ["people"]})
    }

    async fn call(&self, _context: &mut ToolContext, Party { people }: Party) -> Result<String, NoTable> {
        if people > 2 { Err(NoTable(people)) } else { Ok(format!("a table for {people}")) }
    }
}

fn call(id: &str, name: &str, arguments: &Value) -> Value {
    let function = json!({"name": name, "arguments": arguments.to_string()});
    json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": function}]})
}

fn text(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

/// What OpenAI's API answers, one answer after another; the n-th one costs 10 n input tokens and n output tokens.
fn scripted(script: &[Value]) -> Vec<MockHttpResponse> {
    let answer = |(message, n): (&Value, u64)| {
        let finish = if message["tool_calls"].is_array() { "tool_calls" } else { "stop" };
        let answer = json!({
            "id": format!("chatcmpl-{n}"), "object": "chat.completion", "created": 0, "model": "scripted-1",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 10 * n, "completion_tokens": n, "total_tokens": 11 * n},
        });
        MockHttpResponse::success(answer.to_string())
    };
    script.iter().zip(1..).map(answer).collect()
}

fn agent(name: &str, answers: Vec<MockHttpResponse>) -> AgentBuilder {
    let model = Model::new(OpenAIConfig::new("none").chat("scripted-1"), SequencedHttpClient::new(answers));
    AgentBuilder::new(model).name(name).default_max_turns(6).record_content_telemetry(true)
}

fn researcher() -> Agent {
    let script = [call("call_5", "weather", &json!({"city": "Sintra"})), text("Sintra is cooler.")];
    agent("researcher", scripted(&script)).tool(Weather).build()
}

fn concierge() -> Result<Agent, Box<dyn Error>> {
    let script = [
        call("call_1", "weather", &json!({"city": "Lisbon"})),
        call("call_2", "book_table", &json!({"people": 4})),
        call("call_3", "book_table", &json!({"people": 2})),
        call("call_4", "researcher", &json!({"prompt": "Is Sintra cooler?"})),
        text("All is planned."),
    ];
    let agent = agent("concierge", scripted(&script)).tool(Weather).tool(BookTable);
    Ok(agent.dynamic_tool(researcher().into_tool()?).build())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let exporter = SpanExporter::builder().with_tonic().build()?;
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("trip-desk"));
    tracing_subscriber::registry().with(LevelFilter::INFO).with(layer).init();

    concierge()?.prompt("Plan a day in Lisbon.").await?;
    let overloaded = MockHttpResponse::error(http::StatusCode::INTERNAL_SERVER_ERROR, "the model is overloaded");
    let forecaster = agent("forecaster", vec![overloaded]).tool(Weather).build();
    let failed = forecaster.prompt("Will it rain?").await;
    assert!(failed.is_err(), "the run of the forecaster should have failed");

    provider.shutdown()?;
    Ok(())
}
