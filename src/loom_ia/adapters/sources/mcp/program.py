"""The stdio transport: a program of the configuration, its output bounded, nothing left of it."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

from loom_ia.adapters.sources.mcp.faults import TOO_LARGE

logger = logging.getLogger("loom_ia.mcp")

INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
KEEPER = Path(__file__).with_name("keeper.py")
CHUNK = 65536
CLOSING = 6.0
"""Seconds given to the keeper, which takes less to end everything."""
HEAD = 4096
"""Bytes kept of a line that is too long."""
TOLD = 200
"""Lines of noise that are logged for one connection; the others are counted."""
_ID = re.compile(rb'"id"\s*:\s*(\d+)')

Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


class End:
    """How a transport ended by itself."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()
        self._told = asyncio.Event()
        self._words = ""

    def tell(self, words: str) -> None:
        """Keep what the other side said last."""
        self._words = words
        self._told.set()

    async def words(self) -> str:
        """What the other side said last, waited for a moment; it comes by another way."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._told.wait(), 1)
        return self._words


@dataclass(frozen=True, slots=True)
class Program:
    """What is started, and where."""

    command: str
    args: Sequence[str]
    env: Mapping[str, str]
    folder: Path
    limit: int
    """Bytes of the longest line that is read."""


def environment(own: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """Variables of a program: what any program needs, and those that the configuration gives.

    Programs installed beside our Python are found first.
    """
    beside = str(Path(sys.executable).parent)
    kept = {name: own[name] for name in INHERITED if name in own}
    path = f"{beside}{os.pathsep}{own.get('PATH', os.defpath)}"
    return {**kept, "PATH": path, **added}


@asynccontextmanager
async def started(program: Program, end: End, name: str) -> AsyncGenerator[Streams]:
    """Streams to a started program; it and all that it started are gone on leaving."""
    ours, theirs = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(KEEPER), str(ours), program.command, *program.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=program.folder,
            env=dict(program.env),
            pass_fds=(ours,),
            start_new_session=True,
        )  # fmt: skip
    except BaseException:
        os.close(theirs)
        raise
    finally:
        os.close(ours)
    pump = _Pump(process, program.limit, end, name)
    tasks = [asyncio.create_task(work()) for work in (pump.read, pump.write, pump.listen)]
    try:
        yield pump.streams
    finally:
        await asyncio.shield(_ended(process, theirs, tasks, pump))


async def _ended(
    process: asyncio.subprocess.Process,
    held: int,
    tasks: Sequence[asyncio.Task[None]],
    pump: _Pump,
) -> None:
    """Close everything; the keeper sees to what the program started."""
    pump.close()
    if process.stdin is not None:
        process.stdin.close()
    os.close(held)
    try:
        await asyncio.wait_for(process.wait(), CLOSING)
    except TimeoutError:
        logger.warning("process %d did not end", process.pid)
        with suppress(ProcessLookupError):
            process.kill()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _Pump:
    """Carries messages between a program's pipes and the streams of a session."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        limit: int,
        end: End,
        name: str,
    ) -> None:
        self._process, self._limit, self._end, self._name = process, limit, end, name
        give, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, take = anyio.create_memory_object_stream[SessionMessage](0)
        self._give, self._take = give, take
        self.streams: Streams = (read, write)
        self._said: deque[str] = deque(maxlen=1)
        self._noise = 0

    def close(self) -> None:
        """Give and take nothing more."""
        for stream in (*self.streams, self._give, self._take):
            stream.close()

    async def read(self) -> None:
        """Messages of the program, one a line; what is no message is noise."""
        stdout, lines = self._process.stdout, _Lines(self._limit)
        if stdout is None:
            return
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            while chunk := await stdout.read(CHUNK):
                for line in lines.cut(chunk):
                    message = self._message(line)
                    if message is not None:
                        await self._give.send(message)
        self._end.lost.set()
        self._give.close()
        while await stdout.read(CHUNK):
            pass

    def _message(self, line: _Line) -> SessionMessage | None:
        if line.dropped:
            return self._too_long(line)
        if not line.kept.strip():
            return None
        try:
            message = jsonrpc_message_adapter.validate_json(line.kept, by_name=False)
        except ValidationError:
            self._noted("standard output", line.kept[:HEAD])
            return None
        return SessionMessage(message)

    def _too_long(self, line: _Line) -> SessionMessage | None:
        """The error that takes the place of an answer that is not read."""
        size = len(line.kept) + line.dropped
        self._noted("bytes of a line left out", str(size).encode())
        if (found := _ID.search(line.kept[:HEAD])) is None:
            return None
        error = ErrorData(code=TOO_LARGE, message=str(size), data={"limit": self._limit})
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error))

    async def write(self) -> None:
        """Messages to the program."""
        stdin = self._process.stdin
        if stdin is None:
            return
        try:
            async for sent in self._take:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode() + b"\n")
                await stdin.drain()
        except (ConnectionError, anyio.ClosedResourceError):
            self._give.close()

    async def listen(self) -> None:
        """What the program says beside: logged up to a point, always read."""
        stderr, lines = self._process.stderr, _Lines(HEAD)
        while stderr is not None and (chunk := await stderr.read(CHUNK)):
            for line in lines.cut(chunk):
                text = line.kept.decode(errors="replace").strip()
                if text:
                    self._said.append(text[:TOLD])
                self._noted("standard error", line.kept)
        self._end.tell(self._said[0] if self._said else "")

    def _noted(self, said: str, what: bytes) -> None:
        self._noise += 1
        if self._noise <= TOLD:
            text = ascii(what[:HEAD].decode(errors="replace").rstrip())
            logger.debug("%s, %s: %s", self._name, said, text)
        elif self._noise == TOLD + 1:
            logger.info("%s says more than can be told here", self._name)


@dataclass(slots=True)
class _Line:
    kept: bytes
    dropped: int = 0
    """Bytes that were not kept."""


class _Lines:
    """Cuts bytes into lines, and keeps the beginning only of those that are too long."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open = bytearray()
        self._dropped = 0

    def cut(self, chunk: bytes) -> list[_Line]:
        """The lines that this chunk ends."""
        *ended, rest = chunk.split(b"\n")
        lines: list[_Line] = []
        for piece in ended:
            self._add(piece)
            lines.append(_Line(bytes(self._open), self._dropped))
            self._open.clear()
            self._dropped = 0
        self._add(rest)
        return lines

    def _add(self, piece: bytes) -> None:
        if not self._dropped and len(self._open) + len(piece) <= self._limit:
            self._open += piece
            return
        total = len(self._open) + len(piece) + self._dropped
        self._open += piece[:HEAD]
        del self._open[HEAD:]
        self._dropped = total - len(self._open)
