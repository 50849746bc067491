"""m — concurrency."""

from __future__ import annotations

import asyncio

from pydantic_ai import ModelHTTPError, ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo

from .common import Many, STOCK, agent, call, caught, response, scenario, stock_of


@scenario(e2e=True)
async def m_gather_under_user_span(env):
    """Three concurrent runs under one span of the application: one trace, three roots."""
    with env.tracer.start_as_current_span("POST /ask"):
        one = agent((0.01, "one"), (0.02, "two"), (0.005, "three"))
        return Many(await asyncio.gather(*(one.run(f"q{n}") for n in range(3))))


@scenario
async def m_gather_one_fails(env):
    """Three concurrent runs, one of them fails."""
    agents = [agent((0.01, "one"), name="first"), agent(ModelHTTPError(500, "m", None), name="second"), agent((0.02, "three"), name="third")]
    return Many(await asyncio.gather(*(caught(one.run("q")) for one in agents)))


@scenario
async def m_task_group_cancels(env):
    """A TaskGroup: one run fails and cancels its siblings."""
    fast, slow = agent(ModelHTTPError(500, "m", None), name="fast"), agent((5.0, "late"), name="slow")
    async with asyncio.TaskGroup() as group:
        group.create_task(slow.run("q"))
        await asyncio.sleep(0.02)
        group.create_task(fast.run("q"))


@scenario
def m_threads(env):
    """Two run_sync in two threads."""
    import concurrent.futures

    agents = [agent([STOCK], "12", name=f"worker_{n}", tools=[stock_of]) for n in "ab"]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return Many(pool.map(lambda one: one.run_sync("stock?"), agents))


@scenario
async def m_gather(env):
    """3 concurrent runs of the same agent under asyncio.gather."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        item = messages[0].parts[0].content.split()[2].rstrip("?")
        return response(call("stock_of", {"item": item}, "call_1")) if len(messages) == 1 else response(f"{item}: 12")

    one = agent(answer)

    @one.tool_plain
    async def stock_of(item: str) -> int:
        await asyncio.sleep(0.01)
        return 12

    return Many(await asyncio.gather(*(one.run(f"stock of {item}?") for item in ("bolt", "nut", "gear"))))
