"""The scenarios: programs with scripted models, each with one thing to show. No network, no people, no keys.

A scenario is a function of an `Env`. It returns what its caller saw (an `AgentRunResult`, any value, or `Many` of them);
what it lets escape is recorded as `RAISED …`. Names keep the letter of their theme: a plain, b output, c tools, d errors
in tools and runs, e model errors, f control flow, g retries, h arguments, i nesting, j conversations, k streaming,
l cancellation, m concurrency, n values, o MCP, p limits, q output validation, r names, s prompts, t other spans, u spans
around the run, w wiring.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import decimal
import enum
import itertools
import sys
import uuid
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from pydantic_ai import (
    Agent,
    ApprovalRequired,
    BinaryContent,
    CallDeferred,
    CancellationToken,
    DeferredToolRequests,
    DeferredToolResults,
    DocumentUrl,
    ExternalToolset,
    FilePart,
    FunctionToolset,
    ImageUrl,
    ModelAPIError,
    ModelHTTPError,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelRetry,
    NativeOutput,
    PromptedOutput,
    RequestUsage,
    RunContext,
    SkipModelRequest,
    SkipToolExecution,
    SkipToolValidation,
    TextOutput,
    TextPart,
    ThinkingPart,
    Tool,
    ToolApproved,
    ToolCallPart,
    ToolDefinition,
    ToolDenied,
    ToolFailed,
    ToolOutput,
    ToolReturn,
    ToolReturnPart,
    UsageLimits,
    UserPromptPart,
)
from pydantic_ai.capabilities import Hooks
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel

MODULE = sys.modules[__name__]


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


class Quote(BaseModel):
    item: str
    price: int


class SupplierDown(Exception):
    pass


def stock_of(item: str) -> int:
    """Units on hand."""
    return 12


def price_of(item: str) -> float:
    """Unit price."""
    return 3.5


STOCK = call("stock_of", {"item": "bolt"}, "call_1")
STOCK_AGAIN = call("stock_of", {"item": "bolt"}, "call_2")


# ---------------------------------------------------------------------------
# d — errors in tools and runs
# ---------------------------------------------------------------------------


def failing_tool(error: Any, **more: Any) -> Agent:
    one = agent([STOCK], "12", **more)

    @one.tool_plain
    def stock_of(item: str) -> int:
        """Units on hand."""
        raise error

    return one


@scenario
async def d_tool_valueerror(env):
    """ValueError in a tool, caught by nobody."""
    return await failing_tool(ValueError("warehouse 'north' is unreachable")).run("stock?")


@scenario
async def d_tool_valueerror_empty(env):
    """ValueError with no message in a tool."""
    return await failing_tool(ValueError()).run("stock?")


@scenario
async def d_tool_valueerror_class(env):
    """A tool raises an exception class instead of an instance."""
    return await failing_tool(ValueError).run("stock?")


@scenario
async def d_tool_keyerror(env):
    """KeyError in a tool: str() of it is the repr of the key."""
    return await failing_tool(KeyError("bolt")).run("stock?")


@scenario
async def d_tool_exception_group(env):
    """A tool raises an ExceptionGroup."""
    return await failing_tool(ExceptionGroup("two shelves", [ValueError("left"), KeyError("right")])).run("stock?")


@scenario
async def d_tool_note_and_cause(env):
    """OSError with errno, a cause and a note."""

    one = agent([STOCK], "12")

    @one.tool_plain
    def stock_of(item: str) -> int:
        try:
            {}["shelf"]
        except KeyError as error:
            problem = FileNotFoundError(2, "No such file or directory", "/srv/stock.csv")
            problem.add_note("restart the shelf")
            raise problem from error

    return await one.run("stock?")


@scenario
async def d_tool_multiline_message(env):
    """An exception message of several lines with quotes, unicode and an ANSI escape."""
    return await failing_tool(RuntimeError('line one\n"quoted" ünïcode 🔩\n\x1b[31mred\x1b[0m\ttab')).run("stock?")


@scenario
async def d_tool_long_message(env):
    """An exception message of 20 000 characters."""
    return await failing_tool(ValueError("x" * 20_000)).run("stock?")


@scenario
async def d_sticky_reported_error(env):
    """A recovered ModelRetry early in the run, later a ValueError in an output validator: no error event at all."""
    one = agent([STOCK], [STOCK_AGAIN], "12")
    calls = itertools.count()

    @one.tool_plain
    def stock_of(item: str) -> int:
        if next(calls) == 0:
            raise ModelRetry("ask again")
        return 12

    @one.output_validator
    def check(value: str) -> str:
        raise ValueError("the answer is not acceptable")

    return await one.run("stock?")


@scenario
async def d_output_validator_valueerror(env):
    """ValueError in an output validator with no failed leaf before it: an error event."""
    one = agent("12")

    @one.output_validator
    def check(value: str) -> str:
        raise ValueError("the answer is not acceptable")

    return await one.run("stock?")


@scenario
async def d_output_validator_empty_error(env):
    """An exception without a message in an output validator: an error event with an empty message."""
    one = agent("12")

    @one.output_validator
    def check(value: str) -> str:
        raise SupplierDown

    return await one.run("stock?")


@scenario
async def d_instructions_error(env):
    """The instructions function raises before the first model request."""
    one = agent("12")

    @one.instructions
    def about() -> str:
        raise LookupError("no instructions today")

    return await one.run("stock?")


@scenario
async def d_system_prompt_error(env):
    """The system prompt function raises before the first model request, with an empty message."""
    one = agent("12")

    @one.system_prompt
    def about() -> str:
        raise LookupError

    return await one.run("stock?")


@scenario
async def d_prepare_tools_error(env):
    """A tool's prepare function raises."""

    async def prepare(ctx: RunContext, definition: ToolDefinition) -> ToolDefinition:
        raise RuntimeError("cannot prepare")

    return await agent("12", tools=[Tool(stock_of, prepare=prepare)]).run("stock?")


@scenario
async def d_systemexit_in_tool(env):
    """SystemExit(3) in a tool."""
    return await failing_tool(SystemExit(3)).run("stock?")


@scenario
async def d_keyboard_interrupt_in_tool(env):
    """KeyboardInterrupt in a tool; the event loop is torn down by it."""
    return await failing_tool(KeyboardInterrupt()).run("stock?")


@scenario
async def d_systemexit_in_output_validator(env):
    """SystemExit in an output validator: no leaf is open."""
    one = agent("12")

    @one.output_validator
    def check(value: str) -> str:
        raise SystemExit("bye")

    return await one.run("stock?")


@scenario
async def d_tool_cancelled_error(env):
    """A tool raises asyncio.CancelledError of its own accord."""
    return await failing_tool(asyncio.CancelledError("tool gave up")).run("stock?")


@scenario
async def d_run_error_recovered(env):
    """A tool fails and on_run_error replaces the failure by a result."""
    from pydantic_ai import AgentRunResult

    async def recover(ctx: RunContext, *, error: BaseException) -> AgentRunResult:
        return AgentRunResult(output="recovered")

    return await failing_tool(ValueError("boom"), capabilities=[Hooks(run_error=recover)]).run("stock?")


@scenario
async def d_run_error_replaced(env):
    """A tool fails with ValueError and on_run_error raises another error."""

    async def replace(ctx: RunContext, *, error: BaseException):
        raise SupplierDown("translated") from error

    return await failing_tool(ValueError("boom"), capabilities=[Hooks(run_error=replace)]).run("stock?")


@scenario
async def d_run_error_recovered_no_leaf(env):
    """An output validator raises, on_run_error gives a result: no leaf ever failed."""
    from pydantic_ai import AgentRunResult

    async def recover(ctx: RunContext, *, error: BaseException) -> AgentRunResult:
        return AgentRunResult(output="recovered")

    one = agent("12", capabilities=[Hooks(run_error=recover)])

    @one.output_validator
    def check(value: str) -> str:
        raise ValueError("no")

    return await one.run("stock?")


@scenario
async def d_before_run_error(env):
    """A before_run hook raises: no model request at all."""

    async def stop(ctx: RunContext) -> None:
        raise PermissionError("not on Sundays")

    return await agent("12", capabilities=[Hooks(before_run=stop)]).run("stock?")


@scenario
async def d_after_run_error(env):
    """An after_run hook raises when the answer is already there."""

    async def stop(ctx: RunContext, *, result):
        raise RuntimeError("after the fact")

    return await agent("12", capabilities=[Hooks(after_run=stop)]).run("stock?")


@scenario
async def d_after_run_changes_output(env):
    """An after_run hook replaces the output."""

    async def change(ctx: RunContext, *, result):
        return dataclasses.replace(result, output="changed by a hook")

    return await agent("12", capabilities=[Hooks(after_run=change)]).run("stock?")


@scenario(e2e=True)
async def d_two_tools_fail(env):
    """Two parallel tools raise; the first failure wins and the other is cancelled or late."""
    one = agent([call("left", {}, "call_1"), call("right", {}, "call_2")], "12")

    @one.tool_plain
    async def left() -> int:
        await asyncio.sleep(0.02)
        raise ValueError("left shelf")

    @one.tool_plain
    async def right() -> int:
        await asyncio.sleep(0.02)
        raise KeyError("right shelf")

    return await one.run("stock?")


