"""A whole session as lines of JSON: a head, its events, the contents they name, an end.

Each line is an object. The first has `loom_export`, the version of the format; those of events are
the journal's own, and alone have a `payload`; then come `blob` and `artifact` with their `base64`;
the last one has `end`, which counts them, so that a cut export is known for one.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import AsyncGenerator, Iterable
from urllib.parse import quote

from loom_ia.core.events import Event
from loom_ia.core.ports import Artifacts, Store

VERSION = 1
CHUNK = 500
"""Events read at once."""
_ADDRESS = re.compile(r'artifact://[^"\\\s]+')


async def exported(
    store: Store, artifacts: Artifacts, tenant: str, session_id: str
) -> AsyncGenerator[str]:
    """Lines of a session, without their newlines."""
    yield _line({"loom_export": VERSION, "tenant_id": tenant, "session_id": session_id})
    own = f"artifact://{_quoted(tenant)}/{_quoted(session_id)}/"
    blobs: dict[str, None] = {}
    files: dict[str, None] = {}
    events = seq = 0
    while read := (await store.journal.session(tenant, session_id, after=seq, limit=CHUNK)).events:
        for event, text in _encoded(read):
            yield text
            blobs |= dict.fromkeys(event.payload.blobs)
            files |= dict.fromkeys(uri for uri in _ADDRESS.findall(text) if uri.startswith(own))
        events, seq = events + len(read), read[-1].seq
    lost: list[str] = []
    for digest in blobs:
        if (data := await store.blobs.get(tenant, digest)) is None:
            lost.append(digest)
        else:
            yield _line({"blob": digest, "base64": b64encode(data).decode()})
    for uri in files:
        if (data := await artifacts.get(uri)) is None:
            lost.append(uri)
        else:
            yield _line({"artifact": uri, "base64": b64encode(data).decode()})
    contents = len(blobs) + len(files) - len(lost)
    end = {"events": events, "contents": contents, "damaged": seq - events, "lost": lost}
    yield _line({"end": end})


def _encoded(events: Iterable[Event]) -> Iterable[tuple[Event, str]]:
    for event in events:
        yield event, event.encode().decode()


def _quoted(identifier: str) -> str:
    return quote(identifier, safe="", errors="surrogatepass")


def _line(value: dict[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
