"""Facts about what code and judges said of an answer, and about budgets."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from loom_ia.core.cleaning import CleanText
from loom_ia.core.events.envelope import CannotApplyError, Outcome, Payload
from loom_ia.core.events.model import refusal
from loom_ia.core.model import Message, TextBlock
from loom_ia.core.omit import EMPTY, NONE
from loom_ia.core.state import CONTRACT, PendingAnswer, RunState, refuser


class Verdict(Payload):
    """What one check said of one text."""

    check: str
    subject: str
    """Digest of the text that was judged."""
    accepted: bool
    diagnosis: Annotated[CleanText, EMPTY] = ""
    """What the author of the text is told when it is refused."""

    @property
    def outcome(self) -> Outcome:
        return "ok" if self.accepted else "refused"

    def evolve(self, state: RunState) -> RunState:
        answer = state.answer
        if answer is None or answer.subject != self.subject or answer.refused_by is not None:
            return state
        if self.accepted:
            return state.evolve(answer=self.accept(answer))
        refused = answer.evolve(refused_by=self.check, diagnosis=self.diagnosis)
        return state.evolve(answer=refused)

    def accept(self, answer: PendingAnswer) -> PendingAnswer:
        """The answer, once this check has accepted it."""
        return answer.evolve(passed=answer.passed | {self.check})


class GuardChecked(Verdict):
    """A contract or a policy judged something: a text, or the arguments of a call."""

    type: ClassVar[str] = "guard.checked"
    content: ClassVar[frozenset[str]] = frozenset({"diagnosis", "text"})

    point: Annotated[str, EMPTY] = ""
    """Where a policy spoke; empty for a contract."""
    decision: Annotated[str, EMPTY] = ""
    """What it decided, other than to go on."""
    call_id: Annotated[str, EMPTY] = ""
    """The call whose arguments, or whose result, were judged."""
    text: Annotated[CleanText | None, NONE] = None
    """What the judged text became; None when it stays as it was."""
    parsed: Annotated[bool, EMPTY] = False
    """The text was read as JSON."""

    @property
    def outcome(self) -> Outcome:
        return "waiting" if self.decision == "pause" else super().outcome

    def evolve(self, state: RunState) -> RunState:
        if self.decision == "fail" or self.point == "before_tool":
            return state  # another fact says what becomes of it
        if self.decision == "stop":
            return self._stopped(state)
        if self.point == "after_model":
            return self._turned(state)
        if self.call_id:
            return self._given(state)
        return super().evolve(state)

    def _stopped(self, state: RunState) -> RunState:
        """What a model asked for is set aside; an answer is what the run ends with."""
        stopped = state.evolve(exhausted=self.check)
        if self.point == "before_model":
            return stopped
        return self._turned(stopped, refused=bool(state.calls))

    def _turned(self, state: RunState, *, refused: bool = False) -> RunState:
        turn = state.turn
        if turn is None or turn.refused_by is not None:
            return state
        if self.accepted and not refused:
            return state.evolve(turn=turn.accepted(self.check))
        return state.evolve(turn=turn.refused(self.check, self.diagnosis))

    def _given(self, state: RunState) -> RunState:
        """A check has spoken of a result; what it became is what the model reads."""
        call = state.call(self.call_id)
        if call is None or call.result is None:
            return state
        answer, result = state.answer, call.result
        if self.text is not None:
            said = (TextBlock(text=self.text),)
            content = (TextBlock(text=call.note), *said) if call.note else said
            error = result.is_error or not self.accepted
            result = result.model_copy(update={"content": content, "is_error": error})
            if answer is not None and answer.terminal == self.call_id:
                answer = answer.evolve(text=self.text) if self.accepted else None
        passed = call.passed | {self.check}
        calls = state.calls_with(self.call_id, result=result, passed=passed)
        return state.evolve(calls=calls, answer=answer)

    def accept(self, answer: PendingAnswer) -> PendingAnswer:
        if self.text is not None:
            answer = answer.evolve(text=self.text)
        if not self.point:
            answer = answer.evolve(parsed=self.parsed)
        elif self.text is not None:  # the contract looks at what a policy made of its text
            answer = answer.evolve(passed=answer.passed - {CONTRACT}, parsed=False)
        return super().accept(answer)


class JudgeEvaluated(Verdict):
    """A judge noted a text, or was skipped and why."""

    type: ClassVar[str] = "judge.evaluated"
    content: ClassVar[frozenset[str]] = frozenset({"diagnosis"})

    scores: Annotated[dict[str, float], EMPTY] = Field(default_factory=dict[str, float])
    """Score of each criterion, from 0 to 1."""
    skipped: Annotated[str, EMPTY] = ""
    """Why the judge did not run; empty when it did."""


class AnswerRefused(Payload):
    """A refused answer is set aside and its author told why."""

    type: ClassVar[str] = "answer.refused"
    content: ClassVar[frozenset[str]] = frozenset({"message", "not_executed"})

    message: Message
    """What the model is told."""
    not_executed: Annotated[CleanText, EMPTY] = ""
    """What it is told of calls of the refused answer."""

    @property
    def outcome(self) -> Outcome:
        return "refused"

    def evolve(self, state: RunState) -> RunState:
        check = refuser(state)
        if check is None:
            raise CannotApplyError
        results = tuple(c.result or refusal(c, self.not_executed) for c in state.calls)
        told = (Message(role="tool", blocks=results),) if results else ()
        messages = state.messages.add(*told, self.message)
        kept = state.answer is not None and state.answer.terminal is not None
        first = len(state.messages) + len(told) if kept else len(state.messages) - 1
        aside = frozenset(range(first, len(messages)))
        return state.evolve(
            answer=None,
            turn=None,
            calls=(),
            open_step=None,
            repairs={**state.repairs, check: state.repairs.get(check, 0) + 1},
            messages=messages,
            aside=state.aside | aside,
        )


class PolicyDecided(Payload):
    """A policy decided something other than to go on; `guard.checked` says so now."""

    type: ClassVar[str] = "policy.decided"
    content: ClassVar[frozenset[str]] = frozenset({"reason"})

    policy: str
    point: str
    decision: Literal["replace", "repair", "deny", "pause", "stop", "fail"]
    call_id: Annotated[str, EMPTY] = ""
    reason: Annotated[CleanText, EMPTY] = ""

    @property
    def outcome(self) -> Outcome:
        return "refused" if self.decision in {"deny", "fail", "stop"} else "ok"


class BudgetExceeded(Payload):
    """A limit was reached; under `stop` the run gives its last answer."""

    type: ClassVar[str] = "budget.exceeded"

    scope: Literal["run", "session", "tenant"]
    limit: str
    """Key of the configuration, `max_cost` for instance."""
    ceiling: Decimal
    spent: Decimal
    stop: bool = True

    @property
    def outcome(self) -> Outcome:
        return "refused"

    def evolve(self, state: RunState) -> RunState:
        if self.stop:
            return state.evolve(exhausted=self.limit)
        return state.evolve(warned=state.warned | {f"{self.scope}.{self.limit}"})
