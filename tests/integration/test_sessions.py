"""Whole conversations through the Python door: shown, exported, erased whatever their runs do."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from loom_ia.access import Loom
from loom_ia.config import LoomConfig
from loom_ia.core.errors import InvalidCursorError, SessionErasedError
from loom_ia.core.events import decode
from loom_ia.core.fold import fold
from loom_ia.runtime.errors import InvalidRequestError, SessionNotFoundError, UnknownTenantError
from loom_ia.testing import ScriptedModel
from loom_ia.tools import tool

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 24


def config(folder: Path, system: str = "Tu aides.") -> LoomConfig:
    values = {
        "version": 1,
        "models": [{"id": "M", "sdk": "fake", "model": "fake-1"}],
        "agents": [
            {
                "name": "a",
                "main": {"model": "M", "system": system},
                "tools": [{"python": "attendre"}, {"python": "envoyer"}],
            }
        ],
        "storage": {"events": {"backend": "jsonl", "path": str(folder / "data")}},
    }
    return LoomConfig.model_validate_json(json.dumps(values))


class Gate:
    """A tool that waits, and says that it does."""

    def __init__(self) -> None:
        self.waits, self.open = asyncio.Event(), asyncio.Event()


async def entered(folder: Path, *turns: object, gate: Gate | None = None, **more) -> Loom:
    @tool(side_effects="none")
    async def attendre() -> str:
        """Attend."""
        assert gate is not None
        gate.waits.set()
        await gate.open.wait()
        return "fini"

    @tool(side_effects="irreversible", approval="always")
    async def envoyer(a: str) -> str:
        """Envoie."""
        return f"envoyé à {a}"

    loom = await asyncio.to_thread(Loom, config(folder, **more), root=folder)
    loom.register("M", ScriptedModel(*(turns or ("salut",))))
    loom.register("attendre", attendre)
    loom.register("envoyer", envoyer)
    return loom


def calls(name: str, **arguments: object) -> dict[str, object]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def parsed(lines: Iterable[str]) -> tuple[list[dict], dict[str, bytes], dict]:
    """Events, contents and end of an export."""
    head, *rest, end = [json.loads(line) for line in lines]
    assert head["loom_export"] == 1
    events = [line for line in rest if "payload" in line]
    contents = [line for line in rest if "payload" not in line]
    assert rest == [*events, *contents]
    named = {c.get("blob") or c["artifact"]: b64decode(c["base64"]) for c in contents}
    assert end["end"]["events"] == len(events)
    assert end["end"]["contents"] == len(named)
    return events, named, end["end"]


def left(folder: Path, text: str) -> list[Path]:
    """Files that hold a text, or are named after it."""
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and (text in path.name or text.encode() in path.read_bytes())
    ]


async def test_sessions_are_listed_and_shown_by_pages(tmp_path):
    async with await entered(tmp_path, "un") as loom:
        for session in ("durand", "durand", "martin"):
            await loom.run("a", "Bonjour", session=session)
        first = await loom.sessions(limit=1)
        second = await loom.sessions(limit=1, after=first.next)
        assert [v.session_id for v in (*first.sessions, *second.sessions)] == ["martin", "durand"]
        assert second.next == ""
        shown = await loom.session("durand", limit=1)
        assert (shown.runs, shown.open_runs, len(shown.lines)) == (2, 0, 1)
        more = await loom.session("durand", limit=1, after=shown.next)
        runs = [*shown.lines, *more.lines]
        assert [(line.status, line.agent) for line in runs] == [("completed", "a")] * 2
        assert runs[0].started_at >= runs[1].started_at


async def test_wrong_requests_are_refused(tmp_path):
    async with await entered(tmp_path) as loom:
        for ask in (loom.session, loom.delete_session):
            with pytest.raises(SessionNotFoundError):
                await ask("nulle-part")
        with pytest.raises(SessionNotFoundError):
            await anext(loom.export_session("nulle-part"))
        for limit in (0, 1001):
            with pytest.raises(InvalidRequestError):
                await loom.sessions(limit=limit)
        with pytest.raises(InvalidCursorError):
            await loom.sessions(after="hier")
        with pytest.raises(UnknownTenantError):
            await loom.sessions(tenant="autre")
        with pytest.raises(UnknownTenantError):
            await loom.delete_session("s", tenant="autre")


async def test_an_export_holds_the_events_and_everything_they_name(tmp_path):
    async with await entered(tmp_path, "un", "deux") as loom:
        result = await loom.run(
            "a", "Vois artifact://autre/s/x.png", session="s", attachments=[PNG]
        )
        await loom.run("a", "Et donc ?", session="s")
        await loom.run("a", "Ailleurs", session="x", attachments=[PNG])
        written = [line async for line in loom.export_session("s")]
        events, contents, end = parsed(written)
        assert (end["damaged"], end["lost"]) == (0, [])
        own = [decode(json.dumps(event).encode()) for event in events]
        assert [e.seq for e in own] == list(range(1, len(own) + 1))
        assert fold(e for e in own if e.run_id == result.run_id).status == "completed"
        assert json.dumps("Tu aides.").encode() in contents.values()
        for event in own:
            assert set(event.payload.blobs) <= contents.keys()
        [file] = [data for name, data in contents.items() if name.startswith("artifact://")]
        assert file == PNG
        journal = (tmp_path / "data/default/s.jsonl").read_text().splitlines()
        assert written[1 : len(journal) + 1] == journal


async def test_a_damaged_session_is_listed_exported_and_erased(tmp_path):
    async with await entered(tmp_path) as loom:
        await loom.run("a", "Bonjour", session="s")
    path = tmp_path / "data/default/s.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b"\0" * 40 + b"\n"
    path.write_bytes(b"".join(lines))
    async with await entered(tmp_path) as loom:
        assert [v.session_id for v in (await loom.sessions()).sessions] == ["s"]
        assert (await loom.session("s")).runs == 1
        events, _, end = parsed([line async for line in loom.export_session("s")])
        assert (len(events), end["damaged"]) == (len(lines) - 1, 1)
        await loom.delete_session("s")
        assert (await loom.sessions()).sessions == ()
    assert not path.exists()


async def test_a_session_of_which_nothing_can_be_read_is_listed_and_erased(tmp_path):
    async with await entered(tmp_path, calls("envoyer", a="x")) as loom:
        await loom.run("a", "Bonjour", session="s")
    path = tmp_path / "data/default/s.jsonl"
    path.write_bytes(b"\0" * 40 + b"\n" + b"\0" * 40 + b"\n")
    async with await entered(tmp_path) as loom:
        assert [v.session_id for v in (await loom.sessions()).sessions] == ["s"]
        assert len((await loom.session("s")).lines) == 1
        await loom.delete_session("s")
        assert (await loom.sessions()).sessions == ()
    assert not path.exists()


async def test_tombstones_erase_again_what_a_backup_brought_back(tmp_path):
    async with await entered(tmp_path) as loom:
        for session in ("s", "x"):
            await loom.run("a", "secret-7f3", session=session)
        shutil.copytree(tmp_path / "data", tmp_path / "backup")
        first = await loom.delete_session("s", by="key:admin")
    for blob in (tmp_path / "data/default/.blobs").rglob("*"):
        os.utime(blob, (0, 0))
    async with await entered(tmp_path) as loom:
        assert not (await loom.delete_session("s")).pending
    shutil.move(tmp_path / "data/default/.erased", tmp_path / "ledger")
    shutil.rmtree(tmp_path / "data")
    shutil.move(tmp_path / "backup", tmp_path / "data")
    shutil.move(tmp_path / "ledger", tmp_path / "data/default/.erased")
    async with await entered(tmp_path) as loom:
        assert [v.session_id for v in (await loom.sessions()).sessions] == ["x"]
        again = await loom.delete_session("s")
        assert (again.at, again.by) == (first.at, "key:admin")
    assert [p.name for p in left(tmp_path / "data/default", "secret-7f3")] == ["x.jsonl"]


async def test_a_run_of_this_process_is_stopped_then_erased(tmp_path):
    gate = Gate()
    async with await entered(tmp_path, calls("attendre"), "fin", gate=gate) as loom:
        running = asyncio.create_task(loom.run("a", "Attends", session="s"))
        await gate.waits.wait()
        erased = await loom.delete_session("s", by="key:admin")
        assert (erased.session_id, erased.by) == ("s", "key:admin")
        await asyncio.gather(running, return_exceptions=True)
        with pytest.raises(SessionErasedError):
            await loom.session("s")
        with pytest.raises(SessionErasedError):
            await loom.run("a", "Encore", session="s")
        gate.open.set()
        assert (await loom.run("a", "Ailleurs", session="x")).text == "fin"


async def test_a_paused_run_is_erased_with_its_files_and_does_not_come_back(tmp_path):
    async with await entered(tmp_path, calls("envoyer", a="martin"), "fin") as loom:
        paused = await loom.run("a", "secret-7f3", session="s", attachments=[PNG])
        assert paused.status == "paused"
        assert left(tmp_path, "secret-7f3")
        await loom.delete_session("s")
    assert left(tmp_path, "secret-7f3") == []
    assert [path.name for path in left(tmp_path, paused.run_id)] == [".index.jsonl"]  # ids only
    assert [p for p in (tmp_path / "data/.artifacts").rglob("*") if p.suffix == ".png"] == []
    async with await entered(tmp_path) as loom:
        with pytest.raises(SessionErasedError):
            await loom.run("a", "Bonjour", session="s")
        with pytest.raises(SessionErasedError):
            await anext(loom.export_session("s"))
        assert (await loom.delete_session("s")).by == "python"


async def test_contents_too_young_to_go_with_their_session_go_later(tmp_path):
    async with await entered(tmp_path, system="Prompt de durand.") as loom:
        await loom.run("a", "Bonjour", session="s")
        assert (await loom.delete_session("s")).pending
        blobs = left(tmp_path, "Prompt de durand.")
        assert len(blobs) == 1
    for blob in (tmp_path / "data/default/.blobs").rglob("*"):
        os.utime(blob, (0, 0))
    async with await entered(tmp_path) as loom:
        assert left(tmp_path, "Prompt de durand.") == []
        assert not (await loom.delete_session("s")).pending


async def test_the_next_run_of_a_long_session_reads_what_its_tenth_read(tmp_path):
    def counted() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    read, kept = [], []
    async with await entered(tmp_path, "réponse") as loom:
        for _ in range(80):
            before = await asyncio.to_thread(counted)
            await loom.run("a", "Bonjour", session="s")
            read.append(await asyncio.to_thread(counted) - before)
            kept.append((tmp_path / "data/default/s.jsonl").stat().st_size)
        assert len(read) == 80
    assert sum(read[-20:]) <= 1.3 * sum(read[10:30])
    sizes = [b - a for a, b in pairwise(kept)]
    assert max(sizes[10:]) <= min(sizes[10:]) + 20
    assert (tmp_path / "data/default/.snapshots/s.jsonl").exists()
    async with await entered(tmp_path, "réponse") as loom:
        assert (await loom.run("a", "Et donc ?", session="s")).status == "completed"
        assert left(tmp_path / "data", "Et donc ?") == [tmp_path / "data/default/s.jsonl"]
        await loom.delete_session("s")
    assert left(tmp_path / "data", "Bonjour") == []


# --- other processes

DRIVE = """
import asyncio, json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_sessions import Gate, calls, entered

