"""The conversation of a session, as its next run is told it: a projection of the journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from loom_ia.core.events import Event, RunStarted
from loom_ia.core.fold import apply
from loom_ia.core.model import (
    AnyBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from loom_ia.core.state import Call, RunState
from loom_ia.core.vec import Vec
from loom_ia.core.wording import Language, reason, say


@dataclass(frozen=True, slots=True)
class Told:
    """What the next runs are told of a run that nothing changes any more."""

    start: int
    """Position of its first event in the session."""
    run_id: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Going:
    """A run whose messages may still change."""

    start: int
    state: RunState


class History:
    """Messages of the runs of a session, ordered by their start; it grows with its events.

    Every call has a result, reasoning and refused attempts are left out, and a run without an
    answer says what became of it.
    """

    __slots__ = ("_parts", "_settled", "fresh", "language", "last_id", "ordinal", "seq")

    def __init__(self, language: Language) -> None:
        self.language: Language = language
        self.seq = 0
        """Position in the session up to which events were taken, and the id of that event."""
        self.last_id = ""
        self.ordinal = 0
        """Highest ordinal of a root run."""
        self.fresh: tuple[Told, ...] = ()
        """Runs that were settled since this was last saved."""
        self._settled: Vec[Message] = Vec()
        self._parts: dict[str, Told | Going] = {}
        """Root runs from the first one on that may still change."""

    @classmethod
    def restored(
        cls, language: Language, at: tuple[int, str, int], parts: Iterable[Told | Going]
    ) -> Self:
        """A history that was saved: its position, that event's id, its last ordinal, its runs."""
        history = cls(language)
        history.seq, history.last_id, history.ordinal = at
        ordered = sorted(parts, key=lambda part: part.start)
        history._parts = {_id(part): part for part in ordered}
        history._settle()
        return history

    @property
    def messages(self) -> Sequence[Message]:
        """What the next run is told."""
        if not self._parts:
            return self._settled
        told = [
            message
            for part in self._parts.values()
            for message in (
                part.messages if isinstance(part, Told) else _told(part.state, self.language)
            )
        ]
        return Vec([*self._settled, *told])

    @property
    def going(self) -> Iterator[Going]:
        """Runs that may still change."""
        for part in self._parts.values():
            if isinstance(part, Going):
                yield part

    @property
    def doubts(self) -> Mapping[str, str]:
        """Calls of unknown outcome that nothing has settled: what they asked for, and their run."""
        return {
            asked: part.state.run_id
            for part in self.going
            for asked in part.state.unsettled.values()
        }

    def then(self, events: Iterable[Event]) -> Self:
        """This history after the events behind it."""
        grown = type(self)(self.language)
        grown.seq, grown.last_id, grown.ordinal = self.seq, self.last_id, self.ordinal
        grown.fresh, grown._settled, grown._parts = self.fresh, self._settled, dict(self._parts)
        for event in events:
            grown.seq, grown.last_id = event.seq, event.id
            grown._take(event)
        grown._settle()
        return grown

    def saved(self) -> Self:
        """This history, once it was saved."""
        same = self.then(())
        same.fresh = ()
        return same

    def _take(self, event: Event) -> None:
        part, payload = self._parts.get(event.run_id), event.payload
        if isinstance(part, Going):
            self._parts[event.run_id] = Going(part.start, apply(part.state, event))
        elif part is None and isinstance(payload, RunStarted) and not payload.root_id:
            self._parts[event.run_id] = Going(event.seq, apply(RunState(), event))
            self.ordinal = max(self.ordinal, payload.ordinal)

    def _settle(self) -> None:
        """Tell once and for all the runs that nothing changes any more."""
        for run_id, part in list(self._parts.items()):
            if isinstance(part, Going) and _final(part.state):
                told = Told(part.start, run_id, tuple(_told(part.state, self.language)))
                self._parts[run_id] = told
                self.fresh = (*self.fresh, told)
        for run_id, part in list(self._parts.items()):
            if isinstance(part, Going):
                return
            self._settled = self._settled.add(*part.messages)
            del self._parts[run_id]


