"""What every store promises, whatever it keeps its events in."""

import asyncio
import pkgutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import count
from pathlib import Path

import pytest

import loom_ia.adapters.storage
from loom_ia.adapters.env import Env
from loom_ia.core.errors import (
    EpochStaleError,
    InvalidIdError,
    JournalMovedError,
    LoomError,
    RunEndedError,
    RunExistsError,
    RunHeldError,
    RunNotFoundError,
    RunStoppedError,
    SessionBusyError,
)
from loom_ia.core.events import (
    ApprovalRequested,
    ApprovalSettled,
    CancelRequested,
    Event,
    Payload,
    Principal,
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunFailed,
    RunResumed,
    RunStarted,
    StepOpened,
    ToolReported,
)
from loom_ia.core.model import Message, TextBlock, ToolCallBlock, user
from loom_ia.core.ports import Append, Draft, Fence, Guard, Lease, RunFilter, RunRef, Store

BACKENDS = sorted(
    m.name for m in pkgutil.iter_modules(loom_ia.adapters.storage.__path__) if m.ispkg
)
MORNING = datetime(2026, 1, 1, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BY = Principal(id="key:1")
IDLE = Guard(session_idle=True)
ids = (f"00000000-0000-7000-8000-{n:012x}" for n in count(1))


@dataclass
class Watch:
    now: datetime = MORNING

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Bed:
    """A store, its clock, and short ways to write."""

    store: Store
    watch: Watch = field(default_factory=Watch)

    async def write(self, ref: RunRef, fence: Fence, *facts: Payload, **more) -> Sequence[Event]:
        drafts = [Draft(next(ids), fact) for fact in facts]
        return (await self.store.journal.append(Append(ref, drafts, fence, **more))).events

    async def start(self, ref: RunRef, text: str = "salut", **more) -> Sequence[Event]:
        root = "" if ref.root_id == ref.run_id else ref.root_id
        return await self.write(ref, Fence("start"), started(text, root_id=root), **more)

    async def claim(self, ref: RunRef, **more) -> Lease:
        return await self.store.leases.claim(ref, ttl=MINUTE, holder="here", **more)

    async def driven(self, ref: RunRef) -> Lease:
        await self.start(ref)
        return await self.claim(ref)

    async def read(self, ref: RunRef, after: int = 0) -> Sequence[Event]:
        return (await self.store.journal.read(ref, after=after)).events

    async def due(self, tenant: str = "t") -> list[str]:
        return [entry.run_id for entry in await self.store.index.due(tenant)]


def started(text: str = "salut", **more) -> RunStarted:
    return RunStarted(agent="a", message=user(text), principal=BY, **more)


def run(run_id: str = "r", session: str = "s", root: str = "", tenant: str = "t") -> RunRef:
    return RunRef(tenant, session, run_id, root or run_id)


def plan(position: int, lease: Lease, *, stop: bool = False) -> Fence:
    return Fence("plan", position, lease.epoch, stop=stop)


def outcome(position: int, lease: Lease) -> Fence:
    return Fence("outcome", position, lease.epoch)


def decision(position: int) -> Fence:
    return Fence("decision", position)


@pytest.fixture(params=BACKENDS)
def opened(request, tmp_path: Path) -> Callable[[Watch], object]:
    settings = import_module(f"loom_ia.adapters.storage.{request.param}").Settings()
    return lambda watch: settings.open(Env(tmp_path, clock=watch))


@pytest.fixture
async def bed(opened) -> AsyncIterator[Bed]:
    watch = Watch()
    async with opened(watch) as store:
        yield Bed(store, watch)


async def refused(error: type[LoomError], operation: Awaitable[object]) -> LoomError:
    with pytest.raises(error) as caught:
        await operation
    return caught.value


# --- journal


async def test_a_started_run_is_read_as_it_was_written(bed: Bed):
    written = await bed.start(run())
    assert list(await bed.read(run())) == list(written)
    [event] = written
    assert (event.seq, event.position, event.type, event.at) == (1, 1, "run.started", MORNING)
    assert (event.tenant_id, event.session_id, event.run_id) == ("t", "s", "r")


async def test_a_run_that_does_not_exist_reads_as_empty(bed: Bed):
    await bed.start(run())
    for other in (run("x"), run(session="x"), run(tenant="x")):
        assert list(await bed.read(other)) == []
    assert list((await bed.store.journal.session("t", "x")).events) == []


async def test_reading_behind_a_position_gives_what_came_after_it(bed: Bed):
    lease = await bed.driven(run())
    written = await bed.write(run(), plan(1, lease), StepOpened(step=1), StepOpened(step=2))
    assert list(await bed.read(run(), 1)) == list(written)
    assert list(await bed.read(run(), 2)) == list(written[1:])
    assert list(await bed.read(run(), 3)) == []


async def test_positions_count_by_run_and_sequence_by_session(bed: Bed):
    lease = await bed.driven(run())
    await bed.start(run("child", root="r"))
    await bed.write(run(), plan(1, lease), StepOpened(step=1))
    await bed.write(run("child", root="r"), plan(1, lease), StepOpened(step=1))
    events = (await bed.store.journal.session("t", "s")).events
    assert [(e.seq, e.run_id, e.position) for e in events] == [
        (1, "r", 1),
        (2, "child", 1),
        (3, "r", 2),
        (4, "child", 2),
    ]
    assert list((await bed.store.journal.session("t", "s", after=2)).events) == list(events[2:])


async def test_instants_never_go_back_when_the_clock_does(bed: Bed):
    lease = await bed.driven(run())
    bed.watch.now -= timedelta(hours=1)
    [event] = await bed.write(run(), plan(1, lease), StepOpened(step=1))
    assert event.at == MORNING
    assert (await bed.store.journal.read(run())).now == MORNING
    bed.watch.now = MORNING + MINUTE
    [event] = await bed.write(run(), plan(2, lease), StepOpened(step=2))
    assert event.at == MORNING + MINUTE


async def test_the_epoch_of_a_drive_is_on_its_events_and_on_no_other(bed: Bed):
    lease = await bed.driven(run())
    [event] = await bed.write(run(), plan(1, lease), StepOpened(step=1))
    assert event.epoch == lease.epoch == 1
    [event] = await bed.write(run(), decision(2), CancelRequested(by=BY))
    assert event.epoch == 0


async def test_identifiers_and_spans_are_the_writers(bed: Bed):
    await bed.start(run())
    lease = await bed.claim(run())
    drafts = [Draft("mine", StepOpened(step=1), span_id="step.1")]
    page = await bed.store.journal.append(Append(run(), drafts, plan(1, lease)))
    assert [(e.id, e.span_id) for e in page.events] == [("mine", "step.1")]
    assert list(await bed.read(run(), 1)) == list(page.events)


async def test_a_refused_write_changes_nothing(bed: Bed):
    lease = await bed.driven(run())
    before = list(await bed.store.index.runs("t"))
    await refused(JournalMovedError, bed.write(run(), plan(5, lease), StepOpened(step=1)))
    assert len(await bed.read(run())) == 1
    assert list(await bed.store.index.runs("t")) == before


async def test_an_append_whose_caller_is_cancelled_is_finished(bed: Bed):
    lease = await bed.driven(run())
    drafts = [Draft("kept", StepOpened(step=1))]
    write = Append(run(), drafts, plan(1, lease), sync=True)
    task = asyncio.create_task(bed.store.journal.append(write))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [event.id for event in await bed.read(run(), 1)] == ["kept"]


async def test_repair_does_nothing_to_a_sound_session(bed: Bed):
    await bed.start(run())
    before = await bed.read(run())
    for _ in range(2):
        assert list(await bed.store.journal.repair("t", "s")) == []
    assert list(await bed.store.journal.repair("t", "unknown")) == []
    assert list(await bed.read(run())) == list(before)


async def test_writers_at_the_same_time_are_put_in_one_order(bed: Bed):
    await bed.start(run())
    reported = [
        bed.write(run(), Fence("report"), ToolReported(call_id=f"c{n}"), sync=n % 3 == 0)
        for n in range(60)
    ]
    pages = await asyncio.gather(*reported)
    events = await bed.read(run())
    assert [e.position for e in events] == list(range(1, 62))
    assert sorted(e.position for [e] in pages) == list(range(2, 62))


async def test_of_writers_at_one_position_one_is_taken(bed: Bed):
    lease = await bed.driven(run())
    tries = [bed.write(run(), plan(1, lease), StepOpened(step=n)) for n in range(8)]
    verdicts = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(v, JournalMovedError) for v in verdicts) == 7
    assert len(await bed.read(run())) == 2


