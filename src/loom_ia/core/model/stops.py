"""Why models stop: the words of every API, and what the engine makes of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Api = Literal["anthropic", "chat", "responses"]
StopReason = Literal["end", "calls", "length", "refusal", "filtered", "pause", "other"]

_WORDS: Mapping[StopReason, Mapping[Api, tuple[str, ...]]] = {
    "end": {
        "anthropic": ("end_turn", "stop_sequence"),
        "chat": ("stop", "eos", "end_turn"),
        "responses": ("completed",),
    },
    "calls": {
        "anthropic": ("tool_use",),
        "chat": ("tool_calls", "function_call"),
        "responses": ("function_call",),  # our word: the API says `completed`
    },
    "length": {
        "anthropic": ("max_tokens", "model_context_window_exceeded"),
        "chat": ("length", "model_length"),
        "responses": ("max_output_tokens",),
    },
    "refusal": {
        "anthropic": ("refusal",),
        "chat": ("refusal",),  # our word: the API says `stop` and fills `refusal`
        "responses": ("refusal",),  # same
    },
    "filtered": {
        "anthropic": (),
        "chat": ("content_filter",),
        "responses": ("content_filter",),
    },
    "pause": {"anthropic": ("pause_turn",), "chat": (), "responses": ()},
    "other": {"anthropic": (), "chat": ("error", "insufficient_system_resource"), "responses": ()},
}
_STOPS: Mapping[tuple[Api, str], StopReason] = {
    (api, word): stop
    for stop, row in _WORDS.items()
    for api, words in row.items()
    for word in words
}


def stop_of(api: Api, word: str) -> StopReason:
    """Reason in neutral form; a word that nobody knows is `other`."""
    return _STOPS.get((api, word), "other")


@dataclass(frozen=True, slots=True)
class Meaning:
    """What the engine makes of an answer."""

    text: Literal["kept", "set aside"]
    calls: Literal["run", "refused as cut", "set aside"]
    then: Literal["next effect", "another model or failure", "same model goes on"]


_KEPT = Meaning("kept", "run", "next effect")
_CUT = Meaning("kept", "refused as cut", "next effect")
_REFUSED = Meaning("set aside", "set aside", "another model or failure")

MEANINGS: Mapping[StopReason, Meaning] = {
    "end": _KEPT,
    "calls": _KEPT,
    "length": _CUT,
    "refusal": _REFUSED,
    "filtered": _REFUSED,
    "pause": Meaning("kept", "refused as cut", "same model goes on"),
    "other": _CUT,
}
"""What each reason leads to, whatever API said it."""
