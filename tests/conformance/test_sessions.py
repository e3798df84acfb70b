"""What every store promises of its sessions: listed by pages, searched, erased for good."""

import asyncio
import pkgutil
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import count
from pathlib import Path

import pytest

import loom_ia.adapters.storage
from loom_ia.adapters.env import Env
from loom_ia.core.errors import (
    InvalidCursorError,
    LoomError,
    RunNotFoundError,
    SessionErasedError,
    SessionHeldError,
)
from loom_ia.core.events import (
    ApprovalRequested,
    CancelRequested,
    Event,
    ModelCalled,
    Payload,
    Principal,
    RunCompleted,
    RunStarted,
    StepOpened,
    ToolReported,
)
from loom_ia.core.model import user
from loom_ia.core.ports import (
    Append,
    Draft,
    EventFilter,
    Fence,
    Lease,
    Listed,
    Paging,
    RunFilter,
    RunRef,
    Store,
)

BACKENDS = sorted(
    m.name for m in pkgutil.iter_modules(loom_ia.adapters.storage.__path__) if m.ispkg
)
MORNING = datetime(2026, 1, 1, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
ids = (f"00000000-0000-7000-8000-{n:012x}" for n in count(1))


@dataclass
class Bed:
    """A store, its clock, and short ways to use it."""

    store: Store
    now: datetime = field(default=MORNING)

    async def write(self, ref: RunRef, fence: Fence, *facts: Payload) -> list[Event]:
        drafts = [Draft(next(ids), fact) for fact in facts]
        return list((await self.store.journal.append(Append(ref, drafts, fence))).events)

    async def start(self, ref: RunRef, agent: str = "a") -> None:
        root = "" if ref.root_id == ref.run_id else ref.root_id
        by = Principal(id="key:1")
        fact = RunStarted(agent=agent, message=user("x"), principal=by, root_id=root)
        await self.write(ref, Fence("start"), fact)

    async def claim(self, ref: RunRef) -> Lease:
        return await self.store.leases.claim(ref, ttl=MINUTE, holder="host:1")

    async def end(self, ref: RunRef) -> None:
        """Drive a run that was started to its end."""
        lease = await self.claim(ref)
        await self.write(ref, Fence("plan", 1, lease.epoch), RunCompleted(text="ok"))

    async def call(self, ref: RunRef, *contents: bytes) -> list[str]:
        """Name some blobs as a call of a model does; their digests."""
        digests = [await self.store.blobs.put(ref.tenant_id, data) for data in contents]
        prefix = dict(zip(("system", "tools", "params"), digests, strict=False))
        fact = ModelCalled(step=1, model="M", prefix={**prefix, "history": "seq:0"})
        await self.write(ref, Fence("report"), fact)
        return digests

    async def delete(self, session: str = "s", **more) -> object:
        return await self.store.journal.delete("t", session, by="cli:dupont", **more)

    async def kept(self, *digests: str) -> list[bool]:
        return [await self.store.blobs.get("t", digest) is not None for digest in digests]

    async def found(self, **which: object) -> list[str]:
        """Types of the events found, one page after the other."""
        pages = self.store.journal.query
        found = await everything(lambda p: pages("t", EventFilter(**which), p), 2)
        return [f"{e.run_id} {e.type}" for e in found]


def run(run_id: str = "r", session: str = "s", root: str = "", tenant: str = "t") -> RunRef:
    return RunRef(tenant, session, run_id, root or run_id)


async def everything(list_page: Callable[[Paging], Awaitable[Listed]], limit: int) -> list:
    """Every item of a list, page by page."""
    paging, found = Paging(limit=limit), []
    while True:
        page = await list_page(paging)
        assert len(page) <= limit
        found += page
        if not page.next:
            return found
        assert len(page) == limit
        paging = Paging(page.next, limit)


async def refused(error: type[LoomError], operation: Awaitable[object]) -> LoomError:
    with pytest.raises(error) as caught:
        await operation
    assert type(caught.value) is error
    return caught.value


@pytest.fixture(params=BACKENDS)
def opened(request, tmp_path: Path) -> Callable[[Callable[[], datetime]], object]:
    settings = import_module(f"loom_ia.adapters.storage.{request.param}").Settings()
    return lambda clock: settings.open(Env(tmp_path, clock=clock))


@pytest.fixture
async def bed(opened) -> AsyncIterator[Bed]:
    beds: list[Bed] = []
    async with opened(lambda: beds[0].now if beds else MORNING) as store:
        beds.append(Bed(store))
        yield beds[0]


# --- lists


async def test_sessions_are_listed_newest_first_with_what_their_runs_make_of_them(bed: Bed):
    await bed.start(run("a", "one"))
    await bed.start(run("child", "one", root="a"))
    await bed.end(run("a", "one"))
    bed.now += MINUTE
    await bed.start(run("b", "two"))
    bed.now += MINUTE
    await bed.start(run("c", "one"))
    page = await bed.store.index.sessions("t")
    seen = [(s.session_id, s.runs, s.open, s.started_at, s.updated_at) for s in page]
    late = MORNING + 2 * MINUTE
    assert seen == [
        ("two", 1, 1, MORNING + MINUTE, MORNING + MINUTE),
        ("one", 2, 1, MORNING, late),
    ]
    assert (page.next, page.now) == ("", late)
    assert [s.session_id for s in await bed.store.index.sessions("t", "one")] == ["one"]
    assert list(await bed.store.index.sessions("t", "none")) == []
    assert list(await bed.store.index.sessions("other")) == []


async def test_pages_neither_skip_nor_repeat_what_has_one_instant(bed: Bed):
    for name in ("b", "a.b", "é", "a", "c", "A"):
        await bed.start(run(name, name))
    for limit in (1, 2, 5, 6, 7):
        sessions = await everything(lambda p: bed.store.index.sessions("t", paging=p), limit)
        runs = await everything(lambda p: bed.store.index.runs("t", paging=p), limit)
        assert [s.session_id for s in sessions] == ["é", "c", "b", "a.b", "a", "A"]
        assert [r.run_id for r in runs] == ["é", "c", "b", "a.b", "a", "A"]


async def test_what_starts_or_is_erased_between_two_pages_moves_nothing(bed: Bed):
    for n in range(6):
        await bed.start(run(f"r{n}", f"s{n}"))
        bed.now += MINUTE
    first = await bed.store.index.sessions("t", paging=Paging(limit=2))
    runs = await bed.store.index.runs("t", paging=Paging(limit=2))
    assert [s.session_id for s in first] == ["s5", "s4"]
    await bed.start(run("new", "new"))
    await bed.end(run("r3", "s3"))
    await bed.delete("s4")
    await bed.delete("s2")
    second = await bed.store.index.sessions("t", paging=Paging(first.next, 2))
    assert [s.session_id for s in second] == ["s3", "s1"]
    again = await bed.store.index.runs("t", paging=Paging(runs.next, 2))
    assert [r.run_id for r in again] == ["r3", "r1"]


async def test_a_cursor_leads_nowhere_else_than_in_its_own_tenant(bed: Bed):
    for tenant in ("t", "u"):
        for n in range(3):
            await bed.start(run(f"{tenant}{n}", f"{tenant}{n}", tenant=tenant))
    page = await bed.store.index.sessions("t", paging=Paging(limit=1))
    other = await bed.store.index.sessions("u", paging=Paging(page.next))
    assert {s.tenant_id for s in other} <= {"u"}


@pytest.mark.parametrize("cursor", ["x", "1.2", "a.0.s", "1.b.s", f"{'9' * 400}.0.s"])
async def test_a_cursor_that_no_list_gave_is_refused(bed: Bed, cursor: str):
    paging = Paging(cursor)
    await bed.start(run())
    await refused(InvalidCursorError, bed.store.index.sessions("t", paging=paging))
    await refused(InvalidCursorError, bed.store.index.runs("t", paging=paging))
    await refused(InvalidCursorError, bed.store.journal.query("t", EventFilter(), paging))


async def test_runs_are_chosen_by_session_agent_and_end(bed: Bed):
    await bed.start(run("a", "one"), agent="devis")
    await bed.end(run("a", "one"))
    await bed.start(run("b", "one"), agent="devis")
    await bed.start(run("c", "two"), agent="relance")

    async def chosen(**which: object) -> list[str]:
        return sorted(r.run_id for r in await bed.store.index.runs("t", RunFilter(**which)))

    assert await chosen(session_id="one") == ["a", "b"]
    assert await chosen(agent="relance") == ["c"]
    assert await chosen(ended=True) == ["a"]
    assert await chosen(ended=False, session_id="one") == ["b"]


async def test_a_run_stands_as_its_lease_and_its_events_say(bed: Bed):
    for name in ("idle", "running", "waiting", "expired", "done"):
        await bed.start(run(name, name))
    await bed.claim(run("expired", "expired"))
    bed.now += 2 * MINUTE
    await bed.claim(run("running", "running"))
    lease = await bed.claim(run("waiting", "waiting"))
    asked = ApprovalRequested(call_id="c", tool="x", arguments={})
    await bed.write(run("waiting", "waiting"), Fence("plan", 1, lease.epoch), asked)
    await bed.store.leases.release(lease, position=2, waiting=True)
    await bed.end(run("done", "done"))
    page = await bed.store.index.runs("t")
    assert {r.run_id: r.standing(page.now) for r in page} == {
        "idle": "idle",
        "running": "running",
        "waiting": "waiting",
        "expired": "idle",
        "done": "completed",
    }


async def test_what_is_written_behind_an_end_is_in_the_lists(bed: Bed):
    await bed.start(run())
    await bed.end(run())
    bed.now += MINUTE
    await bed.write(run(), Fence("report"), ToolReported(call_id="c"))
    [entry] = await bed.store.index.runs("t")
    [session] = await bed.store.index.sessions("t")
    assert (entry.ended, entry.position, entry.updated_at) == ("completed", 3, bed.now)
    assert (session.open, session.updated_at) == (0, bed.now)


# --- search


async def test_events_are_searched_by_their_envelopes_oldest_first(bed: Bed):
    await bed.start(run("a", "one"))
    bed.now += MINUTE
    await bed.start(run("b", "two"))
    bed.now += MINUTE
    await bed.end(run("a", "one"))
    bed.now += MINUTE
    by = Principal(id="key:1")
    await bed.write(run("b", "two"), Fence("decision", 1), CancelRequested(by=by))
    await bed.start(run("x", "x", tenant="other"))
    everyone = ["a run.started", "b run.started", "a run.completed", "b cancel.requested"]
    assert await bed.found() == everyone
    assert await bed.found(session_id="one") == [everyone[0], everyone[2]]
    assert await bed.found(run_id="b") == [everyone[1], everyone[3]]
    assert await bed.found(run_id="b", session_id="one") == []
    assert await bed.found(run_id="none") == []
    assert await bed.found(types=frozenset({"run.completed"})) == [everyone[2]]
    assert await bed.found(since=MORNING + MINUTE, until=MORNING + 3 * MINUTE) == everyone[1:3]
    assert await bed.found(until=MORNING) == []
    assert await bed.found(statuses=frozenset({"error"})) == []
    assert await bed.found(statuses=frozenset({"ok"}), run_id="a") == [everyone[0], everyone[2]]


async def test_a_search_goes_on_behind_its_cursor_whatever_was_written_meanwhile(bed: Bed):
    for n in range(5):
        await bed.start(run(f"r{n}", f"s{n % 2}"))
    query = bed.store.journal.query
    first = await query("t", EventFilter(), Paging(limit=3))
    bed.now += MINUTE
    await bed.start(run("late", "s0"))
    second = await query("t", EventFilter(), Paging(first.next, 100))
    assert len({e.id for e in [*first, *second]}) == 6
    assert [e.run_id for e in second][-1] == "late"
    assert second.next == ""


async def test_a_long_session_is_searched_from_an_instant(bed: Bed):
    await bed.start(run())
    for n in range(400):
        bed.now += MINUTE
        await bed.write(run(), Fence("report"), ToolReported(call_id=f"c{n}" + "é" * 400))
    which = EventFilter(since=MORNING + 300 * MINUTE, types=frozenset({"tool.reported"}))
    found = await everything(lambda p: bed.store.journal.query("t", which, p), 7)
    assert [e.position for e in found] == list(range(301, 402))


async def test_a_search_skips_nothing_of_one_instant(bed: Bed):
    await bed.start(run())
    for n in range(300):
        await bed.write(run(), Fence("report"), ToolReported(call_id=f"c{n}" + "é" * 400))
    which = EventFilter(since=MORNING)
    found = await everything(lambda p: bed.store.journal.query("t", which, p), 50)
    assert [e.position for e in found] == list(range(1, 302))


async def test_a_session_is_read_in_parts(bed: Bed):
    await bed.start(run())
    for n in range(5):
        await bed.write(run(), Fence("report"), ToolReported(call_id=f"c{n}"))
    part = (await bed.store.journal.session("t", "s", after=1, limit=2)).events
    assert [e.seq for e in part] == [2, 3]
    part = (await bed.store.journal.session("t", "s", after=4, limit=9)).events
    assert [e.seq for e in part] == [5, 6]


# --- erasure


async def test_an_erased_session_leaves_its_tombstone_only(bed: Bed):
    await bed.start(run())
    await bed.start(run("child", root="r"))
    await bed.end(run())
    await bed.start(run("x", "x"))
    assert await bed.delete() is not None
    journal, index = bed.store.journal, bed.store.index
    for ref in (run(), run("child", root="r")):
        assert list((await journal.read(ref)).events) == []
        assert await index.locate("t", ref.run_id) is None
    assert list((await journal.session("t", "s")).events) == []
    assert await bed.found() == ["x run.started"]
    assert [s.session_id for s in await index.sessions("t")] == ["x"]
    assert [r.run_id for r in await index.runs("t")] == ["x"]
    assert [r.run_id for r in await index.due("t")] == ["x"]
    [tomb] = await index.erased("t", "s")
    assert (tomb.session_id, tomb.at, tomb.by) == ("s", MORNING, "cli:dupont")
    assert list(await index.erased("t", "x")) == []


async def test_nothing_is_written_in_an_erased_session_and_its_id_is_not_used_again(bed: Bed):
    await bed.start(run())
    await bed.delete()
    for fence in (Fence("plan"), Fence("outcome"), Fence("decision"), Fence("report")):
        await refused(SessionErasedError, bed.write(run(), fence, StepOpened(step=1)))
    error = await refused(SessionErasedError, bed.start(run("new")))
    assert error.params == {"session_id": "s", "by": "cli:dupont", "at": MORNING.isoformat()}
    await refused(SessionErasedError, bed.claim(run()))
    await bed.start(run("r", "other"))
    await bed.start(run(tenant="other"))
    await refused(RunNotFoundError, bed.claim(run("none", "other")))


async def test_a_driver_that_lost_its_session_learns_it_at_its_next_write(bed: Bed):
    await bed.start(run())
    lease = await bed.claim(run())
    await bed.write(run(), Fence("plan", 1, lease.epoch), StepOpened(step=1))
    bed.now += 2 * MINUTE
    await bed.delete()
    step = StepOpened(step=2)
    await refused(SessionErasedError, bed.write(run(), Fence("plan", 2, lease.epoch), step))
    await refused(SessionErasedError, bed.store.leases.renew(lease, ttl=MINUTE))
    release = bed.store.leases.release(lease, position=2, waiting=False)
    await refused(SessionErasedError, release)


async def test_a_driven_session_is_not_erased(bed: Bed):
    await bed.start(run())
    await bed.claim(run())
    error = await refused(SessionHeldError, bed.delete())
    until = (MORNING + MINUTE).isoformat()
    assert error.params == {"session_id": "s", "run_id": "r", "holder": "host:1", "until": until}
    assert len((await bed.store.journal.read(run())).events) == 1
    assert list(await bed.store.index.erased("t", "s")) == []
    bed.now += MINUTE
    assert await bed.delete() is not None


async def test_a_paused_session_is_erased(bed: Bed):
    await bed.start(run())
    lease = await bed.claim(run())
    await bed.store.leases.release(lease, position=1, waiting=True)
    assert await bed.delete() is not None


async def test_erasing_again_changes_nothing(bed: Bed):
    assert await bed.delete() is None
    await bed.start(run())
    first = await bed.delete()
    bed.now += MINUTE
    assert await bed.store.journal.delete("t", "s", by="somebody else") == first
    assert await bed.delete("none") is None


async def test_a_tombstone_is_pending_until_what_the_store_does_not_keep_is_erased(bed: Bed):
    await bed.start(run())
    await bed.delete()
    [tomb] = await bed.store.index.erased("t")
    assert tomb.pending
    await bed.delete(complete=True)
    assert list(await bed.store.index.erased("t")) == []
    [tomb] = await bed.store.index.erased("t", "s")
    assert (tomb.pending, tomb.at) == (False, MORNING)
    await refused(SessionErasedError, bed.start(run("new")))


async def test_blobs_that_another_session_names_stay(bed: Bed):
    await bed.start(run())
    await bed.start(run("x", "x"))
    await bed.start(run(tenant="other"))
    shared, mine = await bed.call(run(), b"shared", b"mine")
    await bed.call(run("x", "x"), b"shared", b"theirs")
    [elsewhere] = await bed.call(run(tenant="other"), b"mine")
    bed.now += 2 * MINUTE
    await bed.delete(complete=True)
    assert await bed.kept(shared, mine) == [True, False]
    assert await bed.store.blobs.get("other", elsewhere) == b"mine"
    await bed.delete("x", complete=True)
    assert await bed.kept(shared) == [False]
    assert list(await bed.store.index.erased("t")) == []


async def test_a_blob_that_was_just_put_waits_for_who_may_name_it(bed: Bed):
    await bed.start(run())
    kept, gone = await bed.call(run(), b"kept", b"gone")
    bed.now += 2 * MINUTE
    await bed.store.blobs.put("t", b"kept")
    await bed.delete(complete=True)
    assert await bed.kept(kept, gone) == [True, False]
    [tomb] = await bed.store.index.erased("t")
    await bed.start(run("x", "x"))
    await bed.call(run("x", "x"), b"kept")
    bed.now += 2 * MINUTE
    await bed.delete(tomb.session_id, complete=True)
    assert await bed.kept(kept) == [True]
    assert list(await bed.store.index.erased("t")) == []


async def test_appends_and_an_erasure_at_once_leave_nothing_behind(bed: Bed):
    await bed.start(run())
    reports = [bed.write(run(), Fence("report"), ToolReported(call_id=f"c{n}")) for n in range(20)]
    erasing = [bed.delete() for _ in range(3)]
    verdicts = await asyncio.gather(*reports[:10], *erasing, *reports[10:], return_exceptions=True)
    assert all(isinstance(v, list) or not isinstance(v, Exception) for v in verdicts[:13])
    assert all(isinstance(v, SessionErasedError) for v in verdicts[13:])
    assert list((await bed.store.journal.session("t", "s")).events) == []


# --- snapshots


async def test_a_snapshot_is_given_back_part_by_part_until_it_is_replaced(bed: Bed):
    snapshots = bed.store.snapshots
    await bed.start(run())
    await bed.start(run(tenant="other"))
    assert list(await snapshots.load("t", "s")) == []
    await snapshots.add("t", "s", "é1".encode(), first=True)
    await snapshots.add("t", "s", b"2", first=False)
    assert list(await snapshots.load("t", "s")) == ["é1".encode(), b"2"]
    await snapshots.add("t", "s", b"3", first=True)
    assert list(await snapshots.load("t", "s")) == [b"3"]
    assert list(await snapshots.load("other", "s")) == []
    assert list(await snapshots.load("t", "none")) == []


async def test_a_snapshot_goes_with_its_session_and_does_not_come_back(bed: Bed):
    snapshots = bed.store.snapshots
    await bed.start(run())
    await snapshots.add("t", "s", b"1", first=True)
    await bed.delete()
    assert list(await snapshots.load("t", "s")) == []
    for session in ("s", "none"):
        await snapshots.add("t", session, b"late", first=True)
        assert list(await snapshots.load("t", session)) == []
