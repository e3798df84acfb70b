"""The JSONL store among damaged files, full disks, erased sessions and other processes."""

import asyncio
import errno
import fcntl
import json
import logging
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from loom_ia.adapters import io
from loom_ia.adapters.artifacts import local
from loom_ia.adapters.env import Env
from loom_ia.adapters.files import reported
from loom_ia.adapters.io import BlockedError, UnhurriedError
from loom_ia.adapters.storage.jsonl import JsonlStore, Settings
from loom_ia.core.errors import (
    InvalidIdError,
    JournalDamagedError,
    JournalMovedError,
    RunNotFoundError,
    SessionBusyError,
    SessionErasedError,
    StoreUnavailableError,
)
from loom_ia.core.events import (
    CancelRequested,
    Event,
    LineQuarantined,
    Payload,
    Principal,
    RunCompleted,
    RunFailed,
    RunResumed,
    RunStarted,
    StepOpened,
    TailHealed,
    ToolReported,
    decode,
)
from loom_ia.core.fold import fold
from loom_ia.core.model import user
from loom_ia.core.ports import Append, Draft, Fence, Guard, Lease, Page, Paging, RunFilter, RunRef
from loom_ia.core.text import Text

MORNING = datetime(2026, 1, 1, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BY = Principal(id="key:1")
ids = (f"00000000-0000-7000-8000-{n:012x}" for n in count(1))


def run(run_id: str = "r", session: str = "s") -> RunRef:
    return RunRef("t", session, run_id, run_id)


def journal(root: Path, session: str = "s") -> Path:
    return root / "data" / "t" / f"{session}.jsonl"


def opened(root: Path) -> AbstractAsyncContextManager[JsonlStore]:
    return Settings().open(Env(root, clock=lambda: MORNING))


async def write(store: JsonlStore, ref: RunRef, fence: Fence, *facts: Payload) -> Sequence[Event]:
    drafts = [Draft(next(ids), fact) for fact in facts]
    return (await store.journal.append(Append(ref, drafts, fence, sync=True))).events


async def start(store: JsonlStore, ref: RunRef, text: str = "salut") -> Sequence[Event]:
    fact = RunStarted(agent="a", message=user(text), principal=BY)
    return await write(store, ref, Fence("start"), fact)


async def report(store: JsonlStore, ref: RunRef, name: str = "c") -> Sequence[Event]:
    return await write(store, ref, Fence("report"), ToolReported(call_id=name))


async def claim(store: JsonlStore, ref: RunRef) -> Lease:
    return await store.leases.claim(ref, ttl=MINUTE, holder="here")


async def read(store: JsonlStore, ref: RunRef) -> Sequence[Event]:
    return (await store.journal.read(ref)).events


async def session(store: JsonlStore, name: str = "s") -> Sequence[Event]:
    return (await store.journal.session("t", name)).events


def sound(path: Path) -> list[Event]:
    """Events of a file in which nothing is missing."""
    data = path.read_bytes()
    assert data.endswith(b"\n")
    events = [decode(line) for line in data.splitlines()]
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    for run_id in {e.run_id for e in events}:
        positions = [e.position for e in events if e.run_id == run_id]
        assert positions == list(range(1, len(positions) + 1))
    return events


async def written(root: Path, *runs: str, reports: int = 1) -> Path:
    """A session whose runs started one after the other, then reported in turn."""
    async with opened(root) as store:
        for name in runs:
            await start(store, run(name), "héhé")
        for _ in range(reports):
            for name in runs:
                await report(store, run(name), "é" * 150)
    return journal(root)


def blacken(path: Path, first: int, size: int) -> None:
    with path.open("r+b") as file:
        file.seek(first)
        file.write(b"\0" * size)


def starts(path: Path) -> list[int]:
    """Offset of each line."""
    offsets = [0]
    for line in path.read_bytes().splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    return offsets


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


# --- torn tails


async def test_a_line_cut_at_any_byte_costs_at_most_its_event(tmp_path, caplog):
    caplog.set_level(logging.ERROR, "loom_ia.journal")
    path = await written(tmp_path, "r", reports=2)
    whole = path.read_bytes()
    before, last = starts(path)[1:3], starts(path)[-1]
    for cut in range(before[1] + 1, last):
        torn = whole[before[1] : cut]
        root = tmp_path / str(cut)
        journal(root).parent.mkdir(parents=True)
        journal(root).write_bytes(whole[:cut])
        complete = cut == last - 1
        async with opened(root) as store:
            assert len(await read(store, run())) == 2
            events = await report(store, run(), "next")
            healed = [e for e in events if isinstance(e.payload, TailHealed)]
            assert [e.skippable for e in healed] == ([] if complete else [True])
            assert events[-1].position == 4
            assert fold(await read(store, run())).position == 4
        sound(journal(root))
        aside = journal(root).with_name("s.jsonl.torn")
        assert not complete or not aside.exists()
        assert complete or aside.read_bytes() == torn + b"\n"


async def test_the_fence_is_judged_on_the_positions_before_a_healing(tmp_path):
    path = await written(tmp_path, "r", reports=1)
    with path.open("ab") as file:
        file.write(b'{"id":"x","seq":3')
    async with opened(tmp_path) as store:
        lease = await claim(store, run())
        plan = Fence("plan", 2, lease.epoch)
        healed, step = await write(store, run(), plan, StepOpened(step=1))
    assert healed.payload == TailHealed(removed=17)
    assert (healed.position, step.position, step.epoch) == (3, 4, lease.epoch)
    sound(path)


async def test_a_run_that_starts_behind_a_torn_line_begins_by_its_start(tmp_path, caplog):
    path = await written(tmp_path, "r")
    with path.open("ab") as file:
        file.write(b"\0" * 300)
    async with opened(tmp_path) as store:
        events = await start(store, run("second"))
        assert [e.type for e in events] == ["run.started", "journal.healed"]
        assert [e.agent for e in await store.index.runs("t")] == ["a", "a"]
    assert "300 bytes" in caplog.text
    sound(path)


async def test_a_healing_is_told_by_the_first_write_that_is_taken(tmp_path):
    path = await written(tmp_path, "r")
    with path.open("ab") as file:
        file.write(b"torn")
    async with opened(tmp_path) as store:
        with pytest.raises(JournalMovedError):
            await write(store, run(), Fence("decision", 9), CancelRequested(by=BY))
        events = await report(store, run())
        assert [e.type for e in events] == ["journal.healed", "tool.reported"]
        assert len(await report(store, run())) == 1


async def test_an_empty_file_is_an_empty_session(tmp_path):
    journal(tmp_path).parent.mkdir(parents=True)
    journal(tmp_path).touch()
    async with opened(tmp_path) as store:
        assert list(await read(store, run())) == []
        assert list(await session(store)) == []
        assert list(await store.index.runs("t", RunFilter("s"))) == []
        await start(store, run())
    assert len(sound(journal(tmp_path))) == 1


# --- damage in the middle


@pytest.mark.parametrize(
    ("first", "size"),
    [(20, 60), (0, 300), (-100, 300), (-10, 40), (120, 1)],
    ids=["inside", "head", "two lines", "fused", "one byte"],
)
async def test_damage_stops_its_run_only_until_it_is_repaired(tmp_path, caplog, first, size):
    path = await written(tmp_path, "r", "other", reports=4)
    offsets = starts(path)
    blacken(path, offsets[4] + first, size)
    damaged = path.read_bytes()
    async with opened(tmp_path) as store:
        with pytest.raises(JournalDamagedError) as caught:
            await read(store, run())
        line = caught.value.params["line"]
        assert caught.value.params == {"path": str(path), "line": line, "session_id": "s"}
        assert line in {4, 5}
        seen = len(await session(store))
        assert str(path) in caplog.text
        fused = first < 0
        if not fused:
            assert len(await read(store, run("other"))) == 5
            assert line == 5
        assert (await report(store, run("other")))[0].position == 6
        assert (await report(store, run()))[0].position == 6
        assert [e.position for e in await store.index.runs("t")] == [6, 6]
        lines = list(await store.journal.repair("t", "s"))
        assert line in lines
        assert list(await store.journal.repair("t", "s")) == []
        events = await read(store, run())
        assert [e.position for e in events] == [1, 2, 3, 4, 5, 6]
        assert sum(isinstance(e.payload, LineQuarantined) for e in events) == 1
        assert fold(events).position == 6
        assert len(await session(store)) == seen + 2 + (2 if fused else 1)
        assert (await report(store, run()))[0].position == 7
    sound(path)
    aside = path.with_name("s.jsonl.quarantine").read_bytes()
    assert all(part in damaged for part in aside.splitlines())
    assert stat.S_IMODE(path.with_name("s.jsonl.quarantine").stat().st_mode) == 0o600


async def test_a_damaged_last_line_keeps_its_position(tmp_path):
    path = await written(tmp_path, "r", reports=2)
    offsets = starts(path)
    blacken(path, offsets[2], offsets[3] - offsets[2] - 1)
    async with opened(tmp_path) as store:
        [entry] = await store.index.runs("t")
        assert entry.position == 3
        [event] = await report(store, run())
        assert (event.position, event.seq) == (4, 4)
        with pytest.raises(JournalDamagedError):
            await read(store, run())
        assert list(await store.journal.repair("t", "s")) == [3]
        assert len(await read(store, run())) == 4
    sound(path)


async def test_garbage_between_two_lines_belongs_to_no_run(tmp_path):
    path = await written(tmp_path, "r", reports=2)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"\n" + lines[1] + b"garbage\n" + lines[2])
    async with opened(tmp_path) as store:
        assert len(await read(store, run())) == 3
        assert list(await store.journal.repair("t", "s")) == [4]
        assert len(await read(store, run())) == 3
        assert (await report(store, run()))[0].seq == 4
    assert path.with_name("s.jsonl.quarantine").read_bytes() == b"garbage\n"