@scenario
async def d_parallel_several_failures(env):
    """Four parallel tools: one ok, one ModelRetry, one ToolFailed, one invalid arguments; the run recovers."""
    one = agent(
        [call("good", {}, "call_1"), call("retry", {}, "call_2"), call("failed", {}, "call_3"), call("typed", {"n": "x"}, "call_4")],
        "partly",
    )

    @one.tool_plain
    def good() -> str:
        return "fine"

    @one.tool_plain
    def retry() -> str:
        raise ModelRetry("again please")

    @one.tool_plain
    def failed() -> str:
        raise ToolFailed("broken for good")

    @one.tool_plain
    def typed(n: int) -> int:
        return n

    return await one.run("go")


# ---------------------------------------------------------------------------
# e — model errors
# ---------------------------------------------------------------------------


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


# ---------------------------------------------------------------------------
# l — cancellation
# ---------------------------------------------------------------------------


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


# ---------------------------------------------------------------------------
# f — control flow: deferral, approval, skips
# ---------------------------------------------------------------------------


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


@scenario
async def f_requires_approval_approved(env):
    """requires_approval=True: no tool span before the approval; resumed with approval."""
    one = order_agent([ORDER], "order placed")
    first = await one.run("order 5 bolts")
    second = await one.run(
        message_history=first.all_messages(), deferred_tool_results=DeferredToolResults(approvals={"call_po": True})
    )
    return Many([first, second])


@scenario(e2e=True)
async def f_requires_approval_denied(env):
    """requires_approval=True, denied with a message: the tool never runs."""
    one = order_agent([ORDER], "not ordered")
    first = await one.run("order 5 bolts")
    second = await one.run(
        message_history=first.all_messages(),
        deferred_tool_results=DeferredToolResults(approvals={"call_po": ToolDenied("too expensive")}),
    )
    return Many([first, second])


@scenario
async def f_requires_approval_override_args(env):
    """Approved with override_args: the tool runs with other arguments than the model's."""
    one = order_agent([ORDER], "order placed")
    first = await one.run("order 5 bolts")
    second = await one.run(
        message_history=first.all_messages(),
        deferred_tool_results=DeferredToolResults(approvals={"call_po": ToolApproved(override_args={"item": "bolt", "qty": 2})}),
    )
    return Many([first, second])


@scenario
async def f_requires_approval_with_prompt(env):
    """Resumed with approval AND a new user prompt."""
    one = order_agent([ORDER], "order placed")
    first = await one.run("order 5 bolts")
    second = await one.run(
        "and be quick",
        message_history=first.all_messages(),
        deferred_tool_results=DeferredToolResults(approvals={"call_po": True}),
    )
    return Many([first, second])


@scenario
async def f_approved_tool_fails(env):
    """Resumed with approval; the approved tool raises ValueError."""
    one = agent([ORDER], "order placed", output_type=[str, DeferredToolRequests])

    @one.tool_plain(requires_approval=True)
    def place_order(item: str, qty: int) -> str:
        raise ValueError("supplier closed")

    first = await one.run("order 5 bolts")
    second = await caught(
        one.run(message_history=first.all_messages(), deferred_tool_results=DeferredToolResults(approvals={"call_po": True}))
    )
    return Many([first, second])


@scenario
async def f_two_approvals(env):
    """Two calls need approval, one is approved and one denied; a third runs at once."""
    one = agent([ORDER, call("place_order", {"item": "nut", "qty": 1}, "call_po2"), STOCK], "half", output_type=[str, DeferredToolRequests], tools=[stock_of])

    @one.tool_plain(requires_approval=True)
    def place_order(item: str, qty: int) -> str:
        return f"ordered {qty} {item}"

    first = await one.run("order")
    second = await one.run(
        message_history=first.all_messages(),
        deferred_tool_results=DeferredToolResults(approvals={"call_po": True, "call_po2": False}),
    )
    return Many([first, second])


def _defer() -> None:
    raise CallDeferred(metadata={"ticket": "T-1"})


def _approve() -> None:
    raise ApprovalRequired(metadata={"reason": "qty>3"})


@scenario
async def f_call_deferred_no_output_type(env):
    """CallDeferred, but DeferredToolRequests is no output type: UserError."""
    return await order_agent([ORDER], raise_=_defer, output=str).run("order 5 bolts")


@scenario
async def f_approval_no_output_type(env):
    """ApprovalRequired, but DeferredToolRequests is no output type: UserError."""
    return await order_agent([ORDER], raise_=_approve, output=str).run("order 5 bolts")


@scenario
async def f_requires_approval_no_output_type(env):
    """requires_approval=True, but DeferredToolRequests is no output type."""
    return await order_agent([ORDER], output=str).run("order 5 bolts")


@scenario
async def f_call_deferred_no_metadata(env):
    """CallDeferred without metadata, resumed with a result of the kind ModelRetry and then a value."""

    def defer() -> None:
        raise CallDeferred

    one = order_agent([ORDER], [call("place_order", {"item": "bolt", "qty": 4}, "call_po2")], "order placed", raise_=defer)
    first = await one.run("order 5 bolts")
    second = await one.run(
        message_history=first.all_messages(), deferred_tool_results=DeferredToolResults(calls={"call_po": ModelRetry("less, please")})
    )
    third = await one.run(
        message_history=second.all_messages(), deferred_tool_results=DeferredToolResults(calls={"call_po2": {"id": 7}})
    )
    return Many([first, second, third])


@scenario
async def f_external_tool(env):
    """ExternalToolset: the call ends the run as a deferral and is resumed with its result."""
    outside = ExternalToolset([ToolDefinition(name="fetch", parameters_json_schema={"type": "object", "properties": {"url": {"type": "string"}}})])
    one = agent([call("fetch", {"url": "https://example.com"}, "call_f")], "fetched", output_type=[str, DeferredToolRequests], toolsets=[outside])
    first = await one.run("fetch it")
    second = await one.run(message_history=first.all_messages(), deferred_tool_results=DeferredToolResults(calls={"call_f": "<html>"}))
    return Many([first, second])


@scenario
async def f_deferred_handled_inline(env):
    """A deferred_tool_calls hook approves inline: one run, no pause."""

    async def handle(ctx: RunContext, *, requests: DeferredToolRequests) -> DeferredToolResults:
        return requests.build_results(approve_all=True) if hasattr(requests, "build_results") else DeferredToolResults(
            approvals={one.tool_call_id: True for one in requests.approvals}
        )

    return await order_agent([ORDER], "order placed", capabilities=[Hooks(deferred_tool_calls=handle)]).run("order 5 bolts")


@scenario
async def f_approval_required_inline_raise(env):
    """ApprovalRequired raised in the tool and approved inline by a hook: two tool spans with one call id."""

    async def handle(ctx: RunContext, *, requests: DeferredToolRequests) -> DeferredToolResults:
        return DeferredToolResults(approvals={one.tool_call_id: True for one in requests.approvals})

    return await order_agent([ORDER], "order placed", raise_=_approve, capabilities=[Hooks(deferred_tool_calls=handle)]).run("order 5 bolts")


@scenario
async def f_skip_tool_validation(env):
    """A before_tool_validate hook raises SkipToolValidation with other arguments."""

    async def skip(ctx: RunContext, *, call, tool_def, args):
        raise SkipToolValidation({"item": "nut"})

    return await agent([STOCK], "12", tools=[stock_of], capabilities=[Hooks(before_tool_validate=skip)]).run("stock?")


@scenario
async def f_skip_tool_execution_none(env):
    """SkipToolExecution(None)."""

    async def skip(ctx: RunContext, *, call, tool_def, args):
        raise SkipToolExecution(None)

    return await agent([STOCK], "12", tools=[stock_of], capabilities=[Hooks(before_tool_execute=skip)]).run("stock?")


@scenario
async def f_skip_model_request_with_tool(env):
    """The first request is skipped with a tool call, the second one goes to the model."""
    skipped = itertools.count()

    async def skip(ctx: RunContext, request_context):
        if next(skipped) == 0:
            raise SkipModelRequest(response(STOCK))
        return request_context

    return await agent("12", tools=[stock_of], capabilities=[Hooks(before_model_request=skip)]).run("stock?")


@scenario
async def f_skip_model_request_wrapped(env):
    """A wrapping model_request hook returns a response without calling its handler."""

    async def wrap(ctx: RunContext, *, request_context, handler) -> ModelResponse:
        return response("short cut")

    return await agent("never", capabilities=[Hooks(model_request=wrap)]).run("hi")


@scenario
async def f_wrap_tool_without_handler(env):
    """A wrapping tool_execute hook returns a value without calling its handler."""

    async def wrap(ctx: RunContext, *, call, tool_def, args, handler):
        return 99

    return await agent([STOCK], "99", tools=[stock_of], capabilities=[Hooks(tool_execute=wrap)]).run("stock?")


