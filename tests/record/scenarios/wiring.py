"""w — wiring: how the adapter and the agents are put together."""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent, ModelHTTPError, RunContext
from pydantic_ai.capabilities import Hooks

from .common import Many, STOCK, Scripted, agent, call, caught, delegating, failing_tool, price_of, scenario, stock_of


@scenario
async def w_cap_fp_outer(env):
    """Explicit capabilities with the adapter outside the instrumentation."""
    from failproofai_sdk.integrations.pydantic_ai import FailproofAI
    from pydantic_ai.capabilities import Instrumentation

    settings = Agent._instrument_default
    return await agent([STOCK], "12", tools=[stock_of], capabilities=[FailproofAI(capture_content=env.content), Instrumentation(settings=settings)]).run("stock?")


@scenario
async def w_adapter_session_id(env):
    """The adapter's session_id option: every run in one session of the application's choosing."""
    from failproofai_sdk.integrations.pydantic_ai import FailproofAI

    one = agent("one", "two", capabilities=[FailproofAI(capture_content=env.content, session_id="session-7")])
    return Many([await one.run("first"), await one.run("second")])


@scenario
async def w_session_scope(env):
    """failproofai_sdk.session() around two runs."""
    import failproofai_sdk

    one = agent("one", "two")
    with failproofai_sdk.session("session-9"):
        return Many([await one.run("first"), await one.run("second")])


@scenario
async def w_agent_scope_same_name(env):
    """failproofai_sdk.agent('inventory') around an agent called inventory that fails."""
    import failproofai_sdk

    with failproofai_sdk.agent("inventory", session_id="session-11", goal="serve"):
        return await failing_tool(ValueError("boom")).run("stock?")


@scenario
async def w_model_override(env):
    """agent.override of the model and model= of the run."""
    one = agent("never")
    with one.override(model=Scripted("overridden", name="scripted-2")):
        first = await one.run("hi")
    return Many([first, await one.run("hi", model=Scripted("given", name="scripted-3"))])


@scenario
async def w_sequential_tools(env):
    """Tools that must run one after the other."""
    one = agent([call("step", {"n": n}, f"call_{n}") for n in range(3)], "done")

    @one.tool_plain(sequential=True)
    async def step(n: int) -> int:
        await asyncio.sleep(0.005)
        return n

    return await one.run("go")


@scenario
async def w_prepare_tools(env):
    """A prepare_tools hook hides a tool in the second request."""

    async def prepare(ctx: RunContext, tool_defs):
        return [one for one in tool_defs if ctx.run_step < 2 or one.name != "price_of"]

    return await agent([STOCK], "12", tools=[stock_of, price_of], capabilities=[Hooks(prepare_tools=prepare)]).run("stock?")


@scenario
async def w_max_concurrency(env):
    """max_concurrency=1 and three runs at once: spans for the waiting, on the global tracer."""
    one = agent((0.02, "one"), (0.02, "two"), (0.02, "three"), max_concurrency=1)
    return Many(await asyncio.gather(*(one.run(f"q{n}") for n in range(3))))


@scenario
async def w_concurrency_limited_model(env):
    """A ConcurrencyLimitedModel shared by two runs."""
    from pydantic_ai import limit_model_concurrency

    one = Agent(limit_model_concurrency(Scripted((0.02, "one"), (0.02, "two")), 1), name="inventory")
    return Many(await asyncio.gather(one.run("q1"), one.run("q2")))


@scenario
async def w_uninstrumented_inner(env):
    """A nested agent whose OpenTelemetry instrumentation is off while the adapter's is on."""
    inner = agent("12", name="warehouse")
    inner.instrument = False
    return await delegating(inner).run("bolts?")


@scenario
async def w_fails_then_works(env):
    """A failed run and a good run of the same agent, in two conversations."""
    one = agent(ModelHTTPError(500, "m", None), "second")
    return Many([await caught(one.run("first?")), await one.run("second?")])