async def test_a_line_removed_by_hand_is_seen_and_repaired(tmp_path):
    path = await written(tmp_path, "r", reports=3)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1] + lines[3])
    async with opened(tmp_path) as store:
        with pytest.raises(JournalDamagedError):
            await read(store, run())
        assert list(await store.journal.repair("t", "s")) == [3]
        assert len(await read(store, run())) == 4
    sound(path)


async def test_another_store_sees_a_repaired_file(tmp_path):
    path = await written(tmp_path, "r", reports=3)
    async with opened(tmp_path) as store, opened(tmp_path) as other:
        assert len(await read(other, run())) == 4
        blacken(path, starts(path)[1], 30)
        assert list(await store.journal.repair("t", "s")) == [2]
        assert [e.type for e in await read(other, run())][1] == "journal.quarantined"
        assert (await report(other, run()))[0].position == 5
        assert (await report(store, run()))[0].position == 6
    sound(path)


# --- what the disk refuses

FULL = """
import asyncio, resource, sys
from pathlib import Path
from loom_ia.adapters.env import Env
from loom_ia.adapters.storage.jsonl import Settings
from loom_ia.core.errors import StoreUnavailableError
from loom_ia.core.events import ToolReported
from loom_ia.core.model import TextBlock
from loom_ia.core.ports import Append, Draft, Fence, RunRef

root, ref = Path(sys.argv[1]), RunRef("t", "s", "r", "r")
path = root / "data/t/s.jsonl"

async def main():
    async with Settings().open(Env(root)) as store:
        async def append(size):
            fact = ToolReported(call_id="c", blocks=(TextBlock(text="x" * size),))
            drafts = [Draft("a", fact), Draft("b", fact)]
            return await store.journal.append(Append(ref, drafts, Fence("report")))
        await append(10)
        before = path.read_bytes()
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 5000, resource.RLIM_INFINITY))
        try:
            await append(3000)
        except StoreUnavailableError as error:
            print(error)
        assert path.read_bytes() == before
        await append(10)
        assert len((await store.journal.read(ref)).events) == 6

asyncio.run(main())
"""


