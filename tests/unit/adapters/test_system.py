"""The clock and the identifiers of this machine."""

import os
import threading
import time
import uuid

from loom_ia.adapters.system import SystemClock, SystemIds
from loom_ia.adapters.system import ids as ids_module


def test_identifiers_are_version_7_and_hold_the_time():
    before = time.time_ns() // 1_000_000
    text = SystemIds().new()
    found = uuid.UUID(text)
    assert str(found) == text
    assert (found.version, found.variant) == (7, uuid.RFC_4122)
    # It may have been made with others, up to two milliseconds ago.
    assert before - 2 <= (found.int >> 80) <= before + 60_000


def test_identifiers_only_grow():
    made = [SystemIds().new() for _ in range(20_000)]
    assert made == sorted(set(made))


def test_identifiers_grow_when_the_clock_goes_back(monkeypatch):
    first = SystemIds().new()
    monkeypatch.setattr(ids_module.time, "time_ns", lambda: 1)
    made = [SystemIds().new() for _ in range(100)]
    assert first < made[0]
    assert made == sorted(set(made))


def test_a_full_millisecond_goes_on_in_the_next(monkeypatch):
    series = ids_module._Series()
    series.next()
    series._low, series._ready = (1 << 62) - 1, []
    last = series._millisecond
    monkeypatch.setattr(ids_module.time, "time_ns", lambda: last * 1_000_000)
    made = series.next()
    assert uuid.UUID(made).int >> 80 == last + 1
    assert uuid.UUID(made).version == 7


def test_threads_never_get_the_same_identifier():
    made: list[str] = []
    threads = [
        threading.Thread(target=lambda: made.extend(SystemIds().new() for _ in range(2000)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8000


def test_a_forked_process_makes_identifiers_of_its_own():
    SystemIds().new()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, "\n".join(SystemIds().new() for _ in range(50)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = set(os.read(reader, 10_000).decode().split())
    os.close(reader)
    os.close(writer)
    assert len(theirs) == 50
    assert theirs.isdisjoint(SystemIds().new() for _ in range(50))


async def test_the_clock_goes_on_and_waits():
    clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(0.002)
    assert clock.monotonic() >= before + 0.002