async def main():
    gate = Gate()
    async with await entered(Path(sys.argv[1]), calls("attendre"), "fin", gate=gate) as loom:
        asyncio.create_task(loom.run("a", "Attends", session="s"))
        await gate.waits.wait()
        print("waits", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def driver(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", DRIVE, str(folder), str(Path(__file__).parent)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "waits\n"
    return process


@pytest.mark.parametrize("killed", [True, False])
async def test_a_session_driven_elsewhere_is_erased_whether_its_driver_lives_or_not(
    tmp_path, killed
):
    process = await asyncio.to_thread(driver, tmp_path)
    async with await entered(tmp_path) as loom:
        assert (await loom.session("s")).lines[0].status == "running"
        if killed:
            process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(process.wait)
            assert (await loom.session("s")).lines[0].status == "idle"
        await loom.delete_session("s")
        assert (await loom.sessions()).sessions == ()
    process.kill()
    await asyncio.to_thread(process.wait)
    process.stdout.close()


ERASE = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_sessions import entered

WATCHED = {"open", "os.link", "os.mkdir", "os.rename", "os.remove", "os.truncate", "shutil.rmtree"}

def watching(left):
    def watch(event, arguments):
        nonlocal left
        if event not in WATCHED or "data" not in str(arguments[0]):
            return
        if event == "open" and not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR):
            return
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return watch

async def main(folder, steps):
    async with await entered(Path(folder)) as loom:
        sys.addaudithook(watching(steps))
        await loom.delete_session("s", by="cli:dupont")

for line in sys.stdin:
    folder, steps = line.split()
    if not (pid := os.fork()):
        asyncio.run(main(folder, int(steps)))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Eraser:
    """A process that forks one for each deletion, killed before one of its steps."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", ERASE, str(Path(__file__).parent)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def erase(self, folder: Path, steps: int) -> int:
        """Exit status of the deletion."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{folder} {steps}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@pytest.fixture
def eraser() -> Iterator[Eraser]:
    eraser = Eraser()
    yield eraser
    eraser.process.communicate()


async def test_a_deletion_killed_at_any_of_its_steps_is_whole_or_finished(tmp_path, eraser):
    steps = 0
    while True:
        folder = tmp_path / str(steps)
        folder.mkdir()
        async with await entered(folder, calls("envoyer", a="x"), "fin") as loom:
            run = await loom.run("a", "secret-7f3", session="s", attachments=[PNG])
        before = (folder / "data/default/s.jsonl").read_bytes()
        status = await asyncio.to_thread(eraser.erase, folder, steps)
        noted = (folder / "data/default/.erasing/s.json").exists()
        async with await entered(folder) as loom:
            if (folder / "data/default/s.jsonl").exists():
                assert not noted
                assert (folder / "data/default/s.jsonl").read_bytes() == before
                assert (await loom.session("s")).lines[0].run_id == run.run_id
                await loom.delete_session("s", by="cli:dupont")
            with pytest.raises(SessionErasedError, match="cli:dupont"):
                await loom.run("a", "Encore", session="s")
            assert (await loom.sessions()).sessions == ()
        assert left(folder / "data", "secret-7f3") == []
        assert [p for p in (folder / "data/.artifacts").rglob("*") if p.suffix == ".png"] == []
        if status == 0:
            break
        assert status == -signal.SIGKILL
        steps += 1
    assert steps > 8
