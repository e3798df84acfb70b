"""The SQLite store among other processes, full disks, and files that are not its own."""

import asyncio
import errno
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, closing
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from loom_ia.access import Loom
from loom_ia.adapters import io
from loom_ia.adapters.env import Env
from loom_ia.adapters.storage.sqlite import Settings, SqliteStore, database, sql
from loom_ia.config.errors import ConfigError
from loom_ia.core.errors import (
    EpochStaleError,
    JournalDamagedError,
    JournalMovedError,
    RunHeldError,
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
    RunStarted,
    StepOpened,
    ToolReported,
)
from loom_ia.core.fold import fold
from loom_ia.core.model import TextBlock, user
from loom_ia.core.ports import Append, Draft, Fence, Guard, Lease, RunRef

MORNING = datetime(2026, 1, 1, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BY = Principal(id="key:1")
ids = (f"00000000-0000-7000-8000-{n:012x}" for n in count(1))


def run(run_id: str = "r", session: str = "s") -> RunRef:
    return RunRef("t", session, run_id, run_id)


def file(root: Path) -> Path:
    return root / "data" / "loom.db"


def opened(root: Path) -> AbstractAsyncContextManager[SqliteStore]:
    return Settings().open(Env(root, clock=lambda: MORNING))


def asked(root: Path, statement: str, *values: object) -> list[tuple]:
    """Rows of a statement, in a connection of ours."""
    with closing(sqlite3.connect(file(root), isolation_level=None)) as connection:
        return connection.execute(statement, values).fetchall()


async def write(
    store: SqliteStore, ref: RunRef, fence: Fence, *facts: Payload, sync: bool = True
) -> Sequence[Event]:
    drafts = [Draft(next(ids), fact) for fact in facts]
    return (await store.journal.append(Append(ref, drafts, fence, sync=sync))).events


async def start(store: SqliteStore, ref: RunRef, text: str = "salut") -> Sequence[Event]:
    fact = RunStarted(agent="a", message=user(text), principal=BY)
    return await write(store, ref, Fence("start"), fact)


async def report(
    store: SqliteStore, ref: RunRef, text: str = "c", *, sync: bool = True
) -> Sequence[Event]:
    fact = ToolReported(call_id="c", blocks=(TextBlock(text=text),))
    return await write(store, ref, Fence("report"), fact, sync=sync)


async def claim(store: SqliteStore, ref: RunRef) -> Lease:
    return await store.leases.claim(ref, ttl=MINUTE, holder="here")


async def session(store: SqliteStore, name: str = "s") -> Sequence[Event]:
    return (await store.journal.session("t", name)).events


async def sound(root: Path) -> list[Event]:
    """Events of a session in which nothing is missing, in a file in which nothing is wrong."""
    assert asked(root, "PRAGMA integrity_check") == [("ok",)]
    async with opened(root) as store:
        events = list(await session(store))
        for run_id in {e.run_id for e in events}:
            own = [e for e in events if e.run_id == run_id]
            assert [e.position for e in own] == list(range(1, len(own) + 1))
            assert list((await store.journal.read(run(run_id))).events) == own
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    return events


# --- groups


@pytest.fixture
def syncs(monkeypatch) -> list[int]:
    """Syncs of the disk that were asked."""
    made: list[int] = []
    real = os.fdatasync

    def counted(fd: int) -> None:
        made.append(fd)
        real(fd)

    monkeypatch.setattr("loom_ia.adapters.storage.sqlite.database.os.fdatasync", counted)
    return made


async def test_appends_share_a_transaction_and_each_has_its_own_verdict(tmp_path, syncs):
    async with opened(tmp_path) as store:
        refs = [run(f"r{n}", f"s{n}") for n in range(40)]
        for ref in refs:
            await start(store, ref)
        del syncs[:]
        wrong = Fence("decision", 9)
        writes = [
            write(store, ref, wrong, CancelRequested(by=BY)) if n % 3 else report(store, ref)
            for n, ref in enumerate(refs)
        ]
        with store.journal._desk._writing._busy:
            tasks = [asyncio.create_task(one) for one in writes]
            await asyncio.sleep(0)
        verdicts = await asyncio.gather(*tasks, return_exceptions=True)
        assert len(syncs) < 10
        for n, verdict in enumerate(verdicts):
            assert isinstance(verdict, JournalMovedError) if n % 3 else len(verdict) == 1
        for n, ref in enumerate(refs):
            assert len((await store.journal.read(ref)).events) == (1 if n % 3 else 2)


async def test_only_what_asks_for_the_disk_waits_for_it(tmp_path, syncs):
    async with opened(tmp_path) as store:
        await start(store, run())
        assert len(syncs) == 1
        await report(store, run(), sync=False)
        lease = await claim(store, run())
        await store.leases.release(lease, position=2, waiting=False)
        assert len(syncs) == 1
        await report(store, run())
        assert len(syncs) == 2


async def test_a_sync_that_fails_fails_every_caller_that_counted_on_it(tmp_path, monkeypatch):
    def broken(_fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async with opened(tmp_path) as store:
        await start(store, run())
        with monkeypatch.context() as patch:
            patch.setattr("loom_ia.adapters.storage.sqlite.database.os.fdatasync", broken)
            writes = [report(store, run()) for _ in range(5)]
            verdicts = await asyncio.gather(*writes, return_exceptions=True)
        assert all(isinstance(v, StoreUnavailableError) for v in verdicts)
        assert "what was written may be lost" in str(verdicts[0])
        assert (await report(store, run()))[0].position == 7


async def test_what_was_synced_is_in_the_files_as_they_were_at_the_sync(tmp_path, monkeypatch):
    copies: list[Path] = []
    real = os.fdatasync

    def copied(fd: int) -> None:
        real(fd)
        copies.append(tmp_path / str(len(copies)) / "data")
        copies[-1].mkdir(parents=True)
        for name in ("loom.db", "loom.db-wal"):
            shutil.copyfile(file(tmp_path).parent / name, copies[-1] / name)

    acknowledged: list[tuple[int, int]] = []
    async with opened(tmp_path) as store:
        await start(store, run())
        monkeypatch.setattr("loom_ia.adapters.storage.sqlite.database.os.fdatasync", copied)
        for n in range(1, 150):  # the log is emptied into the database several times meanwhile
            await report(store, run(), "x" * 30_000, sync=n % 25 == 0)
            if n % 25 == 0:
                acknowledged.append((len(copies), n + 1))
    assert [number for number, _ in acknowledged] == [1, 2, 3, 4, 5]
    for number, events in acknowledged:
        assert len(await sound(tmp_path / str(number - 1))) == events


async def test_a_failure_of_the_database_leaves_no_part_of_a_write(tmp_path):
    async with opened(tmp_path) as store:
        await start(store, run())
        asked(
            tmp_path,
            "CREATE TRIGGER broken BEFORE INSERT ON events WHEN NEW.position = 3"
            " BEGIN SELECT RAISE(ABORT, 'broken'); END",
        )
        two = [StepOpened(step=1), StepOpened(step=2)]
        writes = [write(store, run(), Fence("report"), *two), start(store, run("x", "x"))]
        with store.journal._desk._writing._busy:  # both wait, and make one transaction
            tasks = [asyncio.create_task(one) for one in writes]
            await asyncio.sleep(0)
        verdicts = await asyncio.gather(*tasks, return_exceptions=True)
        assert [str(v) for v in verdicts] == [f"storage {file(tmp_path)}: broken"] * 2
        assert len(await session(store)) == 1
        asked(tmp_path, "DROP TRIGGER broken")
        assert [e.position for e in await write(store, run(), Fence("report"), *two)] == [2, 3]
        await start(store, run("x", "x"))
    assert len(await sound(tmp_path)) == 3


FULL = """
import asyncio, resource, sys
from pathlib import Path
from loom_ia.adapters.env import Env
from loom_ia.adapters.storage.sqlite import Settings
from loom_ia.core.errors import StoreUnavailableError
from loom_ia.core.events import ToolReported
from loom_ia.core.model import TextBlock
from loom_ia.core.ports import Append, Draft, Fence, RunRef

root, ref = Path(sys.argv[1]), RunRef("t", "s", "r", "r")

async def main():
    async with Settings().open(Env(root)) as store:
        async def append(size):
            fact = ToolReported(call_id="c", blocks=(TextBlock(text="x" * size),))
            drafts = [Draft("a", fact), Draft("b", fact)]
            return await store.journal.append(Append(ref, drafts, Fence("report")))
        await append(10)
        used = root.joinpath("data/loom.db-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (used + 60_000, resource.RLIM_INFINITY))
        try:
            await append(100_000)
        except StoreUnavailableError as error:
            print(error)
        await append(10)
        assert len((await store.journal.read(ref)).events) == 5

asyncio.run(main())
"""


def test_a_full_disk_refuses_an_append_whole_and_takes_the_next_one(tmp_path):
    async def begun() -> None:
        async with opened(tmp_path) as store:
            await start(store, run())

    asyncio.run(begun())
    command = [sys.executable, "-c", FULL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    said = "the disk refused a read or a write; check it, then go on"
    assert done.stdout == f"storage {file(tmp_path)}: {said}\n"
    assert len(asyncio.run(sound(tmp_path))) == 5


# --- files that are not what they should be


async def refusal(root: Path, **settings: str) -> str:
    """What is said when the store is opened."""
    with pytest.raises(StoreUnavailableError) as caught:
        async with Settings(**settings).open(Env(root, clock=lambda: MORNING)):
            pass
    assert caught.value.params["path"] == str(root / settings.get("path", "data/loom.db"))
    return str(caught.value.params["reason"])


def placed(root: Path, data: bytes) -> Path:
    file(root).parent.mkdir()
    file(root).write_bytes(data)
    return file(root)


@pytest.mark.parametrize("data", [b"not a database, and long enough to be read" * 90, b"\0" * 8192])
async def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path, data):
    path = placed(tmp_path, data)
    assert await refusal(tmp_path) == (
        "not a database of Loom-IA, or a damaged one; restore it, or change the path"
    )
    assert path.read_bytes() == data


async def test_the_database_of_another_program_is_left_as_it_is(tmp_path):
    placed(tmp_path, b"")
    asked(tmp_path, "CREATE TABLE theirs (x)")
    before = file(tmp_path).read_bytes()
    assert (await refusal(tmp_path)).startswith("not a database of Loom-IA")
    assert file(tmp_path).read_bytes() == before


async def test_a_database_of_a_newer_version_is_left_as_it_is(tmp_path):
    async with opened(tmp_path):
        pass
    asked(tmp_path, "PRAGMA user_version = 1000")
    assert (await refusal(tmp_path)).startswith("written by a newer version of Loom-IA; update it")


async def test_a_database_whose_pages_are_damaged_says_so(tmp_path):
    async with opened(tmp_path) as store:
        await start(store, run())
    size = file(tmp_path).stat().st_size
    with file(tmp_path).open("r+b") as raw:
        raw.seek(4096)
        raw.write(b"\xff" * (size - 4096))
    assert (await refusal(tmp_path)).startswith("not a database of Loom-IA, or a damaged one")


async def test_a_folder_in_place_of_the_file_says_so(tmp_path):
    file(tmp_path).mkdir(parents=True)
    assert await refusal(tmp_path) == "a file is expected there, not a folder; change the path"


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "9p", "fuse.sshfs"])
async def test_a_network_drive_is_refused_before_anything_is_written(tmp_path, monkeypatch, kind):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        f"44 21 0:40 / {tmp_path}/data rw shared:2 - {kind} server:/share rw\n"
    )
    monkeypatch.setattr(database, "MOUNTS", mounts)
    assert await refusal(tmp_path) == (
        "on a network drive, where SQLite loses data; put it on a disk of this machine"
    )
    assert not file(tmp_path).exists()
    async with Settings(path="loom.db").open(Env(tmp_path)) as store:
        await start(store, run())


