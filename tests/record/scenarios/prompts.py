"""s — prompts and instructions."""

from __future__ import annotations

import itertools

from pydantic_ai import (
    BinaryContent, DocumentUrl, FilePart, ImageUrl, ModelRequest, RunContext, ThinkingPart, UserPromptPart,
)
from pydantic_ai.capabilities import Hooks

from .common import Many, STOCK, agent, call, caught, response, scenario, stock_of


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
