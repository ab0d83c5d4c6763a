"""Running the tools that a model asks for, as one node: `ToolsNode` and what belongs to it."""

from blobcp.tools.chunks import ToolMessages
from blobcp.tools.node import ToolsNode
from blobcp.tools.request import ToolCall
from blobcp.tools.tool import Tool

__all__ = ["Tool", "ToolCall", "ToolMessages", "ToolsNode"]
