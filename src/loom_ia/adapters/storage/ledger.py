"""What a store knows of one session: where each run is, who drives it, when the last event was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from loom_ia.adapters.storage.group import Group
from loom_ia.core.errors import (
    EpochStaleError,
    InvalidIdError,
    RunEndedError,
    RunHeldError,
    RunNotFoundError,
    SessionBusyError,
    SessionErasedError,
    SessionHeldError,
)
from loom_ia.core.events import (
    ApprovalRequested,
    CancelRequested,
    Decided,
    Event,
    Payload,
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunFailed,
    RunResumed,
    RunStarted,
    ToolReported,
)
from loom_ia.core.fencing import judge
from loom_ia.core.ports import Append, Draft, Lease, RunRef
from loom_ia.core.projections.index import RunEntry, Tombstone, indexed
from loom_ia.core.state import Status
from loom_ia.core.text import Text

WAKING = (ApprovalRequested, CancelRequested, Decided, RunClaimed, RunResumed, ToolReported)
"""Facts that say by themselves whether the run waits for a human."""
MOVING = (*WAKING, RunStarted, RunCompleted, RunFailed, RunCancelled)
"""Facts that change more of an entry than its position."""

BLOB_GRACE = timedelta(minutes=1)
"""Age below which a blob that nobody names is kept: whoever put it may be about to name it."""

_DRIVEN = frozenset({"start", "plan", "outcome"})
_moves: dict[type[Payload], bool] = {}


def moving(kind: type[Payload]) -> bool:
    """True when events of this class change more of an entry than its position."""
    known = _moves.get(kind)
    if known is None:
        known = _moves[kind] = issubclass(kind, MOVING)
    return known


class Track:
    """One run; its entry is brought up to date when it is asked for."""

    __slots__ = (
        "_entry",
        "at",
        "cancel_requested",
        "ended",
        "epoch",
        "lease",
        "listed",
        "position",
        "root_id",
        "woken",
    )

    def __init__(self, entry: RunEntry) -> None:
        self._set(entry)
        self.woken = 0
        """Position of the last fact that told whether the run waits."""
        self.lease: bytes | None = None
        """The lease as it was last read, for stores that keep it apart."""
        self.listed = True
        """True while the index may say that the run is open, for stores that keep it apart."""

    @property
    def entry(self) -> RunEntry:
        """The run as it is now."""
        entry = self._entry
        if entry.position != self.position:
            entry = entry.evolve(position=self.position, updated_at=self.at)
            self._entry = entry
        return entry

    @entry.setter
    def entry(self, entry: RunEntry) -> None:
        self._set(entry)

    def _set(self, entry: RunEntry) -> None:
        self._entry = entry
        self.position, self.at = entry.position, entry.updated_at
        # what every write is judged by, where it is read fastest
        self.root_id, self.epoch = entry.root_id, entry.epoch
        self.ended: Status | None = entry.ended
        self.cancel_requested = entry.cancel_requested


class Ledger:
    """The runs of one session, as its events and leases tell."""

    __slots__ = ("last", "open", "seq", "tracks")

    def __init__(self) -> None:
        self.seq = 0
        self.last = datetime.min.replace(tzinfo=UTC)
        self.tracks: dict[str, Track] = {}
        self.open: dict[str, Track] = {}
        """Root runs that have not ended."""

    def now(self, instant: datetime) -> datetime:
        """The store's instant: never before the last event."""
        return max(self.last, instant)

    def entry(self, run_id: str) -> RunEntry | None:
        """Entry of a run."""
        track = self.tracks.get(run_id)
        return None if track is None else track.entry

    def root(self, ref: RunRef) -> Track:
        """Track of the root of a run.

        Raises:
            RunNotFoundError: the run is unknown here.

        """
        track = self.tracks.get(ref.run_id)
        root = None if track is None else self.tracks.get(track.entry.root_id)
        if root is None:
            raise RunNotFoundError(run_id=ref.run_id)
        return root

    def roots(self) -> Iterator[RunEntry]:
        """Entries of the root runs, in order of their start."""
        for track in self.tracks.values():
            if track.entry.root_id == track.entry.run_id:
                yield track.entry

    def others(self, root_id: str) -> Iterator[RunEntry]:
        """Root runs that have not ended, but this one."""
        for run_id, track in self.open.items():
            if run_id != root_id:
                yield track.entry

    def refuse_held(self, session_id: str, now: datetime) -> None:
        """Refuse to erase under a living driver.

        Raises:
            SessionHeldError: says who, and until when.

        """
        for track in self.open.values():
            entry = track.entry
            if entry.driven(now):
                raise SessionHeldError(
                    session_id=session_id,
                    run_id=entry.run_id,
                    holder=entry.lease_holder,
                    until=entry.lease_until.isoformat() if entry.lease_until else "",
                )

    def judge(self, write: Append, now: datetime) -> None:
        """Refuse a write by raising (see `core.fencing.judge`)."""
        ref = write.ref
        track = self.tracks.get(ref.run_id)
        if track is None:
            if write.fence.kind == "start":
                _check_ids(ref)
            judge(write, None, None, self.others(ref.root_id), now)
            return
        root_id = track.root_id
        root = track if root_id == ref.run_id else self.tracks.get(root_id)
        judge(write, track, root, self.others(root_id), now)

    def group(self, write: Append, drafts: Sequence[Draft], now: datetime) -> Group:
        """Facts that were accepted, in their place; nothing is changed yet."""
        ref, fence = write.ref, write.fence
        track = self.tracks.get(ref.run_id)
        position = 1 if track is None else track.position + 1
        epoch = fence.epoch if fence.kind in _DRIVEN else 0
        return Group(ref, drafts, self.seq + 1, position, now, epoch)

    def stamp(self, write: Append, drafts: Sequence[Draft], now: datetime) -> list[Event]:
        """Events of facts that were accepted; nothing is changed yet."""
        return list(self.group(write, drafts, now))

    def take(self, group: Group) -> None:
        """Take the facts of an append that is in the journal."""
        drafts = group.drafts
        for n in [n for n, draft in enumerate(drafts) if _moves.get(type(draft.payload), True)]:
            self.apply(group[n])  # a class is known once its first event was looked at
        more = len(drafts) - 1
        if more >= 0:
            self.seq, self.last = group.seq + more, group.at
            track = self.tracks.get(group.ref.run_id)
            if track is not None:
                track.position, track.at = group.position + more, group.at

    def apply(self, event: Event) -> None:
        """Take an event that is in the journal."""
        self.seq = event.seq
        self.last = max(self.last, event.at)
        track = self.tracks.get(event.run_id)
        payload = event.payload
        if track is not None and not moving(type(payload)):
            track.position, track.at = event.position, event.at
            return
        if not event.run_id:
            return
        entry = indexed(None if track is None else track.entry, event)
        if entry.ended is not None and entry.lease_until is not None:
            entry = entry.evolve(lease_until=None, lease_holder="")
        if track is None:
            track = self.tracks[event.run_id] = Track(entry)
        else:
            track.entry = entry
        if isinstance(payload, WAKING):
            track.woken = event.position
        if entry.root_id == entry.run_id:
            if entry.ended is None:
                self.open[entry.run_id] = track
                track.listed = True
            else:
                self.open.pop(entry.run_id, None)

    def claim(
        self, ref: RunRef, until: datetime, holder: str, *, steal: bool, now: datetime
    ) -> tuple[Lease, RunEntry]:
        """A new lease, and the root's entry once it is taken; nothing is changed yet.

        Raises:
            RunNotFoundError, RunEndedError, RunHeldError, SessionBusyError: see `Leases.claim`.

        """
        entry = self.root(ref).entry
        if entry.ended is not None:
            raise RunEndedError(run_id=entry.run_id, status=entry.ended)
        if entry.driven(now) and not steal:
            end = entry.lease_until.isoformat() if entry.lease_until else ""
            raise RunHeldError(run_id=entry.run_id, holder=entry.lease_holder, until=end)
        if not entry.cancel_requested:  # which can only be closed, whoever else is at work
            _refuse_driven(self.others(entry.run_id), ref.session_id, now)
        crashed = entry.lease_until is not None
        epoch = entry.epoch + 1
        changed = entry.evolve(
            epoch=epoch, lease_until=until, lease_holder=holder, waiting=False, waiting_until=None
        )
        return Lease(ref, epoch, until, now, crashed), changed

    def renewed(self, lease: Lease, until: datetime) -> RunEntry | None:
        """The root's entry once its lease is longer; None when it ended or was given back.

        Raises:
            EpochStaleError: somebody else claimed the run.

        """
        entry = self.root(lease.ref).entry
        _check_epoch(entry, lease)
        if entry.ended is not None or entry.lease_until is None:
            return None
        return entry.evolve(lease_until=until)

    def released(
        self, lease: Lease, position: int, *, waiting: bool, until: datetime | None
    ) -> RunEntry | None:
        """The root's entry once its lease is given back; None when the run moved.

        Raises:
            EpochStaleError: somebody else claimed the run.

        """
        entry = self.root(lease.ref).entry
        _check_epoch(entry, lease)
        if self.tracks[lease.ref.run_id].position != position:
            return None
        if entry.ended is not None:
            return entry
        return entry.evolve(
            lease_until=None,
            lease_holder="",
            waiting=waiting,
            waiting_until=until if waiting else None,
        )