DENIED = """
import asyncio, os, sys
from pathlib import Path
from loom_ia.adapters.env import Env
from loom_ia.adapters.storage.sqlite import Settings, sql
from loom_ia.core.errors import StoreUnavailableError

sql.queries(), sql.migrations()  # this tree may lie where only its owner reads

async def main():
    if os.getuid() == 0:
        os.setresuid(65534, 65534, 65534)
    try:
        async with Settings().open(Env(Path(sys.argv[1]))):
            print("opened")
    except StoreUnavailableError as error:
        print(error)

asyncio.run(main())
"""


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_database_that_may_not_be_written_says_so(tmp_path_factory, what):
    root = tmp_path_factory.mktemp("denied")

    async def begun() -> None:
        async with opened(root) as store:
            await start(store, run())

    asyncio.run(begun())
    for parent in (root, *root.parents):
        if parent.owner() == root.owner() and parent != Path("/tmp"):
            parent.chmod(parent.stat().st_mode | 0o055)
    file(root).parent.chmod(0o555 if what == "folder" else 0o777)
    file(root).chmod(0o444)
    command = [sys.executable, "-c", DENIED, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    file(root).parent.chmod(0o700)
    assert done.stderr == ""
    assert done.stdout.startswith(f"storage {file(root)}")
    assert "permission denied; give this user the right to read and write there" in done.stdout


async def test_a_file_that_was_replaced_is_not_written_any_more(tmp_path):
    async with opened(tmp_path) as store:
        await start(store, run())
        file(tmp_path).rename(tmp_path / "elsewhere.db")
        with pytest.raises(StoreUnavailableError, match="moved or replaced while it was open"):
            await report(store, run())


async def test_the_files_are_for_their_owner_only(tmp_path):
    async with opened(tmp_path) as store:
        await start(store, run())
        names = sorted(path.name for path in file(tmp_path).parent.iterdir())
        assert names == ["loom.db", "loom.db-shm", "loom.db-wal"]
        for path in file(tmp_path).parent.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file(tmp_path).parent.stat().st_mode) == 0o700
    assert [path.name for path in file(tmp_path).parent.iterdir()] == ["loom.db"]


