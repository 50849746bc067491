"""i — nesting: agents that call agents."""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent, ModelHTTPError, ModelRetry, RunContext

from .common import (
    ORDER, Scripted, agent, call, delegating, failing_tool, order_agent, response, scenario, stock_of, streaming,
    usage,
)


@scenario(e2e=True)
async def i_nested_three(env):
    """Agents nested three deep."""
    depot = agent([call("stock_of", {"item": "bolt"}, "call_1")], "12", name="depot", tools=[stock_of])
    return await delegating(delegating(depot, name="warehouse"), name="inventory").run("bolts?")


@scenario
async def i_nested_same_name(env):
    """A nested agent of the same name as the outer one."""
    return await delegating(agent("12", name="inventory"), name="inventory").run("bolts?")


@scenario
async def i_nested_self(env):
    """An agent that calls itself once."""
    one = agent([call("again", {"q": "deeper"}, "call_1")], "inner answer", "outer answer")

    @one.tool_plain
    async def again(q: str) -> str:
        return (await one.run(q)).output

    return await one.run("start")


@scenario
async def i_nested_parallel(env):
    """Two nested agents at once from one response."""
    left, right = agent((0.03, "left 1"), name="left"), agent((0.01, "right 2"), name="right")
    outer = agent([call("ask_left", {}, "call_l"), call("ask_right", {}, "call_r")], "both")

    @outer.tool_plain
    async def ask_left() -> str:
        return (await left.run("left?")).output

    @outer.tool_plain
    async def ask_right() -> str:
        return (await right.run("right?")).output

    return await outer.run("both?")


@scenario
async def i_nested_parallel_same(env):
    """The same nested agent three times at once, with the same tool call ids inside."""

    def by_history(messages, info):
        return response(call("stock_of", {"item": "bolt"}, "call_1")) if len(messages) == 1 else response("12")

    inner = agent(by_history, name="warehouse", tools=[stock_of])
    outer = agent([call("ask", {"q": f"q{n}"}, f"call_{n}") for n in range(3)], "all three")

    @outer.tool_plain
    async def ask(q: str) -> str:
        return (await inner.run(q)).output

    return await outer.run("three?")


@scenario
async def i_nested_gather_in_tool(env):
    """One tool gathers two nested runs."""
    inner = agent((0.01, "12"), name="warehouse")
    outer = agent([call("ask", {}, "call_ask")], "24")

    @outer.tool_plain
    async def ask() -> list[str]:
        return [one.output for one in await asyncio.gather(inner.run("left?"), inner.run("right?"))]

    return await outer.run("both?")


@scenario
async def i_nested_shared_usage(env):
    """A nested run with usage=ctx.usage: the adapter's usage is the shared accumulator."""
    inner = agent(response("12", tokens=usage(25, 3)), name="warehouse")
    return await delegating(inner, share=True).run("bolts?")


@scenario
async def i_nested_recovers(env):
    """The nested agent's model fails, the outer tool catches it and the outer run succeeds."""
    return await delegating(agent(ModelHTTPError(500, "m", "dead"), name="warehouse"), catch=True).run("bolts?")


@scenario
async def i_nested_tool_fails_outer_recovers(env):
    """The nested agent's tool raises ValueError, the outer tool turns it into ModelRetry."""
    inner = failing_tool(ValueError("shelf fell"), name="warehouse")
    outer = agent([call("ask", {}, "call_ask")], "sorry")

    @outer.tool_plain
    async def ask() -> str:
        try:
            return (await inner.run("stock?")).output
        except ValueError as error:
            raise ModelRetry(f"warehouse: {error}") from error

    return await outer.run("bolts?")


@scenario
async def i_nested_output_error(env):
    """The nested agent fails in its output validator: an error event inside, a failed tool outside."""
    inner = agent("12", name="warehouse")

    @inner.output_validator
    def check(value: str) -> str:
        raise ValueError("no such answer")

    return await delegating(inner).run("bolts?")


@scenario
async def i_nested_deferred(env):
    """The nested run ends with a deferral, which the outer tool returns as text."""
    inner = order_agent([ORDER], "order placed", name="buyer")
    outer = agent([call("buy", {}, "call_buy")], "pending")

    @outer.tool_plain
    async def buy() -> str:
        return type((await inner.run("order 5 bolts")).output).__name__

    return await outer.run("buy")


