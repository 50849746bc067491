"""n — values of arguments and results."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import uuid
from collections.abc import Callable
from typing import Any

from pydantic_ai import BinaryContent, ImageUrl, ToolReturn, UsageLimits

from .common import PACKAGE, Quote, agent, call, scenario, stock_of


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
        __module__ = PACKAGE

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