def test_a_full_disk_refuses_an_append_whole_and_takes_the_next_one(tmp_path):
    path = asyncio.run(written(tmp_path, "r"))
    command = [sys.executable, "-c", FULL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.startswith(f"storage {path}: ")
    assert len(sound(path)) == 6


async def test_a_sync_that_fails_fails_every_caller_that_counted_on_it(tmp_path, monkeypatch):
    def broken(_fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async with opened(tmp_path) as store:
        await start(store, run())
        with monkeypatch.context() as patch:
            patch.setattr("loom_ia.adapters.storage.jsonl.log.os.fdatasync", broken)
            writes = [report(store, run(), f"c{n}") for n in range(5)]
            verdicts = await asyncio.gather(*writes, return_exceptions=True)
        assert all(isinstance(v, StoreUnavailableError) for v in verdicts)
        assert (await report(store, run()))[0].position == 7


async def test_only_what_is_brief_is_done_in_the_event_loop(tmp_path):
    async with opened(tmp_path) as store:
        await start(store, run())
        shelf = store.journal._desk.shelf

        def hurried(job: Callable[[], Page]) -> Page:
            return shelf.hurried(job)

        def reported(call_id: str) -> Append:
            return Append(run(), [Draft(next(ids), ToolReported(call_id=call_id))], Fence("report"))

        await asyncio.to_thread(hurried, partial(shelf.append, reported("c")))
        long = reported("x" * io.HASTE)
        with pytest.raises(UnhurriedError):
            await asyncio.to_thread(hurried, partial(shelf.append, long))
        assert (await store.journal.append(long)).events[0].seq == 3
        with pytest.raises(UnhurriedError):
            await asyncio.to_thread(hurried, partial(shelf.read, run(), 0))
        await asyncio.to_thread(hurried, partial(shelf.read, run(), 3))


async def test_appends_to_one_session_share_their_syncs(tmp_path, monkeypatch):
    syncs: list[int] = []
    ready, real = threading.Event(), os.fdatasync

    def counted(fd: int) -> None:
        ready.wait()
        syncs.append(fd)
        real(fd)

    async with opened(tmp_path) as store:
        await start(store, run())
        monkeypatch.setattr("loom_ia.adapters.storage.jsonl.log.os.fdatasync", counted)
        reports = [asyncio.create_task(report(store, run(), f"c{n}")) for n in range(200)]
        await asyncio.sleep(0)
        ready.set()
        await asyncio.gather(*reports)
    assert len(syncs) <= 20
    assert len(sound(journal(tmp_path))) == 201


def test_a_folder_that_cannot_be_used_says_so(tmp_path):
    (tmp_path / "data").write_text("a file")
    with pytest.raises(StoreUnavailableError) as caught:
        asyncio.run(written(tmp_path, "r"))
    assert caught.value.params["path"] == str(tmp_path / "data")


UNREADABLE = """
import asyncio, os, sys
from pathlib import Path
from loom_ia.adapters.env import Env
from loom_ia.adapters.storage.jsonl import Settings
from loom_ia.core.errors import StoreUnavailableError
from loom_ia.core.ports import RunRef

async def main():
    async with Settings().open(Env(Path(sys.argv[1]))) as store:
        os.chmod(Path(sys.argv[1], "data", "t"), 0)
        if os.getuid() == 0:
            os.setresuid(65534, 65534, 65534)
        ref = RunRef("t", "s", "r", "r")
        for call in (store.journal.read(ref), store.index.runs("t"), store.index.locate("t", "r")):
            try:
                print(await call)
            except StoreUnavailableError as error:
                print(error)

asyncio.run(main())
"""


def test_a_tenant_that_cannot_be_read_says_so(tmp_path):
    path = asyncio.run(written(tmp_path, "r"))
    command = [sys.executable, "-c", UNREADABLE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    path.parent.chmod(0o700)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert all(line.startswith(f"storage {path.parent}") for line in lines)
    assert all("permission denied; give this user the right" in line for line in lines)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "the disk is full; make room on it, then go on"),
        (errno.EACCES, "permission denied; give this user the right to read and write there"),
        (errno.EEXIST, "a folder is expected there, not a file; move it, or change the path"),
        (errno.EIO, "the disk does not answer as it should"),
    ],
)
def test_a_refusal_of_the_system_says_where_and_what_to_do(tmp_path, number, said):
    draft = tmp_path / ".0123456789abcdef.tmp"
    with pytest.raises(StoreUnavailableError) as caught, reported(tmp_path):
        raise OSError(number, os.strerror(number), str(draft))
    assert str(caught.value) == f"storage {tmp_path}: {said}"


