"""Runs one program and outlives it just long enough: nothing that it started is left behind.

Run by path, with a descriptor and a command: `python -I -S keeper.py FD COMMAND ARG…`. When the
program ends, however it does, everything that it started is ended. When the other end of the
descriptor closes, because Loom-IA is done with the program or was itself killed, the program is
given a moment, then ended in the same way. It must stay light: the standard library only.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

GRACE = 2.0
"""Seconds given to a program whose input was closed, before it is asked to end."""
LAST = 1.0
"""Seconds given to what was asked to end, before it is killed."""
TICK = 0.02
ABSENT = 127
ADOPT, DIE_WITH_PARENT = 36, 1
"""PR_SET_CHILD_SUBREAPER and PR_SET_PDEATHSIG, of Linux."""


def main(argv: list[str]) -> int:
    """Run the command; its exit code."""
    descriptor, command = int(argv[0]), argv[1:]
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    _control(ADOPT, 1)
    try:
        program = subprocess.Popen(  # noqa: S603 - the command of the configuration
            command,
            close_fds=True,
            start_new_session=True,
            preexec_fn=_dies_with_us,  # noqa: PLW1509 - this process has no threads
        )
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return ABSENT
    os.close(0)
    os.close(1)
    code = _watched(program, descriptor)
    _end(program.pid)
    return code if code >= 0 else 128 - code


def _dies_with_us() -> None:
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    _control(DIE_WITH_PARENT, signal.SIGKILL)


def _control(option: int, value: int) -> None:
    """Ask something of this process that only Linux knows."""
    with contextlib.suppress(OSError, AttributeError, ImportError):
        import ctypes  # noqa: PLC0415 - not there everywhere

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _watched(program: subprocess.Popen[bytes], descriptor: int) -> int:
    """Exit code of the program, ended once nobody holds the other end of the descriptor."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    signal.signal(signal.SIGCHLD, _noticed)
    until = None
    while (code := _reaped(program)) is None:
        waited = None if until is None else max(until - time.monotonic(), 0)
        watched = [read, descriptor] if until is None else [read]
        ready, _, _ = select.select(watched, [], [], waited)
        if read in ready:
            os.read(read, 4096)
        if until is None and descriptor in ready:
            until = time.monotonic() + GRACE
        elif until is not None and time.monotonic() >= until:
            _end(program.pid)
            program.wait()
            return -signal.SIGKILL
    return code


def _noticed(_number: int, _frame: object) -> None:
    """Let the descriptor of wake-ups tell it."""


def _reaped(program: subprocess.Popen[bytes]) -> int | None:
    """Exit code of the program; what it left to us is reaped meanwhile."""
    code = program.poll()
    if code is None:
        return None
    _reap()
    return code


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _end(leader: int) -> None:
    """End everything below this process, and the group of the program where nothing tells more."""
    for number, seconds in ((signal.SIGTERM, LAST), (signal.SIGKILL, LAST)):
        until = time.monotonic() + seconds
        _send(_below(os.getpid()), leader, number)
        while _below(os.getpid()) or _alive(leader):
            _reap()
            if time.monotonic() >= until:
                break
            if number == signal.SIGKILL:  # what was born meanwhile
                _send(_below(os.getpid()), leader, number)
            time.sleep(TICK)
        else:
            return


def _send(pids: Iterable[int], leader: int, number: int) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)
    with contextlib.suppress(OSError):
        os.killpg(leader, number)


def _alive(leader: int) -> bool:
    """Tell whether a process of the program's group still runs."""
    if Path("/proc/self/task").exists():
        return False  # those that count are below us
    try:
        os.killpg(leader, 0)
    except OSError:
        return False
    return True


def _below(pid: int) -> list[int]:
    """Every process that descends from this one, dead ones that nobody reaped left out."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for listed in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, listed.read_text().split()):
                if not _zombie(child):
                    found.append(child)
                found += _below(child)
    return found


def _zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