@scenario
async def f_hooks_change_args_and_result(env):
    """before_tool_execute changes the arguments, after_tool_execute the result."""

    async def before(ctx: RunContext, *, call, tool_def, args):
        return {**args, "item": "nut"}

    async def after(ctx: RunContext, *, call, tool_def, args, result):
        return {"was": result}

    return await agent(
        [STOCK], "12", tools=[stock_of], capabilities=[Hooks(before_tool_execute=before, after_tool_execute=after)]
    ).run("stock?")


# ---------------------------------------------------------------------------
# b — outputs
# ---------------------------------------------------------------------------

BAD_QUOTE = call("final_result", {"item": "bolt", "price": "expensive"}, "call_fr0")
GOOD_QUOTE = call("final_result", {"item": "bolt", "price": 3}, "call_fr")


@scenario
async def b_output_tool_bad_args(env):
    """The OUTPUT tool's arguments fail validation once, then pass."""
    return await agent([BAD_QUOTE], [GOOD_QUOTE], output_type=Quote).run("quote bolt")


@scenario
async def b_output_tool_not_json(env):
    """The OUTPUT tool's arguments are not JSON, then pass."""
    return await agent([call("final_result", '{"item": ', "call_fr0")], [GOOD_QUOTE], output_type=Quote).run("quote bolt")


@scenario
async def b_output_tool_retries_exhausted(env):
    """The OUTPUT tool's arguments fail validation until the retries are exhausted."""
    return await agent([BAD_QUOTE], output_type=Quote).run("quote bolt")


@scenario(e2e=True)
async def b_output_tool_and_function_bad_args(env):
    """A function tool and the output tool fail validation in one run, with the same argument names."""
    one = agent([call("quote", {"item": "bolt", "price": "x"}, "call_1"), BAD_QUOTE], [GOOD_QUOTE], output_type=Quote)

    @one.tool_plain
    def quote(item: str, price: int) -> str:
        return f"{item} {price}"

    return await one.run("quote bolt")


@scenario
async def b_output_tool_text_instead(env):
    """The model answers with text where an output tool is due, then calls it."""
    return await agent("three dollars", [GOOD_QUOTE], output_type=Quote).run("quote bolt")


@scenario
async def b_output_tool_and_function_tool(env):
    """The output tool and a function tool in one response: end_strategy graceful."""
    return await agent([STOCK, GOOD_QUOTE], output_type=Quote, tools=[stock_of]).run("quote bolt")


@scenario
async def b_output_tool_early(env):
    """The output tool first, then a function tool, end_strategy early: the tool is not executed."""
    return await agent([GOOD_QUOTE, STOCK], output_type=Quote, tools=[stock_of], end_strategy="early").run("quote bolt")


@scenario
async def b_output_tool_exhaustive(env):
    """The output tool twice and a function tool, end_strategy exhaustive."""
    return await agent(
        [GOOD_QUOTE, STOCK, call("final_result", {"item": "nut", "price": 1}, "call_fr2")],
        output_type=Quote, tools=[stock_of], end_strategy="exhaustive",
    ).run("quote bolt")


@scenario
async def b_output_function_modelretry(env):
    """An output function raises ModelRetry once."""
    tries = itertools.count()

    def finish(item: str, price: int) -> str:
        if next(tries) == 0:
            raise ModelRetry("price too low")
        return f"{item}@{price}"

    return await agent([GOOD_QUOTE], [call("final_result", {"item": "bolt", "price": 9}, "call_fr2")], output_type=finish).run("quote")


@scenario
async def b_output_function_valueerror(env):
    """An output function raises ValueError: an output-function span with ERROR, an error event."""

    def finish(item: str, price: int) -> str:
        raise ValueError("cannot finish")

    return await agent([GOOD_QUOTE], output_type=finish).run("quote")


@scenario
async def b_output_function_bad_args(env):
    """An output function's arguments fail validation once."""

    def finish(item: str, price: int) -> str:
        return f"{item}@{price}"

    return await agent([BAD_QUOTE], [GOOD_QUOTE], output_type=finish).run("quote")


@scenario
async def b_output_function_named(env):
    """Two output functions as named output tools and a plain model as a third."""

    def sell(item: str, price: int) -> str:
        return f"sold {item}"

    def keep(item: str) -> str:
        return f"kept {item}"

    one = agent(
        [call("keep_it", {"item": "bolt"}, "call_k")],
        output_type=[ToolOutput(sell, name="sell_it"), ToolOutput(keep, name="keep_it"), ToolOutput(Quote, name="quote_it")],
    )
    return await one.run("what now?")


@scenario(e2e=True)
async def b_output_function_calls_agent(env):
    """An output function runs another agent: the nested run hangs under the output-function span."""
    closer = agent("closed", name="closer")

    async def finish(item: str, price: int) -> str:
        return (await closer.run(f"close {item}")).output

    return await agent([GOOD_QUOTE], output_type=finish).run("quote")


@scenario
async def b_output_function_calls_agent_fails(env):
    """An output function runs another agent, whose model fails."""
    closer = agent(ModelHTTPError(500, "m", "dead"), name="closer")

    async def finish(item: str, price: int) -> str:
        return (await closer.run(f"close {item}")).output

    return await agent([GOOD_QUOTE], output_type=finish).run("quote")


@scenario
async def b_text_output(env):
    """TextOutput(function): an output-function span without a call id."""

    def shout(text: str) -> str:
        return text.upper()

    return await agent("twelve", output_type=TextOutput(shout)).run("stock?")


@scenario
async def b_text_output_modelretry(env):
    """TextOutput(function) raises ModelRetry once."""
    tries = itertools.count()

    def shout(text: str) -> str:
        if next(tries) == 0:
            raise ModelRetry("louder")
        return text.upper()

    return await agent("twelve", "thirteen", output_type=TextOutput(shout)).run("stock?")


@scenario
async def b_text_output_typed(env):
    """TextOutput(function) gives a list."""

    def split(text: str) -> list[str]:
        return text.split()

    return await agent("one two three", output_type=TextOutput(split)).run("count")


@scenario
async def b_native_output(env):
    """NativeOutput: JSON text is the answer."""
    return await agent('{"item": "bolt", "price": 3}', output_type=NativeOutput(Quote)).run("quote bolt")


@scenario
async def b_native_output_invalid(env):
    """NativeOutput: the JSON text is invalid once."""
    return await agent('{"item": "bolt"}', '{"item": "bolt", "price": 3}', output_type=NativeOutput(Quote)).run("quote bolt")


@scenario
async def b_prompted_output(env):
    """PromptedOutput: the schema goes into the instructions, JSON text is the answer."""
    return await agent('{"item": "bolt", "price": 3}', output_type=PromptedOutput(Quote), instructions="Be terse.").run("quote bolt")


@scenario
async def b_prompted_output_exhausted(env):
    """PromptedOutput: never JSON."""
    return await agent("no JSON", output_type=PromptedOutput(Quote)).run("quote bolt")


@scenario
async def b_native_output_function(env):
    """NativeOutput with an output function."""

    def finish(item: str, price: int) -> str:
        return f"{item}@{price}"

    return await agent('{"item": "bolt", "price": 3}', output_type=NativeOutput(finish)).run("quote")


def output_of(kind: Any, value: Any) -> Agent:
    return agent([call("final_result", value, "call_fr")], output_type=kind)


@scenario
async def b_outputs_scalar(env):
    """Outputs that are int, bool, float, list, tuple, dict, None-able, enum, date: str() of each is the summary."""

    class Colour(enum.Enum):
        RED = "red"

    class Shelf(TypedDict):
        row: int
        label: str

    @dataclasses.dataclass
    class Bin:
        row: int
        items: list[str]

    cases = [
        (int, {"response": 7}),
        (bool, {"response": True}),
        (float, {"response": 2.0}),
        (list[str], {"response": ["a", "b"]}),
        (tuple[int, str], {"response": [1, "x"]}),
        (dict[str, int], {"response": {"a": 1}}),
        (Colour, {"response": "red"}),
        (dt.date, {"response": "2026-01-02"}),
        (decimal.Decimal, {"response": "1.50"}),
        (Shelf, {"row": 1, "label": "top"}),
        (Bin, {"row": 1, "items": ["bolt"]}),
    ]
    seen = Many()
    for kind, args in cases:
        seen.append(await caught(output_of(kind, args).run("value?")))
    return seen


@scenario
async def b_output_str_like_json(env):
    """Text outputs that look like JSON: "7", "true", '{"a": 1}', ''."""
    seen = Many()
    for text in ("7", "true", "null", '{"a": 1}', "[1, 2]", " padded ", "two\nlines"):
        seen.append(await caught(agent(text).run("say")))
    return seen


@scenario
async def b_output_union(env):
    """output_type=[Quote, str]: text is fine, and so is the tool."""
    return Many([
        await agent("no idea", output_type=[Quote, str]).run("quote bolt"),
        await agent([call("final_result", {"item": "bolt", "price": 3}, "call_fr")], output_type=[Quote, str]).run("quote bolt"),
    ])


