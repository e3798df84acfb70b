"""Whether a store may take an append: one judgement for every backend."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from loom_ia.core.errors import (
    EpochStaleError,
    JournalMovedError,
    RequestExpiredError,
    RunExistsError,
    RunNotFoundError,
    RunStoppedError,
    SessionBusyError,
)
from loom_ia.core.ports.journal import Append
from loom_ia.core.projections.index import RunEntry
from loom_ia.core.state import Status


class Judged(Protocol):
    """What a judgement looks at in a run."""

    @property
    def position(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def ended(self) -> Status | None: ...
    @property
    def cancel_requested(self) -> bool: ...


def judge(
    write: Append,
    entry: Judged | None,
    root: Judged | None,
    others: Iterable[RunEntry],
    now: datetime,
) -> None:
    """Refuse a write by raising; return for one that may be made.

    `entry` is the run's, `root` its root's (the same for a root), `others` the root runs of the
    session that are not this one; all as they are inside the critical section.

    Raises:
        JournalMovedError, EpochStaleError, RunStoppedError, RunExistsError, RunNotFoundError,
        SessionBusyError, RequestExpiredError: see `Journal.append`.

    """
    fence, run_id = write.fence, write.ref.run_id
    if fence.kind == "start":
        if entry is not None:
            raise RunExistsError(run_id=run_id)
        _guard(write, others, now)
        return
    if entry is None or root is None:
        raise RunNotFoundError(run_id=run_id)
    if fence.kind == "report":
        return
    if write.guard is not None:
        _guard(write, others, now)
    if fence.kind in ("plan", "outcome") and root.epoch != fence.epoch:
        raise EpochStaleError(run_id=run_id, expected=fence.epoch, actual=root.epoch)
    if entry.position != fence.position:
        raise JournalMovedError(run_id=run_id, expected=fence.position, actual=entry.position)
    if fence.kind == "plan" and (root.ended or (root.cancel_requested and not fence.stop)):
        raise RunStoppedError(run_id=run_id)
    if fence.kind == "outcome" and entry.ended:
        raise RunStoppedError(run_id=run_id)


def _guard(write: Append, others: Iterable[RunEntry], now: datetime) -> None:
    guard = write.guard
    if guard is None:
        return
    if guard.before is not None and now >= guard.before:
        calls = ", ".join(sorted({draft.span_id for draft in write.drafts})) or "-"
        at = guard.before.isoformat(timespec="seconds")
        raise RequestExpiredError(run_id=write.ref.run_id, call=calls, at=at)
    if not guard.session_idle:
        return
    for other in others:
        if other.busy(now):
            raise SessionBusyError(session_id=write.ref.session_id, run_id=other.run_id)
