"""Facts about calls of models. A model step opens with its first attempt, closes by its answer."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, ClassVar, Self

from pydantic import Field

from loom_ia.core.cleaning import CleanJson, CleanText, clean
from loom_ia.core.effects import CallModel
from loom_ia.core.events.envelope import CannotApplyError, Outcome, Payload
from loom_ia.core.model import (
    Answer,
    Message,
    StopReason,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    Usage,
)
from loom_ia.core.omit import EMPTY, NONE
from loom_ia.core.state import FRESH, Call, OpenStep, PendingAnswer, RunState
from loom_ia.core.trusted import trusted


class ModelCalled(Payload):
    """A request leaves for a model; without an answer behind it, its cost is unknown."""

    type: ClassVar[str] = "model.called"

    step: int
    attempt: int = 1
    role: str = "main"
    model: CleanText
    """Id of the model in the configuration."""
    final: Annotated[bool, EMPTY] = False
    """An answer without tools is asked: iterations or budget are spent."""
    prefix: Annotated[dict[str, str], EMPTY] = Field(default_factory=dict[str, str])
    """Digests of blobs sent before the conversation (`system`, `tools`, `params`, `history`, and
    `replaced_…` for what a policy put in their place); empty when they are those of the
    previous attempt."""
    added: Annotated[tuple[str, ...], EMPTY] = ()
    """Digests of the run's messages sent for the first time."""

    @classmethod
    def make(
        cls, effect: CallModel, model: str, prefix: dict[str, str], added: tuple[str, ...]
    ) -> Self:
        """An attempt of the main model, by its id."""
        values: dict[str, object] = {
            "step": effect.step,
            "attempt": effect.attempt,
            "role": "main",
            "model": model,
            "final": effect.final,
            "prefix": prefix,
            "added": added,
        }
        return trusted(cls, values)

    @property
    def blobs(self) -> Sequence[str]:
        return [part for name, part in self.prefix.items() if name != "history"]

    def evolve(self, state: RunState) -> RunState:
        if state.started is None or state.ending is not None:
            raise CannotApplyError
        if self.role != "main":
            return state.evolve(open_attempts=state.open_attempts + 1)
        return state.evolve(
            step=self.step,
            open_step=OpenStep(self.step, "model", final=self.final, attempts=self.attempt),
            open_attempts=state.open_attempts + 1,
            prefix=self.prefix or state.prefix,
            told=(0 if self.prefix else state.told) + len(self.added),
        )


class ModelFailed(Payload):
    """An attempt ended without an answer; what it showed is void."""

    type: ClassVar[str] = "model.failed"
    content: ClassVar[frozenset[str]] = frozenset({"detail"})

    step: int
    attempt: int = 1
    role: str = "main"
    model: Annotated[CleanText, EMPTY] = ""
    code: str
    detail: Annotated[CleanText, EMPTY] = ""
    usage: Annotated[Usage | None, NONE] = None
    """What the provider announced before it failed; None: unknown."""
    cost: Annotated[Decimal | None, NONE] = None
    ms: Annotated[float, EMPTY] = 0

    @property
    def outcome(self) -> Outcome:
        return "error"

    def evolve(self, state: RunState) -> RunState:
        return spend(state, self.usage, self.cost)