@scenario
async def b_output_long(env):
    """A text output of 9 000 characters: the summary is cut."""
    return f"OK {len((await agent('y' * 9000).run('say')).output)} characters"


@scenario
async def b_output_model_nested(env):
    """A nested output model."""

    class Line(BaseModel):
        quote: Quote
        tags: list[str] = Field(default_factory=list)

    class Offer(BaseModel):
        lines: list[Line]
        note: str | None = None

    return await output_of(Offer, {"lines": [{"quote": {"item": "bolt", "price": 3}, "tags": ["steel"]}]}).run("offer")


@scenario
async def b_thinking_only(env):
    """The response holds thinking and no text, then text."""
    return await agent([ThinkingPart(content="hmm")], [ThinkingPart(content="aha"), "12"]).run("stock?")


@scenario
async def b_text_and_tool(env):
    """Text and tool call in one response, then text."""
    return await agent(["Let me look.", STOCK], "12 bolts", tools=[stock_of]).run("stock?")


# ---------------------------------------------------------------------------
# q — output validation, g — retries
# ---------------------------------------------------------------------------


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


# ---------------------------------------------------------------------------
# h — arguments
# ---------------------------------------------------------------------------


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


# ---------------------------------------------------------------------------
# n — values
# ---------------------------------------------------------------------------


@dataclasses.dataclass
class Shelf:
    row: int
    items: list[str]


class Colour(enum.Enum):
    RED = "red"


def deep_value(levels: int) -> Any:
    value: Any = "bottom"
    for level in range(levels):
        value = {f"l{level}": value} if level % 2 else [value]
    return value


VALUES: dict[str, Callable[[], Any]] = {
    "int": lambda: 42,
    "int_text": lambda: "42",
    "negative_text": lambda: "-1.50",
    "true": lambda: True,
    "true_text": lambda: "true",
    "none": lambda: None,
    "null_text": lambda: "null",
    "float_whole": lambda: 2.0,
    "float_exponent": lambda: 1e300,
    "big_int": lambda: 2**70,
    "empty_text": lambda: "",
    "empty_list": lambda: [],
    "empty_dict": lambda: {},
    "json_text": lambda: '{"a": 1}',
    "json_text_list": lambda: "[1, 2]",
    "quoted_text": lambda: '"quoted"',
    "padded_text": lambda: "  12  ",
    "lines": lambda: "one\ntwo\r\nthree\x00four",
    "unicode": lambda: "ünïcode 🔩 한국어",
    "unicode_list": lambda: ["ünï", "🔩"],
    "bytes": lambda: b"raw \xff bytes",
    "datetime": lambda: dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc),
    "date": lambda: dt.date(2026, 1, 2),
    "timedelta": lambda: dt.timedelta(minutes=90),
    "uuid": lambda: uuid.UUID("12345678-1234-5678-1234-567812345678"),
    "decimal": lambda: decimal.Decimal("1.50"),
    "enum": lambda: Colour.RED,
    "tuple": lambda: (1, "a"),
    "set": lambda: {7},
    "dataclass": lambda: Shelf(1, ["bolt"]),
    "model": lambda: Quote(item="bolt", price=3),
    "model_list": lambda: [Quote(item="bolt", price=3), Quote(item="nut", price=1)],
    "nested_mixed": lambda: {"when": dt.date(2026, 1, 2), "shelf": Shelf(1, []), "q": Quote(item="b", price=1), "none": None},
    "int_keys": lambda: {1: "one", 2: "two"},
    "nan": lambda: float("nan"),
    "infinity_list": lambda: [float("inf"), float("-inf"), 1.5],
    "deep_6": lambda: deep_value(6),
    "deep_7": lambda: deep_value(7),
    "deep_12": lambda: deep_value(12),
    "list_100": lambda: list(range(100)),
    "list_101": lambda: list(range(101)),
    "dict_150": lambda: {f"k{n:03}": n for n in range(150)},
    "text_8192": lambda: "x" * 8192,
    "text_8193": lambda: "x" * 8193,
    "text_9000_emoji": lambda: "🔩" * 9000,
    "list_of_long": lambda: ["x" * 9000, "short"],
    "large_list": lambda: [{"n": n, "text": "y" * 200} for n in range(90)],
    "html": lambda: "<b>&amp;</b>",
    "binary": lambda: BinaryContent(data=b"\x89PNG\r\n", media_type="image/png"),
    "image_url": lambda: ImageUrl(url="https://example.com/bolt.png"),
    "text_and_image": lambda: ["a bolt", BinaryContent(data=b"\x89PNG\r\n", media_type="image/png")],
}


@scenario(e2e=True)
async def n_values(env):
    """One tool returns every kind of value in turn, each in a request of its own."""
    names = list(VALUES)
    one = agent(*[[call("value", {"name": name}, f"call_{name}")] for name in names], "done")

    @one.tool_plain
    def value(name: str) -> Any:
        return VALUES[name]()

    return await one.run("values", usage_limits=UsageLimits(request_limit=None))


@scenario
async def n_values_parallel(env):
    """One tool returns every kind of value in one response, in parallel."""
    one = agent([call("value", {"name": name}, f"call_{name}") for name in VALUES], "done")

    @one.tool_plain
    async def value(name: str) -> Any:
        return VALUES[name]()

    return await one.run("values")


@scenario
async def n_tool_return(env):
    """ToolReturn with return_value, content and metadata."""
    one = agent([call("look", {}, "call_1")], "seen")

    @one.tool_plain
    def look() -> ToolReturn:
        return ToolReturn(
            return_value={"seen": 3},
            content=["Here it is:", BinaryContent(data=b"\x89PNG", media_type="image/png")],
            metadata={"took": "1 s"},
        )

    return await one.run("look")


@scenario
async def n_tool_return_variants(env):
    """ToolReturn of text, of None, of a model, and with text content."""
    makers = [
        lambda: ToolReturn("plain"),
        lambda: ToolReturn(None),
        lambda: ToolReturn(Quote(item="bolt", price=3), metadata=None),
        lambda: ToolReturn("12", content="and a word more"),
        lambda: ToolReturn([1, 2], metadata={"n": 2}),
    ]
    one = agent([call("look", {"n": n}, f"call_{n}") for n in range(len(makers))], "seen")

    @one.tool_plain
    async def look(n: int) -> Any:
        return makers[n]()

    return await one.run("look")


@scenario
async def n_surrogates(env):
    """Lone surrogates in a tool result and in a dict key."""
    one = agent([call("value", {"n": 0}, "call_1"), call("value", {"n": 1}, "call_2")], "done")

    @one.tool_plain
    async def value(n: int) -> Any:
        return ["bad \udce9 text", {"p\udce9th": 1}][n]

    return await one.run("values")


@scenario
async def n_unserialisable(env):
    """A tool returns an object that has no JSON form, and a circular list."""

    class Thing:
        def __repr__(self) -> str:
            return "Thing(7)"

    one = agent([call("value", {}, "call_1")], "done")

    @one.tool_plain
    def value() -> Any:
        return {"thing": Thing(), "complex": 1 + 2j}

    return await one.run("values")


@scenario
async def n_no_arguments(env):
    """A tool without parameters that returns nothing."""
    one = agent([call("ping", {}, "call_1")], "pong")

    @one.tool_plain
    def ping() -> None:
        """Ping."""

    return await one.run("ping")


@scenario
async def n_large_prompt_and_many_messages(env):
    """A prompt of 20 000 characters and 15 tool rounds: more than 20 messages."""
    steps = [[call("stock_of", {"item": f"i{n}"}, f"call_{n}")] for n in range(15)]
    return await agent(*steps, "done", tools=[stock_of]).run("p" * 20_000)


@scenario
async def n_secret_shapes(env):
    """Key names and token shapes that are redacted, in arguments and results (all invented)."""
    one = agent([call("login", {"password": "hunter2-hunter2", "user": "robot"}, "call_1")], "in")

    @one.tool_plain
    def login(password: str, user: str) -> dict:
        return {"token": "tok_" + "a1B2" * 8, "note": "Authorization: Bearer " + "abc123DEF456" * 3, "n": 1}

    return await one.run("log in, password=correct-horse-battery")


# ---------------------------------------------------------------------------
# p — limits
# ---------------------------------------------------------------------------


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


# ---------------------------------------------------------------------------
# a — plain runs: usage, settings, metadata
# ---------------------------------------------------------------------------


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


# ---------------------------------------------------------------------------
# i — nesting
# ---------------------------------------------------------------------------


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


# ---------------------------------------------------------------------------
# j — conversations
# ---------------------------------------------------------------------------


@scenario(e2e=True)
async def j_history_three_runs(env):
    """Three runs with message_history, a system prompt and instructions."""
    one = agent("one", [STOCK], "two", "three", system_prompt="You are the bot.", instructions="Be brief.", tools=[stock_of])
    first = await one.run("first?")
    second = await one.run("second?", message_history=first.all_messages())
    third = await one.run("third?", message_history=second.all_messages())
    return Many([first, second, third])


