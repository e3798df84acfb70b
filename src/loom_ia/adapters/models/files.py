"""Images and files of a request: read once, typed by their first bytes, or mentioned."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loom_ia.core.model import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    Message,
    ModelRequest,
    TextBlock,
    ToolResultBlock,
)
from loom_ia.core.wording import Language, say

PDF = "application/pdf"
_SIGNATURES = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", PDF),
)


@dataclass(frozen=True, slots=True)
class Attached:
    """A file that goes with the request."""

    media_type: str
    data: str
    """In base64."""
    name: str

    @property
    def url(self) -> str:
        """The file as an address that holds it."""
        return f"data:{self.media_type};base64,{self.data}"


def media_type(data: bytes) -> str | None:
    """Type that the first bytes tell; None for what no model reads."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((name for start, name in _SIGNATURES if data.startswith(start)), None)


class Attachments:
    """The files of one request that its model can read, by address."""

    def __init__(self, request: ModelRequest, found: Mapping[str, Attached]) -> None:
        self._language: Language = request.language
        self._found = found

    def attached(self, block: ImageBlock | FileBlock) -> Attached | None:
        """The file, when it goes with the request."""
        return self._found.get(block.uri)

    def mention(self, block: ImageBlock | FileBlock) -> str:
        """What stands for a file that does not."""
        name = block.name or block.uri.rpartition("/")[2]
        return say(self._language, "mention", name=name, media_type=block.media_type)

    def text(self, blocks: Sequence[ContentBlock]) -> str:
        """Content of a tool result where only text may stand."""
        parts = [b.text if isinstance(b, TextBlock) else self.mention(b) for b in blocks]
        return "\n".join(part for part in parts if part.strip())


async def load(request: ModelRequest) -> Attachments:
    """Read the files that the model of a request can take."""
    able = request.spec.capabilities
    found: dict[str, Attached] = {}
    if request.files is None or not (able.vision or able.pdf):
        return Attachments(request, found)
    for message in request.messages:
        for block in _named(message):
            data = None if block.uri in found else await request.files(block.uri)
            kind = media_type(data) if data else None
            if data and kind and (able.pdf if kind == PDF else able.vision):
                encoded = base64.b64encode(data).decode("ascii")
                found[block.uri] = Attached(kind, encoded, block.name)
    return Attachments(request, found)


def _named(message: Message) -> list[ImageBlock | FileBlock]:
    named: list[ImageBlock | FileBlock] = []
    for block in message.blocks:
        parts = block.content if isinstance(block, ToolResultBlock) else (block,)
        named += [part for part in parts if isinstance(part, ImageBlock | FileBlock)]
    return named
