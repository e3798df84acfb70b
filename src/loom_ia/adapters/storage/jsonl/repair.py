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
    owners = _owners(log)
    data = read_file(log.path) or b""
    kept: list[bytes] = []
    aside: list[bytes] = []
    numbers: list[int] = []
    at, seq = log.ledger.last, 0
    for index, line in enumerate(data[: log.size].split(b"\n")[:-1]):
        event = _decoded(line)
        if event is not None:
            kept.append(line)
            at, seq = event.at, event.seq
            continue
        numbers.append(index + 1)
        aside.append(line)
        for run_id, position in owners.get(index, [("", 0)]):
            seq += 1
            place = (seq, run_id, position)
            kept.append(_placeholder(log, tenant_id, new_id(), place, at).encode())
    if not numbers:
        return ()
    _quarantine(log, aside)
    replace_file(log.path, b"\n".join(kept) + b"\n" + data[log.size :], sync=True)
    return numbers


def _owners(log: Log) -> dict[int, list[tuple[str, int]]]:
    """Runs and positions that each damaged line held."""
    owners: dict[int, list[tuple[str, int]]] = {}
    for run_id, row in log.rows.items():
        for position, index in enumerate(row, start=1):
            if index < 0:
                owners.setdefault(~index, []).append((run_id, position))
    return owners


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
