"""The conversation of a session, as its next run is told it: a projection of the journal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
from loom_ia.core.wording import Language, reason, say


@dataclass(frozen=True, slots=True)
class History:
    """Messages of the runs of a session, ordered by their start, and how many runs there are."""

    messages: tuple[Message, ...] = ()
    runs: int = 0


def history_of(events: Iterable[Event], language: Language) -> History:
    """History of a session from its events.

    Every call has a result, reasoning and refused attempts are left out, and a run without an
    answer says what became of it.
    """
    states: dict[str, RunState] = {}
    for event in events:
        if event.run_id not in states and not isinstance(event.payload, RunStarted):
            continue
        states[event.run_id] = apply(states.get(event.run_id, RunState()), event)
    roots = [s for s in states.values() if s.started is not None and not s.started.root_id]
    messages: list[Message] = []
    for state in roots:
        messages += _told(state, language)
    return History(tuple(messages), len(roots))


def _told(state: RunState, language: Language) -> list[Message]:
    """Messages of one run, closed so that another can follow."""
    kept = [m for m in state.messages if m.mark == "accepted"]
    if state.calls:
        results = tuple(_result(call, language) for call in state.calls)
        kept.append(Message(role="tool", blocks=results))
    names = _names(kept, state)
    messages = [m for m in (_clean(m, names) for m in kept) if m is not None]
    closing = _closing(state, language)
    return [*messages, closing] if closing is not None else messages


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
