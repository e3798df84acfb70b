"""What stands between us and an answer, told apart: nothing left, an answer lost, a refusal."""

from __future__ import annotations

from mcp.shared.exceptions import MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    REQUEST_TIMEOUT,
    UNSUPPORTED_PROTOCOL_VERSION,
    URL_ELICITATION_REQUIRED,
)

# Codes of our own transports, outside the range that JSON-RPC reserves.
NOT_SENT = -41001
"""The request did not leave: no connection."""
LOST = -41002
"""It left, and the answer was lost or was none of the server's."""
REFUSED = -41003
"""The server refuses the credentials, or asks for some."""
FORGOTTEN = -41004
"""The server no longer knows the session."""
TOO_LARGE = -41005
"""It answered more than is read."""
BUSY = -41006
"""It asks to come back later; it did not act."""

UNDONE = frozenset(
    {
        NOT_SENT,
        REFUSED,
        BUSY,
        METHOD_NOT_FOUND,
        INVALID_PARAMS,
        INVALID_REQUEST,
        HEADER_MISMATCH,
        MISSING_REQUIRED_CLIENT_CAPABILITY,
        UNSUPPORTED_PROTOCOL_VERSION,
        URL_ELICITATION_REQUIRED,
    }
)
"""The call did not act: the request was refused before any work, or never arrived."""
GONE = frozenset({CONNECTION_CLOSED, REQUEST_TIMEOUT, LOST, FORGOTTEN})
"""Nobody knows whether the call acted."""
OUTAGE = frozenset({NOT_SENT, LOST, REFUSED, BUSY, FORGOTTEN, CONNECTION_CLOSED})
"""Says nothing of what the server understands."""


def said(error: MCPError) -> str:
    """What an error says, within reason."""
    text = " ".join(error.message.split()) or str(error.code)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


LONGEST = 300
