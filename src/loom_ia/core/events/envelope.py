"""The envelope of every event, and the registry of what it may carry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError
from pydantic_core import from_json

from loom_ia.core.cleaning import clean_json
from loom_ia.core.omit import EMPTY

if TYPE_CHECKING:
    from loom_ia.core.state import RunState

SCHEMA_VERSION = 1

Outcome = Literal["ok", "error", "unknown", "refused", "waiting"]


def _is_ok(status: object) -> bool:
    return status == "ok"


def _is_present(version: object) -> bool:
    return version == SCHEMA_VERSION


class CannotApplyError(Exception):
    """Raised by `evolve` for a fact that makes no sense in this state; the fold ignores it."""


class Value(BaseModel):
    """A part of a fact."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Payload(BaseModel):
    """What happened. A subclass is registered by being defined; journals outlive its code.

    `evolve` gives the state after the fact, raises CannotApplyError when the fact cannot follow,
    and touches nothing else.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    type: ClassVar[str] = ""
    content: ClassVar[frozenset[str]] = frozenset()
    """Fields hidden from a reader who may not see content."""
    after_end: ClassVar[bool] = False
    """True for what may still be recorded once the run has ended."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: object) -> None:
        if cls.type and TYPES.setdefault(cls.type, cls) is not cls:
            msg = f"event type {cls.type!r} is defined twice"
            raise TypeError(msg)

    @property
    def outcome(self) -> Outcome:
        """What the envelope says of this fact."""
        return "ok"

    @property
    def blobs(self) -> Sequence[str]:
        """Digests of the contents that this fact names."""
        return ()

    def evolve(self, state: RunState) -> RunState:
        """State after this fact; the default changes nothing."""
        return state


TYPES: dict[str, type[Payload]] = {}
"""Class of each event type. Schema, listing, masking and docs iterate over it."""


class Foreign(Payload):
    """An event of a type, or of a shape, that this version does not know; carried as it is."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Event(BaseModel):
    """A fact with its place in the journal. The JSON of this class is the journal's format."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    id: str
    """UUIDv7, chosen by the writer before the append."""
    seq: int
    """Position in the session, from 1."""
    tenant_id: str
    session_id: str
    run_id: str
    position: int
    """Position in the run, from 1."""
    span_id: Annotated[str, EMPTY] = ""
    """What the event is about inside the run: the run itself, a step, a call."""
    type: str
    status: Annotated[Outcome, Field(exclude_if=_is_ok)] = "ok"
    at: AwareDatetime
    """Store's instant, never backwards within a session."""
    epoch: Annotated[int, EMPTY] = 0
    """Drive that wrote it; 0 for what no driver wrote."""
    skippable: Annotated[bool, EMPTY] = False
    """True when a version that does not know the type may drive the run all the same."""
    version: Annotated[int, Field(exclude_if=_is_present)] = SCHEMA_VERSION
    payload: SerializeAsAny[Payload] = Field(repr=False)

    def encode(self) -> bytes:
        """The event as one line of JSON, without the newline."""
        return self.__pydantic_serializer__.to_json(self)


class UndecodableError(ValueError):
    """A line that is not an event."""


def decode(line: bytes) -> Event:
    """Event of one line of a journal.

    Raises:
        UndecodableError: not JSON, or the envelope lacks something.

    """
    try:
        data = _parsed(line)
        payload = data.pop("payload", {})
        data["payload"] = _typed(str(data["type"]), payload)
        return Event.model_validate(data)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise UndecodableError(str(error)) from error


def _parsed(line: bytes) -> dict[str, object]:
    try:
        return from_json(line)
    except ValueError:  # half a character, which only the slow parser takes
        return json.loads(line)


def _typed(name: str, data: object) -> Payload:
    found = TYPES.get(name)
    if found is None:
        return Foreign.model_validate(clean_json(data))
    try:
        return found.model_validate(data)
    except ValidationError:
        return Foreign.model_validate(clean_json(data))