# --- fences


async def test_a_start_needs_a_new_run_id(bed: Bed):
    await bed.start(run())
    await refused(RunExistsError, bed.start(run()))
    await refused(RunExistsError, bed.start(run(session="other")))
    assert list(await bed.read(run(session="other"))) == []
    await bed.start(run(tenant="other"))


async def test_nothing_is_written_to_a_run_that_does_not_exist(bed: Bed):
    await bed.start(run())
    for ref in (run("x"), run(session="x"), run(tenant="x")):
        for fence in (Fence("plan"), Fence("outcome"), Fence("decision"), Fence("report")):
            await refused(RunNotFoundError, bed.write(ref, fence, StepOpened(step=1)))


async def test_a_plan_needs_the_position_and_the_epoch(bed: Bed):
    lease = await bed.driven(run())
    step = StepOpened(step=1)
    for kind in ("plan", "outcome"):
        await refused(JournalMovedError, bed.write(run(), Fence(kind, 0, 1), step))
        await refused(JournalMovedError, bed.write(run(), Fence(kind, 2, 1), step))
        await refused(EpochStaleError, bed.write(run(), Fence(kind, 1, 0), step))
        await refused(EpochStaleError, bed.write(run(), Fence(kind, 1, 2), step))
    await bed.write(run(), plan(1, lease), step)
    await bed.write(run(), outcome(2, lease), step)


