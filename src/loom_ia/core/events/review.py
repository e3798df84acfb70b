"""Facts about what code and judges said of an answer, and about budgets."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from loom_ia.core.cleaning import CleanText
from loom_ia.core.events.envelope import CannotApplyError, Outcome, Payload
from loom_ia.core.events.model import refusal
from loom_ia.core.model import Message
from loom_ia.core.omit import EMPTY, NONE
from loom_ia.core.state import CONTRACT, PendingAnswer, RunState


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
    """`replace`, `deny`, `pause` or `fail`."""
    call_id: Annotated[str, EMPTY] = ""
    """The call whose arguments were judged; `subject` is then their digest."""
    text: Annotated[CleanText | None, NONE] = None
    """What the judged text became; None when it stays as it was."""
    parsed: Annotated[bool, EMPTY] = False
    """The text was read as JSON."""

    @property
    def outcome(self) -> Outcome:
        return "waiting" if self.decision == "pause" else super().outcome

    def evolve(self, state: RunState) -> RunState:
        return state if self.call_id else super().evolve(state)

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
        if state.answer is None or state.answer.refused_by is None:
            raise CannotApplyError
        check = state.answer.refused_by
        results = tuple(c.result or refusal(c, self.not_executed) for c in state.calls)
        told = (Message(role="tool", blocks=results),) if results else ()
        messages = state.messages.add(*told, self.message)
        aside = {len(messages) - 1}
        if not told:
            aside.add(len(state.messages) - 1)
        return state.evolve(
            answer=None,
            calls=(),
            open_step=None,
            repairs={**state.repairs, check: state.repairs.get(check, 0) + 1},
            messages=messages,
            aside=state.aside | aside,
        )


class PolicyDecided(Payload):
    """A policy decided something other than to go on."""

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
