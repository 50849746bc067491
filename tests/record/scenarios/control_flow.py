"""f — control flow: deferral, approval, skips."""

from __future__ import annotations

import itertools

from pydantic_ai import (
    ApprovalRequired, CallDeferred, DeferredToolRequests, DeferredToolResults, ExternalToolset, ModelResponse,
    ModelRetry, RunContext, SkipModelRequest, SkipToolExecution, SkipToolValidation, TextPart, ToolApproved,
    ToolDefinition, ToolDenied,
)
from pydantic_ai.capabilities import Hooks

from .common import Many, ORDER, STOCK, agent, call, caught, order_agent, response, scenario, stock_of


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
