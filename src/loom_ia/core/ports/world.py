"""What the core asks of models, tools, clocks and identifiers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

from loom_ia.core.model import ContentBlock, ModelChunk, ModelRequest, ToolSpec

SideEffects = Literal["none", "reversible", "irreversible"]
Approval = Literal["never", "always", "policy"]
OnUnknown = Literal["error", "pause"]


class Clock(Protocol):
    """Time of this process. Instants come from the store; this one measures durations."""

    def monotonic(self) -> float:
        """Seconds since some moment; time while the machine sleeps counts where it can."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class Ids(Protocol):
    """New identifiers."""

    def new(self) -> str:
        """A UUIDv7 in its usual spelling, larger than those before it."""
        ...


class Model(Protocol):
    """A model of one provider. An answer is a stream put together."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelChunk]:
        """Pieces of the answer; the last one is the `Answer`.

        Raises:
            ModelError: while iterating.

        """
        ...


class ToolError(Exception):
    """Raised by a tool that did not act: its message goes to the model."""


class ToolLostError(Exception):
    """Raised by a tool whose call left and whose answer was lost on the way: it may have acted."""


def unseen_progress(_done: float, _total: float | None, _message: str) -> None:
    """Tell nobody."""


Progress = Callable[[float, float | None, str], None]
"""Told how far a call is: what is done, what there is to do if it is known, a sentence."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may know of its call."""

    tenant_id: str
    session_id: str
    run_id: str
    call_id: str
    idempotency_key: str
    """The same for every launch of this call, and unlike that of any other call, unless the tool
    has a business key: it is then `<tenant>:<key>`, for every call that means the same action."""
    fence: int
    """Epoch of the drive: an outside system that keeps the highest one can refuse the others."""
    caller: Mapping[str, object] = field(default_factory=dict[str, object])
    progress: Progress = field(default=unseen_progress, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Sent:
    """Answer of a tool's own check: the call acted."""

    key: str
    """Idempotency key found with the proof; another call's proves nothing of this one."""
    evidence: str


@dataclass(frozen=True, slots=True)
class NotSent:
    """Answer of a tool's own check: the call did not act, and may leave once more."""

    evidence: str


Settlement = Sent | NotSent | None
"""None: the check cannot tell."""

Check = Callable[[Mapping[str, object], ToolContext], Awaitable[Settlement]]
"""A read-only check of whether a call acted, from its arguments and its context."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool gave."""

    blocks: tuple[ContentBlock, ...]
    is_error: bool = False
    """True when the tool itself says that it failed."""


class KeyFaultError(Exception):
    """A tool gave no usable key for its arguments; the message says what it gave."""


@dataclass(frozen=True, slots=True)
class KeyRule:
    """Under which key the effect of a tool is remembered."""

    tool: str
    """Name of the tool, whatever an agent calls it."""
    of: Callable[[Mapping[str, object]], str] | None = None
    """Business key of arguments, in its one spelling; it raises `KeyFaultError`. None: the key is
    technical, and names one call of one run."""


class InvalidArgumentsError(Exception):
    """Arguments that do not fit the schema; the message goes to the model."""

    code: ClassVar[str] = "arguments"


class ToolWithdrawnError(InvalidArgumentsError):
    """The tool is no longer the one that the model was shown."""

    code: ClassVar[str] = "withdrawn"


Launch = Callable[[ToolContext], Awaitable[ToolOutput]]

STILL_RUNNING = "still running"
"""Argument of the cancellation of a launch that leaves something at work behind it: a thread."""


class Tool(Protocol):
    """A tool ready to be called."""

    @property
    def spec(self) -> ToolSpec: ...

    def bind(self, arguments: Mapping[str, object]) -> Launch:
        """What will run once the intent is written; nothing has run when this returns.

        Raises:
            InvalidArgumentsError: the arguments do not fit the schema.

        """
        ...
