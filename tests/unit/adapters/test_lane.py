"""Where the jobs of a store are done."""

import asyncio
import threading

import pytest

from loom_ia.adapters import io
from loom_ia.adapters.io import BlockedError, Lane, Synced, UnhurriedError


def nothing() -> None:
    return


async def closed(lane: Lane) -> None:
    await lane.aclose(nothing)


def here() -> int:
    return threading.get_ident()


async def test_a_brief_job_is_done_in_the_thread_of_its_caller():
    lane = Lane("test")
    assert await lane.call(here, here) == here()
    assert await lane.call(here) != here()
    await closed(lane)


@pytest.mark.parametrize("refusal", [UnhurriedError(), BlockedError(ValueError())])
async def test_a_job_that_cannot_be_done_at_once_goes_to_the_thread(refusal):
    def hurried() -> int:
        raise refusal

    lane = Lane("test")
    assert await lane.call(here, hurried) != here()
    await closed(lane)


async def test_a_job_that_is_refused_in_place_is_done_once():
    done: list[str] = []

    def refused() -> None:
        done.append("here")
        raise KeyError

    lane = Lane("test")
    with pytest.raises(KeyError):
        await lane.call(lambda: done.append("there"), refused)
    assert done == ["here"]
    await closed(lane)


async def test_nothing_is_done_in_place_while_the_thread_works():
    lane, begun, end = Lane("test"), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def long() -> None:
        loop.call_soon_threadsafe(begun.set)
        end.wait()

    first = loop.create_task(lane.call(long))
    await begun.wait()
    second = loop.create_task(lane.call(here, here))
    await asyncio.sleep(0)
    assert not second.done()
    end.set()
    await first
    assert await second != here()
    await closed(lane)


async def test_once_a_job_was_long_in_place_the_next_ones_go_to_the_thread(monkeypatch):
    monkeypatch.setattr(io, "SLOW", -1.0)
    lane = Lane("test")
    assert await lane.call(here, here) == here()
    assert await lane.call(here, here) != here()
    await closed(lane)


class Disk:
    """A disk that syncs when it is told to."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.syncs: list[int] = []

    def flush(self) -> None:
        self.ready.wait()
        self.syncs.append(here())

    def close(self) -> None:
        return


async def test_a_sync_is_never_done_in_place_and_those_that_wait_share_one():
    lane, disk = Lane("test", syncers=1), Disk()

    def written() -> Synced[int]:
        return Synced(here(), "file", disk)

    loop = asyncio.get_running_loop()
    calls = [loop.create_task(lane.call(written, written)) for _ in range(5)]
    await asyncio.sleep(0)
    disk.ready.set()
    assert await asyncio.gather(*calls) == [here()] * 5
    assert len(disk.syncs) <= 2  # the first may have begun before the others were written
    assert here() not in disk.syncs
    await closed(lane)