async def test_an_empty_identifier_is_refused_in_words_that_translate(tmp_path):
    async with opened(tmp_path) as store:
        with pytest.raises(InvalidIdError) as caught:
            await start(store, RunRef("", "s", "r", "r"))
    assert caught.value.params["reason"] == Text("it is empty; give it at least one character")


async def test_a_session_left_busy_by_a_crash_says_how_to_resume_its_run(tmp_path):
    async with opened(tmp_path) as store:
        await start(store, run())
        await start(store, run("other"))
        await claim(store, run())
        with pytest.raises(SessionBusyError, match=r"resume it if it was cut \(loom resume r\)"):
            await claim(store, run("other"))


async def test_an_empty_line_is_not_called_damaged(tmp_path, caplog):
    path = await written(tmp_path, "r")
    events = sound(path)
    path.write_bytes(path.read_bytes() + b"\n\n")
    async with opened(tmp_path) as store:
        assert await session(store) == events
    assert "damaged" not in caplog.text


async def test_an_index_that_is_late_says_what_held_it(tmp_path, caplog, monkeypatch):
    def held(*_: object) -> None:
        raise BlockedError(StoreUnavailableError(path="index", reason="locked"))

    async with opened(tmp_path) as store:
        await start(store, run())
        lease = await claim(store, run())
        monkeypatch.setattr("loom_ia.adapters.storage.jsonl.index.Index.close", held)
        await write(store, run(), Fence("plan", 1, lease.epoch), RunCompleted())
    assert "its index is late: storage index: locked" in caplog.text