@scenario
async def j_history_other_agent(env):
    """A second agent with another system prompt continues the first one's history."""
    first = await agent("one", system_prompt="You are one.").run("first?")
    return Many([first, await agent("two", name="second", system_prompt="You are two.").run("second?", message_history=first.all_messages())])


@scenario
async def j_history_no_prompt(env):
    """A run with history and without a prompt: the history ends in a response."""
    one = agent("one", "two")
    first = await one.run("first?")
    return Many([first, await caught(one.run(message_history=first.all_messages()))])


@scenario
async def j_history_ends_in_request(env):
    """A run without a prompt whose history ends in a user prompt."""
    history: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(content="asked before")])]
    return await agent("answered now").run(message_history=history)


@scenario
async def j_history_ends_in_tool_call(env):
    """A run without a prompt whose history ends in a tool call: the tool runs first."""
    history: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(content="stock?")]), response(STOCK)]
    return await agent("12", tools=[stock_of]).run(message_history=history)


@scenario
async def j_history_ends_in_tool_call_prompt(env):
    """A run with a prompt whose history ends in an unanswered tool call."""
    history: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(content="stock?")]), response(STOCK)]
    return await caught(agent("12", tools=[stock_of]).run("never mind", message_history=history))


@scenario
async def j_history_ends_in_tool_return(env):
    """A run without a prompt whose history ends in a tool return."""
    history: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart(content="stock?")]),
        response(STOCK),
        ModelRequest(parts=[ToolReturnPart(tool_name="stock_of", content=12, tool_call_id="call_1")]),
    ]
    return await agent("12", tools=[stock_of]).run(message_history=history)


@scenario
async def j_history_adjacent_requests(env):
    """A history of two user prompts in a row, then the run's own prompt."""
    history: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart(content="first")]),
        ModelRequest(parts=[UserPromptPart(content="second")]),
    ]
    return await agent("ok").run("third", message_history=history)


@scenario
async def j_history_same_prompt(env):
    """The run's prompt is the same text as the one of the history."""
    one = agent("one", "two")
    first = await one.run("again?")
    return Many([first, await one.run("again?", message_history=first.all_messages())])


@scenario
async def j_history_new_messages_only(env):
    """The second run gets new_messages() of the first, the third those of the second."""
    one = agent("one", "two", "three")
    first = await one.run("first?")
    second = await one.run("second?", message_history=first.new_messages())
    third = await one.run("third?", message_history=second.new_messages())
    return Many([first, second, third])


@scenario
async def j_history_trimmed(env):
    """A history processor keeps the last two messages only."""
    from pydantic_ai.capabilities import ProcessHistory

    one = agent("one", "two", "three", capabilities=[ProcessHistory(lambda messages: messages[-2:])])
    first = await one.run("first?")
    second = await one.run("second?", message_history=first.all_messages())
    third = await one.run("third?", message_history=second.all_messages())
    return Many([first, second, third])


@scenario
async def j_history_failed_then_again(env):
    """A failed run between two good ones of a conversation."""
    one = agent("one", ModelHTTPError(500, "m", None), "three")
    first = await one.run("first?")
    second = await caught(one.run("second?", message_history=first.all_messages()))
    third = await one.run("third?", message_history=first.all_messages())
    return Many([first, second, third])


@scenario
async def j_history_cancelled(env):
    """A run with history is cancelled in its first request."""
    one = agent("one", (5.0, "late"))
    first = await one.run("first?")
    try:
        second = await asyncio.wait_for(one.run("second?", message_history=first.all_messages()), 0.1)
    except asyncio.TimeoutError:
        second = "RAISED TimeoutError"
    return Many([first, second])


@scenario
async def j_gather_same_conversation(env):
    """Two concurrent runs in one conversation that use the same tool call id."""

    def by_history(messages, info):
        return response(call("slow", {}, "call_1")) if len(messages) == 1 else response("done")

    one = agent(by_history)

    @one.tool_plain
    async def slow() -> str:
        await asyncio.sleep(0.02)
        return "slept"

    return Many(await asyncio.gather(*(one.run(f"go {n}", conversation_id="chat-1") for n in range(2))))


# ---------------------------------------------------------------------------
# s — prompts and instructions
# ---------------------------------------------------------------------------


@scenario
async def s_prompt_list(env):
    """A list prompt: text, image URL, document URL, binary content."""
    return await agent("seen").run([
        "What is this?",
        ImageUrl(url="https://example.com/bolt.png"),
        DocumentUrl(url="https://example.com/spec.pdf"),
        BinaryContent(data=b"\x89PNG\r\n", media_type="image/png"),
        "And this?",
    ])


@scenario
async def s_prompt_list_one_text(env):
    """A list prompt with one text."""
    return await agent("seen").run(["only text"])


@scenario
async def s_prompt_list_two_texts(env):
    """A list prompt with two texts."""
    return await agent("seen").run(["first text", "second text"])


@scenario
async def s_prompt_image_only(env):
    """A list prompt without any text."""
    return await agent("seen").run([ImageUrl(url="https://example.com/bolt.png")])


@scenario
async def s_prompt_empty_list(env):
    """An empty list as the prompt."""
    return await caught(agent("seen").run([]))


@scenario
async def s_prompt_empty(env):
    """An empty prompt."""
    return await agent("what?").run("")


@scenario
async def s_prompt_blank(env):
    """A prompt of blanks."""
    return await agent("what?").run("  \n ")


@scenario
async def s_prompt_none(env):
    """No prompt at all, with instructions."""
    return await agent("hello", instructions="Greet.").run()


@scenario
async def s_prompt_none_nothing(env):
    """No prompt, no history, no instructions."""
    return await caught(agent("hello").run())


@scenario
async def s_prompt_none_system(env):
    """No prompt, with a system prompt."""
    return await caught(agent("hello", system_prompt="Greet.").run())


@scenario
async def s_prompt_text_content(env):
    """A list prompt with TextContent (text with metadata) and a CachePoint."""
    from pydantic_ai import CachePoint, TextContent

    return await agent("seen").run([TextContent(content="tagged text"), CachePoint(), "plain text"])


@scenario
async def s_system_prompts(env):
    """Two static system prompts, one dynamic one, then the prompt: system messages before the user's."""
    one = agent("12", system_prompt=("You are the bot.", "Answer in numbers."))

    @one.system_prompt(dynamic=True)
    def today() -> str:
        return "Today is Monday."

    first = await one.run("stock?")
    return Many([first, await one.run("again?", message_history=first.all_messages())])


@scenario
async def s_instructions_dynamic(env):
    """Instructions that change from request to request: variable_instructions."""
    one = agent([STOCK], "12", instructions="Be brief.", tools=[stock_of])
    count = itertools.count(1)

    @one.instructions
    def step() -> str:
        return f"This is request {next(count)}."

    return await one.run("stock?")


@scenario
async def s_instructions_per_run(env):
    """instructions= of the run on top of the agent's."""
    return await agent("12", instructions="Be brief.").run("stock?", instructions="Answer in French.")


@scenario
async def s_prompt_hook_changes(env):
    """A before_model_request hook changes the prompt in the request."""

    async def change(ctx: RunContext, request_context):
        request_context.messages = [ModelRequest(parts=[UserPromptPart(content="rewritten prompt")])]
        return request_context

    return await agent("12", capabilities=[Hooks(before_model_request=change)]).run("original prompt")


@scenario
async def s_enqueued_prompt(env):
    """A tool enqueues another user message for the next request."""
    one = agent([call("note", {}, "call_1")], "12")

    @one.tool
    def note(ctx: RunContext) -> str:
        ctx.enqueue("by the way, hurry")
        return "noted"

    return await one.run("stock?")


@scenario
async def s_thinking(env):
    """Thinking with a signature, then text; thinking and a tool call."""
    return await agent(
        [ThinkingPart(content="look it up", signature="sig"), STOCK], [ThinkingPart(content="", signature="sig2"), "12"], tools=[stock_of]
    ).run("stock?")


@scenario
async def s_file_output(env):
    """A response with a file and text."""
    return await agent([FilePart(content=BinaryContent(data=b"\x89PNG", media_type="image/png")), "drawn"]).run("draw")


@scenario
async def s_two_texts(env):
    """A response with two text parts, with an empty one between."""
    return await agent(["one ", "", "two"]).run("say")


@scenario
async def s_native_tools(env):
    """A provider's own tool: native_tools in the request, native call and return in the response."""
    from pydantic_ai import NativeToolCallPart, NativeToolReturnPart, WebSearchTool
    from pydantic_ai.capabilities import NativeTool

    step = response(
        NativeToolCallPart(tool_name="web_search", args={"query": "bolts"}, tool_call_id="srv_1", provider_name="scripted"),
        NativeToolReturnPart(tool_name="web_search", content=[{"title": "Bolts"}], tool_call_id="srv_1", provider_name="scripted"),
        "found it",
    )
    return await agent(step, capabilities=[NativeTool(WebSearchTool())]).run("search")


# ---------------------------------------------------------------------------
# r — names
# ---------------------------------------------------------------------------


@scenario
async def r_unnamed(env):
    """An agent without a name whose name cannot be inferred."""
    return await [Agent(Scripted("12"))][0].run("hi", infer_name=False)


