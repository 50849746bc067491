"""c — tools; h — their arguments."""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
from typing import Any

from pydantic_ai import (
    ApprovalRequired, DeferredToolRequests, ExternalToolset, ModelRetry, RunContext, Tool, ToolCallPart,
    ToolDefinition,
)

from .common import (
    ORDER, Quote, STOCK, STOCK_AGAIN, agent, call, inventory, order_agent, price_of, response, scenario, stock_of,
    usage,
)


@scenario
async def h_args_validator_modelretry(env):
    """args_validator raises ModelRetry once."""
    tries = itertools.count()

    def check(ctx: RunContext, item: str) -> None:
        if next(tries) == 0:
            raise ModelRetry("no such item")

    return await agent([STOCK], [STOCK_AGAIN], "12", tools=[Tool(stock_of, args_validator=check)]).run("stock?")


@scenario
async def h_args_validator_valueerror(env):
    """args_validator raises ValueError."""

    def check(ctx: RunContext, item: str) -> None:
        raise ValueError("validator broke")

    return await agent([STOCK], [STOCK_AGAIN], "12", tools=[Tool(stock_of, args_validator=check)]).run("stock?")


@scenario
async def h_args_validator_deferred(env):
    """args_validator raises ApprovalRequired: a deferral without a tool span."""

    def check(ctx: RunContext, item: str) -> None:
        if not ctx.tool_call_approved:
            raise ApprovalRequired

    one = agent([STOCK], "12", tools=[Tool(stock_of, args_validator=check)], output_type=[str, DeferredToolRequests])
    return await one.run("stock?")


@scenario(e2e=True)
async def h_unknown_tool(env):
    """The model calls a tool that does not exist, then a real one."""
    return await agent([call("no_such_tool", {"x": 1}, "call_1")], [STOCK_AGAIN], "12", tools=[stock_of]).run("stock?")


@scenario
async def h_unknown_tool_exhausted(env):
    """The model calls a tool that does not exist until the retries are exhausted."""
    return await agent([call("no_such_tool", {"x": 1}, "call_1")], tools=[stock_of]).run("stock?")


@scenario
async def h_args_not_json(env):
    """Arguments that are not JSON, then good."""
    return await agent([call("stock_of", '{"item": bolt', "call_1")], [STOCK_AGAIN], "12", tools=[stock_of]).run("stock?")


@scenario
async def h_args_json_text(env):
    """Arguments as JSON text (the way providers send them), with unicode and spaces."""
    return await agent([call("stock_of", '{ "item" : "b\\u00f6lt 🔩" }', "call_1")], "12", tools=[stock_of]).run("stock?")


@scenario
async def h_args_empty_text(env):
    """Arguments '' for a tool without parameters."""
    one = agent([call("ping", "", "call_1")], "pong")

    @one.tool_plain
    def ping() -> str:
        return "pong"

    return await one.run("ping")


@scenario
async def h_args_none(env):
    """Arguments None for a tool without parameters."""
    one = agent([ToolCallPart(tool_name="ping", args=None, tool_call_id="call_1")], "pong")

    @one.tool_plain
    def ping() -> str:
        return "pong"

    return await one.run("ping")


@scenario
async def h_args_json_list(env):
    """Arguments are a JSON list, then good."""
    return await agent([call("stock_of", '["bolt"]', "call_1")], [STOCK_AGAIN], "12", tools=[stock_of]).run("stock?")


@scenario
async def h_args_coerced(env):
    """Arguments that validation coerces, defaults filled in, an extra model parameter."""
    one = agent([call("order", {"qty": "5", "when": "2026-01-02", "quote": {"item": "bolt", "price": "3"}}, "call_1")], "ok")

    @one.tool_plain
    def order(qty: int, when: dt.date, quote: Quote, express: bool = False, tags: list[str] | None = None) -> str:
        return f"{qty} on {when}"

    return await one.run("order")


@scenario
async def h_args_retries_exhausted(env):
    """Function tool arguments fail validation until the retries are exhausted."""
    return await agent([call("stock_of", {"item": 1}, "call_1")], tools=[stock_of]).run("stock?")


@scenario
async def h_unapproved_bad_args(env):
    """A tool that needs approval is called with bad arguments, then with good ones."""
    one = order_agent([call("place_order", {"item": "bolt", "qty": "many"}, "call_0")], [ORDER], "never")
    return await one.run("order")


