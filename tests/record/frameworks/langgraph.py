"""LangGraph with OpenInference: a trip desk of two agents with a scripted model, then a run that fails.

    OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317 python langgraph.py

Exports over OTLP/gRPC.
"""

import sys
from pathlib import Path

# This file has the name of a package that it needs.
sys.path.remove(str(Path(__file__).resolve().parent))

from langchain.agents import create_agent  # noqa: E402
from langchain.agents.middleware import wrap_tool_call  # noqa: E402
from langchain_core.language_models.chat_models import BaseChatModel  # noqa: E402
from langchain_core.messages import AIMessage, ToolMessage  # noqa: E402
from langchain_core.outputs import ChatGeneration, ChatResult  # noqa: E402
from langchain_core.tools import tool  # noqa: E402
from openinference.instrumentation.langchain import LangChainInstrumentor  # noqa: E402
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: E402
from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: E402

SESSION = {"configurable": {"thread_id": "trip-42"}}


class Scripted(BaseChatModel):
    """Gives one answer of its script after another; the n-th one costs 10 n input tokens and n output tokens."""

    model: str = "scripted-1"
    script: list
    calls: int = 0

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **kwargs):
        return self.bind(tools=[{"type": "function", "function": {"name": tool.name}} for tool in tools])

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        answer = self.script[self.calls]
        self.calls += 1
        if isinstance(answer, Exception):
            raise answer
        text, calls = (answer, []) if isinstance(answer, str) else ("", [answer])
        message = AIMessage(
            text,
            tool_calls=[{"id": id, "name": name, "args": arguments} for id, name, arguments in calls],
            usage_metadata={
                "input_tokens": 10 * self.calls, "output_tokens": self.calls, "total_tokens": 11 * self.calls,
            },
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@tool
def book_table(people: int) -> str:
    """Books a table."""
    if people > 2:
        raise ValueError(f"no table for {people}")
    return f"a table for {people}"


@tool
def ask_researcher(question: str) -> str:
    """Asks the researcher."""
    return researcher.invoke({"messages": [("user", question)]})["messages"][-1].content


@wrap_tool_call
def tell_of_failures(request, handler):
    try:
        return handler(request)
    except ValueError as error:
        return ToolMessage(str(error), tool_call_id=request.tool_call["id"], status="error")


researcher = create_agent(
    Scripted(script=[("call_5", "weather", {"city": "Sintra"}), "Sintra is cooler."]), [weather], name="researcher"
)
concierge = create_agent(
    Scripted(
        script=[
            ("call_1", "weather", {"city": "Lisbon"}),
            ("call_2", "book_table", {"people": 4}),
            ("call_3", "book_table", {"people": 2}),
            ("call_4", "ask_researcher", {"question": "Is Sintra cooler?"}),
            "All is planned.",
        ]
    ),
    [weather, book_table, ask_researcher],
    middleware=[tell_of_failures],
    name="concierge",
)
forecaster = create_agent(Scripted(script=[RuntimeError("the model is overloaded")]), [weather], name="forecaster")

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(insecure=True)))
LangChainInstrumentor().instrument(tracer_provider=provider)

concierge.invoke({"messages": [("user", "Plan a day in Lisbon.")]}, SESSION)
try:
    forecaster.invoke({"messages": [("user", "Will it rain?")]}, SESSION)
except RuntimeError:
    pass
else:
    sys.exit("the run of the forecaster should have failed")
provider.shutdown()
