"""Histories kept beside their sessions, part by part: never the truth, always replaceable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from loom_ia.core.model import Message
from loom_ia.core.wording import Language
from loom_ia.sessions.history import History, Told

FORMAT = 1


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Mark(_Value):
    """A root run, and where it starts in its session."""

    start: int
    run_id: str


class Settled(Mark):
    """A run that nothing changes any more."""

    messages: tuple[Message, ...]


class Part(_Value):
    """What a session became since the part before."""

    format: Literal[1] = FORMAT
    language: Language
    base: int
    """Position at which the part before ends; 0 for the first one."""
    seq: int
    last_id: str
    """Id of the event at `seq`: a part of another session, or of another past, is not used."""
    ordinal: int
    settled: tuple[Settled, ...] = ()
    going: tuple[Mark, ...] = ()


def written(history: History, base: int) -> bytes:
    """A part that holds what became of a session since position `base`."""
    settled = [Settled(start=t.start, run_id=t.run_id, messages=t.messages) for t in history.fresh]
    part = Part(
        language=history.language,
        base=base,
        seq=history.seq,
        last_id=history.last_id,
        ordinal=history.ordinal,
        settled=tuple(settled),
        going=tuple(Mark(start=g.start, run_id=g.state.run_id) for g in history.going),
    )
    data = part.model_dump_json().encode()
    return _digest(data) + data


def read(parts: Sequence[bytes], language: Language) -> tuple[Part, list[Told]] | None:
    """The last part that follows from the first one, and every run that was settled until it.

    None when nothing can be used: damaged, of another version, in another language.
    """
    last: Part | None = None
    told: list[Told] = []
    for part in _readable(parts):
        if part.language != language or part.base != (last.seq if last else 0):
            continue
        last = part
        told += [Told(s.start, s.run_id, s.messages) for s in part.settled]
    return None if last is None else (last, told)


def _readable(parts: Sequence[bytes]) -> Iterator[Part]:
    for raw in parts:
        digest, data = raw[:SIZE], raw[SIZE:]
        if _digest(data) != digest:
            continue
        try:
            yield Part.model_validate_json(data)
        except ValidationError:
            continue


SIZE = 16
"""Characters of the digest that a part begins with."""


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=SIZE // 2).hexdigest().encode()
