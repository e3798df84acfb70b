"""A run as its journal tells it. Nothing here is stored: it is folded whenever it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal

from loom_ia.core.model import Message, TextBlock, ToolResultBlock, Usage
from loom_ia.core.sameness import same_call
from loom_ia.core.vec import Ranked, Vec

if TYPE_CHECKING:
    from loom_ia.core.events.approval import ApprovalRequested
    from loom_ia.core.events.run import CancelRequested, RunStarted

Status = Literal[
    "ready_for_model",
    "awaiting_tools",
    "waiting_child",
    "paused",
    "finalizing",
    "completed",
    "failed",
    "cancelled",
]
CONTRACT = "contract"
"""Name of the check of an answer's form."""
_new = object.__new__
ENDED: frozenset[Status] = frozenset({"completed", "failed", "cancelled"})

CallStatus = Literal["asked", "held", "granted", "started", "unknown", "waiting", "settled"]


@dataclass(frozen=True)
class Call:
    """A tool call of the open turn."""

    id: str
    index: int
    name: str
    arguments: Mapping[str, object]
    malformed: str | None = None
    status: CallStatus = "asked"
    epoch: int = 0
    """Epoch under which it last left, or under which its child last waited."""
    launches: int = 0
    request: ApprovalRequested | None = None
    """The question a human was last asked about it."""
    doubt: str = ""
    """Why its outcome is unknown, as it was recorded; a crash records nothing."""
    settle_tried: bool = False
    note: str = ""
    """What the model is told before its result: what a human corrected."""
    result: ToolResultBlock | None = None
    output: bool = False
    """The result is what the tool gave."""
    passed: frozenset[str] = frozenset()
    """Checks that have spoken of the result."""

    @classmethod
    def asked(
        cls,
        call_id: str,
        index: int,
        name: str,
        arguments: Mapping[str, object],
        malformed: str | None,
    ) -> Call:
        """A call as its model asks for it; copied from a blank one, which takes less long."""
        return _BLANK_CALL.evolve(
            id=call_id, index=index, name=name, arguments=arguments, malformed=malformed
        )

    def evolve(self, **changes: object) -> Call:
        """This call with other values."""
        new = _new(Call)
        _fill_call(new, self.__dict__ | changes)
        return new


_BLANK_CALL = Call("", 0, "", {})
_fill_call = Call.__dict__["__dict__"].__set__


@dataclass(frozen=True, slots=True)
class OpenStep:
    """A step that has begun and not ended."""

    number: int
    kind: Literal["model", "tools"]
    final: bool = False
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """What policies said of the last answer of the main model, before anything is made of it."""

    passed: frozenset[str] = frozenset()
    refused_by: str | None = None
    diagnosis: str = ""

    def accepted(self, check: str) -> Turn:
        """This turn, once one more policy lets it through."""
        return Turn(self.passed | {check})

    def refused(self, check: str, diagnosis: str) -> Turn:
        """This turn, once a policy refuses it."""
        return Turn(self.passed, check, diagnosis)


FRESH = Turn()


