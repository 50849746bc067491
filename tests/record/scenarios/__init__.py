"""The scenarios: programs with scripted models, each with one thing to show. No network, no people, no keys.

A scenario is a function of an `Env`. It returns what its caller saw (an `AgentRunResult`, any value, or `Many` of them);
what it lets escape is recorded as `RAISED …`. Names start with the letter of their theme, which has its file:

    a plain             b outputs           c tools             d errors (tools, runs)
    e model_errors      f control_flow      g retries           h tools (arguments)
    i nesting           j conversations     k streaming         l cancellation
    m concurrency       n values            o toolsets (MCP)    p limits
    q retries (output validation)           r names             s prompts
    t spans (other)     u spans (around)    w wiring
"""

from __future__ import annotations

from . import (  # noqa: F401  (each fills the table)
    cancellation,
    common,
    concurrency,
    control_flow,
    conversations,
    errors,
    limits,
    model_errors,
    names,
    nesting,
    outputs,
    plain,
    prompts,
    retries,
    spans,
    streaming,
    tools,
    toolsets,
    values,
    wiring,
)
from .common import Env, Many, Scenario, warm_up

__all__ = ["SCENARIOS", "Env", "Many", "Scenario", "warm_up"]

SCENARIOS: dict[str, Scenario] = dict(sorted(common.SCENARIOS.items()))