async def test_a_claim_makes_the_earlier_drive_stale_before_it_writes_anything(bed: Bed):
    old = await bed.driven(run())
    new = await bed.claim(run(), steal=True)
    error = await refused(EpochStaleError, bed.write(run(), plan(1, old), StepOpened(step=1)))
    assert error.params == {"run_id": "r", "expected": old.epoch, "actual": new.epoch}
    await bed.write(run(), plan(1, new), StepOpened(step=1))


async def test_a_plan_stops_at_a_cancel_request_and_an_outcome_does_not(bed: Bed):
    lease = await bed.driven(run())
    await bed.write(run(), decision(1), CancelRequested(by=BY))
    await refused(RunStoppedError, bed.write(run(), plan(2, lease), StepOpened(step=1)))
    await bed.write(run(), outcome(2, lease), StepOpened(step=1))
    await bed.write(run(), plan(3, lease, stop=True), RunCancelled())


async def test_a_child_is_fenced_by_its_root(bed: Bed):
    lease = await bed.driven(run())
    child = run("child", root="r")
    await bed.start(child)
    step = StepOpened(step=1)
    await refused(EpochStaleError, bed.write(child, Fence("plan", 1, 9), step))
    await bed.write(run(), decision(1), CancelRequested(by=BY))
    await refused(RunStoppedError, bed.write(child, plan(1, lease), step))
    await bed.write(child, outcome(1, lease), step)
    await bed.write(child, plan(2, lease, stop=True), RunCancelled())
    await refused(RunStoppedError, bed.write(child, outcome(3, lease), step))


async def test_an_ended_run_takes_reports_only(bed: Bed):
    lease = await bed.driven(run())
    await bed.write(run(), plan(1, lease), RunCompleted())
    await refused(RunStoppedError, bed.write(run(), plan(2, lease), StepOpened(step=1)))
    await refused(RunStoppedError, bed.write(run(), outcome(2, lease), StepOpened(step=1)))
    [event] = await bed.write(run(), Fence("report"), ToolReported(call_id="c"))
    assert event.position == 3
    [entry] = await bed.store.index.runs("t", RunFilter("s"))
    assert entry.ended == "completed"
    assert await bed.due() == []


async def test_a_decision_needs_the_position_and_no_epoch(bed: Bed):
    await bed.driven(run())
    await refused(JournalMovedError, bed.write(run(), decision(0), CancelRequested(by=BY)))
    await bed.write(run(), decision(1), CancelRequested(by=BY))


async def test_a_report_is_taken_at_any_position_and_epoch(bed: Bed):
    await bed.driven(run())
    [event] = await bed.write(run(), Fence("report", 99, 99), ToolReported(call_id="c"))
    assert (event.position, event.epoch) == (2, 0)


# --- guards


async def test_a_guarded_start_waits_for_a_queued_or_driven_run(bed: Bed):
    await bed.start(run("one"))
    error = await refused(SessionBusyError, bed.start(run("two"), guard=IDLE))
    assert error.params["run_id"] == "one"
    lease = await bed.claim(run("one"))
    await refused(SessionBusyError, bed.start(run("two"), guard=IDLE))
    await bed.start(run("three", session="elsewhere"), guard=IDLE)
    await bed.write(run("one"), plan(1, lease), RunCompleted())
    await bed.start(run("two"), guard=IDLE)


