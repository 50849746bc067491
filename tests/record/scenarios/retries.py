"""g — retries; q — output validation."""

from __future__ import annotations

import itertools

from pydantic_ai import ModelRetry, RunContext, ToolFailed
from pydantic_ai.capabilities import Hooks

from .common import GOOD_QUOTE, Quote, STOCK, STOCK_AGAIN, agent, call, inventory, scenario, stock_of


@scenario
async def q_output_validator_exhausted(env):
    """output_validator always raises ModelRetry."""
    one = agent("bad")

    @one.output_validator
    def check(value: str) -> str:
        raise ModelRetry("not good enough")

    return await one.run("say")


@scenario
async def q_output_validator_retry_tool(env):
    """output_validator raises ModelRetry once on a typed (output tool) result."""
    one = agent([GOOD_QUOTE], [call("final_result", {"item": "bolt", "price": 9}, "call_fr2")], output_type=Quote)

    @one.output_validator
    def check(value: Quote) -> Quote:
        if value.price < 5:
            raise ModelRetry("too cheap")
        return value

    return await one.run("quote")


@scenario
async def q_output_validator_changes(env):
    """output_validator changes the output."""
    one = agent("12")

    @one.output_validator
    def check(value: str) -> str:
        return value + " bolts"

    return await one.run("stock?")


@scenario
async def q_output_retries_three(env):
    """retries={'output': 3}: the third answer passes."""
    one = agent("1", "2", "3", retries={"output": 3})

    @one.output_validator
    def check(value: str) -> str:
        if value != "3":
            raise ModelRetry(f"{value} is wrong")
        return value

    return await one.run("say three")


@scenario
async def g_modelretry_twice_then_ok(env):
    """A tool raises ModelRetry twice (retries=2), then gives a value."""
    one = agent([call("eta", {}, "call_1")], [call("eta", {}, "call_2")], [call("eta", {}, "call_3")], "tomorrow")
    tries = itertools.count()

    @one.tool_plain(retries=2)
    def eta() -> str:
        if next(tries) < 2:
            raise ModelRetry("not yet")
        return "tomorrow"

    return await one.run("eta?")


@scenario
async def g_modelretry_empty(env):
    """ModelRetry with an empty message."""
    tries = itertools.count()
    one = agent([call("eta", {}, "call_1")], [call("eta", {}, "call_2")], "tomorrow")

    @one.tool_plain
    def eta() -> str:
        if next(tries) == 0:
            raise ModelRetry("")
        return "tomorrow"

    return await one.run("eta?")


@scenario
async def g_retries_zero(env):
    """retries=0: the first ModelRetry ends the run."""
    one = agent([call("eta", {}, "call_1")], "never")

    @one.tool_plain(retries=0)
    def eta() -> str:
        raise ModelRetry("not yet")

    return await one.run("eta?")


@scenario
async def g_modelretry_before_validate_hook(env):
    """before_tool_validate raises ModelRetry once."""
    tries = itertools.count()

    async def check(ctx: RunContext, *, call, tool_def, args):
        if next(tries) == 0:
            raise ModelRetry("say please")
        return args

    return await agent([STOCK], [STOCK_AGAIN], "12", tools=[stock_of], capabilities=[Hooks(before_tool_validate=check)]).run("stock?")


@scenario
async def g_modelretry_after_validate_hook(env):
    """after_tool_validate raises ModelRetry once."""
    tries = itertools.count()

    async def check(ctx: RunContext, *, call, tool_def, args):
        if next(tries) == 0:
            raise ModelRetry("say please")
        return args

    return await agent([STOCK], [STOCK_AGAIN], "12", tools=[stock_of], capabilities=[Hooks(after_tool_validate=check)]).run("stock?")


@scenario
async def g_modelretry_after_execute_hook(env):
    """after_tool_execute raises ModelRetry once: the result is rejected."""
    tries = itertools.count()

    async def check(ctx: RunContext, *, call, tool_def, args, result):
        if next(tries) == 0:
            raise ModelRetry("that cannot be")
        return result

    return await agent([STOCK], [STOCK_AGAIN], "12", tools=[stock_of], capabilities=[Hooks(after_tool_execute=check)]).run("stock?")


@scenario
async def g_valueerror_before_execute_hook(env):
    """before_tool_execute raises ValueError."""

    async def check(ctx: RunContext, *, call, tool_def, args):
        raise ValueError("hook broke")

    return await agent([STOCK], "12", tools=[stock_of], capabilities=[Hooks(before_tool_execute=check)]).run("stock?")


@scenario
async def g_valueerror_validate_hook(env):
    """before_tool_validate raises ValueError: no tool span at all."""

    async def check(ctx: RunContext, *, call, tool_def, args):
        raise ValueError("hook broke")

    return await agent([STOCK], "12", tools=[stock_of], capabilities=[Hooks(before_tool_validate=check)]).run("stock?")


@scenario
async def g_tool_failed_hook(env):
    """before_tool_execute raises ToolFailed."""

    async def check(ctx: RunContext, *, call, tool_def, args):
        raise ToolFailed("closed for the day")

    return await agent([STOCK], "no idea", tools=[stock_of], capabilities=[Hooks(before_tool_execute=check)]).run("stock?")


@scenario
async def g_validate_error_recovered(env):
    """on_tool_validate_error gives arguments instead: no validation span."""

    async def recover(ctx: RunContext, *, call, tool_def, args, error):
        return {"item": "bolt"}

    return await agent(
        [call("stock_of", {"item": 1, "extra": 2}, "call_1")], "12", tools=[stock_of], capabilities=[Hooks(tool_validate_error=recover)]
    ).run("stock?")


@scenario
async def g_modelretry_from_hook(env):
    """before_tool_execute hook raises ModelRetry: raw ModelRetry passes wrap_tool_execute."""
    tries = itertools.count()

    async def check(ctx: RunContext, *, call, tool_def, args):
        if next(tries) == 0:
            raise ModelRetry("not now")
        return args

    return await agent([STOCK], [STOCK_AGAIN], "12", tools=[stock_of], capabilities=[Hooks(before_tool_execute=check)]).run("stock?")


@scenario
async def g_retries_exhausted(env):
    """Tool always raises ModelRetry; default budget 1 -> UnexpectedModelBehavior."""
    steps = [[call("restock_eta", {"item": "bolt"}, f"call_{n}")] for n in (1, 2)]
    return await inventory(*steps).run("eta?")


@scenario
async def g_tool_failed(env):
    """ToolFailed raised in the tool: terminal failure shown to the model; run succeeds."""
    one = agent([STOCK], "no idea")

    @one.tool_plain
    def stock_of(item: str) -> int:
        raise ToolFailed("warehouse closed")

    return await one.run("stock?")


@scenario
async def q_output_validator_retry(env):
    """output_validator raises ModelRetry once then passes."""
    one = agent("bad", "good")

    @one.output_validator
    def check(value: str) -> str:
        if value == "bad":
            raise ModelRetry("not good enough")
        return value

    return await one.run("say")
