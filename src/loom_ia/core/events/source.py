"""Facts about where tools come from: what a source offered, what moved, what did not answer."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from loom_ia.core.cleaning import CleanText
from loom_ia.core.events.envelope import Outcome, Payload
from loom_ia.core.omit import EMPTY


class SourceOpened(Payload):
    """A source of tools was opened for this drive; its tools stay the same until the drive ends."""

    type: ClassVar[str] = "source.opened"

    source: CleanText
    """Its name in the configuration."""
    kind: Literal["mcp"] = "mcp"
    """What it is."""
    protocol: Annotated[CleanText, EMPTY] = ""
    """Version that both sides speak."""
    era: Literal["stateless", "session"] = "session"
    """Whether that version knows sessions: decided once for each server."""
    server: Annotated[CleanText, EMPTY] = ""
    """Name and version that the other side gives itself."""
    digest: str
    """Of the definitions of all its tools."""
    tools: tuple[CleanText, ...] = ()
    """Tools offered to the model, by the names that the source gives them."""
    left_out: Annotated[dict[str, CleanText], EMPTY] = Field(default_factory=dict[str, str])
    """Tools of the source that are not offered, each with the reason: `withdrawn` (its definition
    changed), `duplicate`, `limit`, `name`, `absent` (asked for, and not there)."""


class SourceChanged(Payload):
    """The tools of an open source are no longer those that the run was offered."""

    type: ClassVar[str] = "source.changed"

    source: CleanText
    """Its name in the configuration."""
    digest: str
    """Of the definitions of all its tools, now."""
    added: Annotated[tuple[CleanText, ...], EMPTY] = ()
    """For the next drive: the tools of this one do not grow."""
    removed: Annotated[tuple[CleanText, ...], EMPTY] = ()
    """No longer listed: a call of one of them is refused by the server."""
    changed: Annotated[tuple[CleanText, ...], EMPTY] = ()
    """Their definition is another one: they are no longer called."""


class SourceUnreachable(Payload):
    """A source of tools could not be opened; the run goes on without its tools."""

    type: ClassVar[str] = "source.unreachable"

    source: CleanText
    """Its name in the configuration."""
    reason: CleanText
    """What stood in the way."""
    required: Annotated[bool, EMPTY] = False
    """True when the run cannot go on without it."""

    @property
    def outcome(self) -> Outcome:
        return "error"