async def test_a_paused_or_an_expired_run_does_not_make_its_session_busy(bed: Bed):
    lease = await bed.driven(run("one"))
    await bed.store.leases.release(lease, position=1, waiting=True)
    await bed.start(run("two"), guard=IDLE)
    await bed.claim(run("two"))
    bed.watch.now += 2 * MINUTE
    await bed.start(run("three"), guard=IDLE)


async def test_of_guarded_starts_at_the_same_time_one_is_taken(bed: Bed):
    starts = [bed.start(run(f"r{n}"), guard=IDLE, sync=True) for n in range(6)]
    verdicts = await asyncio.gather(*starts, return_exceptions=True)
    assert sum(isinstance(v, SessionBusyError) for v in verdicts) == 5


async def test_a_run_is_resumed_in_an_idle_session_only(bed: Bed):
    lease = await bed.driven(run("one"))
    await bed.write(run("one"), plan(1, lease), RunFailed(code="x", resumable=True))
    await bed.start(run("two"))
    again = RunResumed(by=BY)
    await refused(SessionBusyError, bed.write(run("one"), decision(2), again, guard=IDLE))
    lease = await bed.claim(run("two"))
    await bed.write(run("two"), plan(1, lease), RunCompleted())
    await bed.write(run("one"), decision(2), again, guard=IDLE)
    assert await bed.due() == ["one"]
    assert (await bed.claim(run("one"))).epoch == 2


# --- leases


async def test_each_claim_gets_a_higher_epoch(bed: Bed):
    lease = await bed.driven(run())
    assert (lease.epoch, lease.crashed, lease.until) == (1, False, MORNING + MINUTE)
    assert await bed.store.leases.release(lease, position=1, waiting=False)
    lease = await bed.claim(run())
    assert (lease.epoch, lease.crashed) == (2, False)
    await bed.write(run(), plan(1, lease), RunClaimed(holder="here"))
    [entry] = await bed.store.index.runs("t")
    assert (entry.epoch, entry.lease_holder, entry.position) == (2, "here", 2)


async def test_a_held_run_says_by_whom_and_until_when(bed: Bed):
    await bed.driven(run())
    error = await refused(RunHeldError, bed.claim(run()))
    assert error.params == {
        "run_id": "r",
        "holder": "here",
        "until": (MORNING + MINUTE).isoformat(),
    }


async def test_a_lease_that_ended_without_a_release_is_a_crash(bed: Bed):
    await bed.driven(run())
    bed.watch.now += MINUTE
    lease = await bed.claim(run())
    assert (lease.epoch, lease.crashed) == (2, True)
    assert (await bed.claim(run(), steal=True)).crashed


async def test_a_run_that_ended_is_no_crash_once_resumed(bed: Bed):
    lease = await bed.driven(run())
    await bed.write(run(), plan(1, lease), RunFailed(code="x", resumable=True))
    await bed.write(run(), decision(2), RunResumed(by=BY))
    lease = await bed.claim(run())
    assert (lease.epoch, lease.crashed) == (2, False)


async def test_only_one_run_of_a_session_is_driven(bed: Bed):
    await bed.driven(run("one"))
    await bed.start(run("two"))
    await refused(SessionBusyError, bed.claim(run("two")))
    await bed.driven(run("three", session="other"))
    bed.watch.now += MINUTE
    await bed.claim(run("two"))


async def test_a_run_to_be_cancelled_is_closed_beside_one_that_is_driven(bed: Bed):
    await bed.driven(run("one"))
    await bed.start(run("two"))
    await bed.write(run("two"), decision(1), CancelRequested(by=BY))
    lease = await bed.claim(run("two"))
    stop = Fence("plan", 2, lease.epoch, stop=True)
    await bed.write(run("two"), stop, RunCancelled())