async def test_a_closed_store_refuses(tmp_path):
    async with opened(tmp_path) as store:
        await start(store, run())
    for call in (store.journal.read(run()), report(store, run())):
        with pytest.raises(StoreUnavailableError):
            await call


# --- schema


def shape(connection: sqlite3.Connection) -> list[tuple]:
    return sorted(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))


def test_the_schema_is_the_sum_of_the_migrations():
    with (
        closing(sqlite3.connect(":memory:")) as whole,
        closing(sqlite3.connect(":memory:")) as sum_,
    ):
        whole.executescript(sql.SCHEMA.read_text())
        for migration in sql.migrations():
            sum_.executescript(migration.read_text())
        assert shape(whole) == shape(sum_)
    numbers = [int(path.name.partition("_")[0]) for path in sql.migrations()]
    assert numbers == list(range(1, len(numbers) + 1))


def test_every_statement_is_named_once_and_used():
    folder = sql.SCHEMA.parent
    text = folder.joinpath("queries.sql").read_text()
    code = "".join(path.read_text() for path in folder.glob("*.py"))
    names = sql.queries()
    assert text.count("-- name: ") == len(names)
    assert [name for name in names if f'"{name}"' not in code] == []
    assert [
        name for name, statement in names.items() if not sqlite3.complete_statement(statement)
    ] == []


