"""Serves an application until it is told to stop: streams end, runs stay resumable."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from loom_ia.access.http.service import Service
from loom_ia.core.errors import Kind, LoomError

BACKLOG = 2048
PATIENCE = 30
"""Seconds given to requests that are being answered, once the server stops."""


class AddressError(LoomError):
    """The address cannot be listened on."""

    kind = Kind.UNAVAILABLE
    template = "cannot listen on {host}:{port}: {reason}; choose another --host or --port"


def listen(host: str, port: int) -> socket.socket:
    """Socket that listens on an address; port 0 takes a free one.

    Raises:
        AddressError: the address is taken, or is not of this machine.

    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise AddressError(host=host, port=port, reason=reason) from error


def address(listening: socket.socket) -> str:
    """Address of a socket, as it is typed in a browser."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(
    app: FastAPI, listening: socket.socket, started: Callable[[], None] | None = None
) -> None:
    """Answer on a socket until SIGINT or SIGTERM; a second one does not wait for requests."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=PATIENCE,
    )
    service: Service = app.state.service
    async with service.loom:
        server = _Server(config, service, started)
        await server.serve([listening])


class _Server(uvicorn.Server):
    """Tells the application that it stops before it waits for what is being answered."""

    def __init__(
        self, config: uvicorn.Config, service: Service, started: Callable[[], None] | None
    ) -> None:
        super().__init__(config)
        self._service, self._told = service, started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._told is not None:
            self._told()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.stopping.set()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop on a signal, and end as after any other work: the signal is not raised again."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for one in signals:
            loop.add_signal_handler(one, self._asked)
        try:
            yield
        finally:
            for one in signals:
                loop.remove_signal_handler(one)

    def _asked(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
