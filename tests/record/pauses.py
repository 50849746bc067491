"""Records LangGraph graphs that stop for a person and go on, as `tests/pauses.rs` keeps them.

    pip install langgraph==1.2.24 openinference-instrumentation-langchain==0.1.80 \
        opentelemetry-instrumentation-langchain==0.62.4 opentelemetry-exporter-otlp-proto-common zstandard
    python pauses.py openinference ../fixtures/pauses
    python pauses.py openllmetry ../fixtures/pauses

One file for each graph; one OTLP/JSON request a line: the run that stopped, then each run that went on.
"""

import base64
import json
import operator
import sys
from pathlib import Path
from typing import Annotated, TypedDict

import zstandard
from google.protobuf.json_format import MessageToDict
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

label, folder = sys.argv[1], Path(sys.argv[2])
spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
if label == "openinference":
    from openinference.instrumentation.langchain import LangChainInstrumentor as Instrumentor
else:
    from opentelemetry.instrumentation.langchain import LangchainInstrumentor as Instrumentor
Instrumentor().instrument(tracer_provider=provider)


def taken():
    """The spans since the last call, as OTLP/JSON writes ids and enums."""
    request = MessageToDict(encode_spans(spans.get_finished_spans()), use_integers_for_enums=True)
    spans.clear()
    for of_resource in request["resourceSpans"]:
        for of_scope in of_resource["scopeSpans"]:
            for span in of_scope["spans"]:
                for key in ("traceId", "spanId", "parentSpanId"):
                    if key in span:
                        span[key] = base64.b64decode(span[key]).hex()
    return json.dumps(request)


def save(name, requests):
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(request + "\n" for request in requests)
    (folder / f"{name}.{label}.jsonl.zst").write_bytes(zstandard.compress(lines.encode(), 19))


class State(TypedDict):
    log: Annotated[list, operator.add]
    question: str


def work(state):
    return {"log": ["worked"]}


def ask(state):
    return {"log": [interrupt({"question": "go?", "options": ["yes", "no"]})]}


def ask_more(state):
    return {"log": [interrupt("more?")]}


def ask_twice(state):
    return {"log": [interrupt("one?"), interrupt("two?")]}


def chain(name, *nodes, **options):
    graph = StateGraph(State)
    before = START
    for node, function in nodes:
        graph.add_node(node, function)
        graph.add_edge(before, node)
        before = node
    return graph.compile(name=name, **options)


def stop(graph, name):
    config = {"configurable": {"thread_id": f"thread-{name}"}}
    stopped = graph.invoke({"question": "hello", "log": []}, config)
    return config, stopped["__interrupt__"], [taken()]


child = chain("child", ("first", work), ("ask", ask), ("last", work))


def call_child(state):
    return {"log": child.invoke({"question": state["question"], "log": []})["log"]}


for name, inner in (("subgraph", child), ("called_graph", call_child)):
    parent = chain("parent", ("before", work), ("inner", inner), checkpointer=InMemorySaver())
    config, _, requests = stop(parent, name)
    parent.invoke(Command(resume="yes"), config)
    save(name, [*requests, taken()])

graph = StateGraph(State)
for node, function in (("ask", ask), ("ask_more", ask_more), ("work", work), ("end", work)):
    graph.add_node(node, function)
for node in ("ask", "ask_more", "work"):
    graph.add_edge(START, node)
graph.add_edge(["ask", "ask_more", "work"], "end")
graph = graph.compile(name="parallel", checkpointer=InMemorySaver())
config, interrupts, requests = stop(graph, "parallel")
for asked in interrupts:
    graph.invoke(Command(resume={asked.id: "yes"}), config)
    requests.append(taken())
save("parallel", requests)

graph = chain("twice", ("ask", ask_twice), checkpointer=InMemorySaver())
config, _, requests = stop(graph, "twice")
for answer in ("1", "2"):
    graph.invoke(Command(resume=answer), config)
    requests.append(taken())
save("twice", requests)
