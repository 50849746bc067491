"""j — conversations and histories."""

from __future__ import annotations

import asyncio

from pydantic_ai import ModelHTTPError, ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart

from .common import Many, STOCK, agent, call, caught, response, scenario, stock_of


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


@scenario
async def j_two_runs_conversation_id(env):
    """Two runs with explicit conversation_id, no history."""
    one = agent("hello", "again")
    return Many([await one.run("hi", conversation_id="conversation-1"), await one.run("again", conversation_id="conversation-1")])