@scenario
async def r_inferred_name(env):
    """An agent without a name: it becomes the variable's."""
    stock_keeper = Agent(Scripted("12"))
    return await stock_keeper.run("hi")


NAMES = [
    "two words", "  padded   inside  ", "Lagerhaus Süd 🔩", "倉庫", "crew-12345678-1234-5678-1234-567812345678-worker",
    "12345678-1234-5678-1234-567812345678", "deadbeefdeadbeef", "deadbeef", "123456789012345678", "task_42", "agent", "main", "",
    "n" * 64, "n" * 65, "n" * 200, "a/b:c.d", "UPPER", "tab\tname", "line\nname", "'quoted'", "worker-0123456789abcdef0123", "v2.1",
    "550E8400-E29B-41D4-A716-446655440000", "run:01a22d4d-471f-75ad-9f03-025bc47af399:x",
]


@scenario
async def r_names(env):
    """Agents of many names: spaces, unicode, ids, long, empty, reserved words."""
    return Many([await agent("ok", name=name).run("hi") for name in NAMES])


# ---------------------------------------------------------------------------
# k — streaming
# ---------------------------------------------------------------------------


def tool_delta(name: str | None = None, args: str | None = None, id: str | None = None, index: int = 0) -> dict:
    return {index: DeltaToolCall(name=name, json_args=args, tool_call_id=id)}


@scenario
async def k_stream_structured(env):
    """run_stream with a typed output in partial JSON."""
    one = Agent(streaming([tool_delta("final_result", '{"item": "bo', "call_fr"), tool_delta(args='lt", "price"'), tool_delta(args=": 3}")]), name="inventory", output_type=Quote)
    async with one.run_stream("quote bolt") as stream:
        partial = [str(one) async for one in stream.stream_output(debounce_by=None)]
    return f"OK {len(partial)} partial outputs"


@scenario(e2e=True)
async def k_stream_tool_then_text(env):
    """run_stream: a tool call in the first response, text in the second."""
    one = Agent(streaming([tool_delta("stock_of", '{"item": "bolt"}', "call_1")], ["12 ", "bolts"]), name="inventory", tools=[stock_of])
    async with one.run_stream("stock?") as stream:
        return f"OK {await stream.get_output()}"


@scenario
async def k_stream_broken(env):
    """The stream breaks mid-way with an API error."""
    one = Agent(streaming(["Hel", "lo ", ModelAPIError("stream-1", "connection reset")]), name="inventory")
    async with one.run_stream("hi") as stream:
        return f"OK {[text async for text in stream.stream_text(delta=True, debounce_by=None)]}"


@scenario
async def k_stream_broken_first(env):
    """The stream fails before its first chunk."""
    one = Agent(streaming([ModelHTTPError(500, "stream-1", None)]), name="inventory")
    async with one.run_stream("hi") as stream:
        return f"OK {await stream.get_output()}"


@scenario
async def k_stream_empty(env):
    """The stream ends without a chunk."""
    one = Agent(streaming([]), name="inventory")
    async with one.run_stream("hi") as stream:
        return f"OK {await stream.get_output()}"


@scenario
async def k_stream_aborted(env):
    """The caller leaves the loop after the first chunk and the block at once."""
    one = Agent(streaming(["Hel", 0.01, "lo ", 0.01, "world"]), name="inventory")
    async with one.run_stream("hi") as stream:
        async for text in stream.stream_text(delta=True, debounce_by=None):
            break
    return f"OK left after {text!r}"


@scenario
async def k_stream_caller_raises(env):
    """The caller's loop raises while it streams."""
    one = Agent(streaming(["Hel", 0.01, "lo ", 0.01, "world"]), name="inventory")
    async with one.run_stream("hi") as stream:
        async for _ in stream.stream_text(delta=True, debounce_by=None):
            raise ValueError("the reader broke")


@scenario
async def k_stream_cancelled(env):
    """wait_for elapses while the stream waits for its next chunk."""

    async def read() -> str:
        one = Agent(streaming(["Hel", 5.0, "lo"]), name="inventory")
        async with one.run_stream("hi") as stream:
            return "".join([text async for text in stream.stream_text(delta=True, debounce_by=None)])

    return await asyncio.wait_for(read(), 0.15)


@scenario
async def k_stream_unread(env):
    """run_stream whose output nobody reads."""
    one = Agent(streaming(["Hel", "lo ", "world"]), name="inventory")
    async with one.run_stream("hi"):
        pass
    return "OK never read"


@scenario
async def k_stream_thinking(env):
    """A stream of thinking, then text."""
    one = Agent(streaming([{0: DeltaThinkingPart(content="let me ")}, {0: DeltaThinkingPart(content="see")}, "12"]), name="inventory")
    async with one.run_stream("stock?") as stream:
        return f"OK {await stream.get_output()}"


@scenario
async def k_stream_events(env):
    """run_stream_events with a tool."""
    one = Agent(streaming([tool_delta("stock_of", '{"item": "bolt"}', "call_1")], ["12 ", "bolts"]), name="inventory", tools=[stock_of])
    async with one.run_stream_events("stock?") as events:
        kinds = [type(event).__name__ async for event in events]
    return f"OK {len(kinds)} events, last {kinds[-1]}"


@scenario
async def k_stream_events_aborted(env):
    """run_stream_events left after the tool call."""
    one = Agent(streaming([tool_delta("stock_of", '{"item": "bolt"}', "call_1")], ["12 ", 0.05, "bolts"]), name="inventory", tools=[stock_of])
    async with one.run_stream_events("stock?") as events:
        async for event in events:
            if type(event).__name__ == "FunctionToolCallEvent":
                break
    return "OK left"


@scenario
async def k_event_handler(env):
    """run with an event_stream_handler: the requests stream although the caller does not."""
    seen = []

    async def handle(ctx: RunContext, events):
        async for event in events:
            seen.append(type(event).__name__)

    one = Agent(streaming([tool_delta("stock_of", '{"item": "bolt"}', "call_1")], ["12"]), name="inventory", tools=[stock_of])
    result = await one.run("stock?", event_stream_handler=handle)
    return f"OK {result.output}, {len(seen)} events"


@scenario
async def k_stream_output_retry(env):
    """run_stream_events with a typed output that fails validation once."""
    one = Agent(
        streaming([tool_delta("final_result", '{"item": "bolt"}', "call_f0")], [tool_delta("final_result", '{"item": "bolt", "price": 3}', "call_fr")]),
        name="inventory", output_type=Quote,
    )
    async with one.run_stream_events("quote") as events:
        async for event in events:
            last = event
    return f"OK {last.result.output}"


@scenario
async def k_stream_validation_fails(env):
    """run_stream with a typed output that never validates."""
    one = Agent(streaming([tool_delta("final_result", '{"item": "bolt"}', "call_f0")]), name="inventory", output_type=Quote)
    async with one.run_stream("quote") as stream:
        return f"OK {await stream.get_output()}"


@scenario
async def k_stream_tool_fails(env):
    """run_stream: the tool of the first response raises ValueError."""
    one = Agent(streaming([tool_delta("boom", "{}", "call_1")], ["never"]), name="inventory")

    @one.tool_plain
    def boom() -> str:
        raise ValueError("boom")

    async with one.run_stream("go") as stream:
        return f"OK {await stream.get_output()}"


@scenario
def k_stream_sync(env):
    """run_stream_sync."""
    result = Agent(streaming(["Hel", "lo"]), name="inventory").run_stream_sync("hi")
    return f"OK {list(result.stream_text(delta=True, debounce_by=None))}"


@scenario
async def k_iter_stream(env):
    """agent.iter with node.stream for the model requests."""
    one = Agent(streaming([tool_delta("stock_of", '{"item": "bolt"}', "call_1")], ["12"]), name="inventory", tools=[stock_of])
    async with one.iter("stock?") as run:
        async for node in run:
            if Agent.is_model_request_node(node):
                async with node.stream(run.ctx) as stream:
                    async for _ in stream:
                        pass
    return run.result


# ---------------------------------------------------------------------------
# m — concurrency, u — spans around the run
# ---------------------------------------------------------------------------


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
async def u_nested_in_user_spans(env):
    """User spans everywhere: around the run, inside its tool, and around the nested run."""
    inner = agent("12", name="warehouse")
    outer = agent([call("ask", {}, "call_ask")], "12 bolts")

    @outer.tool_plain
    async def ask() -> str:
        with env.tracer.start_as_current_span("lookup"):
            with env.tracer.start_as_current_span("attempt 1"):
                return (await inner.run("stock?")).output

    with env.tracer.start_as_current_span("POST /ask"):
        with env.tracer.start_as_current_span("handler"):
            return await outer.run("bolts?")


@scenario
async def u_user_span_raises(env):
    """The user span inside the tool records the exception that fails the run."""
    one = agent([STOCK], "12")

    @one.tool_plain
    async def stock_of(item: str) -> int:
        with env.tracer.start_as_current_span("SELECT stock"):
            raise ConnectionError("database down")

    with env.tracer.start_as_current_span("POST /ask"):
        return await one.run("stock?")