def history_of(events: Iterable[Event], language: Language) -> History:
    """History of a session from its events."""
    return History(language).then(events)


def _id(part: Told | Going) -> str:
    return part.run_id if isinstance(part, Told) else part.state.run_id


def _final(state: RunState) -> bool:
    """True when no event can change what is told of a run."""
    ending = state.ending
    return (
        ending is not None
        and not ending.resumable
        and not state.doubts
        and all(call.status == "settled" for call in state.calls)
    )


def _told(state: RunState, language: Language) -> list[Message]:
    """Messages of one run, closed so that another can follow."""
    left = state.aside | _unsaid(state)
    kept = [m for n, m in enumerate(state.messages) if m.mark == "accepted" and n not in left]
    if state.calls:
        results = tuple(_result(call, language) for call in state.calls)
        kept.append(Message(role="tool", blocks=results))
    names = _names(kept, state)
    messages = [m for m in (_clean(m, names) for m in kept) if m is not None]
    closing = _closing(state, language)
    return [*messages, closing] if closing is not None else messages


def _unsaid(state: RunState) -> frozenset[int]:
    """Place of a last answer that did not leave as it was: refused, or replaced by another."""
    answer, ending = state.answer, state.ending
    if answer is None or answer.terminal is not None or not state.messages:
        return frozenset()
    last = state.messages[-1]
    if last.role != "assistant" or last.calls:
        return frozenset()
    left = ending is not None and ending.status == "completed" and ending.text == last.text
    return frozenset() if left else frozenset({len(state.messages) - 1})


def _result(call: Call, language: Language) -> ToolResultBlock:
    if call.result is not None:
        return call.result
    if call.status in {"asked", "granted"}:
        text = say(language, "never_left")
    elif call.status == "held":
        text = say(language, "run_waiting")
    elif call.status == "unknown":
        why = reason(language, call.doubt or "crash")
        text = say(language, "unknown_outcome", reason=why)
    else:
        text = say(language, "interrupted")
    return ToolResultBlock(
        call_id=call.id, name=call.name, content=(TextBlock(text=text),), is_error=True
    )


def _closing(state: RunState, language: Language) -> Message | None:
    """What stands for the answer of a run that gave none, or gave another than its last message."""
    ending = state.ending
    if ending is not None and ending.status == "completed":
        last = state.messages[-1]
        if last.role == "assistant" and last.text == ending.text:
            return None
        return _assistant(ending.text or say(language, "fallback"))
    if ending is None:
        return _assistant(say(language, "run_waiting"))
    key = "run_failed" if ending.status == "failed" else "run_cancelled"
    return _assistant(say(language, key))


def _assistant(text: str) -> Message:
    return Message(role="assistant", blocks=(TextBlock.of(text),))


def _names(messages: Sequence[Message], state: RunState) -> dict[str, str]:
    """Names of the run's call ids in a history: its ordinal, the turn, the index.

    Providers give the same ids again from run to run; these never meet those of the present run.
    """
    ordinal = state.started.ordinal if state.started else 1
    turns = [message for message in messages if message.role == "assistant"]
    return {
        call.id: f"{ordinal}_{turn}_{index}"
        for turn, message in enumerate(turns)
        for index, call in enumerate(message.calls)
    }


def _clean(message: Message, names: dict[str, str]) -> Message | None:
    """The message without reasoning and with its calls named; None when nothing is left."""
    blocks = tuple(_named(b, names) for b in message.blocks if not isinstance(b, ReasoningBlock))
    blank = not any(not isinstance(b, TextBlock) or b.text.strip() for b in blocks)
    return None if blank else message.model_copy(update={"blocks": blocks})


def _named(block: AnyBlock, names: dict[str, str]) -> AnyBlock:
    match block:
        case ToolCallBlock() if names.get(block.id, block.id) != block.id:
            return block.model_copy(update={"id": names[block.id]})
        case ToolResultBlock() if names.get(block.call_id, block.call_id) != block.call_id:
            return block.model_copy(update={"call_id": names[block.call_id]})
        case _:
            return block
