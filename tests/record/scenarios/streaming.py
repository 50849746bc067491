"""k — streaming."""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent, ModelAPIError, ModelHTTPError, RunContext
from pydantic_ai.models.function import DeltaThinkingPart, DeltaToolCall

from .common import Quote, scenario, stock_of, streaming


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


@scenario
async def k_stream_text(env):
    """run_stream, text consumed with stream_text; consumer sleeps 0.2s inside the block."""
    one = Agent(streaming(["Hel", "lo ", "world"]), name="inventory")
    async with one.run_stream("hi") as stream:
        seen = [text async for text in stream.stream_text(delta=True, debounce_by=None)]
        await asyncio.sleep(0.2)
    return f"OK {seen}"
