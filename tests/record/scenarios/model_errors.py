"""e — model errors."""

from __future__ import annotations

import dataclasses
from typing import Any

from pydantic_ai import ModelAPIError, ModelHTTPError, ModelResponse, ModelRetry, RunContext, TextPart
from pydantic_ai.capabilities import Hooks
from pydantic_ai.models.fallback import FallbackModel

from .common import STOCK, Scripted, agent, call, failing_tool, response, scenario, stock_of


@scenario
async def e_model_ratelimit(env):
    """HTTP 429 from the model: which class the status code becomes."""
    return await agent(ModelHTTPError(429, "scripted-1", {"error": {"message": "slow down"}})).run("hi")


@scenario
async def e_model_ratelimit_class(env):
    """ModelRateLimitError raised as such."""
    from pydantic_ai import ModelRateLimitError

    return await agent(ModelRateLimitError("scripted-1", "slow down", retry_after=2.0)).run("hi")


@scenario
async def e_model_api_error(env):
    """ModelAPIError: a connection failure without a status code."""
    return await agent(ModelAPIError("scripted-1", "Connection error.")).run("hi")


@scenario
async def e_model_valueerror_empty(env):
    """The model call raises ValueError without a message."""
    return await agent(ValueError()).run("hi")


@scenario
async def e_model_unexpected(env):
    """UnexpectedModelBehavior with a body."""
    from pydantic_ai import UnexpectedModelBehavior

    return await agent(UnexpectedModelBehavior("Received empty model response", '{"choices": []}')).run("hi")


@scenario
async def e_model_fails_second_request(env):
    """The first request calls a tool, the second one fails with HTTP 503."""
    return await agent([STOCK], ModelHTTPError(503, "scripted-1", None), tools=[stock_of]).run("stock?")


@scenario
async def e_hook_recovered_model(env):
    """The model raises; on_model_request_error gives a response instead."""

    async def recover(ctx: RunContext, *, request_context, error: Exception) -> ModelResponse:
        return response("from the hook")

    return await agent(ModelHTTPError(500, "scripted-1", None), capabilities=[Hooks(model_request_error=recover)]).run("hi")


@scenario(e2e=True)
async def e_hook_recovered_tool(env):
    """A tool raises ValueError; on_tool_execute_error gives a result instead."""

    async def recover(ctx: RunContext, *, call, tool_def, args, error: Exception) -> Any:
        return {"recovered": str(error)}

    return await failing_tool(ValueError("shelf fell"), capabilities=[Hooks(tool_execute_error=recover)]).run("stock?")


@scenario
async def e_retry_model_request(env):
    """on_model_request_error raises RetryModelRequest: a failed attempt under the chat span, then an answer."""
    from pydantic_ai import RetryModelRequest

    async def again(ctx: RunContext, *, request_context, error: Exception) -> ModelResponse:
        raise RetryModelRequest()

    return await agent(ModelHTTPError(500, "scripted-1", None), "second try", capabilities=[Hooks(model_request_error=again)]).run("hi")


@scenario
async def e_fallback_all_fail(env):
    """FallbackModel: both models fail."""
    first = Scripted(ModelHTTPError(503, "primary-1", None), name="primary-1", system="openai")
    second = Scripted(ModelHTTPError(500, "secondary-1", {"m": "dead"}), name="secondary-1", system="anthropic")
    return await agent(FallbackModel(first, second)).run("hi")


@scenario
async def e_fallback_partly(env):
    """FallbackModel with a tool: the first request falls back, the second does not."""
    first = Scripted(ModelHTTPError(503, "primary-1", None), "12 bolts", name="primary-1", system="openai")
    second = Scripted([STOCK], name="secondary-1", system="anthropic")
    return await agent(FallbackModel(first, second), tools=[stock_of]).run("stock?")


@scenario
async def e_fallback_other_error(env):
    """FallbackModel: the first model raises something that is no reason to fall back."""
    first = Scripted(ValueError("not an API error"), name="primary-1", system="openai")
    second = Scripted("never", name="secondary-1", system="anthropic")
    return await agent(FallbackModel(first, second)).run("hi")


@scenario
async def e_after_model_request_valueerror(env):
    """An after_model_request hook raises ValueError: the response was there and is lost."""

    async def check(ctx: RunContext, *, request_context, response: ModelResponse) -> ModelResponse:
        raise ValueError("unacceptable response")

    return await agent("rude", capabilities=[Hooks(after_model_request=check)]).run("hi")


@scenario
async def e_before_model_request_error(env):
    """A before_model_request hook raises ValueError: the request never reaches the model."""

    async def check(ctx: RunContext, request_context):
        raise ValueError("unacceptable request")

    return await agent("never", capabilities=[Hooks(before_model_request=check)]).run("hi")


@scenario
async def e_after_model_request_changes_response(env):
    """An after_model_request hook replaces the text of the response."""

    async def change(ctx: RunContext, *, request_context, response: ModelResponse) -> ModelResponse:
        return dataclasses.replace(response, parts=[TextPart(content="censored")])

    return await agent("rude", capabilities=[Hooks(after_model_request=change)]).run("hi")


@scenario
async def e_content_filter(env):
    """finish_reason content_filter with no parts: ContentFilterError."""
    return await agent(response(finish="content_filter")).run("hi")


@scenario
async def e_content_filter_with_text(env):
    """finish_reason content_filter, but there is text: the run succeeds."""
    return await agent(response("partial answer", finish="content_filter")).run("hi")


@scenario
async def e_finish_length(env):
    """finish_reason length with text."""
    return await agent(response("cut off in the mid", finish="length")).run("hi")


@scenario
async def e_length_incomplete_tool_call(env):
    """finish_reason length in the middle of tool arguments: IncompleteToolCall."""
    step = response(call("stock_of", '{"item": "bo', "call_1"), finish="length")
    return await agent(step, tools=[stock_of]).run("stock?")


@scenario
async def e_empty_response(env):
    """The model answers with no parts at all, twice."""
    return await agent(response(), response()).run("hi")


@scenario
async def e_empty_then_text(env):
    """The model answers with no parts, then with text."""
    return await agent(response(), "12").run("hi")


@scenario
async def e_after_model_request_modelretry(env):
    """after_model_request hook raises ModelRetry on the first response."""

    async def check(ctx: RunContext, *, request_context, response: ModelResponse) -> ModelResponse:
        if response.parts[0].content == "rude":
            raise ModelRetry("too rude")
        return response

    return await agent("rude", "polite", capabilities=[Hooks(after_model_request=check)]).run("hi")


@scenario
async def e_fallback_model(env):
    """FallbackModel: first model 503, second answers."""
    first = Scripted(ModelHTTPError(503, "primary-1", None), name="primary-1", system="openai")
    second = Scripted("from secondary", name="secondary-1", system="anthropic")
    return await agent(FallbackModel(first, second)).run("hi")


@scenario(e2e=True)
async def e_model_http_error(env):
    """ModelHTTPError(500) raised by the model call."""
    error = ModelHTTPError(500, "gpt-4o", {"error": {"message": "upstream exploded"}})
    return await agent(Scripted(error, name="gpt-4o", system="openai")).run("hi")
