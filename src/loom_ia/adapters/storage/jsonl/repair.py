"""Puts the damaged lines of a session aside, each behind a placeholder that keeps its position."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime

from loom_ia.adapters.files import read_file, replace_file, write_all
from loom_ia.adapters.storage.jsonl.log import Log
from loom_ia.core.events import Event, LineQuarantined, UndecodableError, decode


def repaired(log: Log, tenant_id: str, new_id: Callable[[], str]) -> Sequence[int]:
    """Rewrite the file of a session, under its lock; numbers of the lines set aside, from 1."""
    lost = _lost(log)
    data = read_file(log.path) or b""
    lines = data[: log.size].split(b"\n")[:-1]
    events = [_decoded(line) for line in lines]
    kept: list[bytes] = []
    aside: list[bytes] = []
    numbers: list[int] = []
    at = next((event.at for event in events if event is not None), log.ledger.last)
    seq = 0
    for index, (line, event) in enumerate(zip(lines, events, strict=True)):
        places = lost.get(index, [])
        if event is None and line:
            aside.append(line)
            places = places or _places(log, index, seq, events)
        if places or (event is None and line):
            numbers.append(index + 1)
        for run_id, position in places:
            seq += 1
            place = (seq, run_id, position)
            kept.append(_placeholder(log, tenant_id, new_id(), place, at).encode())
        if event is not None:
            kept.append(line)
            at, seq = event.at, event.seq
    if not numbers:
        return ()
    if aside:
        _quarantine(log, aside)
    text = b"".join(line + b"\n" for line in kept)
    replace_file(log.path, text + data[log.size :], sync=True)
    return numbers


def _places(
    log: Log, index: int, seq: int, events: Sequence[Event | None]
) -> list[tuple[str, int]]:
    """Place of a damaged line that no run misses; none if the lines around it leave no room."""
    following = next((event.seq for event in events[index + 1 :] if event is not None), None)
    place = log.place(index)
    return [] if following == seq + 1 and not place[0] else [place]


def _lost(log: Log) -> dict[int, list[tuple[str, int]]]:
    """Runs and positions that cannot be read, by the line that held or follows them."""
    lost: dict[int, list[tuple[str, int]]] = {}
    for run_id, row in log.rows.items():
        for position, index in enumerate(row, start=1):
            if index < 0:
                lost.setdefault(~index, []).append((run_id, position))
    return lost


def _decoded(line: bytes) -> Event | None:
    try:
        return decode(line)
    except UndecodableError:
        return None


def _placeholder(
    log: Log, tenant_id: str, event_id: str, place: tuple[int, str, int], at: datetime
) -> Event:
    seq, run_id, position = place
    payload = LineQuarantined(reason="damaged line", file=f"{log.path.name}.quarantine")
    return Event(
        id=event_id,
        seq=seq,
        tenant_id=tenant_id,
        session_id=log.session_id,
        run_id=run_id,
        position=position,
        type=payload.type,
        at=at,
        skippable=True,
        payload=payload,
    )


def _quarantine(log: Log, lines: Sequence[bytes]) -> None:
    path = f"{log.path}.quarantine"
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        write_all(fd, b"".join(line + b"\n" for line in lines))
        os.fsync(fd)
    finally:
        os.close(fd)
