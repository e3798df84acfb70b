"""Whether the process that holds a lease still lives."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from loom_ia.adapters.files import read_file


@dataclass(frozen=True, slots=True)
class Process:
    """A process that no other one can be taken for, as long as its machine runs."""

    pid: int
    machine: str
    """Boot of the machine, and namespace of its process numbers."""
    born: str
    """Start time in clock ticks since the boot; empty where the system does not tell."""


def this_process() -> Process:
    """The process that runs this."""
    pid = os.getpid()
    boot = read_file("/proc/sys/kernel/random/boot_id") if Path("/proc").is_dir() else None
    machine = platform.node() if boot is None else boot.decode().strip()
    try:
        machine += " " + os.readlink("/proc/self/ns/pid")  # noqa: PTH115  a text, not a path
    except OSError:
        machine += " -"
    return Process(pid, machine, _born(pid) or "")


def _born(pid: int) -> str | None:
    """Start time of a living process, None when it is gone or only waits to be buried."""
    stat = read_file(f"/proc/{pid}/stat")
    if stat is None:
        return None
    fields = stat.rpartition(b")")[2].split()
    return None if fields[0] in {b"Z", b"X"} else fields[19].decode()


def gone(process: Process, here: Process) -> bool:
    """True when the process ran on this machine and has ended."""
    if process.machine != here.machine or process == here:
        return False
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it exists, and is somebody else's
    if not here.born:
        return False
    try:
        return _born(process.pid) != process.born
    except OSError:
        return True  # it ended while its file was being read
