//! Requests of the Model Context Protocol.
//!
//! Emitted by: the MCP SDK for Python 2.x (clients and servers), FastMCP, Agent Framework's clients, and whatever keeps the
//! semantic conventions of MCP. Detected by: `mcp.method.name`.
//! Agent, model: none. Tool: `tools/call`; inside an `execute_tool` of the same name it is that same call. All other
//! methods are none. Session: `mcp.session.id` is the transport's, not a conversation. Errors: `error.type`, `tool_error`
//! for a result that is an error, a code of JSON-RPC or a class else.
//! Known gaps: a server's call whose agent runs elsewhere and does not hand over its context belongs to nobody.

use super::{About, Dialect, Fact, Kind, Reading, Recognized};
use crate::span::Span;

const METHOD: &str = "mcp.method.name";
const CALL: &str = "tools/call";

pub(super) struct Mcp;

impl Dialect for Mcp {
    fn about(&self) -> &'static About {
        &About {
            name: "mcp",
            emitted_by: "the MCP SDK for Python, FastMCP, Agent Framework's clients, the semantic conventions of MCP",
            verified: "mcp 2.3, fastmcp within Pydantic AI 2.68",
            gaps: "arguments and results; the agent, where a client hands over no context",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        Some(match span.attributes.text(METHOD)? {
            CALL => Recognized { kind: Kind::Tool, rule: "MCP method tools/call" },
            _ => Recognized { kind: Kind::Transparent, rule: "an MCP method that calls no tool" },
        })
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if reading.dialect != self.about().name {
            return;
        }
        // No framework: the call is that of the tool around it. The SDK's client names the tool by its span alone:
        // `MCP send tools/call stock`.
        let named = span.name.split_once(CALL).map(|(_, name)| name.trim()).filter(|name| !name.is_empty());
        reading.add(Fact::ToolName, named, "span name");
    }
}
