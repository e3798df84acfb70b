"""UUIDv7 identifiers that only grow within a process.

Source: RFC 9562, section 5.7 and method 2 of section 6.2 (monotonic random).
"""

from __future__ import annotations

import os
import threading
import time

_TAIL = 74
"""Random bits behind the milliseconds."""
_LOW = 62
_LOW_MASK = (1 << _LOW) - 1
_HIGH_MASK = (1 << (_TAIL - _LOW)) - 1
_BATCH = 4096
"""Random bytes asked of the system at once."""
_NANOSECONDS = 1_000_000
_FRESH = 9
"""Bytes of a new tail: two bits are left so that it can grow."""
_STEP = 4
"""Bytes of the distance to the next identifier of the same millisecond."""


class _Series:
    """Numbers that grow: milliseconds, then a random tail."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget what another process may know too; the lock may be held by nobody here."""
        self._lock = threading.Lock()
        self._random, self._at = b"", 0
        self._last = 0

    def next(self) -> int:
        """The next number, larger than all before it even if the clock went back."""
        with self._lock:
            floor = (time.time_ns() // _NANOSECONDS) << _TAIL
            if floor > self._last:
                self._last = floor + self._draw(_FRESH)
            else:
                self._last += 1 + self._draw(_STEP)
            return self._last

    def _draw(self, size: int) -> int:
        at = self._at
        if at + size > len(self._random):
            self._random, at = os.urandom(_BATCH), 0
        self._at = at + size
        return int.from_bytes(self._random[at : self._at], "big")


_series = _Series()
os.register_at_fork(after_in_child=_series.restart)


class SystemIds:
    """Identifiers of this process; all instances share one series."""

    def new(self) -> str:
        """A UUIDv7 larger than those before it."""
        number = _series.next()
        high = (number >> _LOW) & _HIGH_MASK
        value = (number >> _TAIL) << 80 | 7 << 76 | high << 64 | 2 << _LOW | (number & _LOW_MASK)
        text = f"{value:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
