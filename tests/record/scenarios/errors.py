"""d — errors in tools and runs."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools

from pydantic_ai import ModelRetry, RunContext, Tool, ToolDefinition, ToolFailed
from pydantic_ai.capabilities import Hooks

from .common import STOCK, STOCK_AGAIN, SupplierDown, agent, call, failing_tool, scenario, stock_of


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