class ModelResponded(Payload):
    """A model answered: a text, or calls."""

    type: ClassVar[str] = "model.responded"
    content: ClassVar[frozenset[str]] = frozenset({"message", "not_executed"})

    step: int
    role: str = "main"
    model: Annotated[CleanText, EMPTY] = ""
    """Name of the model that served."""
    message: Message
    stop: StopReason = "end"
    not_executed: Annotated[CleanText, EMPTY] = ""
    """What the model is told of the calls of a last answer; they never run."""
    usage: Annotated[Usage | None, NONE] = None
    """None when the provider gave none: the cost is unknown, not zero."""
    cost: Annotated[Decimal | None, NONE] = None
    """Dollars; None when the model has no price or the usage is unknown."""
    ms: Annotated[float, EMPTY] = 0
    ignored: Annotated[int, EMPTY] = 0
    """Events of the stream, and parts of them, that nobody knows."""

    @classmethod
    def make(
        cls,
        step: int,
        model: str,
        answer: Answer,
        *,
        not_executed: str,
        cost: Decimal | None,
        ms: float,
    ) -> Self:
        """The answer of the main model, as it was checked when it came."""
        values: dict[str, object] = {
            "step": step,
            "role": "main",
            "model": clean(answer.model) or model,
            "message": answer.message,
            "stop": answer.stop,
            "not_executed": not_executed,
            "usage": answer.usage,
            "cost": cost,
            "ms": ms,
            "ignored": answer.ignored,
        }
        return trusted(cls, values)

    def evolve(self, state: RunState) -> RunState:
        step = state.open_step
        if self.role != "main":
            return spend(state, self.usage, self.cost)
        if step is None or step.kind != "model" or state.ending is not None:
            raise CannotApplyError
        calls, messages = self.message.calls, state.messages.add(self.message)
        changes = _spent(state, self.usage, self.cost)
        changes |= {"open_step": None, "turns": state.turns + 1, "turn": FRESH}
        if self.stop == "pause" and not (calls or step.final):
            return state.evolve(**changes, messages=messages)  # the same model goes on
        if step.final or not calls:
            if calls:
                results = tuple(refusal(call, self.not_executed) for call in calls)
                messages = messages.add(Message(role="tool", blocks=results))
            answer = PendingAnswer(self.message.text, final=step.final)
            return state.evolve(**changes, messages=messages, answer=answer)
        ids = state.ids
        for call in calls:
            ids = ids.add(call.id)
        asked = tuple([_asked(call, n) for n, call in enumerate(calls)])
        return state.evolve(**changes, messages=messages, ids=ids, calls=asked)


class ModelSwitched(Payload):
    """The run leaves a model for another one, and stays there."""

    type: ClassVar[str] = "model.switched"
    content: ClassVar[frozenset[str]] = frozenset({"detail"})

    step: int
    role: str = "main"
    left: CleanText
    """Id of the model that is left."""
    model: CleanText
    """Id of the model that takes over."""
    code: str
    """Why: code of a failure, or what the model that is left cannot do."""
    detail: Annotated[CleanText, EMPTY] = ""

    def evolve(self, state: RunState) -> RunState:
        return state.evolve(serving=self.model) if self.role == "main" else state


class ModelExchanged(Payload):
    """One HTTP exchange with a provider, without keys or file contents."""

    type: ClassVar[str] = "model.exchanged"
    content: ClassVar[frozenset[str]] = frozenset({"request", "body"})

    step: int
    attempt: int = 1
    role: str = "main"
    url: CleanText
    request: Annotated[CleanJson, EMPTY] = Field(default_factory=dict[str, object])
    status: Annotated[int | None, NONE] = None
    headers: Annotated[dict[str, CleanText], EMPTY] = Field(default_factory=dict[str, str])
    body: Annotated[tuple[CleanText, ...], EMPTY] = ()


def _asked(block: ToolCallBlock, index: int) -> Call:
    return Call.asked(block.id, index, block.name, block.arguments, block.malformed)


def refusal(call: ToolCallBlock | Call, text: str) -> ToolResultBlock:
    """Error result of a call that did not run."""
    return ToolResultBlock(
        call_id=call.id, name=call.name, content=(TextBlock(text=text),), is_error=True
    )


def spend(state: RunState, usage: Usage | None, cost: Decimal | None) -> RunState:
    """State after one model call that is no longer open, its tokens and dollars counted."""
    return state.evolve(**_spent(state, usage, cost))


def _spent(state: RunState, usage: Usage | None, cost: Decimal | None) -> dict[str, object]:
    return {
        "open_attempts": max(state.open_attempts - 1, 0),
        "usage": state.usage if usage is None else state.usage + usage,
        "cost": state.cost if cost is None else state.cost + cost,
        "unpriced": state.unpriced + (cost is None),
    }
