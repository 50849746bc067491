"""r — names."""

from __future__ import annotations

from pydantic_ai import Agent

from .common import Many, Scripted, agent, scenario


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


@scenario
async def r_uuid_names(env):
    """Names: bare uuid; prefix+uuid; hex16; >64 chars; spaces; separators."""
    names = [
        "12345678-1234-5678-1234-567812345678", "agent-12345678-1234-5678-1234-567812345678",
        "crew-12345678-1234-5678-1234-567812345678-worker", "deadbeefdeadbeef", "task_0123456789abcdef0123", "n" * 80,
        "two   words", "node_a_b.c/d:e", "agent-v2", "facade", "550e8400e29b41d4a716446655440000",
    ]
    return Many([await agent("ok", name=name).run("hi") for name in names])
