"""a — plain runs: usage, settings, metadata."""

from __future__ import annotations

import decimal

from pydantic_ai import RequestUsage, RunContext
from pydantic_ai.models.test import TestModel

from .common import (
    Many, Quote, STOCK, STOCK_AGAIN, Scripted, agent, call, price_of, response, scenario, stock_of, usage,
)


@scenario
async def a_hello(env):
    """The smallest run."""
    return await agent("hello").run("hi")


@scenario
def a_run_sync(env):
    """agent.run_sync from a program without a loop, with a plain tool."""
    return agent([STOCK], "12", tools=[stock_of]).run_sync("stock?")


@scenario
async def a_test_model(env):
    """TestModel: calls every tool, then answers."""
    return await agent(TestModel(), tools=[stock_of, price_of]).run("go")


@scenario
async def a_test_model_typed(env):
    """TestModel with a typed output."""
    return await agent(TestModel(), tools=[stock_of], output_type=Quote).run("go")


@scenario
async def a_cache_tokens(env):
    """Cache tokens that collapse in the second request: cache span attributes and events."""
    steps = (
        response(STOCK, tokens=usage(5000, 30, cache_write_tokens=4000)),
        response(STOCK_AGAIN, tokens=usage(6000, 30, cache_read_tokens=4000, cache_write_tokens=900)),
        response("12", tokens=usage(7000, 10)),
    )
    return await agent(Scripted(*steps, name="claude-sonnet-4-5", system="anthropic"), tools=[stock_of]).run("stock?")


@scenario
async def a_usage_zero(env):
    """A response that reports zero tokens throughout, with details."""
    return await agent(response("12", tokens=RequestUsage(input_tokens=0, output_tokens=1, details={"reasoning_tokens": 0}))).run("hi")


@scenario
async def a_model_settings(env):
    """Model settings on agent and run, stop sequences, and a setting of its own."""
    one = agent("12", model_settings={"temperature": 0.0, "max_tokens": 10, "stop_sequences": ["END"]})
    return await one.run("hi", model_settings={"seed": 1, "top_p": 0.5, "parallel_tool_calls": False, "extra_body": {"x": 1}})


@scenario
async def a_metadata(env):
    """Run metadata: from the agent, from the run, nested values."""
    one = agent("12", metadata={"tenant": "acme", "plan": {"tier": 2, "tags": ["a", "b"]}})
    return Many([
        await one.run("hi"),
        await one.run("hi", metadata={"ticket": "T-7", "urgent": True, "ratio": 0.5, "none": None}),
        await one.run("hi", metadata=lambda ctx: {"run": 1}),
    ])


@scenario
async def a_run_id(env):
    """The caller's run_id and conversation_id."""
    return await agent("12").run("hi", run_id="run-7", conversation_id="chat-42")


@scenario
async def a_priced_model(env):
    """A model that has a price: operation.cost on the chat span."""
    step = response("12", provider_name="openai", provider_url="https://api.openai.com/v1", tokens=usage(1000, 500))
    return await agent(Scripted(step, name="gpt-4o", system="openai")).run("hi")


@scenario
async def a_reported_cost(env):
    """A response that carries its own cost."""
    return await agent(response("12", tokens=usage(1000, 500, cost=decimal.Decimal("0.0125")))).run("hi")


@scenario
async def a_deps_and_description(env):
    """deps, a description, several tools, one of them with context."""
    one = agent([call("whose", {}, "call_1"), STOCK_AGAIN], "yours", deps_type=str, description="Knows owners", tools=[stock_of])

    @one.tool
    def whose(ctx: RunContext[str]) -> str:
        """Owner."""
        return ctx.deps

    return await one.run("whose?", deps="somebody")


@scenario
async def a_plain_rich(env):
    """Scripted model with settings, description, instructions, metadata, usage, finish reason, response id."""
    model = Scripted(
        response("The bolt costs 3.", tokens=usage(120, 8), provider_name="openai", provider_response_id="resp_rich"),
        name="gpt-4o", system="openai",
    )
    one = agent(
        model, description="Answers stock questions", instructions="Be terse.",
        model_settings={"temperature": 0.2, "max_tokens": 64, "top_p": 0.9, "seed": 7, "presence_penalty": 0.1, "frequency_penalty": 0.3},
    )
    return await one.run("price of bolt?", metadata={"tenant": "acme", "n": 3})


@scenario
async def a_usage_details(env):
    """Cache read/write tokens, audio tokens, provider details; two requests so run-level usage aggregates."""
    steps = (
        response(
            call("price_of", {"item": "bolt"}),
            tokens=usage(120, 30, cache_write_tokens=40, cache_read_tokens=10, details={"reasoning_tokens": 7, "accepted_prediction_tokens": 0}),
        ),
        response(
            "3",
            tokens=usage(
                200, 5, cache_read_tokens=90, input_audio_tokens=3, cache_audio_read_tokens=1, output_audio_tokens=2,
                details={"reasoning_tokens": 5},
            ),
        ),
    )
    one = agent(Scripted(*steps, name="gpt-4o", system="openai"))

    @one.tool_plain
    def price_of(item: str) -> int:
        return 3

    return await one.run("price of bolt?")