async def test_folders_and_files_are_for_their_owner_only(tmp_path):
    async with opened(tmp_path) as store, local.Settings().open(Env(tmp_path)) as artifacts:
        await start(store, run())
        await claim(store, run())
        await store.blobs.put("t", b"content")
        await artifacts.put("t", "s", b"content", "image/png")
    for path in (tmp_path / "data", *(tmp_path / "data").rglob("*")):
        mode = 0o700 if path.is_dir() else 0o600
        assert (path, stat.S_IMODE(path.stat().st_mode)) == (path, mode)


# --- erased and replaced files


async def test_an_erased_session_reads_as_empty_and_is_not_due(tmp_path):
    async with opened(tmp_path) as store:
        await start(store, run())
        await start(store, run("x", "x"))
        for reading in (
            lambda: read(store, run()),
            lambda: session(store),
            lambda: store.index.runs("t", RunFilter("s")),
            lambda: store.journal.repair("t", "s"),
        ):
            journal(tmp_path).unlink(missing_ok=True)
            assert list(await reading()) == []
        assert [e.run_id for e in await store.index.due("t")] == ["x"]


async def test_a_session_that_cannot_be_opened_hides_no_other(tmp_path, caplog):
    path = await written(tmp_path, "r")
    path.unlink()
    path.mkdir()
    async with opened(tmp_path) as store:
        await start(store, run("x", "x"))
        assert [e.run_id for e in await store.index.due("t")] == ["x"]
        assert str(path) in caplog.text
        assert [e.run_id for e in await store.index.runs("t", RunFilter("s"))] == ["r"]
        assert [e.session_id for e in await store.index.sessions("t")] == ["x", "s"]


async def test_an_erased_session_stays_erased(tmp_path):
    async with opened(tmp_path) as store:
        await start(store, run())
        await start(store, run("x", "x"))
        journal(tmp_path).unlink()
        with pytest.raises(StoreUnavailableError):
            await report(store, run())
        with pytest.raises(RunNotFoundError):
            await report(store, run())
        for ref in (run(), run("new")):
            with pytest.raises(StoreUnavailableError):
                await start(store, ref)
        assert list(await read(store, run())) == []
        assert [e.run_id for e in await store.index.due("t")] == ["x"]
        assert await store.index.locate("t", "r") is None
    async with opened(tmp_path) as store:
        with pytest.raises(StoreUnavailableError):
            await start(store, run())
    assert not journal(tmp_path).exists()


async def test_what_one_store_erases_no_other_one_brings_back(tmp_path):
    async with opened(tmp_path) as store, opened(tmp_path) as other:
        await start(store, run())
        await other.snapshots.add("t", "s", b"part", first=True)
        await report(other, run())
        erasing = (
            one.journal.delete("t", "s", by=name) for name, one in (("a", store), ("b", other))
        )
        first, second = await asyncio.gather(*erasing)
        assert first is not None
        assert first == second
        for one in (store, other):
            with pytest.raises(SessionErasedError):
                await report(one, run())
            with pytest.raises(SessionErasedError):
                await start(one, run("new"))
            await one.snapshots.add("t", "s", b"late", first=True)
            assert list(await one.index.sessions("t")) == []
            assert await one.index.locate("t", "r") is None
    kept = {p.name for p in journal(tmp_path).parent.rglob("*") if p.is_file()}
    assert kept == {".index.jsonl", ".lock", ".spending.jsonl", ".spending.lock", "s.json"}


# --- index and leases


