"""o — toolsets and MCP."""

from __future__ import annotations

from typing import Any

from pydantic_ai import DeferredToolRequests, FunctionToolset

from .common import STOCK, agent, call, price_of, scenario, stock_of


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
async def o_mcp(env):
    """MCP toolset: one ok call, one MCP tool error (default tool_error_behavior=retry)."""
    from pydantic_ai.mcp import MCPToolset

    calls = [call("count", {"item": "bolt"}, "call_1"), call("broken", {"item": "bolt"}, "call_2")]
    return await agent(calls, "12", toolsets=[MCPToolset(mcp_server())]).run("stock?")
