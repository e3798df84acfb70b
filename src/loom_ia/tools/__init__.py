"""What a function needs to be a tool."""

from loom_ia.core.ports import NotSent, Sent, ToolContext, ToolError
from loom_ia.tools.decorator import tool
from loom_ia.tools.idempotency import idempotent
from loom_ia.tools.results import Image

__all__ = ("Image", "NotSent", "Sent", "ToolContext", "ToolError", "idempotent", "tool")
