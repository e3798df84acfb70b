"""Which protocol a server speaks: asked once, remembered, never guessed from an outage."""

from __future__ import annotations

from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp.types import (
    UNSUPPORTED_PROTOCOL_VERSION,
    DiscoverResult,
    Implementation,
    UnsupportedProtocolVersionErrorData,
)
from mcp.types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_MODERN_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)
from pydantic import ValidationError

from loom_ia.adapters.sources.mcp.faults import OUTAGE
from loom_ia.core.ports.source import Era


async def negotiate(session: ClientSession, known: Era | None) -> Era:
    """Agree with a server, by the era that it was known to have or by asking; what it has.

    A server is taken for an old one only when it answers that it does not know the question, or
    says nothing at all; a network that fails, or credentials that are refused, tell nothing.

    Raises:
        MCPError: it cannot be reached, refuses, or speaks no version that we do.
        RuntimeError: it answered the handshake with a version that nobody knows.

    """
    if known != "session" and await _discovered(session):
        return "stateless"
    try:
        await session.initialize()
    except MCPError as error:
        if error.code != UNSUPPORTED_PROTOCOL_VERSION:
            raise
        # It knows the versions by name, so it is a new one, whatever it was taken for.
        if not await _discovered(session):
            raise
        return "stateless"
    return "session"


async def _discovered(session: ClientSession) -> bool:
    """True when the server speaks the stateless protocol; False when it must be greeted."""
    version = LATEST_MODERN_VERSION
    for last in (False, True):
        try:
            raw = await session.send_discover(version)
        except MCPError as error:
            if error.code in OUTAGE:
                raise
            if error.code != UNSUPPORTED_PROTOCOL_VERSION:
                return False
            supported = _supported(error)
            mutual = [one for one in MODERN_PROTOCOL_VERSIONS if one in supported]
            if mutual and not last:
                version = mutual[-1]
                continue
            if supported and not any(one in HANDSHAKE_PROTOCOL_VERSIONS for one in supported):
                raise
            return False
        try:
            found = DiscoverResult.model_validate(raw)
        except ValidationError:
            return False
        if not any(one in MODERN_PROTOCOL_VERSIONS for one in found.supported_versions):
            return False
        session.adopt(found)
        return True
    return False


def _supported(error: MCPError) -> tuple[str, ...]:
    try:
        return tuple(UnsupportedProtocolVersionErrorData.model_validate(error.data).supported)
    except ValidationError:
        return ()


def named(info: Implementation | None) -> str:
    """Name and version that a server gives itself."""
    return f"{info.name} {info.version}".strip() if info is not None else ""
