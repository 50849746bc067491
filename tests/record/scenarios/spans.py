"""t — other spans; u — spans around the run."""

from __future__ import annotations

from pydantic_ai import Agent, ModelAPIError, ModelHTTPError, ModelRequest, RunContext, UserPromptPart
from pydantic_ai.capabilities import Hooks

from .common import Many, STOCK, Scripted, agent, call, response, scenario, stock_of, streaming


@scenario
async def u_nested_in_user_spans(env):
    """User spans everywhere: around the run, inside its tool, and around the nested run."""
    inner = agent("12", name="warehouse")
    outer = agent([call("ask", {}, "call_ask")], "12 bolts")

    @outer.tool_plain
    async def ask() -> str:
        with env.tracer.start_as_current_span("lookup"):
            with env.tracer.start_as_current_span("attempt 1"):
                return (await inner.run("stock?")).output

    with env.tracer.start_as_current_span("POST /ask"):
        with env.tracer.start_as_current_span("handler"):
            return await outer.run("bolts?")


@scenario
async def u_user_span_raises(env):
    """The user span inside the tool records the exception that fails the run."""
    one = agent([STOCK], "12")

    @one.tool_plain
    async def stock_of(item: str) -> int:
        with env.tracer.start_as_current_span("SELECT stock"):
            raise ConnectionError("database down")

    with env.tracer.start_as_current_span("POST /ask"):
        return await one.run("stock?")


@scenario
async def u_user_span_in_model(env):
    """A user span inside the model call (an HTTP client span, say)."""

    def answer(messages, info):
        with env.tracer.start_as_current_span("POST /v1/chat"):
            return response("12")

    return await agent(answer).run("stock?")


@scenario
async def u_iter_user_spans(env):
    """agent.iter() with a span of the caller's around every node: chat and tool spans hang below those."""
    async with agent([STOCK], "12", tools=[stock_of]).iter("stock?") as run:
        node = run.next_node
        while not Agent.is_end_node(node):
            with env.tracer.start_as_current_span(f"node {type(node).__name__}"):
                node = await run.next(node)
    return run.result


@scenario
async def u_hook_spans(env):
    """Hooks that open a span around every model request and every tool."""

    async def around_model(ctx: RunContext, *, request_context, handler):
        with env.tracer.start_as_current_span("model hook"):
            return await handler(request_context)

    async def around_tool(ctx: RunContext, *, call, tool_def, args, handler):
        with env.tracer.start_as_current_span("tool hook"):
            return await handler(args)

    async def around_node(ctx: RunContext, *, node, handler):
        with env.tracer.start_as_current_span("node hook"):
            return await handler(node)

    hooks = Hooks(model_request=around_model, tool_execute=around_tool, node_run=around_node)
    return await agent([STOCK], "12", tools=[stock_of], capabilities=[hooks]).run("stock?")


@scenario
async def u_baggage_from_outside(env):
    """An incoming request whose baggage carries gen_ai names of another agent."""
    from opentelemetry import baggage, context

    token = context.attach(baggage.set_baggage("gen_ai.agent.name", "upstream", baggage.set_baggage("gen_ai.agent.call.id", "run-up")))
    try:
        with env.tracer.start_as_current_span("POST /ask"):
            return await agent([STOCK], "12", tools=[stock_of]).run("stock?")
    finally:
        context.detach(token)


@scenario
async def u_sampled_out(env):
    """A parent that is sampled out: Pydantic AI's spans are not recorded at all, the adapter records as ever."""
    from opentelemetry import context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}
    token = context.attach(TraceContextTextMapPropagator().extract(carrier))
    try:
        return await agent("ok").run("hi")
    finally:
        context.detach(token)


@scenario
async def u_two_runs_one_span(env):
    """Two runs one after the other under one span of the application."""
    with env.tracer.start_as_current_span("job"):
        one = agent("one", "two")
        return Many([await one.run("first"), await one.run("second")])


