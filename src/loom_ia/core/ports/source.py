"""Tools that come from elsewhere: a server, a package. Opened for a drive, closed after it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Literal, Protocol

from loom_ia.core.ports.world import SideEffects, ToolContext


@dataclass(frozen=True, slots=True)
class Holder:
    """For whom a source is opened."""

    tenant_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes in a result: an image, a sound, a file."""

    data: bytes
    media_type: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a tool of a source gave."""

    parts: tuple[str | Blob, ...]
    is_error: bool = False
    """True when the tool says that it failed."""


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """One tool of a source, as the source describes it."""

    name: str
    description: str
    input_schema: Mapping[str, object]
    definition: str
    """Digest of everything that the source says of it."""
    call: Callable[[Mapping[str, object], ToolContext], Awaitable[Answered]]
    """Call it once.

    Raises:
        ToolError: it did not act.
        ToolLostError: it left, and its answer was lost.

    """
    side_effects: SideEffects = "irreversible"
    """What the source says; a source that says nothing may do anything."""
    idempotent: bool = False
    withdrawn: Callable[[], bool] = lambda: False
    """True once its definition is no longer the one that was offered."""


Era = Literal["stateless", "session"]


@dataclass(frozen=True, slots=True, eq=False)
class Offering:
    """What an open source offers to one drive."""

    offers: Sequence[Offer]
    digest: str = ""
    """Of all the definitions."""
    protocol: str = ""
    """Version that both sides speak."""
    era: Era = "session"
    """Whether that version knows sessions."""
    server: str = ""
    """Name and version that the other side gives itself."""
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tools that are not offered, each with the reason."""
    changes: Callable[[], Sequence[Change]] = tuple
    """What changed since it was last asked; empty most of the time."""


@dataclass(frozen=True, slots=True)
class Change:
    """The list of a source moved while it was open."""

    digest: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


class SourceUnreachableError(Exception):
    """A source cannot be opened now; the message says why, without secrets."""


class ToolSource(Protocol):
    """Tools behind a name of the configuration."""

    def open(self, holder: Holder) -> AbstractAsyncContextManager[Offering]:
        """The tools, for one drive of a run.

        Raises:
            SourceUnreachableError: on entering.

        """
        ...