@scenario
async def i_nested_conversation_shared(env):
    """A nested run in the outer run's conversation (conversation_id=ctx.conversation_id)."""
    inner = agent("12", name="warehouse")
    outer = agent([call("ask", {}, "call_ask")], "12 bolts")

    @outer.tool
    async def ask(ctx: RunContext) -> str:
        return (await inner.run("stock?", conversation_id=ctx.conversation_id)).output

    return await outer.run("bolts?")


@scenario
async def i_nested_stream(env):
    """A nested run streams its text inside a tool."""
    inner = Agent(streaming(["1", "2"]), name="warehouse")
    outer = agent([call("ask", {}, "call_ask")], "12 bolts")

    @outer.tool_plain
    async def ask() -> str:
        async with inner.run_stream("stock?") as stream:
            return "".join([text async for text in stream.stream_text(delta=True)])

    return await outer.run("bolts?")


@scenario
async def i_nested_unnamed(env):
    """An unnamed nested agent."""
    inner = Agent(Scripted("12"))
    outer = agent([call("ask", {}, "call_ask")], "12 bolts")

    @outer.tool_plain
    async def ask() -> str:
        return (await [inner][0].run("stock?", infer_name=False)).output

    return await outer.run("bolts?")


@scenario
async def i_nested_in_instructions(env):
    """The instructions function runs another agent before the first model request."""
    helper = agent("Be brief.", name="helper")
    one = agent("12")

    @one.instructions
    async def about() -> str:
        return (await helper.run("how?")).output

    return await one.run("stock?")


@scenario
async def i_nested_in_thread(env):
    """An async tool runs another agent with run_sync in a thread, which carries the context over."""
    inner = agent("12", name="warehouse")
    outer = agent([call("ask", {}, "call_ask")], "12 bolts")

    @outer.tool_plain
    async def ask() -> str:
        return (await asyncio.to_thread(inner.run_sync, "stock?")).output

    return await outer.run("bolts?")


@scenario
async def i_nested_run_sync_refused(env):
    """A plain tool calls run_sync of another agent, which Pydantic AI refuses: UserError."""
    inner = agent("12", name="warehouse")
    outer = agent([call("ask", {}, "call_ask")], "12 bolts")

    @outer.tool_plain
    def ask() -> str:
        return inner.run_sync("stock?").output

    return await outer.run("bolts?")


@scenario
async def i_nested_detached_task(env):
    """A tool starts another agent as a task and does not wait: the nested run outlives the tool and the outer run."""
    inner = agent((0.05, "late"), name="background")
    outer = agent([call("kick", {}, "call_kick")], "started")
    tasks = []

    @outer.tool_plain
    async def kick() -> str:
        tasks.append(asyncio.create_task(inner.run("work")))
        return "started"

    result = await outer.run("go")
    await asyncio.gather(*tasks)
    return result


def warehouse_and_inventory(inner: Agent) -> Agent:
    outer = agent([call("ask_warehouse", {"q": "bolts?"}, "call_ask")], "12 bolts")

    @outer.tool_plain
    async def ask_warehouse(q: str) -> str:
        return (await inner.run(q)).output

    return outer


def warehouse() -> Agent:
    inner = agent([call("count")], "12", name="warehouse")

    @inner.tool_plain
    def count() -> int:
        return 12

    return inner


@scenario(e2e=True)
async def i_nested(env):
    """Agent delegated from a tool of another agent."""
    return await warehouse_and_inventory(warehouse()).run("bolts?")


@scenario
async def i_nested_agent_scope(env):
    """failproofai_sdk.agent('shop', goal=...) scope around."""
    import failproofai_sdk

    with failproofai_sdk.agent("shop", session_id="session-5", goal="serve the customer"):
        return await warehouse_and_inventory(warehouse()).run("bolts?")


@scenario
async def i_nested_inner_fails(env):
    """Inner agent's model raises ModelHTTPError; propagates through the outer tool."""
    return await warehouse_and_inventory(agent(ModelHTTPError(500, "m", "dead"), name="warehouse")).run("bolts?")