def erased(tomb: Tombstone) -> SessionErasedError:
    """What is raised to who writes in an erased session."""
    at = tomb.at.isoformat(timespec="seconds")
    return SessionErasedError(session_id=tomb.session_id, by=tomb.by, at=at)


def end_of(now: datetime, ttl: timedelta) -> datetime:
    """End of a lease taken now."""
    return now + ttl


def _check_epoch(entry: RunEntry, lease: Lease) -> None:
    if entry.epoch != lease.epoch:
        raise EpochStaleError(run_id=entry.run_id, expected=lease.epoch, actual=entry.epoch)


def _refuse_driven(others: Iterable[RunEntry], session_id: str, now: datetime) -> None:
    for other in others:
        if other.driven(now):
            raise SessionBusyError(session_id=session_id, run_id=other.run_id)


def _check_ids(ref: RunRef) -> None:
    """Refuse identifiers that no file and no database could hold.

    Raises:
        InvalidIdError: it is empty, or holds half of a character.

    """
    for what, value in (
        ("tenant", ref.tenant_id),
        ("session", ref.session_id),
        ("run", ref.run_id),
    ):
        if not value:
            raise InvalidIdError(
                what=what,
                value=repr(value),
                reason=Text("it is empty; give it at least one character"),
            )
        if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
            problem = Text("it holds a control character or half a character; remove it")
            raise InvalidIdError(what=what, value=ascii(value), reason=problem)
