"""Pieces of a model's answer as they arrive; they are shown, never journaled."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from loom_ia.core.model.blocks import Message
from loom_ia.core.model.stops import StopReason
from loom_ia.core.model.usage import Usage


class Chunk(BaseModel):
    """A piece of a stream."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class TextDelta(Chunk):
    """More text of the answer."""

    type: Literal["text"] = "text"
    text: str
    run_id: str = ""


class ReasoningDelta(Chunk):
    """More of what the model thinks."""

    type: Literal["reasoning"] = "reasoning"
    text: str
    run_id: str = ""


class CallDelta(Chunk):
    """More of a tool call; nothing runs before the whole answer is there."""

    type: Literal["call"] = "call"
    name: str = ""
    arguments: str = ""


class Announced(Chunk):
    """Tokens that the provider has counted so far: what is known of an attempt that then fails."""

    type: Literal["usage"] = "usage"
    usage: Usage


class RawExchange(Chunk):
    """One HTTP exchange as it was, without keys or file contents."""

    type: Literal["exchange"] = "exchange"
    url: str
    request: dict[str, object]
    status: int | None = None
    """None when no answer came."""
    headers: dict[str, str] = {}
    body: tuple[str, ...] = ()
    """Data of each event of a stream, or the one body."""


class Discard(Chunk):
    """What this attempt showed so far is void; another attempt follows, or none."""

    type: Literal["discard"] = "discard"
    run_id: str = ""


class Share(BaseModel):
    """What one of the models that a provider asked by itself consumed."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    model: str
    """Name that the provider gives; empty for the one that was asked."""
    usage: Usage


class Answer(Chunk):
    """Last piece: the whole answer. A stream that ends without one was cut."""

    type: Literal["answer"] = "answer"
    message: Message
    stop: StopReason
    usage: Usage | None = None
    """None when the provider gave nothing usable: the cost is unknown."""
    model: str = ""
    """Model that served, when the provider says so."""
    detail: str = ""
    """What the provider says of its reason to stop."""
    shares: tuple[Share, ...] = ()
    """Parts of `usage` when several models served; each has its own price."""
    ignored: int = 0
    """Events of the stream, and parts of them, that nobody knows."""


ModelChunk = TextDelta | ReasoningDelta | CallDelta | Announced | RawExchange | Answer