@scenario
async def h_external_bad_args(env):
    """An external tool is called with arguments that do not fit its schema."""
    outside = ExternalToolset([ToolDefinition(name="fetch", parameters_json_schema={"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]})])
    one = agent([call("fetch", {"link": 7}, "call_f")], "fetched", output_type=[str, DeferredToolRequests], toolsets=[outside])
    return await one.run("fetch it")


@scenario
async def h_bad_args_and_other_tool_fails(env):
    """Bad arguments for one tool, ValueError in the other, in one response."""
    one = agent([call("price_of", {"item": 1}, "call_1"), call("boom", {}, "call_2")], "never", tools=[price_of])

    @one.tool_plain
    async def boom() -> str:
        raise ValueError("boom")

    return await one.run("go")


@scenario
async def h_bad_args_then_validator_error(env):
    """Recovered bad arguments, later a ValueError in an output validator: a validation failure is no leaf."""
    one = agent([call("stock_of", {"item": 1}, "call_1")], "12", tools=[stock_of])

    @one.output_validator
    def check(value: str) -> str:
        raise ValueError("the answer is not acceptable")

    return await one.run("stock?")


@scenario
async def h_args_missing_and_unknown(env):
    """A missing and an unknown argument at once, then good."""
    return await agent([call("stock_of", {"colour": "red"}, "call_1")], [STOCK_AGAIN], "12", tools=[stock_of]).run("stock?")


@scenario
async def h_args_single_model(env):
    """A tool whose only parameter is a model: the arguments are its fields."""
    one = agent([call("save", {"item": "bolt", "price": 3}, "call_1")], "saved")

    @one.tool_plain
    def save(quote: Quote) -> str:
        return f"saved {quote.item}"

    return await one.run("save")


@scenario
async def h_args_deep_and_large(env):
    """Arguments nested nine deep, a list of 150 items and a text of 9 000 characters."""
    deep: Any = "bottom"
    for level in range(9):
        deep = {f"l{level}": deep}
    one = agent([call("store", {"deep": deep, "many": list(range(150)), "long": "z" * 9000}, "call_1")], "stored")

    @one.tool_plain
    def store(deep: dict, many: list[int], long: str) -> str:
        return "stored"

    return await one.run("store")


@scenario
async def h_same_call_id_twice(env):
    """Two calls in one response with the same tool call id."""
    one = agent([call("stock_of", {"item": "bolt"}, "call_1"), call("stock_of", {"item": "nut"}, "call_1")], "12", tools=[stock_of])
    return await one.run("stock?")


@scenario
async def h_same_call_id_two_requests(env):
    """The same tool call id again in the second response of the run."""
    return await agent([STOCK], [call("stock_of", {"item": "nut"}, "call_1")], "12", tools=[stock_of]).run("stock?")


@scenario
async def h_call_id_empty(env):
    """A tool call with an empty id."""
    return await agent([ToolCallPart(tool_name="stock_of", args={"item": "bolt"}, tool_call_id="")], "12", tools=[stock_of]).run("stock?")


@scenario
async def h_call_id_generated(env):
    """A tool call without an id: Pydantic AI makes one."""
    return await agent([ToolCallPart(tool_name="stock_of", args={"item": "bolt"})], "12", tools=[stock_of]).run("stock?")


@scenario
async def h_tool_name_odd(env):
    """A tool with dots and dashes in its name."""
    return await agent([call("wh.stock-of/v2", {"item": "bolt"}, "call_1")], "12", tools=[Tool(stock_of, name="wh.stock-of/v2")]).run("stock?")


@scenario(e2e=True)
async def c_inventory(env):
    """price_of + stock_of + restock_eta in ONE response; restock_eta raises ModelRetry; run succeeds."""
    calls = [call(name, {"item": "bolt"}, f"call_{n}") for n, name in enumerate(("price_of", "stock_of", "restock_eta"), 1)]
    one = inventory(
        response(*calls, tokens=usage(150, 45)), response("12 bolts at 3.5 each, no ETA.", tokens=usage(230, 15))
    )
    return await one.run("How many bolts, what price, when restocked?")


@scenario
async def c_parallel_same_tool(env):
    """Same tool 5x in parallel, reverse completion order."""
    one = agent([call("slow", {"n": n}, f"call_{n}") for n in range(5)], "done")

    @one.tool_plain
    async def slow(n: int) -> int:
        await asyncio.sleep(0.01 * (5 - n))
        return n

    return await one.run("go")


@scenario
async def h_bad_args(env):
    """Bad args once (validation error), then good."""
    return await agent([call("stock_of", {"item": {"not": "a string"}}, "call_1")], [STOCK_AGAIN], "12", tools=[stock_of]).run("stock?")
