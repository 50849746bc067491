"""b — outputs: tools, functions, native, prompted and text."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import itertools
from typing import Any

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from pydantic_ai import (
    Agent, ModelHTTPError, ModelRetry, NativeOutput, PromptedOutput, TextOutput, ThinkingPart, ToolOutput,
)

from .common import GOOD_QUOTE, Many, Quote, STOCK, agent, call, caught, scenario, stock_of

BAD_QUOTE = call("final_result", {"item": "bolt", "price": "expensive"}, "call_fr0")


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