async def test_a_database_of_the_first_version_is_brought_up_to_date(tmp_path):
    placed(tmp_path, b"")
    async with opened(tmp_path) as store:
        await start(store, run())
    with closing(sqlite3.connect(file(tmp_path))) as connection:
        connection.executescript(
            "DROP TABLE spending; DROP VIEW entries;"
            "ALTER TABLE runs DROP COLUMN waiting_until;"
            "CREATE VIEW entries AS SELECT 1; PRAGMA user_version = 1;"
        )
    async with opened(tmp_path) as store:
        lease = await claim(store, run())
        now = (await store.journal.read(run())).now
        assert await store.leases.release(lease, position=1, waiting=True, until=now)
        assert [entry.run_id for entry in await store.index.due("t")] == ["r"]
    [(version,)] = asked(tmp_path, "PRAGMA user_version")
    assert version == len(sql.migrations())


async def test_an_unfinished_schema_is_made_again(tmp_path):
    placed(tmp_path, b"")
    async with opened(tmp_path) as store:
        await start(store, run())
        assert (await claim(store, run())).epoch == 1
    [(version,)] = asked(tmp_path, "PRAGMA user_version")
    assert version == len(sql.migrations())


# --- damage


async def test_a_damaged_line_stops_its_run_only_until_it_is_repaired(tmp_path, caplog):
    async with opened(tmp_path) as store:
        await start(store, run())
        await start(store, run("other"))
        await report(store, run(), "precious")
        await report(store, run())
        before = await session(store)
        asked(tmp_path, "UPDATE events SET line = 'garbage' WHERE line LIKE '%precious%'")
        with pytest.raises(JournalDamagedError) as caught:
            await store.journal.read(run())
        assert caught.value.params == {"path": str(file(tmp_path)), "line": 3, "session_id": "s"}
        assert len(await session(store)) == 3
        assert f"{file(tmp_path)}:3" in caplog.text
        assert len((await store.journal.read(run("other"))).events) == 1
        assert (await report(store, run()))[0].position == 4
        assert list(await store.journal.repair("t", "s")) == [3]
        assert list(await store.journal.repair("t", "s")) == []
        events = (await store.journal.read(run())).events
        assert [e.position for e in events] == [1, 2, 3, 4]
        assert isinstance(events[1].payload, LineQuarantined)
        assert (events[1].at, events[1].seq) == (before[2].at, 3)
        assert fold(events).position == 4
        assert asked(tmp_path, "SELECT line FROM quarantine") == [(b"garbage",)]
    await sound(tmp_path)


