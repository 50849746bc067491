"""l — cancellation."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai import Agent, CancellationToken, RunContext

from .common import STOCK, agent, call, scenario, stock_of


def slow_agent(seconds: float = 5.0, **more: Any) -> Agent:
    one = agent([call("slow", {}, "call_1")], "done", **more)

    @one.tool_plain
    async def slow() -> str:
        await asyncio.sleep(seconds)
        return "slept"

    return one


@scenario
async def l_run_timeout_tool(env):
    """agent.run(timeout=) elapses while a tool runs."""
    return await slow_agent().run("go", timeout=0.1)


@scenario
async def l_run_timeout_model(env):
    """agent.run(timeout=) elapses during the first model request."""
    return await agent((5.0, "late")).run("go", timeout=0.1)


@scenario
async def l_ctx_cancel(env):
    """A tool calls ctx.cancel() and then awaits."""
    one = agent([call("stop", {}, "call_1")], "done")

    @one.tool
    async def stop(ctx: RunContext) -> str:
        ctx.cancel()
        await asyncio.sleep(0.05)
        return "never seen"

    return await one.run("go")


@scenario
async def l_ctx_cancel_sync_tool(env):
    """A plain (threaded) tool calls ctx.cancel() and returns."""
    one = agent([call("stop", {}, "call_1")], "done")

    @one.tool
    def stop(ctx: RunContext) -> str:
        ctx.cancel()
        return "returned anyway"

    return await one.run("go")


@scenario
async def l_cancellation_token(env):
    """A CancellationToken fires during a tool."""
    token = CancellationToken()
    one = agent([call("slow", {}, "call_1")], "done")

    @one.tool_plain
    async def slow() -> str:
        asyncio.get_running_loop().call_later(0.02, token.cancel)
        await asyncio.sleep(5)
        return "slept"

    return await one.run("go", cancellation_token=token)


@scenario
async def l_cancellation_token_before(env):
    """A CancellationToken that has fired before the run starts."""
    token = CancellationToken()
    token.cancel()
    return await slow_agent().run("go", cancellation_token=token)


@scenario
async def l_task_cancel_two_tools(env):
    """The caller's task is cancelled while two tools run."""
    one = agent([call("slow", {"n": 1}, "call_1"), call("slow", {"n": 2}, "call_2")], "done")

    @one.tool_plain
    async def slow(n: int) -> str:
        await asyncio.sleep(5)
        return "slept"

    task = asyncio.create_task(one.run("go"))
    await asyncio.sleep(0.1)
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError as error:
        return f"RAISED {type(error).__name__}: {error}"


@scenario
async def l_cancel_second_request(env):
    """wait_for elapses during the second model request: the first one and its tool are complete."""
    return await asyncio.wait_for(agent([STOCK], (5.0, "late"), tools=[stock_of]).run("stock?"), 0.2)


@scenario(e2e=True)
async def l_cancel_nested(env):
    """wait_for elapses while a nested agent waits for its model: inner events after the outer agent_end."""
    inner = agent((5.0, "late"), name="warehouse")
    outer = agent([call("ask_warehouse", {"q": "bolts?"}, "call_ask")], "12 bolts")

    @outer.tool_plain
    async def ask_warehouse(q: str) -> str:
        return (await inner.run(q)).output

    return await asyncio.wait_for(outer.run("bolts?"), 0.2)


@scenario
async def l_cancel_nested_tool(env):
    """wait_for elapses while a nested agent's tool runs."""
    inner = slow_agent(name="warehouse")
    outer = agent([call("ask_warehouse", {"q": "bolts?"}, "call_ask")], "12 bolts")

    @outer.tool_plain
    async def ask_warehouse(q: str) -> str:
        return (await inner.run(q)).output

    return await asyncio.wait_for(outer.run("bolts?"), 0.2)


@scenario
async def l_sibling_cancelled(env):
    """A tool raises while its sibling sleeps: the sibling is cancelled."""
    one = agent([call("boom", {}, "call_1"), call("slow", {}, "call_2")], "done")

    @one.tool_plain
    async def boom() -> str:
        await asyncio.sleep(0.02)
        raise ValueError("boom")

    @one.tool_plain
    async def slow() -> str:
        await asyncio.sleep(5)
        return "slept"

    return await one.run("go")


@scenario
async def l_cancel_shielding_tool(env):
    """A cancelled tool catches CancelledError and returns a value."""
    one = agent([call("stubborn", {}, "call_1")], "done")

    @one.tool_plain
    async def stubborn() -> str:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            return "caught it"
        return "slept"

    return await asyncio.wait_for(one.run("go"), 0.1)


@scenario
async def l_tool_raises_on_cancel(env):
    """A cancelled tool raises RuntimeError from its clean-up."""
    one = agent([call("stubborn", {}, "call_1")], "done")

    @one.tool_plain
    async def stubborn() -> str:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            raise RuntimeError("clean-up failed") from None
        return "slept"

    return await asyncio.wait_for(one.run("go"), 0.1)


@scenario
async def l_iter_aborted(env):
    """agent.iter(): the caller leaves after the first node."""
    async with agent([STOCK], "12", tools=[stock_of]).iter("stock?") as run:
        async for node in run:
            seen = type(node).__name__
            break
    return f"OK left after {seen}"


@scenario
async def l_iter_aborted_after_model(env):
    """agent.iter(): the caller leaves after the first model response, before its tools run."""
    async with agent([STOCK], "12", tools=[stock_of]).iter("stock?") as run:
        async for node in run:
            if Agent.is_call_tools_node(node):
                break
    return "OK left before the tools"


@scenario
async def l_iter_caller_raises(env):
    """agent.iter(): the caller's loop raises ValueError."""
    async with agent([STOCK], "12", tools=[stock_of]).iter("stock?") as run:
        async for node in run:
            if Agent.is_call_tools_node(node):
                raise ValueError("the caller's own problem")


@scenario
async def l_iter_complete(env):
    """agent.iter() to the end."""
    async with agent([STOCK], "12", tools=[stock_of]).iter("stock?") as run:
        async for _ in run:
            pass
    return run.result


@scenario
async def l_tool_timeout(env):
    """A tool with timeout=0.05 sleeps; the model is told and answers."""
    one = agent([call("slow", {}, "call_1")], "no luck")

    @one.tool_plain(timeout=0.05)
    async def slow() -> str:
        await asyncio.sleep(5)
        return "slept"

    return await one.run("go")


@scenario
async def l_cancel_model(env):
    """asyncio.wait_for timeout during the model request."""
    return await asyncio.wait_for(agent((5.0, "late")).run("go"), 0.15)


@scenario
async def l_cancel_tool(env):
    """asyncio.wait_for timeout while a tool is running."""
    return await asyncio.wait_for(slow_agent().run("go"), 0.15)
