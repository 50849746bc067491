"""p — limits."""

from __future__ import annotations

import itertools

from pydantic_ai import ModelRetry, RunContext, UsageLimits

from .common import STOCK, STOCK_AGAIN, agent, call, inventory, scenario, stock_of


@scenario
async def p_total_tokens_limit(env):
    """total_tokens_limit exceeded by the first response."""
    return await agent([STOCK], "12", tools=[stock_of]).run("stock?", usage_limits=UsageLimits(total_tokens_limit=50))


@scenario
async def p_output_tokens_limit(env):
    """output_tokens_limit exceeded by a text answer."""
    return await agent("12").run("stock?", usage_limits=UsageLimits(output_tokens_limit=5))


@scenario
async def p_input_tokens_limit_second(env):
    """input_tokens_limit exceeded by the second response."""
    return await agent([STOCK], "12", tools=[stock_of]).run("stock?", usage_limits=UsageLimits(input_tokens_limit=150))


@scenario
async def p_tool_calls_limit(env):
    """tool_calls_limit=1 and two calls in one response: no tool runs."""
    return await agent([STOCK, STOCK_AGAIN], "12", tools=[stock_of]).run("stock?", usage_limits=UsageLimits(tool_calls_limit=1))


@scenario
async def p_tool_calls_limit_second(env):
    """tool_calls_limit=1 and one call in each of two responses."""
    return await agent([STOCK], [STOCK_AGAIN], "12", tools=[stock_of]).run("stock?", usage_limits=UsageLimits(tool_calls_limit=1))


@scenario
async def p_request_limit_zero(env):
    """request_limit=0: not one request."""
    return await agent("12").run("stock?", usage_limits=UsageLimits(request_limit=0))


@scenario
async def p_request_limit_after_recovery(env):
    """request_limit=2 exceeded after a ModelRetry: the recovered failure hides the error."""
    one = agent([call("eta", {}, "call_1")], [call("eta", {}, "call_2")], "never")
    tries = itertools.count()

    @one.tool_plain
    def eta() -> str:
        if next(tries) == 0:
            raise ModelRetry("not yet")
        return "tomorrow"

    return await one.run("eta?", usage_limits=UsageLimits(request_limit=2))


@scenario
async def p_nested_shares_limit(env):
    """A nested agent with usage=ctx.usage hits the outer run's request limit."""
    limits = UsageLimits(request_limit=2)
    inner = agent([call("stock_of", {"item": "bolt"}, "call_1")], "12", name="warehouse", tools=[stock_of])
    outer = agent([call("ask", {}, "call_ask")], "12 bolts")

    @outer.tool
    async def ask(ctx: RunContext) -> str:
        return (await inner.run("stock?", usage=ctx.usage, usage_limits=limits)).output

    return await outer.run("bolts?", usage_limits=limits)


@scenario
async def p_request_limit(env):
    """UsageLimits(request_limit=1) exceeded before the 2nd request."""
    return await inventory([STOCK], "12").run("stock?", usage_limits=UsageLimits(request_limit=1))
