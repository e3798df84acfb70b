"""File names for identifiers: plain ones stay as they are, no two share a name on any system."""

from __future__ import annotations

import hashlib
import re

_PLAIN = re.compile(r"[a-z0-9_-](?:[a-z0-9._-]*[a-z0-9_-])?")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$)")
_KEPT = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789._-")
LONGEST = 200
"""Bytes of a name."""


def encode(identifier: str) -> str:
    """File name of an identifier, without any suffix.

    Capitals, accents, separators, controls, a leading or trailing dot and `%` are written `%xx`;
    a name that would be too long ends in `%~` and a digest instead.
    """
    if (
        _PLAIN.fullmatch(identifier) is not None
        and len(identifier) <= LONGEST
        and _RESERVED.match(identifier) is None
    ):
        return identifier
    raw = identifier.encode("utf-8", "surrogatepass")
    name = "".join(chr(byte) if byte in _KEPT else f"%{byte:02x}" for byte in raw)
    if name.startswith(".") or _RESERVED.match(name):
        name = f"%{ord(name[0]):02x}{name[1:]}"
    if name.endswith("."):
        name = f"{name[:-1]}%2e"
    if len(name) > LONGEST:
        return f"{name[:100]}%~{hashlib.sha256(raw).hexdigest()}"
    return name or "%-"
