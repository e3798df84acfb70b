"""Facts about a run as a whole: asked, claimed, stopped, ended."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field

from loom_ia.core.cleaning import CleanJson, CleanText
from loom_ia.core.events.envelope import CannotApplyError, Outcome, Payload, Value
from loom_ia.core.model import Message
from loom_ia.core.omit import EMPTY, NONE
from loom_ia.core.state import Ending, RunState
from loom_ia.core.trusted import trusted

if TYPE_CHECKING:
    from loom_ia.core.state import Status


class Principal(Value):
    """Who asks or decides, and through which door."""

    id: CleanText
    """`key:<id>`, `cli:<system user>`, or what the Python caller gave as `by`."""
    channel: Literal["python", "cli", "rest", "mcp", "webhook", "engine"] = "python"

    @classmethod
    @lru_cache(256)
    def make(cls, name: str, channel: str) -> Self:
        """The principal of a name, shared by what it asks."""
        return cls.model_validate({"id": name, "channel": channel})


class CallerOptions(Value):
    """What the caller asked for beside the message."""

    judges: Literal["auto", "force", "skip"] = "auto"
    context: Annotated[CleanJson, EMPTY] = Field(default_factory=dict[str, object])
    """Metadata of the caller, for roles that declare `caller_context`."""
    approver: Annotated[bool, EMPTY] = False
    """True when the caller brought an inline approver."""


class RunStarted(Payload):
    """A run was asked."""

    type: ClassVar[str] = "run.started"
    content: ClassVar[frozenset[str]] = frozenset({"message", "options"})

    agent: CleanText
    message: Message
    principal: Principal
    language: Literal["fr", "en"] = "fr"
    """What the model is told is in this language, for the whole run."""
    ordinal: int = 1
    """Place of the run among those of its session, from 1."""
    root_id: Annotated[str, EMPTY] = ""
    """Root of the run tree; empty for a root."""
    parent_call: Annotated[str, EMPTY] = ""
    """Call of the parent run that started this one; empty for a root."""
    options: Annotated[CallerOptions, EMPTY] = Field(default_factory=CallerOptions)
    reserve: Annotated[Decimal | None, NONE] = None
    """Dollars reserved in the budget of its tenant, as long as it goes on."""

    @classmethod
    def make(
        cls,
        agent: str,
        message: Message,
        principal: Principal,
        *,
        language: Literal["fr", "en"],
        ordinal: int,
        options: CallerOptions,
    ) -> Self:
        """The start of a root, by the name that its configuration gives to the agent."""
        values: dict[str, object] = {
            "agent": agent,
            "message": message,
            "principal": principal,
            "language": language,
            "ordinal": ordinal,
            "root_id": "",
            "parent_call": "",
            "options": options,
            "reserve": None,
        }
        return trusted(cls, values)

    def evolve(self, state: RunState) -> RunState:
        if state.started is not None:
            raise CannotApplyError
        return state.evolve(started=self, messages=state.messages.add(self.message))


class RunClaimed(Payload):
    """A driver took the run; the store allotted the epoch of the envelope."""

    type: ClassVar[str] = "run.claimed"

    crashed: Annotated[bool, EMPTY] = False
    """True when the previous lease had been neither released nor ended: its driver died."""
    holder: Annotated[CleanText, EMPTY] = ""

    @classmethod
    @lru_cache(16)
    def make(cls, holder: str, *, crashed: bool) -> Self:
        """The fact, shared by the runs of a holder."""
        return cls(holder=holder, crashed=crashed)

    def evolve(self, state: RunState) -> RunState:
        if not self.crashed:
            return state.evolve(driven_at=None)
        lost = state.open_attempts
        crashes = state.crashes + 1 if state.crash_step == state.step else 1
        return state.evolve(
            driven_at=None,
            crashes=crashes,
            crash_step=state.step,
            open_attempts=0,
            unpriced=state.unpriced + lost,
        )


class RunResumed(Payload):
    """Somebody asked to go on with a run that had failed and can be resumed."""

    type: ClassVar[str] = "run.resumed"
    after_end: ClassVar[bool] = True

    by: Principal

    def evolve(self, state: RunState) -> RunState:
        if state.ending is None or not state.ending.resumable:
            raise CannotApplyError
        return state.evolve(ending=None, crashes=0, crash_step=-1, driven=timedelta())


class ConfigChanged(Payload):
    """The run goes on under a configuration that differs from the one it had."""

    type: ClassVar[str] = "config.changed"

    parts: tuple[str, ...]
    """What moved: `system`, `tools`, `params`, `model`."""


class CancelRequested(Payload):
    """Somebody asked to stop the run; nothing new starts."""

    type: ClassVar[str] = "cancel.requested"
    content: ClassVar[frozenset[str]] = frozenset({"reason"})

    by: Principal
    reason: Annotated[CleanText, EMPTY] = ""

    def evolve(self, state: RunState) -> RunState:
        return state if state.cancel is not None else state.evolve(cancel=self)


class RunCompleted(Payload):
    """The answer left."""

    type: ClassVar[str] = "run.completed"
    content: ClassVar[frozenset[str]] = frozenset({"text"})

    text: Annotated[CleanText | None, NONE] = None
    """The answer, when it is not the text of the last message."""
    verified: bool = True
    """False when a check refused it and the configuration lets it leave marked."""

    @classmethod
    @lru_cache(16)
    def make(cls, text: str | None, *, verified: bool) -> Self:
        """The fact, shared by the runs whose answer is their last message."""
        return cls(text=text, verified=verified)

    def evolve(self, state: RunState) -> RunState:
        answer = state.answer
        if self.text is not None or answer is None:
            return _closed(state, Ending("completed", self.text or "", self.verified))
        parsed = answer.parsed
        return _closed(state, Ending("completed", answer.text, self.verified, parsed=parsed))


class RunFailed(Payload):
    """The run ended without an answer."""

    type: ClassVar[str] = "run.failed"

    code: str
    """Code of the error class whose sentence explains it."""
    params: Annotated[CleanJson, EMPTY] = Field(default_factory=dict[str, object])
    resumable: Annotated[bool, EMPTY] = False

    @property
    def outcome(self) -> Outcome:
        return "error"

    def evolve(self, state: RunState) -> RunState:
        ending = Ending("failed", code=self.code, params=self.params, resumable=self.resumable)
        return _closed(state, ending)


class RunCancelled(Payload):
    """The run was stopped."""

    type: ClassVar[str] = "run.cancelled"

    still_running: Annotated[tuple[str, ...], EMPTY] = ()
    """Calls that did not stop in time; what they do is no longer waited for."""

    def evolve(self, state: RunState) -> RunState:
        return _closed(state, Ending("cancelled", still_running=self.still_running))


class LineQuarantined(Payload):
    """Keeps the position of a damaged line that `repair` set aside."""

    type: ClassVar[str] = "journal.quarantined"
    after_end: ClassVar[bool] = True

    reason: Annotated[CleanText, EMPTY] = ""
    file: Annotated[CleanText, EMPTY] = ""

    def evolve(self, state: RunState) -> RunState:
        if not state.calls:
            return state
        calls = tuple(
            c if c.status == "settled" else c.evolve(status="unknown") for c in state.calls
        )
        return state.evolve(calls=calls)


class TailHealed(Payload):
    """A write cut by a crash was removed; nothing acknowledged was in it."""

    type: ClassVar[str] = "journal.healed"
    after_end: ClassVar[bool] = True

    removed: int
    """Bytes taken off the end of the file."""


def _closed(state: RunState, ending: Ending) -> RunState:
    if state.started is None or state.ending is not None:
        raise CannotApplyError
    return state.evolve(ending=ending, open_step=None)


def status_of(payload: Payload) -> Status | None:
    """Status that an ending fact gives to its run, None for any other fact."""
    match payload:
        case RunCompleted():
            return "completed"
        case RunFailed():
            return "failed"
        case RunCancelled():
            return "cancelled"
        case _:
            return None
