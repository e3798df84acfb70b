"""From what the configuration says of a server to its source."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version

from pydantic import BaseModel

from loom_ia.adapters.env import Env
from loom_ia.adapters.sources.mcp.connection import Connection, Known
from loom_ia.adapters.sources.mcp.program import End, Program, Streams, environment, started
from loom_ia.adapters.sources.mcp.source import McpSource
from loom_ia.adapters.sources.mcp.wire import reached
from loom_ia.core.sources import McpServer
from loom_ia.core.wording import Language

VERSION = version("loom-ia")
"""Read when this is imported: it searches the disk."""


class Settings(BaseModel):
    """Nothing: all is said in `mcp_servers`."""

    @asynccontextmanager
    async def open(
        self, env: Env, server: McpServer, language: Language
    ) -> AsyncGenerator[McpSource]:
        """A source whose connections are opened when they are needed."""

        def opened(end: End) -> AbstractAsyncContextManager[Streams]:
            if server.transport == "http":
                return reached(server.url or "", _headers(env, server), server.max_message)
            return started(_program(env, server), end, server.name)

        def connect(known: Known) -> Connection:
            return Connection(server, opened, known, VERSION)

        source = McpSource(server, connect, language)
        try:
            yield source
        finally:
            await source.aclose()


def _headers(env: Env, server: McpServer) -> dict[str, str]:
    """Headers with their values read now: a credential may have been changed."""
    read = {name: env.variables.get(held, "") for name, held in server.headers_env.items()}
    return {**server.headers, **{name: value for name, value in read.items() if value}}


def _program(env: Env, server: McpServer) -> Program:
    read = {name: env.variables.get(held, "") for name, held in server.env_from.items()}
    added = {**server.env, **{name: value for name, value in read.items() if value}}
    return Program(
        server.command or "",
        server.args,
        environment(env.variables, added),
        env.root,
        server.max_message,
    )