# --- leases


async def test_leases_and_waiting_are_shared_by_the_stores_of_a_file(tmp_path):
    async with opened(tmp_path) as store, opened(tmp_path) as other:
        await start(store, run())
        lease = await claim(store, run())
        with pytest.raises(RunHeldError):
            await claim(other, run())
        await store.leases.release(lease, position=1, waiting=True)
        assert list(await other.index.due("t")) == []
        await write(other, run(), Fence("decision", 1), CancelRequested(by=BY))
        assert len(await store.index.due("t")) == 1
        lease = await claim(other, run())
        assert (lease.epoch, lease.crashed) == (2, False)
        with pytest.raises(EpochStaleError):
            await write(store, run(), Fence("plan", 2, 1, stop=True), StepOpened(step=1))


# --- waits


async def test_a_database_locked_for_too_long_is_said_unavailable(tmp_path, monkeypatch):
    monkeypatch.setattr(io, "WAIT", 0.05)
    async with opened(tmp_path) as store:
        await start(store, run())
        with closing(sqlite3.connect(file(tmp_path), isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            for call in (report(store, run()), claim(store, run()), store.blobs.put("t", b"x")):
                with pytest.raises(StoreUnavailableError) as caught:
                    await call
                assert str(caught.value.params["reason"]) == "locked by another process for 0.05 s"
            assert len((await store.journal.read(run())).events) == 1
        await report(store, run())


async def test_a_cancelled_caller_leaves_once_its_append_is_done(tmp_path):
    async with opened(tmp_path) as store:
        await start(store, run())
        with closing(sqlite3.connect(file(tmp_path), isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            task = asyncio.create_task(report(store, run()))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len((await store.journal.read(run())).events) == 2


async def test_a_long_reader_and_a_writer_do_not_wait_for_each_other(tmp_path):
    async with opened(tmp_path) as store:
        await start(store, run())
        with closing(sqlite3.connect(file(tmp_path), isolation_level=None)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM events").fetchone() == (1,)
            for _ in range(100):
                await report(store, run(), "x" * 20_000, sync=False)
            assert reader.execute("SELECT count(*) FROM events").fetchone() == (1,)
        assert len(await session(store)) == 101
    assert len(await sound(tmp_path)) == 101


# --- several processes

PRELUDE = """
import asyncio, os, sys
from datetime import timedelta
from pathlib import Path
from loom_ia.adapters.env import Env
from loom_ia.adapters.storage.sqlite import Settings
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

async def said(call):
    try:
        return await call
    except LoomError as error:
        return error.code
"""


def launched(root: Path, body: str, name: str) -> subprocess.Popen[str]:
    """A process that is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"{PRELUDE}{body}\nasyncio.run(main())\n", str(root), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()
    return process


def processes(root: Path, body: str, number: int) -> list[str]:
    """What each of several processes said, that were let go at the same time and ended well."""
    running = [launched(root, body, str(n)) for n in range(number)]
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    done = [process.communicate() for process in running]
    assert [errors for _, errors in done] == [""] * number
    return [output for output, _ in done]


NEW = """
async def main():
    ready()
    async with Settings().open(Env(root)) as store:
        print(store.blobs.digest("t", b"content"), await store.blobs.put("t", b"content"))
        await append(store, f"start{me}", begun(), fence=Fence("start"), to=RunRef("t", me, me, me))
"""


def test_eight_processes_create_one_database_once(tmp_path):
    said = " ".join(processes(tmp_path, NEW, 8))
    assert len(set(said.split())) == 1
    assert asked(tmp_path, "SELECT count(*) FROM secrets") == [(1,)]
    assert asked(tmp_path, "SELECT count(*) FROM runs") == [(8,)]
    assert asked(tmp_path, "PRAGMA integrity_check") == [("ok",)]
    assert [path.name for path in file(tmp_path).parent.iterdir()] == ["loom.db"]


RACE = """
async def main():
    async with Settings().open(Env(root)) as store:
        ready()
        start = await said(append(store, me, begun(), fence=Fence("start"), sync=True))
        print(start if isinstance(start, str) else "started")
        for n in range(30):
            await append(store, f"{me}.{n}", reported(), reported(), sync=n % 10 == 0)
        lease = await said(store.leases.claim(ref, ttl=timedelta(hours=1), holder=me))
        print(lease if isinstance(lease, str) else f"claimed{lease.epoch}")
        for n in range(5):
            to = RunRef("t", f"s{n}", me + str(n), me + str(n))
            guard = Guard(session_idle=True)
            start = await said(append(store, me, begun(), fence=Fence("start"), to=to, guard=guard))
            print(start if isinstance(start, str) else "guarded")
            to = RunRef("t", f"{me}{n}", f"same{n}", f"same{n}")
            start = await said(append(store, me, begun(), fence=Fence("start"), to=to))
            print("taken" if start == "run_exists" else "unique")
        print("ended", flush=True)
        sys.stdin.readline()
"""


def test_processes_that_race_agree_on_starts_claims_and_guards(tmp_path):
    running = [launched(tmp_path, RACE, str(n)) for n in range(8)]
    for process in running:
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [[process.stdout.readline().strip() for _ in range(13)] for process in running]
    done = [process.communicate("go\n") for process in running]
    assert [errors for _, errors in done] == [""] * 8
    lines = [line for output in said for line in output]
    assert all(output[-1] == "ended" for output in said)
    assert [output[0] for output in said].count("started") == 1
    assert [output[1] for output in said].count("claimed1") == 1
    assert lines.count("run_held") == 7
    assert (lines.count("guarded"), lines.count("session_busy")) == (5, 35)
    assert (lines.count("unique"), lines.count("taken")) == (5, 35)
    events = asyncio.run(sound(tmp_path))
    assert len(events) == 1 + 8 * 60
    for first, second in zip(events[1::2], events[2::2], strict=True):
        assert first.id.rpartition(".")[0] == second.id.rpartition(".")[0]


DRIVING = """
async def main():
    async with Settings().open(Env(root)) as store:
        ready()
        for n in range(300):
            await append(store, f"{me}.{n}", reported(300), reported(300), sync=n % 20 == 0)
"""
PAGING = """
async def main():
    async with Settings().open(Env(root)) as store:
        ready()
        after, seen = 0, []
        while len(seen) < 601:
            page = await store.journal.session("t", "s", after=after, limit=7)
            seen += [event.seq for event in page.events]
            after = seen[-1] if seen else 0
            assert all(event.at <= page.now for event in page.events)
        print(seen == list(range(1, 602)))
"""


def test_a_process_pages_through_what_another_one_writes(tmp_path):
    async def begun() -> None:
        async with opened(tmp_path) as store:
            await start(store, run())

    asyncio.run(begun())
    running = [launched(tmp_path, body, "x") for body in (DRIVING, PAGING)]
    done = [process.communicate("go\n") for process in running]
    assert done == [("", ""), ("True\n", "")]


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


def test_a_killed_writer_loses_nothing_acknowledged_and_its_lease_is_taken_at_once(tmp_path):
    async def around(last: bool) -> Lease | None:
        async with opened(tmp_path) as store:
            if not last:
                await start(store, run())
                return None
            busy = Guard(session_idle=True)
            await store.journal.append(
                Append(
                    run("new"),
                    [Draft("n", RunStarted(agent="a", message=user("x"), principal=BY))],
                    Fence("start"),
                    busy,
                )
            )
            lease = await claim(store, run())
            position = len((await store.journal.read(run())).events)
            await write(store, run(), Fence("plan", position, lease.epoch), RunCompleted())
            return lease

    asyncio.run(around(last=False))
    acknowledged: list[str] = []
    for n in range(4):
        process = launched(tmp_path, ENDLESS, str(n))
        process.stdin.write("go\n")
        process.stdin.flush()
        acknowledged += [process.stdout.readline().strip() for _ in range(15 + 7 * n)]
        process.send_signal(signal.SIGKILL)
        acknowledged += process.communicate()[0].split("\n")[:-1]
    lease = asyncio.run(around(last=True))
    assert lease is not None
    assert (lease.epoch, lease.crashed) == (5, True)
    events = asyncio.run(sound(tmp_path))
    assert set(acknowledged) <= {event.id for event in events}
    assert events[-1].type == "run.completed"


# --- erasure


async def test_no_byte_of_an_erased_session_is_left_in_any_file(tmp_path):
    async with opened(tmp_path) as store:
        refs = [run(f"r{n}", f"s{n}") for n in range(12)]
        for ref in refs:
            await start(store, ref, f"secret-{ref.run_id}.")
        for n in range(240):  # interleaved, so that rows move from page to page
            ref = refs[n * 7 % 12]
            await report(store, ref, f"secret-{ref.run_id}." * (n * 13 % 200 + 1), sync=False)
        for ref in refs:
            part = f"secret-{ref.run_id}.".encode()
            await store.snapshots.add("t", ref.session_id, part, first=True)
        for erased, ref in enumerate(refs, start=1):
            tomb = await store.journal.delete("t", ref.session_id, by="cli:dupont", complete=True)
            assert tomb is not None
            assert not tomb.pending
            data = b"".join(path.read_bytes() for path in file(tmp_path).parent.iterdir())
            left = [f"secret-{r.run_id}.".encode() in data for r in refs]
            assert left == [n >= erased for n in range(12)]


async def test_another_store_of_the_file_writes_nothing_in_an_erased_session(tmp_path):
    async with opened(tmp_path) as store, opened(tmp_path) as other:
        await start(store, run())
        lease = await claim(store, run())
        assert await store.leases.release(lease, position=1, waiting=False)
        await report(other, run())
        await other.journal.delete("t", "s", by="cli:dupont", complete=True)
        for call in (report(store, run()), claim(store, run()), start(store, run("new"))):
            with pytest.raises(SessionErasedError):
                await call
        assert asked(tmp_path, "SELECT count(*) FROM events") == [(0,)]
        await start(store, run(session="elsewhere"))


async def test_an_erasure_that_a_reader_holds_up_says_so_and_is_finished_later(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(io, "WAIT", 0.05)
    async with opened(tmp_path) as store:
        await start(store, run())
        with closing(sqlite3.connect(file(tmp_path), isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM events").fetchone()
            with pytest.raises(StoreUnavailableError, match="locked by another process"):
                await store.journal.delete("t", "s", by="x", complete=True)
        assert list(await session(store)) == []
        assert [tomb.pending for tomb in await store.index.erased("t")] == [True]
        await store.journal.delete("t", "s", by="x", complete=True)
        assert list(await store.index.erased("t")) == []


# --- through a configuration

ROOT = """version: 1
models: [{id: M, sdk: fake, model: fake-1, params: {script: [{text: Vu.}]}}]
storage:
  events: {backend: sqlite, path: %s}
"""
AGENT = "name: a\nmain: {model: M, system: Tu aides.}\n"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0" + b"\0" * 16


def project(root: Path, path: str) -> Path:
    (root / "agents").mkdir()
    (root / "agents" / "a.yaml").write_text(AGENT)
    (root / "loom.yaml").write_text(ROOT % path)
    return root / "loom.yaml"


async def test_files_of_sessions_are_kept_beside_the_database(tmp_path):
    config = project(tmp_path, "kept/here/runs.db")
    async with await asyncio.to_thread(Loom.from_config, config) as loom:
        result = await loom.run("a", "Regarde", attachments=[PNG])
    assert result.status == "completed"
    kept = list((tmp_path / "kept/here/.artifacts").rglob("*.png"))
    assert [path.read_bytes() for path in kept] == [PNG]
    assert (tmp_path / "kept/here/runs.db").read_bytes().count(PNG) == 0
    async with await asyncio.to_thread(Loom.from_config, config) as loom:
        again = await loom.result(result.run_id)
    assert (again.status, again.text) == ("completed", result.text)


@pytest.mark.parametrize(
    ("path", "said"),
    [('":memory:"', "a path"), ("file:x.db", "a path"), ('""', "the text is empty")],
)
async def test_a_path_that_is_no_file_is_refused_where_it_is_written(tmp_path, path, said):
    with pytest.raises(ConfigError, match=rf"loom\.yaml:4:35: storage\.events\.path: .*{said}"):
        async with await asyncio.to_thread(Loom.from_config, project(tmp_path, path)):
            pass
    assert sorted(p.name for p in tmp_path.iterdir()) == ["agents", "loom.yaml"]
