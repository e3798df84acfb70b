"""Facts about tool calls. From `tool.called` on, the effect of a call may exist."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, ClassVar, Literal, Self

from loom_ia.core.cleaning import CleanJson, CleanText
from loom_ia.core.events.envelope import CannotApplyError, Outcome, Payload
from loom_ia.core.events.model import refusal
from loom_ia.core.model import ContentBlock, Message, TextBlock, ToolResultBlock, text_of
from loom_ia.core.omit import EMPTY, NONE
from loom_ia.core.state import Call, CallStatus, OpenStep, PendingAnswer, RunState
from loom_ia.core.trusted import trusted

UnknownReason = Literal["timeout", "cancelled", "crash", "lease_lost", "exception", "connection"]


class StepOpened(Payload):
    """A batch of tools begins; the calls are those of the last answer."""

    type: ClassVar[str] = "step.opened"

    step: int

    @classmethod
    @lru_cache(256)
    def make(cls, step: int) -> Self:
        """The fact, shared by the runs that open a step of this number."""
        return trusted(cls, {"step": step})

    def evolve(self, state: RunState) -> RunState:
        if not state.calls or state.open_step is not None:
            raise CannotApplyError
        return state.evolve(step=self.step, open_step=OpenStep(self.step, "tools"), turn=None)


class StepClosed(Payload):
    """Every call of the batch has its result; the model may be told."""

    type: ClassVar[str] = "step.closed"

    step: int

    @classmethod
    @lru_cache(256)
    def make(cls, step: int) -> Self:
        """The fact, shared by the runs that close a step of this number."""
        return trusted(cls, {"step": step})

    def evolve(self, state: RunState) -> RunState:
        results = tuple([c.result for c in state.calls if c.result is not None])
        if not results or len(results) != len(state.calls):
            raise CannotApplyError
        told = trusted(Message, {"role": "tool", "blocks": results, "mark": "accepted"})
        return state.evolve(open_step=None, calls=(), messages=state.messages.add(told))


class CallFact(Payload):
    """A fact about one call of the open turn."""

    call_id: str

    def of(self, state: RunState, *statuses: CallStatus) -> Call:
        """The call, if it can still change and, when statuses are named, has one of them.

        Raises:
            CannotApplyError: unknown, already settled, or elsewhere.

        """
        call = state.call(self.call_id)
        if call is None or call.status == "settled" or state.ending is not None:
            raise CannotApplyError
        if statuses and call.status not in statuses:
            raise CannotApplyError
        return call


class ToolCalled(CallFact):
    """The call leaves; written before it does."""

    type: ClassVar[str] = "tool.called"
    content: ClassVar[frozenset[str]] = frozenset({"arguments", "key"})

    launch: int = 1
    """1, then 2 when one more launch was allowed or the tool is repeatable."""
    arguments: Annotated[CleanJson | None, NONE] = None
    """What leaves, when a policy or a human changed what the model asked."""
    key: Annotated[str, EMPTY] = ""
    """Idempotency key under which it leaves, of a tool that has one."""

    @classmethod
    def make(cls, call: Call, arguments: dict[str, object] | None = None, key: str = "") -> Self:
        """The next launch of a call; `arguments` are clean."""
        launch = call.launches + 1
        values: dict[str, object] = {
            "call_id": call.id,
            "launch": launch,
            "arguments": arguments,
            "key": key,
        }
        return trusted(cls, values)

    def evolve(self, state: RunState) -> RunState:
        self.of(state)
        left: dict[str, object] = {} if self.arguments is None else {"arguments": self.arguments}
        calls = state.calls_with(
            self.call_id, status="started", launches=self.launch, epoch=state.epoch, **left
        )
        return state.evolve(launches=state.launches + 1, calls=calls)


class ToolCompleted(CallFact):
    """The tool answered: a result, or an error of which it says that it did not act."""

    type: ClassVar[str] = "tool.completed"
    content: ClassVar[frozenset[str]] = frozenset({"blocks", "note"})

    blocks: Annotated[tuple[ContentBlock, ...], EMPTY] = ()
    is_error: Annotated[bool, EMPTY] = False
    terminal: Annotated[bool, EMPTY] = False
    """True when the tool was called alone and its output is the answer of the run."""
    ms: Annotated[float, EMPTY] = 0
    recalled: Annotated[str, EMPTY] = ""
    """Run and call that gave this result earlier, when it was kept under the idempotency key."""
    note: Annotated[CleanText, EMPTY] = ""
    """What the model is told before a result that another call gave."""

    @classmethod
    def make(
        cls,
        call_id: str,
        blocks: tuple[ContentBlock, ...],
        ms: float,
        *,
        is_error: bool = False,
        terminal: bool = False,
    ) -> Self:
        """An outcome whose blocks are right."""
        values: dict[str, object] = {
            "call_id": call_id,
            "blocks": blocks,
            "is_error": is_error,
            "terminal": terminal,
            "ms": ms,
            "recalled": "",
            "note": "",
        }
        return trusted(cls, values)

    @property
    def outcome(self) -> Outcome:
        return "error" if self.is_error else "ok"

    def evolve(self, state: RunState) -> RunState:
        settled = state.settle(self.call_id, self.result(self.of(state)), output=True)
        if not self.terminal or self.is_error:
            return settled
        answer = PendingAnswer(text_of(self.blocks), terminal=self.call_id)
        return settled.evolve(answer=answer)

    def result(self, call: Call) -> ToolResultBlock:
        """What the model is told."""
        values: dict[str, object] = {
            "type": "tool_result",
            "call_id": call.id,
            "name": call.name,
            "content": (TextBlock(text=self.note), *self.blocks) if self.note else self.blocks,
            "is_error": self.is_error,
        }
        return trusted(ToolResultBlock, values)


class ToolReported(ToolCompleted):
    """An outcome that came late: its driver had lost the run, or the run had ended.

    It settles an unknown outcome and never reopens a run.
    """

    type: ClassVar[str] = "tool.reported"
    after_end: ClassVar[bool] = True

    def evolve(self, state: RunState) -> RunState:
        call = state.call(self.call_id)
        if self.call_id in state.doubts:
            return state.undoubting(self.result(call or Call(self.call_id, 0, "", {})))
        if call is None or call.status not in {"started", "unknown", "held"}:
            raise CannotApplyError
        return state.settle(self.call_id, self.result(call), output=True)


class ToolRefused(CallFact):
    """The call was answered without being launched."""

    type: ClassVar[str] = "tool.refused"
    content: ClassVar[frozenset[str]] = frozenset({"text"})

    code: str
    """`arguments`, `unknown_tool`, `policy`, `limit`, `malformed`, `key_conflict`, …"""
    text: CleanText
    """What the model is told."""

    @property
    def outcome(self) -> Outcome:
        return "refused"

    def evolve(self, state: RunState) -> RunState:
        return state.settle(self.call_id, refusal(self.of(state), self.text))


class ToolUnknown(CallFact):
    """The call left and nobody knows whether it acted."""

    type: ClassVar[str] = "tool.unknown"
    content: ClassVar[frozenset[str]] = frozenset({"detail"})

    reason: UnknownReason
    detail: Annotated[CleanText, EMPTY] = ""
    still_running: Annotated[bool, EMPTY] = False
    """True when the work did not stop when it was asked to."""
    ms: Annotated[float, EMPTY] = 0

    @property
    def outcome(self) -> Outcome:
        return "unknown"

    def evolve(self, state: RunState) -> RunState:
        self.of(state, "started")
        return state.with_call(self.call_id, status="unknown", doubt=self.reason)


class ToolSettled(CallFact):
    """The tool's own read-only check said whether an unknown call had acted."""

    type: ClassVar[str] = "tool.settled"
    content: ClassVar[frozenset[str]] = frozenset({"evidence", "text"})

    sent: bool | None
    """None when the check could not tell."""
    evidence: Annotated[CleanText, EMPTY] = ""
    text: Annotated[CleanText, EMPTY] = ""
    """What the model is told of a call that acted."""

    def evolve(self, state: RunState) -> RunState:
        call = self.of(state, "unknown", "started")
        if self.sent is None:
            return state.with_call(self.call_id, status="unknown", settle_tried=True)
        if not self.sent:
            return state.with_call(self.call_id, status="granted", settle_tried=True)
        result = ToolResultBlock(
            call_id=call.id, name=call.name, content=(TextBlock(text=self.text or self.evidence),)
        )
        return state.settle(self.call_id, result)


class ToolAbandoned(CallFact):
    """The model is told that the outcome is unknown; nobody will launch the call again."""

    type: ClassVar[str] = "tool.abandoned"

    text: CleanText
    """What the model is told."""

    @property
    def outcome(self) -> Outcome:
        return "unknown"

    def evolve(self, state: RunState) -> RunState:
        call = self.of(state, "unknown", "started", "granted")
        return state.settle(self.call_id, refusal(call, self.text)).doubting(call)


class ChildWaiting(CallFact):
    """The sub-agent of this call waits for a human."""

    type: ClassVar[str] = "child.waiting"

    @property
    def outcome(self) -> Outcome:
        return "waiting"

    def evolve(self, state: RunState) -> RunState:
        self.of(state)
        return state.with_call(self.call_id, status="waiting", epoch=state.epoch)