@scenario
async def u_user_span_in_model(env):
    """A user span inside the model call (an HTTP client span, say)."""

    def answer(messages, info):
        with env.tracer.start_as_current_span("POST /v1/chat"):
            return response("12")

    return await agent(answer).run("stock?")


@scenario
async def u_iter_user_spans(env):
    """agent.iter() with a span of the caller's around every node: chat and tool spans hang below those."""
    async with agent([STOCK], "12", tools=[stock_of]).iter("stock?") as run:
        node = run.next_node
        while not Agent.is_end_node(node):
            with env.tracer.start_as_current_span(f"node {type(node).__name__}"):
                node = await run.next(node)
    return run.result


@scenario
async def u_hook_spans(env):
    """Hooks that open a span around every model request and every tool."""

    async def around_model(ctx: RunContext, *, request_context, handler):
        with env.tracer.start_as_current_span("model hook"):
            return await handler(request_context)

    async def around_tool(ctx: RunContext, *, call, tool_def, args, handler):
        with env.tracer.start_as_current_span("tool hook"):
            return await handler(args)

    async def around_node(ctx: RunContext, *, node, handler):
        with env.tracer.start_as_current_span("node hook"):
            return await handler(node)

    hooks = Hooks(model_request=around_model, tool_execute=around_tool, node_run=around_node)
    return await agent([STOCK], "12", tools=[stock_of], capabilities=[hooks]).run("stock?")


@scenario
async def u_baggage_from_outside(env):
    """An incoming request whose baggage carries gen_ai names of another agent."""
    from opentelemetry import baggage, context

    token = context.attach(baggage.set_baggage("gen_ai.agent.name", "upstream", baggage.set_baggage("gen_ai.agent.call.id", "run-up")))
    try:
        with env.tracer.start_as_current_span("POST /ask"):
            return await agent([STOCK], "12", tools=[stock_of]).run("stock?")
    finally:
        context.detach(token)


@scenario
async def u_sampled_out(env):
    """A parent that is sampled out: Pydantic AI's spans are not recorded at all, the adapter records as ever."""
    from opentelemetry import context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}
    token = context.attach(TraceContextTextMapPropagator().extract(carrier))
    try:
        return await agent("ok").run("hi")
    finally:
        context.detach(token)


@scenario
async def u_two_runs_one_span(env):
    """Two runs one after the other under one span of the application."""
    with env.tracer.start_as_current_span("job"):
        one = agent("one", "two")
        return Many([await one.run("first"), await one.run("second")])


@scenario
async def u_tool_detached_span(env):
    """A span that the tool starts and ends only after the run is over."""
    spans = []
    one = agent([STOCK], "12")

    @one.tool_plain
    async def stock_of(item: str) -> int:
        spans.append(env.tracer.start_span("background"))
        return 12

    result = await one.run("stock?")
    spans[0].end()
    return result


# ---------------------------------------------------------------------------
# t — other spans, o — toolsets and MCP, w — wiring
# ---------------------------------------------------------------------------


@scenario
async def t_direct_model_request(env):
    """A direct model request without an agent, instrumented: a chat span alone."""
    from pydantic_ai.direct import model_request

    answer = await model_request(
        Scripted("hello"), [ModelRequest(parts=[UserPromptPart(content="hi")])], instrument=Agent._instrument_default
    )
    return f"OK {answer.parts[0].content}"


@scenario
async def t_direct_in_tool(env):
    """A direct model request inside a tool: a chat span under the tool span."""
    from pydantic_ai.direct import model_request

    one = agent([call("translate", {"text": "hi"}, "call_1")], "hallo")

    @one.tool_plain
    async def translate(text: str) -> str:
        answer = await model_request(
            Scripted("hallo", name="small-1"), [ModelRequest(parts=[UserPromptPart(content=text)])], instrument=Agent._instrument_default
        )
        return answer.parts[0].content

    return await one.run("translate hi")


@scenario
async def t_direct_fails(env):
    """A direct model request that fails."""
    from pydantic_ai.direct import model_request

    await model_request(
        Scripted(ModelHTTPError(500, "m", None)), [ModelRequest(parts=[UserPromptPart(content="hi")])], instrument=Agent._instrument_default
    )


@scenario
async def t_direct_stream(env):
    """A direct streamed model request."""
    from pydantic_ai.direct import model_request_stream

    async with model_request_stream(
        streaming(["Hel", "lo"]), [ModelRequest(parts=[UserPromptPart(content="hi")])], instrument=Agent._instrument_default
    ) as stream:
        async for _ in stream:
            pass
    return f"OK {stream.get().parts[0].content}"


@scenario
async def t_embeddings_fail(env):
    """An embedding model that fails inside a tool."""
    from pydantic_ai import Embedder
    from pydantic_ai.embeddings import TestEmbeddingModel

    class Broken(TestEmbeddingModel):
        async def embed(self, inputs, *, input_type, settings=None):
            raise ModelAPIError("test", "no vectors today")

    embedder = Embedder(Broken())
    one = agent([call("search", {"q": "bolt"}, "call_1")], "none")

    @one.tool_plain
    async def search(q: str) -> str:
        try:
            await embedder.embed_query(q)
        except ModelAPIError:
            return "no vectors"
        return "found"

    return await one.run("find")


@scenario
async def o_toolsets(env):
    """A function toolset, a prefixed one, a renamed one and an approval-required one."""
    base = FunctionToolset([stock_of, price_of])
    one = agent(
        [call("wh_stock_of", {"item": "bolt"}, "call_1"), call("cost", {"item": "bolt"}, "call_2"), call("careful_price_of", {"item": "bolt"}, "call_3")],
        "all", output_type=[str, DeferredToolRequests],
        toolsets=[base.prefixed("wh"), base.filtered(lambda ctx, d: d.name == "price_of").renamed({"cost": "price_of"}), base.prefixed("careful").approval_required()],
    )
    return await one.run("go")


@scenario
async def o_toolset_error(env):
    """A toolset of the application's own whose call_tool raises."""
    from pydantic_ai import WrapperToolset

    class Broken(WrapperToolset):
        async def call_tool(self, name, tool_args, ctx, tool):
            raise OSError("socket closed")

    return await agent([STOCK], "12", toolsets=[Broken(FunctionToolset([stock_of]))]).run("stock?")


@scenario
async def o_toolset_get_tools_error(env):
    """A toolset whose get_tools raises: the run fails before any request."""
    from pydantic_ai import WrapperToolset

    class Broken(WrapperToolset):
        async def get_tools(self, ctx):
            raise ConnectionError("tool server is away")

    return await agent("12", toolsets=[Broken(FunctionToolset([stock_of]))]).run("stock?")


def mcp_server() -> Any:
    """An MCP server in this process. The MCP libraries have spans of their own, on the global tracer provider."""
    import logging

    from mcp.server.mcpserver import MCPServer

    logging.disable(logging.ERROR)
    server = MCPServer("depot")

    @server.tool()
    def count(item: str) -> int:
        """Count items."""
        return 12

    @server.tool()
    def broken(item: str) -> int:
        raise ValueError("internal detail")

    @server.tool()
    def shelf(item: str) -> dict:
        return {"item": item, "row": 3}

    return server


@scenario
async def o_mcp_structured(env):
    """MCP: structured results, and the same tool twice."""
    from pydantic_ai.mcp import MCPToolset

    one = agent([call("shelf", {"item": "bolt"}, "call_1"), call("count", {"item": "bolt"}, "call_2"), call("count", {"item": "nut"}, "call_3")], "12", toolsets=[MCPToolset(mcp_server())])
    return await one.run("stock?")


@scenario
async def o_mcp_error(env):
    """MCP with tool_error_behavior='error': the tool error ends the run."""
    from pydantic_ai.mcp import MCPToolset

    return await agent([call("broken", {"item": "bolt"}, "call_1")], "12", toolsets=[MCPToolset(mcp_server(), tool_error_behavior="error")]).run("stock?")


@scenario
async def o_mcp_failed(env):
    """MCP with tool_error_behavior='failed': the model sees the failure."""
    from pydantic_ai.mcp import MCPToolset

    return await agent([call("broken", {"item": "bolt"}, "call_1")], "none", toolsets=[MCPToolset(mcp_server(), tool_error_behavior="failed")]).run("stock?")


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


# ---------------------------------------------------------------------------
# Scenarios that were recorded before this table existed; same names, same stories.
# ---------------------------------------------------------------------------


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


@scenario
async def b_output_function(env):
    """Output *function* via output tool: Pydantic AI emits an execute_tool span for it; adapter emits no tool event."""

    def finish(item: str, price: int) -> Quote:
        """Build the quote."""
        return Quote(item=item, price=price)

    return await agent([GOOD_QUOTE], output_type=finish).run("quote bolt")


@scenario
async def b_typed_output(env):
    """output_type=BaseModel through the final_result output tool. No function => no output span."""
    return await agent([GOOD_QUOTE], output_type=Quote).run("quote bolt")


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


