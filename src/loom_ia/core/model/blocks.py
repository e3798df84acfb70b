"""Typed blocks and messages, independent of any provider."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from loom_ia.core.cleaning import CleanJson, CleanText, clean
from loom_ia.core.omit import EMPTY, NONE
from loom_ia.core.trusted import trusted


class Block(BaseModel):
    """What a message is made of; each class has its own `type`."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class TextBlock(Block):
    """Plain text."""

    type: Literal["text"] = "text"
    text: CleanText
    altered: Annotated[bool, EMPTY] = False
    """True when the source held characters that no store keeps; they are U+FFFD here."""

    @classmethod
    def of(cls, raw: str) -> TextBlock:
        """Block of a text that may hold anything; it is cleaned and marked when it had to be."""
        safe = clean(raw)
        return trusted(cls, {"type": "text", "text": safe, "altered": safe != raw})


class ImageBlock(Block):
    """An image kept outside the journal."""

    type: Literal["image"] = "image"
    uri: CleanText
    """`artifact://<tenant>/<session>/<digest>.<ext>`."""
    media_type: CleanText
    name: Annotated[CleanText, EMPTY] = ""


class FileBlock(Block):
    """A file kept outside the journal."""

    type: Literal["file"] = "file"
    uri: CleanText
    media_type: CleanText
    name: Annotated[CleanText, EMPTY] = ""


class ToolCallBlock(Block):
    """A call that the model asks for."""

    type: Literal["tool_call"] = "tool_call"
    id: str
    """Unique in the run; the provider's own id where it is usable."""
    name: CleanText
    arguments: Annotated[CleanJson, EMPTY] = Field(default_factory=dict[str, object])
    malformed: Annotated[CleanText | None, NONE] = None
    """What the model wrote instead of a JSON object; such a call never runs."""
    provider_id: Annotated[CleanText | None, NONE] = None
    """The provider's id when `id` had to differ from it."""


class ReasoningBlock(Block):
    """What the model thought, in neutral form; never shown, never in a session's history."""

    type: Literal["reasoning"] = "reasoning"
    text: Annotated[CleanText, EMPTY] = ""
    provider: Annotated[str, EMPTY] = ""
    opaque: Annotated[CleanText, EMPTY] = ""
    """Signature or encrypted content that this provider wants back inside a tool loop."""


ContentBlock = Annotated[TextBlock | ImageBlock | FileBlock, Field(discriminator="type")]


class ToolResultBlock(Block):
    """What a call gave, as the model is told."""

    type: Literal["tool_result"] = "tool_result"
    call_id: str
    name: CleanText
    content: Annotated[tuple[ContentBlock, ...], EMPTY] = ()
    is_error: Annotated[bool, EMPTY] = False


AnyBlock = Annotated[
    TextBlock | ImageBlock | FileBlock | ToolCallBlock | ToolResultBlock | ReasoningBlock,
    Field(discriminator="type"),
]

Role = Literal["user", "assistant", "tool"]
Mark = Literal["accepted", "refused"]


class Message(BaseModel):
    """One turn of a conversation; `mark` lets the session's history be a filter."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    role: Role
    blocks: tuple[AnyBlock, ...]
    mark: Mark = "accepted"

    @property
    def text(self) -> str:
        """Its text blocks, joined."""
        return text_of(self.blocks)

    @property
    def calls(self) -> tuple[ToolCallBlock, ...]:
        """The tool calls it asks for, in order."""
        return tuple([b for b in self.blocks if isinstance(b, ToolCallBlock)])

    def answering(self, result: ToolResultBlock) -> Message:
        """This message, in which one call has another result, if it holds one of that call."""
        said = {"content": result.content, "is_error": result.is_error}
        blocks = [
            block.model_copy(update=said)
            if isinstance(block, ToolResultBlock) and block.call_id == result.call_id
            else block
            for block in self.blocks
        ]
        changed = any(new is not old for new, old in zip(blocks, self.blocks, strict=True))
        return self.model_copy(update={"blocks": tuple(blocks)}) if changed else self


def text_of(blocks: Iterable[Block]) -> str:
    """Text of the text blocks, joined; other blocks are left out."""
    return "".join(b.text for b in blocks if isinstance(b, TextBlock))


def user(text: str, *files: ImageBlock | FileBlock) -> Message:
    """Message of the user: a text and what is attached to it."""
    blocks = (TextBlock.of(text), *files)
    return trusted(Message, {"role": "user", "blocks": blocks, "mark": "accepted"})