@scenario
async def u_tool_detached_span(env):
    """A span that the tool starts and ends only after the run is over."""
    spans = []
    one = agent([STOCK], "12")

    @one.tool_plain
    async def stock_of(item: str) -> int:
        spans.append(env.tracer.start_span("background"))
        return 12

    result = await one.run("stock?")
    spans[0].end()
    return result


@scenario
async def t_direct_model_request(env):
    """A direct model request without an agent, instrumented: a chat span alone."""
    from pydantic_ai.direct import model_request

    answer = await model_request(
        Scripted("hello"), [ModelRequest(parts=[UserPromptPart(content="hi")])], instrument=Agent._instrument_default
    )
    return f"OK {answer.parts[0].content}"


@scenario
async def t_direct_in_tool(env):
    """A direct model request inside a tool: a chat span under the tool span."""
    from pydantic_ai.direct import model_request

    one = agent([call("translate", {"text": "hi"}, "call_1")], "hallo")

    @one.tool_plain
    async def translate(text: str) -> str:
        answer = await model_request(
            Scripted("hallo", name="small-1"), [ModelRequest(parts=[UserPromptPart(content=text)])], instrument=Agent._instrument_default
        )
        return answer.parts[0].content

    return await one.run("translate hi")


@scenario
async def t_direct_fails(env):
    """A direct model request that fails."""
    from pydantic_ai.direct import model_request

    await model_request(
        Scripted(ModelHTTPError(500, "m", None)), [ModelRequest(parts=[UserPromptPart(content="hi")])], instrument=Agent._instrument_default
    )


@scenario
async def t_direct_stream(env):
    """A direct streamed model request."""
    from pydantic_ai.direct import model_request_stream

    async with model_request_stream(
        streaming(["Hel", "lo"]), [ModelRequest(parts=[UserPromptPart(content="hi")])], instrument=Agent._instrument_default
    ) as stream:
        async for _ in stream:
            pass
    return f"OK {stream.get().parts[0].content}"


@scenario
async def t_embeddings_fail(env):
    """An embedding model that fails inside a tool."""
    from pydantic_ai import Embedder
    from pydantic_ai.embeddings import TestEmbeddingModel

    class Broken(TestEmbeddingModel):
        async def embed(self, inputs, *, input_type, settings=None):
            raise ModelAPIError("test", "no vectors today")

    embedder = Embedder(Broken())
    one = agent([call("search", {"q": "bolt"}, "call_1")], "none")

    @one.tool_plain
    async def search(q: str) -> str:
        try:
            await embedder.embed_query(q)
        except ModelAPIError:
            return "no vectors"
        return "found"

    return await one.run("find")


@scenario
async def t_embeddings(env):
    """Embedder with TestEmbeddingModel, standalone and inside a tool."""
    from pydantic_ai import Embedder
    from pydantic_ai.embeddings import TestEmbeddingModel

    embedder = Embedder(TestEmbeddingModel())
    await embedder.embed_documents(["bolt", "nut"])
    one = agent([call("search", {"q": "bolt"}, "call_1")], "found")

    @one.tool_plain
    async def search(q: str) -> int:
        await embedder.embed_query(q)
        return 2

    return await one.run("find")


@scenario
async def u_remote_parent(env):
    """Incoming traceparent (remote parent, span never seen)."""
    from opentelemetry import context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    token = context.attach(TraceContextTextMapPropagator().extract(carrier))
    try:
        return await agent("ok").run("hi")
    finally:
        context.detach(token)


@scenario
async def u_user_spans(env):
    """HTTP server span outside, user span inside the tool, DB client span inside that, around a nested agent."""
    from opentelemetry.trace import SpanKind

    inner = agent("12", name="warehouse")
    outer = agent([call("ask", {}, "call_ask")], "12 bolts")

    @outer.tool_plain
    async def ask() -> str:
        with env.tracer.start_as_current_span("lookup"):
            answer = (await inner.run("stock?")).output
            with env.tracer.start_as_current_span("SELECT stock", kind=SpanKind.CLIENT, attributes={"db.system": "postgresql"}):
                return answer

    with env.tracer.start_as_current_span("POST /ask", kind=SpanKind.SERVER):
        return await outer.run("bolts?")