@dataclass(frozen=True)
class PendingAnswer:
    """An answer that has not left yet."""

    text: str
    final: bool = False
    terminal: str | None = None
    """Id of the terminal call that produced it."""
    passed: frozenset[str] = frozenset()
    """Checks that accepted it, or were skipped."""
    refused_by: str | None = None
    diagnosis: str = ""
    parsed: bool = False
    """A contract read the text as JSON."""

    def evolve(self, **changes: object) -> PendingAnswer:
        """This answer with other values."""
        new = object.__new__(PendingAnswer)
        object.__setattr__(new, "__dict__", self.__dict__ | changes)
        return new

    @property
    def subject(self) -> str:
        """Digest of what checks judge; their verdicts hold for this text only."""
        return blake2b(self.text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended."""

    status: Status
    text: str = ""
    verified: bool = True
    parsed: bool = False
    """The text is JSON that a contract accepted."""
    code: str = ""
    params: Mapping[str, object] = field(default_factory=dict[str, object])
    resumable: bool = False
    still_running: tuple[str, ...] = ()
    """Calls that had not stopped when the run did."""


@dataclass(frozen=True)
class RunState:
    """Projection of one run; `status` is read from the facts."""

    run_id: str = ""
    tenant_id: str = ""
    session_id: str = ""
    position: int = 0
    """Events of the run so far, those that were ignored included."""
    ignored: int = 0
    """Events that could not apply: they count, and change nothing else."""
    foreign: str | None = None
    """Type of an event that this version does not know and may not skip."""
    damaged: bool = False
    at: datetime | None = None
    """Store's instant of the last event."""
    started: RunStarted | None = None
    messages: Vec[Message] = field(default_factory=Vec[Message])
    turns: int = 0
    step: int = 0
    open_step: OpenStep | None = None
    calls: tuple[Call, ...] = ()
    launches: int = 0
    answer: PendingAnswer | None = None
    turn: Turn | None = None
    """The last turn of the main model; None when nothing of it can be refused any more."""
    repairs: Mapping[str, int] = field(default_factory=dict[str, int])
    """Answers set aside, by the check that refused them."""
    aside: frozenset[int] = frozenset()
    """Places, among the messages, of refused answers and of what their author was told."""
    exhausted: str | None = None
    """Budget that was exceeded under `stop`."""
    warned: frozenset[str] = frozenset()
    """Budgets that were exceeded under `warn`, `run.max_cost` for instance."""
    cancel: CancelRequested | None = None
    ending: Ending | None = None
    epoch: int = 0
    crashes: int = 0
    """Crashes of the present step since the start or the last resumption."""
    crash_step: int = -1
    driven: timedelta = timedelta()
    """Driving time since the start or the last resumption."""
    driven_at: datetime | None = None
    usage: Usage = field(default_factory=Usage)
    cost: Decimal = Decimal(0)
    unpriced: int = 0
    """Model calls whose cost is unknown; lost calls are among them."""
    open_attempts: int = 0
    ids: Ranked[str] = field(default_factory=Ranked[str])
    """Call ids already used in the run."""
    rejected: frozenset[str] = frozenset()
    """Calls that a human rejected in this run (see `core.sameness`)."""
    doubts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Calls that the model was told are of unknown outcome, and that nothing has settled since: by
    id, what they asked for (see `core.sameness`)."""
    prefix: Mapping[str, str] = field(default_factory=dict[str, str])
    """Digests of what the last attempt sent before the conversation."""
    serving: str = ""
    """Id of the model that the run went to; empty while it is on the first one."""
    told: int = 0
    """Messages of the run whose digest an attempt has recorded."""

    def evolve(self, **changes: object) -> RunState:
        """This state with other values; the cost does not depend on what the run did before."""
        new = _new(RunState)
        _fill_state(new, self.__dict__ | changes)
        return new

    def call(self, call_id: str) -> Call | None:
        """Call of the open turn with this id."""
        for call in self.calls:
            if call.id == call_id:
                return call
        return None

    def calls_with(self, call_id: str, **changes: object) -> tuple[Call, ...]:
        """The calls of the open turn, with other values of one of them."""
        calls = self.calls
        if len(calls) == 1 and calls[0].id == call_id:
            return (calls[0].evolve(**changes),)
        return tuple([c.evolve(**changes) if c.id == call_id else c for c in calls])

    def with_call(self, call_id: str, **changes: object) -> RunState:
        """This state with other values of one call."""
        return self.evolve(calls=self.calls_with(call_id, **changes))

    def settle(self, call_id: str, result: ToolResultBlock, *, output: bool = False) -> RunState:
        """This state with one call answered, by its tool (`output`) or in its place."""
        call = self.call(call_id)
        if call is not None and call.note:
            told = (TextBlock(text=call.note), *result.content)
            result = result.model_copy(update={"content": told})
        changes: dict[str, object] = {"status": "settled", "result": result, "output": output}
        return self.evolve(calls=self.calls_with(call_id, **changes))

    def doubting(self, call: Call) -> RunState:
        """This state, in which nothing may settle a call that left any more but evidence."""
        asked = same_call(call.name, call.arguments)
        return self.evolve(doubts={**self.doubts, call.id: asked})

    def undoubting(self, result: ToolResultBlock) -> RunState:
        """This state once a call of unknown outcome is settled; later runs are told the result."""
        name = result.call_id
        doubts = {call: asked for call, asked in self.doubts.items() if call != name}
        if self.call(name) is not None:  # the model has not been told yet
            return self.evolve(doubts=doubts, calls=self.calls_with(name, result=result))
        if self.ending is None:  # it has, and is not made to forget it
            return self.evolve(doubts=doubts)
        messages = Vec([message.answering(result) for message in self.messages])
        return self.evolve(doubts=doubts, messages=messages)

    @property
    def unsettled(self) -> Mapping[str, str]:
        """Calls of which nobody knows whether they acted, whether the model was told or not."""
        left = {"started", "unknown", "held"}
        going = {c.id: c for c in self.calls if c.launches and c.status in left}
        asked = {name: same_call(call.name, call.arguments) for name, call in going.items()}
        return {**self.doubts, **asked}

    @property
    def status(self) -> Status:
        """The seed's eight states."""
        if self.ending is not None:
            return self.ending.status
        if self.calls:
            return self._status_of_calls()
        if self.exhausted is not None or (self.open_step is not None and self.open_step.final):
            return "finalizing"
        return "ready_for_model"

    def _status_of_calls(self) -> Status:
        left = {call.status for call in self.calls} - {"settled"}
        if left == {"held"}:
            return "paused"
        if left and left <= {"held", "waiting"}:
            return "waiting_child"
        return "awaiting_tools"

    @property
    def cost_known(self) -> Decimal | None:
        """Dollars spent, or None when a part is unknown."""
        return None if self.unpriced or self.open_attempts else self.cost


def refuser(state: RunState) -> str | None:
    """Check that refused the last turn, or the answer that waits."""
    if state.turn is not None and state.turn.refused_by is not None:
        return state.turn.refused_by
    return None if state.answer is None else state.answer.refused_by


_fill_state = RunState.__dict__["__dict__"].__set__
