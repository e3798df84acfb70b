"""Messages, models, tokens and prices in neutral form."""

from loom_ia.core.model.blocks import (
    AnyBlock,
    Block,
    ContentBlock,
    FileBlock,
    ImageBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    text_of,
    user,
)
from loom_ia.core.model.spec import ModelRequest, ModelSpec, StopReason, ToolSpec
from loom_ia.core.model.stream import Answer, Discard, ModelChunk, ReasoningDelta, TextDelta
from loom_ia.core.model.usage import FREE, Price, Pricing, Tier, Usage

__all__ = (
    "FREE",
    "Answer",
    "AnyBlock",
    "Block",
    "ContentBlock",
    "Discard",
    "FileBlock",
    "ImageBlock",
    "Message",
    "ModelChunk",
    "ModelRequest",
    "ModelSpec",
    "Price",
    "Pricing",
    "ReasoningBlock",
    "ReasoningDelta",
    "StopReason",
    "TextBlock",
    "TextDelta",
    "Tier",
    "ToolCallBlock",
    "ToolResultBlock",
    "ToolSpec",
    "Usage",
    "text_of",
    "user",
)