@pytest.mark.parametrize("damage", ["missing", "torn", "garbage", "nuls", "empty"])
async def test_a_damaged_index_is_built_again(tmp_path, damage):
    path = await written(tmp_path, "r", "other")
    index = path.with_name(".index.jsonl")
    data = index.read_bytes()
    match damage:
        case "missing":
            index.unlink()
        case "torn":
            index.write_bytes(data[:-1] + b'\n{"run_id":"x')
        case "garbage":
            index.write_bytes(b"garbage\n")
        case "nuls":
            index.write_bytes(b"\0" * len(data))
        case _:
            index.write_bytes(b"")
    async with opened(tmp_path) as store:
        await start(store, run("new", "other"))
        assert await store.index.locate("t", "r") == run()
        assert {e.run_id for e in await store.index.runs("t")} == {"r", "other", "new"}
        assert {e.run_id for e in await store.index.due("t")} == {"r", "other", "new"}
    assert all(json.loads(line) for line in index.read_bytes().splitlines())


async def test_an_index_ahead_of_its_session_names_no_run(tmp_path):
    path = await written(tmp_path, "r")
    with path.with_name(".index.jsonl").open("a") as file:
        file.write(
            '{"run_id":"ghost","session_id":"s","root_id":"ghost","at":"2026-01-01T09:00:00+00:00"}\n'
        )
    async with opened(tmp_path) as store:
        assert await store.index.locate("t", "ghost") is None
        assert [e.run_id for e in await store.index.due("t")] == ["r"]
        await start(store, run("ghost"))
        assert await store.index.locate("t", "ghost") == run("ghost")


async def test_sweeping_opens_no_session_whose_runs_have_ended(tmp_path):
    async with opened(tmp_path) as store:
        await start(store, run())
        lease = await claim(store, run())
        await write(
            store, run(), Fence("plan", 1, lease.epoch), RunFailed(code="x", resumable=True)
        )
        await start(store, run("other", "other"))
    kept = journal(tmp_path).read_bytes()
    journal(tmp_path).write_bytes(b"")
    async with opened(tmp_path) as store:
        assert [e.run_id for e in await store.index.due("t")] == ["other"]
        journal(tmp_path).write_bytes(kept)
        await write(store, run(), Fence("decision", 2), RunResumed(by=BY))
    async with opened(tmp_path) as store:
        assert {e.run_id for e in await store.index.due("t")} == {"r", "other"}
    assert list(journal(tmp_path).parent.joinpath(".leases").iterdir()) == []


async def test_leases_and_waiting_outlive_the_store(tmp_path):
    async with opened(tmp_path) as store, opened(tmp_path) as other:
        await start(store, run())
        lease = await claim(store, run())
        await store.leases.release(lease, position=1, waiting=True)
        assert list(await other.index.due("t")) == []
        await write(other, run(), Fence("decision", 1), CancelRequested(by=BY))
        assert len(await store.index.due("t")) == 1
        lease = await claim(other, run())
        assert (lease.epoch, lease.crashed) == (2, False)
    async with opened(tmp_path) as store:
        [entry] = await store.index.runs("t")
        assert (entry.epoch, entry.lease_until) == (2, MORNING + MINUTE)


async def test_a_damaged_lease_is_a_crash_under_a_new_epoch(tmp_path):
    async with opened(tmp_path) as store:
        await start(store, run())
        lease = await claim(store, run())
        await write(store, run(), Fence("plan", 1, lease.epoch), StepOpened(step=1))
    journal(tmp_path).with_name(".leases").joinpath("r.json").write_bytes(b"")
    async with opened(tmp_path) as store:
        lease = await claim(store, run())
        assert (lease.epoch, lease.crashed) == (2, True)


async def test_lost_leases_leave_the_epochs_of_the_events(tmp_path):
    async with opened(tmp_path) as store:
        await start(store, run())
        for position in (1, 2):
            lease = await claim(store, run())
            step = StepOpened(step=position)
            await write(store, run(), Fence("plan", position, lease.epoch), step)
            await store.leases.release(lease, position=position + 1, waiting=False)
    journal(tmp_path).with_name(".leases").joinpath("r.json").unlink()
    async with opened(tmp_path) as store:
        assert (await claim(store, run())).epoch == 3


# --- many sessions, waits, cancellation


async def test_more_sessions_than_open_files(tmp_path, monkeypatch):
    monkeypatch.setattr("loom_ia.adapters.storage.jsonl.logs.files_allowed", lambda: 200)
    async with opened(tmp_path) as store:
        refs = [run(f"r{n}", f"s{n}") for n in range(600)]
        await asyncio.gather(*(start(store, ref) for ref in refs))
        await asyncio.gather(*(report(store, ref) for ref in refs))
        assert open_files() < 300
        assert len(await store.index.runs("t", paging=Paging(limit=600))) == 600
    assert all(len(sound(journal(tmp_path, ref.session_id))) == 2 for ref in refs)