async def test_of_claims_at_the_same_time_one_is_given(bed: Bed):
    await bed.start(run())
    verdicts = await asyncio.gather(*(bed.claim(run()) for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(v, RunHeldError) for v in verdicts) == 7


async def test_an_unknown_or_ended_run_cannot_be_claimed(bed: Bed):
    await refused(RunNotFoundError, bed.claim(run()))
    lease = await bed.driven(run())
    await refused(RunNotFoundError, bed.claim(run("x")))
    await bed.write(run(), plan(1, lease), RunCompleted())
    error = await refused(RunEndedError, bed.claim(run()))
    assert error.params == {"run_id": "r", "status": "completed"}


async def test_a_renewed_lease_ends_later(bed: Bed):
    lease = await bed.driven(run())
    bed.watch.now += MINUTE / 2
    lease = await bed.store.leases.renew(lease, ttl=MINUTE)
    assert (lease.until, lease.epoch) == (MORNING + MINUTE * 1.5, 1)
    bed.watch.now += MINUTE / 2
    await refused(RunHeldError, bed.claim(run()))


async def test_a_lost_lease_is_neither_renewed_nor_released(bed: Bed):
    lease = await bed.driven(run())
    await bed.claim(run(), steal=True)
    await refused(EpochStaleError, bed.store.leases.renew(lease, ttl=MINUTE))
    await refused(EpochStaleError, bed.store.leases.release(lease, position=1, waiting=False))


async def test_a_lease_given_back_is_not_brought_to_life_by_a_late_renewal(bed: Bed):
    lease = await bed.driven(run())
    await bed.store.leases.release(lease, position=1, waiting=False)
    await bed.store.leases.renew(lease, ttl=MINUTE)
    assert await bed.due() == ["r"]


async def test_a_lease_is_not_released_once_the_run_moved(bed: Bed):
    lease = await bed.driven(run())
    await bed.write(run(), Fence("report"), ToolReported(call_id="c"))
    assert not await bed.store.leases.release(lease, position=1, waiting=True)
    await refused(RunHeldError, bed.claim(run()))
    assert await bed.store.leases.release(lease, position=2, waiting=True)


# --- index


async def test_a_run_is_located_within_its_tenant(bed: Bed):
    lease = await bed.driven(run())
    child = run("child", root="r")
    await bed.start(child)
    assert await bed.store.index.locate("t", "r") == run()
    assert await bed.store.index.locate("t", "child") == child
    assert await bed.store.index.locate("t", "x") is None
    assert await bed.store.index.locate("x", "r") is None
    assert lease.ref == run()


async def test_runs_lists_the_roots_newest_first(bed: Bed):
    await bed.start(run("b", session="2"))
    bed.watch.now += MINUTE
    await bed.start(run("a", session="1"))
    await bed.start(run("child", session="1", root="a"))
    entries = await bed.store.index.runs("t")
    assert [(e.run_id, e.session_id, e.agent) for e in entries] == [
        ("a", "1", "a"),
        ("b", "2", "a"),
    ]
    assert [e.run_id for e in await bed.store.index.runs("t", RunFilter("1"))] == ["a"]
    assert list(await bed.store.index.runs("t", RunFilter("x"))) == []
    assert list(await bed.store.index.runs("x")) == []


async def test_a_run_is_due_when_nobody_drives_it_and_it_does_not_wait(bed: Bed):
    await bed.start(run())
    assert await bed.due() == ["r"]
    assert await bed.due("x") == []
    lease = await bed.claim(run())
    assert await bed.due() == []
    bed.watch.now += MINUTE
    assert await bed.due() == ["r"]
    lease = await bed.claim(run())
    asked = ApprovalRequested(call_id="c", tool="t", arguments={})
    await bed.write(run(), plan(1, lease), asked)
    await bed.store.leases.release(lease, position=2, waiting=True)
    assert await bed.due() == []


async def test_a_waiting_run_is_due_once_its_question_is_no_longer_open(bed: Bed):
    lease = await bed.driven(run())
    end = bed.watch.now + MINUTE
    assert await bed.store.leases.release(lease, position=1, waiting=True, until=end)
    assert await bed.due() == []
    bed.watch.now = end
    assert await bed.due() == ["r"]


async def test_a_run_whose_driver_died_is_due_even_if_it_had_asked(bed: Bed):
    lease = await bed.driven(run())
    asked = ApprovalRequested(call_id="c", tool="t", arguments={})
    await bed.write(run(), plan(1, lease), asked)
    assert await bed.due() == []
    bed.watch.now += MINUTE
    assert await bed.due() == ["r"]


async def test_a_decision_or_a_report_makes_a_waiting_run_due_in_the_same_append(bed: Bed):
    facts = {
        "one": (decision(1), ApprovalSettled(call_id="c", by=BY, happened=True, text="")),
        "two": (Fence("report"), ToolReported(call_id="c")),
        "three": (decision(1), CancelRequested(by=BY)),
    }
    for name, (fence, fact) in facts.items():
        ref = run(name, session=name)
        lease = await bed.driven(ref)
        await bed.store.leases.release(lease, position=1, waiting=True)
        assert await bed.due() == []
        await bed.write(ref, fence, fact)
        assert await bed.due() == [name]
        await bed.claim(ref)


# --- blobs


async def test_a_blob_is_given_back_to_its_tenant_only(bed: Bed):
    digest = await bed.store.blobs.put("t", b"content")
    assert await bed.store.blobs.put("t", b"content") == digest
    assert await bed.store.blobs.get("t", digest) == b"content"
    assert await bed.store.blobs.get("other", digest) is None
    assert await bed.store.blobs.get("t", "0" * 32) is None
    assert await bed.store.blobs.get("t", "../../.key") is None


async def test_digests_are_keyed_by_tenant(bed: Bed):
    blobs = bed.store.blobs
    digest = blobs.digest("t", b"content")
    assert len(digest) == 32
    assert int(digest, 16) >= 0
    assert digest == await blobs.put("t", b"content")
    assert digest != blobs.digest("other", b"content")
    assert await blobs.get("t", blobs.digest("t", b"other")) is None


async def test_blobs_of_any_size_come_back_whole(bed: Bed):
    for size in (0, 1, 65_535, 65_536, 65_537, 3_000_000):
        data = bytes(size % 251 for _ in range(1)) * size
        digest = await bed.store.blobs.put("t", data)
        assert await bed.store.blobs.get("t", digest) == data


# --- text and identifiers

ODD = [
    "../x",
    "..",
    ".",
    ".hidden",
    "a/b",
    "a\\b",
    "nul\x00nul",
    "line\nbreak",
    "%2e",
    "é",
    "e\N{COMBINING ACUTE ACCENT}",
    "chat",
    "Chat",
    "CHAT",
    "con",
    "lpt1.x",
    "x.jsonl",
    "x.",
    "x ",
    "~",
    "-",
    "💬",
    "n" * 300,
    "n" * 299 + "m",
    "é" * 300,
]


async def test_any_identifier_names_its_own_run_session_and_tenant(bed: Bed):
    for name in ODD:
        ref = run(name, session=name, tenant=name)
        await bed.start(ref, text=name)
        lease = await bed.claim(ref)
        assert await bed.store.leases.release(lease, position=1, waiting=False)
    for name in ODD:
        ref = run(name, session=name, tenant=name)
        [event] = await bed.read(ref)
        assert event.run_id == event.session_id == event.tenant_id == name
        assert await bed.store.index.locate(name, name) == ref
        assert [e.epoch for e in await bed.store.index.runs(name)] == [1]
        assert len((await bed.store.journal.session(name, name)).events) == 1


async def test_odd_sessions_of_one_tenant_stay_apart(bed: Bed):
    for name in ODD:
        await bed.start(run(name, session=name))
    assert sorted(e.session_id for e in await bed.store.index.runs("t")) == sorted(ODD)
    for name in ODD:
        assert len((await bed.store.journal.session("t", name)).events) == 1


async def test_empty_or_broken_identifiers_are_refused(bed: Bed):
    for name in ("", "half \ud83d"):
        for ref in (run(name), run(session=name), run(tenant=name)):
            await refused(InvalidIdError, bed.start(replace(ref, root_id=ref.run_id)))
            assert list(await bed.read(ref)) == []


async def test_text_that_no_store_keeps_reads_the_same_everywhere(bed: Bed):
    await bed.start(run(), text="W\x00s\ud83dl \ufffe 😀 \ud83d\ude00 \u0001")
    lease = await bed.claim(run())
    call = ToolCallBlock(id="c", name="to\x00ol\udfff", arguments={"k\x00": ["\ud83d", "\ufffe"]})
    message = Message(role="user", blocks=(call,))
    again = RunStarted(agent="b\x00", message=message, principal=BY)
    await bed.write(run(), plan(1, lease), again)
    first, second = [e.payload for e in await bed.read(run())]
    assert isinstance(first, RunStarted)
    assert isinstance(second, RunStarted)
    [block] = first.message.blocks
    assert isinstance(block, TextBlock)
    assert block.text == "W\ufffds\ufffdl \ufffd 😀 😀 \u0001"
    assert block.altered
    assert second.agent == "b\ufffd"
    [call] = second.message.calls
    assert call.name == "to\ufffdol\ufffd"
    assert call.arguments == {"k\ufffd": ["\ufffd", "\ufffd"]}


async def test_five_megabytes_of_controls_come_back(bed: Bed):
    text = "\u0001" * 5_000_000
    await bed.start(run(), text=text)
    [event] = await bed.read(run())
    assert isinstance(event.payload, RunStarted)
    assert event.payload.message.text == text