async def _recursion_with_a_rather_long_descriptive_function_name_to_grow_the_traceback(depth: int) -> None:
    if depth == 0:
        raise ValueError("warehouse 'north' is unreachable\nsecond line of the message")
    # Two functions take turns, so that the traceback does not fold the repetition.
    return await _the_other_function_with_a_rather_long_descriptive_name_to_grow_the_traceback(depth - 1)


async def _the_other_function_with_a_rather_long_descriptive_name_to_grow_the_traceback(depth: int) -> None:
    return await _recursion_with_a_rather_long_descriptive_function_name_to_grow_the_traceback(depth)


@scenario
async def d_run_level_deep(env):
    """Run-level RuntimeError with long traceback (output validator raising deep): error event with truncated traceback."""
    one = agent("answer")

    @one.output_validator
    async def check(value: str) -> str:
        await _recursion_with_a_rather_long_descriptive_function_name_to_grow_the_traceback(30)
        return value

    return await one.run("eta?")


@scenario
async def d_tool_custom_exc_chained(env):
    """User-defined exception, chained, empty message."""
    one = agent([STOCK], "12")

    @one.tool_plain
    def stock_of(item: str) -> int:
        try:
            raise KeyError(item)
        except KeyError as error:
            raise SupplierDown from error

    return await one.run("stock?")


@scenario
async def d_tool_valueerror_deep(env):
    """ValueError from a deep async stack inside a tool (traceback > 8192 chars)."""
    one = agent([STOCK], "12")

    @one.tool_plain
    async def stock_of(item: str) -> int:
        await _recursion_with_a_rather_long_descriptive_function_name_to_grow_the_traceback(30)
        return 12

    return await one.run("stock?")


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


@scenario
async def f_approval_required(env):
    """ApprovalRequired raised in the tool; resumed with approval; tool then runs."""
    one = order_agent([ORDER], "order placed", raise_=_approve)
    first = await one.run("order 5 bolts")
    second = await one.run(
        message_history=first.all_messages(), deferred_tool_results=DeferredToolResults(approvals={"call_po": True})
    )
    return Many([first, second])


@scenario
async def f_call_deferred(env):
    """CallDeferred from a tool (with metadata) plus a normal tool in the same response; run ends with DeferredToolRequests; then resumed."""
    one = order_agent([ORDER, call("stock_of", {"item": "bolt"}, "call_so")], "order placed", raise_=_defer, tools=[stock_of])
    first = await one.run("order 5 bolts")
    second = await one.run(
        message_history=first.all_messages(), deferred_tool_results=DeferredToolResults(calls={"call_po": "ordered 5 bolt"})
    )
    return Many([first, second])


@scenario
async def f_skip_model_request(env):
    """before_model_request hook raises SkipModelRequest(response)."""

    async def skip(ctx: RunContext, request_context):
        raise SkipModelRequest(ModelResponse(parts=[TextPart(content="cached answer")]))

    return await agent("never", capabilities=[Hooks(before_model_request=skip)]).run("hi")


@scenario
async def f_skip_tool_execution(env):
    """before_tool_execute hook raises SkipToolExecution(result)."""

    async def skip(ctx: RunContext, *, call, tool_def, args):
        raise SkipToolExecution({"cached": 12})

    return await agent([STOCK], "ok", tools=[stock_of], capabilities=[Hooks(before_tool_execute=skip)]).run("stock?")


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
async def h_bad_args(env):
    """Bad args once (validation error), then good."""
    return await agent([call("stock_of", {"item": {"not": "a string"}}, "call_1")], [STOCK_AGAIN], "12", tools=[stock_of]).run("stock?")


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


@scenario
async def j_two_runs_conversation_id(env):
    """Two runs with explicit conversation_id, no history."""
    one = agent("hello", "again")
    return Many([await one.run("hi", conversation_id="conversation-1"), await one.run("again", conversation_id="conversation-1")])


@scenario
async def k_stream_text(env):
    """run_stream, text consumed with stream_text; consumer sleeps 0.2s inside the block."""
    one = Agent(streaming(["Hel", "lo ", "world"]), name="inventory")
    async with one.run_stream("hi") as stream:
        seen = [text async for text in stream.stream_text(delta=True, debounce_by=None)]
        await asyncio.sleep(0.2)
    return f"OK {seen}"


@scenario
async def l_cancel_model(env):
    """asyncio.wait_for timeout during the model request."""
    return await asyncio.wait_for(agent((5.0, "late")).run("go"), 0.15)


@scenario
async def l_cancel_tool(env):
    """asyncio.wait_for timeout while a tool is running."""
    return await asyncio.wait_for(slow_agent().run("go"), 0.15)


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


@scenario
async def n_large_9k_unicode(env):
    """9000 emoji prompt: truncation counts code points, not bytes."""
    return await agent("🔩" * 9000).run("🔩" * 9000)


@scenario
async def n_secrets(env):
    """Credential-shaped strings in prompt / args / results / error: SDK spool redaction (all invented)."""
    fake = "sk-" + "a1B2c3D4" * 5
    one = agent([call("login", {"api_key": "abcdef0123456789", "note": fake}, "call_1")], "AKIA" + "ABCDEFGHIJKLMNOP" + " done")

    @one.tool_plain
    def login(api_key: str, note: str) -> dict:
        jwt = ".".join(("eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxMjM0NTY3ODkwIn0", "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"))
        return {"password": "correct-horse-battery", "Authorization": "Bearer " + "abc123DEF456" * 3, "jwt": jwt}

    return await one.run(f"my key is {fake} and export MY_API_KEY=abcdef0123456789")


@scenario
async def o_mcp(env):
    """MCP toolset: one ok call, one MCP tool error (default tool_error_behavior=retry)."""
    from pydantic_ai.mcp import MCPToolset

    calls = [call("count", {"item": "bolt"}, "call_1"), call("broken", {"item": "bolt"}, "call_2")]
    return await agent(calls, "12", toolsets=[MCPToolset(mcp_server())]).run("stock?")


@scenario
async def p_request_limit(env):
    """UsageLimits(request_limit=1) exceeded before the 2nd request."""
    return await inventory([STOCK], "12").run("stock?", usage_limits=UsageLimits(request_limit=1))


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


@scenario
async def r_uuid_names(env):
    """Names: bare uuid; prefix+uuid; hex16; >64 chars; spaces; separators."""
    names = [
        "12345678-1234-5678-1234-567812345678", "agent-12345678-1234-5678-1234-567812345678",
        "crew-12345678-1234-5678-1234-567812345678-worker", "deadbeefdeadbeef", "task_0123456789abcdef0123", "n" * 80,
        "two   words", "node_a_b.c/d:e", "agent-v2", "facade", "550e8400e29b41d4a716446655440000",
    ]
    return Many([await agent("ok", name=name).run("hi") for name in names])


@scenario
async def s_thinking_multimodal(env):
    """ThinkingPart + TextPart + ToolCallPart in one response; FilePart in the last; system_prompt + static & dynamic instructions."""
    png = BinaryContent(data=b"\x89PNG\r\n\x1a\n" + bytes(range(64)), media_type="image/png")
    one = agent(
        [ThinkingPart(content="I should look it up"), "Let me check.", STOCK],
        [ThinkingPart(content="done"), "12 bolts", FilePart(content=png)],
        system_prompt="You are the inventory bot.", instructions="Be terse.", tools=[stock_of],
    )

    @one.system_prompt
    def more() -> str:
        return "Dynamic system prompt."

    @one.instructions
    def today() -> str:
        return "Today is Monday."

    return await one.run(["How many?", ImageUrl(url="https://example.com/bolt.png")])


@scenario
async def t_embeddings(env):
    """Embedder with TestEmbeddingModel, standalone and inside a tool."""
    from pydantic_ai import Embedder
    from pydantic_ai.embeddings import TestEmbeddingModel

    embedder = Embedder(TestEmbeddingModel())
    await embedder.embed_documents(["bolt", "nut"])
    one = agent([call("search", {"q": "bolt"}, "call_1")], "found")

    @one.tool_plain
    async def search(q: str) -> int:
        await embedder.embed_query(q)
        return 2

    return await one.run("find")


@scenario
async def u_remote_parent(env):
    """Incoming traceparent (remote parent, span never seen)."""
    from opentelemetry import context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    token = context.attach(TraceContextTextMapPropagator().extract(carrier))
    try:
        return await agent("ok").run("hi")
    finally:
        context.detach(token)


@scenario
async def u_user_spans(env):
    """HTTP server span outside, user span inside the tool, DB client span inside that, around a nested agent."""
    from opentelemetry.trace import SpanKind

    inner = agent("12", name="warehouse")
    outer = agent([call("ask", {}, "call_ask")], "12 bolts")

    @outer.tool_plain
    async def ask() -> str:
        with env.tracer.start_as_current_span("lookup"):
            answer = (await inner.run("stock?")).output
            with env.tracer.start_as_current_span("SELECT stock", kind=SpanKind.CLIENT, attributes={"db.system": "postgresql"}):
                return answer

    with env.tracer.start_as_current_span("POST /ask", kind=SpanKind.SERVER):
        return await outer.run("bolts?")
