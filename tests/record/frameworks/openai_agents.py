"""OpenAI Agents with OpenLLMetry: a trip desk of two agents with a scripted provider, then a run that fails.

    OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 python openai_agents.py

Exports over OTLP/HTTP. The instrumentation writes no session: `OTEL_RESOURCE_ATTRIBUTES=failproof.session_id=…` says it.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from agents import Agent, Runner, function_tool, set_default_openai_client, set_trace_processors
from openai import AsyncOpenAI, InternalServerError
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


def call(id, name, **arguments):
    return {
        "type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name, "arguments": json.dumps(arguments),
        "status": "completed",
    }


def text(text):
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


# What each model answers, one answer after another; the n-th one costs 10 n input tokens and n output tokens.
SCRIPTS = {
    "scripted-concierge": [
        call("call_1", "weather", city="Lisbon"),
        call("call_2", "book_table", people=4),
        call("call_3", "book_table", people=2),
        call("call_4", "ask_researcher", input="Is Sintra cooler?"),
        text("All is planned."),
    ],
    "scripted-researcher": [call("call_5", "weather", city="Sintra"), text("Sintra is cooler.")],
}
asked = dict.fromkeys(SCRIPTS, 0)


class Provider(BaseHTTPRequestHandler):
    """As much of OpenAI's Responses API as the programs need."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        model = request["model"]
        if model not in SCRIPTS:
            return self.answer(500, {"error": {"message": "the model is overloaded", "type": "server_error"}})
        asked[model] += 1
        n = asked[model]
        usage = {
            "input_tokens": 10 * n, "output_tokens": n, "total_tokens": 11 * n,
            "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
        }
        self.answer(200, {
            "id": f"resp_{model}_{n}", "object": "response", "created_at": 0, "model": model, "status": "completed",
            "output": [SCRIPTS[model][n - 1]], "usage": usage, "parallel_tool_calls": False, "tool_choice": "auto",
            "tools": request.get("tools", []), "instructions": request.get("instructions"),
        })

    def answer(self, status, body):
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@function_tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@function_tool
def book_table(people: int) -> str:
    """Books a table."""
    if people > 2:
        raise ValueError(f"no table for {people}")
    return f"a table for {people}"


researcher = Agent("researcher", instructions="Find out.", model="scripted-researcher", tools=[weather])
concierge = Agent(
    "concierge",
    instructions="Plan trips.",
    model="scripted-concierge",
    tools=[weather, book_table, researcher.as_tool("ask_researcher", "Asks the researcher.")],
)
forecaster = Agent("forecaster", instructions="Look at the sky.", model="overloaded", tools=[weather])

api = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
threading.Thread(target=api.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{api.server_address[1]}/v1"
set_default_openai_client(AsyncOpenAI(api_key="none", base_url=url, max_retries=0), use_for_tracing=False)

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
set_trace_processors([])  # The SDK's own one exports to OpenAI.
OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)

Runner.run_sync(concierge, "Plan a day in Lisbon.")
try:
    Runner.run_sync(forecaster, "Will it rain?")
except InternalServerError:
    pass
else:
    sys.exit("the run of the forecaster should have failed")
provider.shutdown()