async def test_a_session_locked_for_too_long_is_said_unavailable(tmp_path, monkeypatch):
    path = await written(tmp_path, "r")
    monkeypatch.setattr(io, "WAIT", 0.05)
    fd = os.open(path, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    async with opened(tmp_path) as store:
        with pytest.raises(StoreUnavailableError) as caught:
            await report(store, run())
        assert str(caught.value.params["reason"]) == "locked by another process for 0.05 s"
        os.close(fd)
        await report(store, run())


async def test_a_cancelled_caller_leaves_once_its_append_is_done(tmp_path):
    path = await written(tmp_path, "r")
    fd = os.open(path, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    async with opened(tmp_path) as store:
        task = asyncio.create_task(report(store, run(), "kept"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        os.close(fd)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(await read(store, run())) == 3


async def test_a_closed_store_refuses(tmp_path):
    async with opened(tmp_path) as store:
        await start(store, run())
    with pytest.raises(StoreUnavailableError):
        await read(store, run())


# --- several processes

PRELUDE = """
import asyncio, os, signal, sys
from datetime import timedelta
from pathlib import Path
from loom_ia.adapters.env import Env
from loom_ia.adapters.storage.jsonl import Settings
from loom_ia.core.errors import LoomError
from loom_ia.core.events import *
from loom_ia.core.model import TextBlock, user
from loom_ia.core.ports import *

root, me = Path(sys.argv[1]), sys.argv[2]
ref = RunRef("t", "s", "r", "r")

def ready():
    print("ready", flush=True)
    sys.stdin.readline()

async def append(store, name, *facts, fence=Fence("report"), to=ref, **more):
    drafts = [Draft(f"{name}.{n}", fact) for n, fact in enumerate(facts)]
    return await store.journal.append(Append(to, drafts, fence, **more))

def begun():
    return RunStarted(agent=me, message=user("salut"), principal=Principal(id="x"))

def reported(size=1):
    return ToolReported(call_id=me, blocks=(TextBlock(text=me * size),))
"""


def processes(root: Path, body: str, number: int) -> list[subprocess.Popen[str]]:
    """Several processes that do the same, let go at the same time."""
    script = PRELUDE + body + "\nasyncio.run(main())\n"
    running = [launched(root, script, str(n)) for n in range(number)]
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return running


def outputs(running: Sequence[subprocess.Popen[str]]) -> list[str]:
    """What each process said until its end, which must be a good one."""
    done = [process.communicate("go\n") for process in running]
    assert [errors for _, errors in done] == [""] * len(running)
    return [output for output, _ in done]


def launched(root: Path, script: str, name: str) -> subprocess.Popen[str]:
    """A process that is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(root), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()
    return process


RACE = """
async def main():
    async with Settings().open(Env(root)) as store:
        ready()
        try:
            await append(store, f"start{me}", begun(), fence=Fence("start"), sync=True)
            print("started")
        except LoomError as error:
            print(error.code)
        for n in range(30):
            await append(store, f"{me}.{n}", reported(), reported(), sync=n % 10 == 0)
        try:
            lease = await store.leases.claim(ref, ttl=timedelta(minutes=1), holder=me)
            print("claimed", lease.epoch)
        except LoomError as error:
            print(error.code)
        ready()
"""


def test_processes_that_race_agree_on_one_start_and_one_claim(tmp_path):
    running = processes(tmp_path, RACE, 8)
    said = [[process.stdout.readline().strip() for _ in range(3)] for process in running]
    outputs(running)
    assert sorted(start for start, _, _ in said) == ["run_exists"] * 7 + ["started"]
    assert sorted(held for _, held, _ in said) == ["claimed 1"] + ["run_held"] * 7
    events = sound(journal(tmp_path))
    assert len(events) == 1 + 8 * 60
    for first, second in zip(events[1::2], events[2::2], strict=True):
        assert first.id.rpartition(".")[0] == second.id.rpartition(".")[0]


GUARDED = """
async def main():
    async with Settings().open(Env(root)) as store:
        ready()
        for n in range(5):
            to = RunRef("t", f"s{n}", me + str(n), me + str(n))
            guard = Guard(session_idle=True)
            try:
                await append(store, me, begun(), fence=Fence("start"), to=to, guard=guard)
                print("started")
            except LoomError as error:
                print(error.code)
            to = RunRef("t", f"{me}{n}", f"same{n}", f"same{n}")
            try:
                await append(store, me, begun(), fence=Fence("start"), to=to, sync=True)
                print("unique")
            except LoomError as error:
                print(error.code)
"""


def test_guards_and_run_ids_hold_across_processes(tmp_path):
    lines = "".join(outputs(processes(tmp_path, GUARDED, 6))).split()
    assert lines.count("started") == 5
    assert lines.count("session_busy") == 25
    assert lines.count("unique") == 5
    assert lines.count("run_exists") == 25


LONG = """
async def main():
    async with Settings().open(Env(root)) as store:
        ready()
        for n in range(10):
            await append(store, f"{me}.{n}", reported(200_000))
"""


def test_two_processes_appending_long_lines_never_mix_them(tmp_path):
    asyncio.run(written(tmp_path, "r", reports=0))
    outputs(processes(tmp_path, LONG, 2))
    events = sound(journal(tmp_path))
    assert len(events) == 21


KEYS = """
async def main():
    ready()
    async with Settings().open(Env(root)) as store:
        print(store.blobs.digest("t", b"content"), await store.blobs.put("t", b"content"))
"""


def test_processes_that_start_together_agree_on_the_key(tmp_path):
    said = " ".join(outputs(processes(tmp_path, KEYS, 8)))
    assert len(set(said.split())) == 1
    data = tmp_path / "data"
    assert sorted(p.name for p in data.iterdir()) == [".key", "t"]


ENDLESS = """
async def main():
    async with Settings().open(Env(root)) as store:
        await store.leases.claim(ref, ttl=timedelta(hours=9), holder=me, steal=True)
        ready()
        n = 0
        while True:
            page = await append(store, f"{me}.{n}", reported(5_000), reported(5_000))
            os.write(1, f"{page.events[-1].id}\\n".encode())
            n += 1
"""


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_acknowledged(tmp_path):
    asyncio.run(written(tmp_path, "r", reports=0))
    acknowledged: list[str] = []
    script = PRELUDE + ENDLESS + "\nasyncio.run(main())\n"
    for n in range(6):
        process = launched(tmp_path, script, str(n))
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        acknowledged += [process.stdout.readline().strip() for _ in range(20 + 7 * n)]
        process.send_signal(signal.SIGKILL)
        acknowledged += process.communicate()[0].split("\n")[:-1]

    async def after() -> Lease:
        async with Settings().open(Env(tmp_path)) as store:
            lease = await claim(store, run())
            await write(store, run(), Fence("plan", lease_position(), lease.epoch), RunCompleted())
            return lease

    def lease_position() -> int:
        return len([line for line in journal(tmp_path).read_bytes().split(b"\n")[:-1] if line])

    lease = asyncio.run(after())
    assert (lease.epoch, lease.crashed) == (7, True)
    events = sound(journal(tmp_path))
    assert set(acknowledged) <= {event.id for event in events}
    assert events[-1].type == "run.completed"


HOLDING = """
async def main():
    async with Settings().open(Env(root)) as store:
        await store.leases.claim(ref, ttl=timedelta(hours=9), holder=me)
        ready()
        ready()
"""


def test_the_lease_of_a_dead_process_is_taken_at_once(tmp_path):
    async def busy(store: JsonlStore) -> bool:
        guard = Guard(session_idle=True)
        fact = RunStarted(agent="a", message=user("x"), principal=BY)
        ref = run(next(ids))
        try:
            await store.journal.append(Append(ref, [Draft("x", fact)], Fence("start"), guard))
        except Exception:  # noqa: BLE001
            return True
        return False

    asyncio.run(written(tmp_path, "r", reports=0))
    process = launched(tmp_path, PRELUDE + HOLDING + "\nasyncio.run(main())\n", "holder")

    async def judged() -> None:
        async with opened(tmp_path) as store:
            assert list(await store.index.due("t")) == []
            assert await busy(store)
            process.kill()
            await asyncio.to_thread(
                os.waitid,
                os.P_PID,
                process.pid,
                os.WEXITED | os.WNOWAIT,  # dead, not yet buried
            )
            assert not await busy(store)
            assert "r" in [entry.run_id for entry in await store.index.due("t")]
            lease = await claim(store, run())
            assert (lease.epoch, lease.crashed) == (2, True)

    asyncio.run(judged())
    process.communicate()
