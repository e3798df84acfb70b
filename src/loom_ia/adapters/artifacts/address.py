"""Addresses of files of sessions: `artifact://<tenant>/<session>/<digest>.<ext>`."""

from __future__ import annotations

import mimetypes
import re
from urllib.parse import quote, unquote

_ADDRESS = re.compile(r"artifact://([^/]+)/([^/]+)/([0-9a-f]{32}\.[a-z0-9]{1,10})")
_TYPES = mimetypes.MimeTypes(filenames=())  # the same on every machine
_OTHERS = {"text/markdown": ".md", "application/x-ndjson": ".jsonl"}

Place = tuple[str, str, str]
"""Tenant, session and file name."""


def extension(media_type: str) -> str:
    """Ending of the name of a file of this type."""
    bare = media_type.partition(";")[0].strip().lower()
    return _OTHERS.get(bare) or _TYPES.guess_extension(bare) or ".bin"


def address(place: Place) -> str:
    """Address of a file."""
    tenant_id, session_id, name = place
    return f"artifact://{_quoted(tenant_id)}/{_quoted(session_id)}/{name}"


def place_of(uri: str) -> Place | None:
    """Where an address leads, None for a text that is not one."""
    found = _ADDRESS.fullmatch(uri)
    if found is None:
        return None
    return unquote(found[1]), unquote(found[2]), found[3]


def _quoted(identifier: str) -> str:
    return quote(identifier, safe="", errors="surrogatepass")
