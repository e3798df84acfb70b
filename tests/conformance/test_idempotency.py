"""What every store of idempotency keys promises, several processes included."""

import pkgutil
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path

import pytest

import loom_ia.adapters.idempotency
from loom_ia.adapters.env import Env
from loom_ia.core.errors import StoreUnavailableError
from loom_ia.core.ports import Idempotency
from loom_ia.testing.conformance.idempotency import MANY, RESULT, SINGLE, Check, claim

BACKENDS = sorted(
    m.name for m in pkgutil.iter_modules(loom_ia.adapters.idempotency.__path__) if m.ispkg
)
SHARED = [name for name in BACKENDS if name not in {"journal", "memory"}]
RACER = """\
import asyncio, sys
from importlib import import_module
from pathlib import Path
from loom_ia.adapters.env import Env
from loom_ia.testing.conformance.idempotency import RESULT, claim

async def main(backend, folder, me):
    settings = import_module(f"loom_ia.adapters.idempotency.{backend}").Settings()
    async with settings.open(Env(Path(folder))) as store:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for n in range(50):
            held = await store.reserve(claim(me, key=f"k{n}"))
            if held.owner.ref.run_id == me:
                await store.keep(held, RESULT)
            print(n, held.owner.ref.run_id, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


@asynccontextmanager
async def opened(name: str, folder: Path) -> AsyncIterator[Idempotency]:
    settings = import_module(f"loom_ia.adapters.idempotency.{name}").Settings()
    async with settings.open(Env(folder)) as store:
        yield store


def named(check: Check) -> str:
    return check.__name__


@pytest.mark.parametrize("check", SINGLE, ids=named)
@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_store_keeps_keys_of_single_calls(backend: str, check: Check, tmp_path: Path):
    async with opened(backend, tmp_path) as store:
        await check(store)


@pytest.mark.parametrize("check", MANY, ids=named)
@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "journal"])
async def test_a_store_keeps_keys_that_runs_share(backend: str, check: Check, tmp_path: Path):
    async with opened(backend, tmp_path) as store:
        await check(store)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_store_says_whether_processes_meet_in_it(backend: str, tmp_path: Path):
    async with opened(backend, tmp_path) as store:
        assert store.shared == (backend in SHARED)


@pytest.mark.parametrize("backend", SHARED)
async def test_what_a_process_kept_is_there_for_the_next_one(backend: str, tmp_path: Path):
    async with opened(backend, tmp_path) as store:
        await store.keep(await store.reserve(claim()), RESULT)
        await store.reserve(claim(key="k"))
    async with opened(backend, tmp_path) as store:
        held = await store.reserve(claim("r2"))
        assert (held.owner, held.result) == (claim(), RESULT)
        assert (await store.reserve(claim("r2", key="k"))).owner == claim(key="k")


@pytest.mark.parametrize("backend", SHARED)
def test_processes_that_race_for_a_key_find_one_owner(backend: str, tmp_path: Path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", RACER, backend, str(tmp_path)]
    racers = [subprocess.Popen([*command, f"p{n}"], **pipes) for n in range(3)]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    told = [racer.communicate()[0].split("\n")[:-1] for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0, 0]
    assert [len(lines) for lines in told] == [50, 50, 50]
    assert Counter(line for lines in told for line in lines) == dict.fromkeys(set(told[0]), 3)


async def test_the_file_of_the_journal_is_not_one_of_keys(tmp_path: Path):
    journal = import_module("loom_ia.adapters.storage.sqlite").Settings(path="loom.db")
    keys = import_module("loom_ia.adapters.idempotency.sqlite").Settings(path="loom.db")
    async with journal.open(Env(tmp_path)):
        pass
    with pytest.raises(StoreUnavailableError, match="give them a file of their own"):
        async with keys.open(Env(tmp_path)):
            pass
