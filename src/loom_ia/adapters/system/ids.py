"""UUIDv7 identifiers that only grow within a process.

Source: RFC 9562, section 5.7 and method 2 of section 6.2 (monotonic random).
"""

from __future__ import annotations

import os
import threading
import time
from array import array
from collections.abc import Iterator

_NANOSECONDS = 1_000_000
"""Of one millisecond."""
_LOW = 62
"""Bits behind the variant; they start at random, below half, and grow within a millisecond."""
_VARIANT = 2 << _LOW
_BATCH = 4096
"""Random bytes asked of the system at once."""
_READY = 32
"""Identifiers made together; those that are left a few milliseconds later are dropped."""
_FRESH = 2 * _NANOSECONDS


class _Series:
    """Identifiers that grow."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget what another process knows too; its lock may be held by nobody here."""
        self._lock = threading.Lock()
        self._distances: Iterator[int] = iter(())
        self._millisecond, self._low, self._prefix = 0, 0, ""
        self._ready: list[str] = []
        """Made and not given yet, the smallest one last: to take one needs no lock."""
        self._until = 0

    def next(self) -> str:
        """The next identifier, larger than all before it even if the clock went back."""
        if time.time_ns() < self._until:
            try:
                return self._ready.pop()
            except IndexError:
                pass
        with self._lock:
            now = time.time_ns()
            ready = [self._made(now // _NANOSECONDS) for _ in range(_READY)]
            ready.reverse()
            first = ready.pop()
            self._ready, self._until = ready, now + _FRESH
            return first

    def _made(self, now: int) -> str:
        if now > self._millisecond:
            self._start(now)
        else:
            self._low += 1 + (next(self._distances, 0) or self._distance())
            if self._low >> _LOW:
                self._start(self._millisecond + 1)
        tail = f"{self._low | _VARIANT:x}"
        return f"{self._prefix}{tail[:4]}-{tail[4:]}"

    def _start(self, millisecond: int) -> None:
        random = int.from_bytes(os.urandom(10), "big")
        stamp = f"{millisecond:012x}"
        self._millisecond = millisecond
        self._low = random & ((1 << (_LOW - 1)) - 1)
        self._prefix = f"{stamp[:8]}-{stamp[8:]}-7{random >> 68:03x}-"

    def _distance(self) -> int:
        """Random 32 bits of a new batch; nobody can tell the next identifier from this one."""
        self._distances = iter(array("I", os.urandom(_BATCH)))
        return next(self._distances)


_series = _Series()
os.register_at_fork(after_in_child=_series.restart)


class SystemIds:
    """Identifiers of this process; all instances share one series."""

    def new(self) -> str:
        """A UUIDv7 larger than those before it."""
        return _series.next()
