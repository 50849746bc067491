"""The scripted models, the table, and what scenarios of more than one theme use."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import sys
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from pydantic_ai import (
    Agent, DeferredToolRequests, ModelMessage, ModelResponse, ModelRetry, RequestUsage, RunContext, TextPart,
    ToolCallPart,
)
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

MODULE = sys.modules[__name__]
PACKAGE = "scenarios"  # the module of the classes whose full name is recorded, whichever file they are in


class Many(list):
    """What several calls of one scenario saw."""


@dataclasses.dataclass
class Env:
    """What a scenario may know of the recorder: a tracer of the application's own, and how it is instrumented."""

    tracer: Any
    label: str
    version: int
    content: bool


@dataclasses.dataclass
class Scenario:
    name: str
    function: Callable
    doc: str
    e2e: bool
    module: Any = MODULE


SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Callable | None = None, *, e2e: bool = False):
    def register(function: Callable) -> Callable:
        doc = " ".join((function.__doc__ or "").split())
        SCENARIOS[function.__name__] = Scenario(function.__name__, function, doc, e2e)
        return function

    return register(function) if function is not None else register


# ---------------------------------------------------------------------------
# Scripted models
# ---------------------------------------------------------------------------

_responses = itertools.count(1)


def usage(input_tokens: int = 100, output_tokens: int = 20, **more: Any) -> RequestUsage:
    return RequestUsage(input_tokens=input_tokens, output_tokens=output_tokens, **more)


def call(name: str, args: Any = None, id: str | None = None) -> ToolCallPart:
    return ToolCallPart(tool_name=name, args={} if args is None else args, tool_call_id=id or f"call_{name}")


def response(*parts: Any, tokens: RequestUsage | None = None, finish: str | None = None, **more: Any) -> ModelResponse:
    rendered = [TextPart(content=part) if isinstance(part, str) else part for part in parts]
    if finish is None:
        finish = "tool_call" if any(isinstance(part, ToolCallPart) for part in rendered) else "stop"
    more.setdefault("provider_name", "scripted")
    more.setdefault("provider_response_id", f"resp_{next(_responses):04}")
    return ModelResponse(parts=rendered, usage=tokens or usage(), finish_reason=finish, **more)


class Scripted(FunctionModel):
    """A model that gives its steps one after the other. A step is text, a list of parts, a response, an exception to
    raise, a number of seconds to sleep first (in a tuple with another step), or a function of the messages."""

    def __init__(self, *steps: Any, name: str = "scripted-1", system: str = "scripted", **more: Any) -> None:
        self._steps = list(steps)
        self._calls = 0
        super().__init__(self._answer, model_name=name, **more)
        self._system = system

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        step = self._steps[min(self._calls, len(self._steps) - 1)]
        self._calls += 1
        if isinstance(step, tuple):
            await asyncio.sleep(step[0])
            step = step[1]
        if callable(step) and not isinstance(step, type):
            step = step(messages, info)
        if isinstance(step, BaseException) or (isinstance(step, type) and issubclass(step, BaseException)):
            raise step
        if isinstance(step, ModelResponse):
            return step
        return response(*step) if isinstance(step, list) else response(step)


def streaming(*runs: list, name: str = "stream-1") -> FunctionModel:
    """A model that streams: each run is a list of chunks (text, deltas, an exception to raise, or seconds to sleep)."""
    calls = itertools.count()

    async def stream(messages: list[ModelMessage], info: AgentInfo):
        for chunk in runs[min(next(calls), len(runs) - 1)]:
            if isinstance(chunk, (int, float)):
                await asyncio.sleep(chunk)
            elif isinstance(chunk, BaseException):
                raise chunk
            else:
                yield chunk

    return FunctionModel(stream_function=stream, model_name=name)


def agent(*steps: Any, name: str | None = "inventory", **more: Any) -> Agent:
    model = steps[0] if len(steps) == 1 and isinstance(steps[0], (FunctionModel, FallbackModel, TestModel)) else Scripted(*steps)
    return Agent(model, name=name, **more)


async def caught(coroutine: Any) -> Any:
    """The result, or what a caller that catches everything would print."""
    try:
        return await coroutine
    except Exception as error:
        return f"RAISED {type(error).__module__}.{type(error).__qualname__}: {error}"


def warm_up() -> None:
    """One run without instrumentation: what Pydantic AI imports late is imported before anything is timed."""
    asyncio.run(Agent(TestModel()).run("warm up"))


# ---------------------------------------------------------------------------
# What more than one theme uses
# ---------------------------------------------------------------------------


class Quote(BaseModel):
    item: str
    price: int


class SupplierDown(Exception):
    __module__ = PACKAGE


def stock_of(item: str) -> int:
    """Units on hand."""
    return 12


def price_of(item: str) -> float:
    """Unit price."""
    return 3.5


STOCK = call("stock_of", {"item": "bolt"}, "call_1")
STOCK_AGAIN = call("stock_of", {"item": "bolt"}, "call_2")


def failing_tool(error: Any, **more: Any) -> Agent:
    one = agent([STOCK], "12", **more)

    @one.tool_plain
    def stock_of(item: str) -> int:
        """Units on hand."""
        raise error

    return one


def order_agent(*steps: Any, raise_: Callable | None = None, output: Any = None, **more: Any) -> Agent:
    one = agent(*steps, output_type=[str, DeferredToolRequests] if output is None else output, **more)

    @one.tool(requires_approval=raise_ is None)
    def place_order(ctx: RunContext, item: str, qty: int) -> str:
        """Order from the supplier."""
        if raise_ is not None and not ctx.tool_call_approved:
            raise_()
        return f"ordered {qty} {item}"

    return one


ORDER = call("place_order", {"item": "bolt", "qty": 5}, "call_po")
GOOD_QUOTE = call("final_result", {"item": "bolt", "price": 3}, "call_fr")


def delegating(inner: Agent, *steps: Any, name: str = "inventory", tool: str = "ask", share: bool = False, catch: bool = False) -> Agent:
    outer = agent(*(steps or ([call(tool, {"q": "bolts?"}, f"call_{tool}")], f"{name} done")), name=name)

    @outer.tool(name=tool)
    async def ask(ctx: RunContext, q: str) -> Any:
        try:
            return (await inner.run(q, usage=ctx.usage if share else None)).output
        except Exception as error:
            if not catch:
                raise
            return f"failed: {type(error).__name__}"

    return outer


def inventory(*steps: Any, **more: Any) -> Agent:
    one = agent(*steps, **more)

    @one.tool_plain
    async def price_of(item: str) -> float:
        """Unit price."""
        await asyncio.sleep(0.02)
        return 3.5

    @one.tool_plain
    async def stock_of(item: str) -> int:
        """Units on hand."""
        await asyncio.sleep(0.01)
        return 12

    @one.tool_plain
    async def restock_eta(item: str) -> str:
        """Next delivery."""
        raise ModelRetry("no supplier for 'bolt' yet, ask without an ETA")

    return one
