"""From what a caller gives to a request: identifiers checked, files stored."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, get_args
from uuid import UUID, uuid5

from loom_ia.core.errors import InvalidIdError
from loom_ia.core.events import Principal
from loom_ia.core.model import FileBlock, ImageBlock
from loom_ia.core.text import Text
from loom_ia.engine.world import Shown
from loom_ia.runtime.errors import InvalidRequestError, JudgesRefusedError
from loom_ia.runtime.runs import Approver, Files, Request

if TYPE_CHECKING:
    from loom_ia.runtime.host import Host

Channel = Literal["python", "cli", "rest", "mcp", "webhook", "engine"]
Attachment = bytes | str | Path
"""The bytes of a file, or its path."""

MAX_ID = 256
KEYS = UUID("6f0f1d0e-5a0b-4a57-9d0c-7f5b6a3b2c11")
"""Names the space of the runs that keys lead to."""


class SubmitOptions(TypedDict, total=False):
    """What may accompany the message of a run in the background."""

    session: str | None
    tenant: str
    attachments: Sequence[Attachment]
    context: Mapping[str, object] | None
    judges: Literal["auto", "force", "skip"]
    by: str
    channel: Channel
    run_id: str | None
    key: str | None
    """Asked again with the same key by the same principal, the run is the first one's."""


class RunOptions(SubmitOptions, total=False):
    """What may accompany a message."""

    approver: Approver | None


class DecisionOptions(TypedDict, total=False):
    """What may accompany a decision."""

    call: str | None
    arguments: Mapping[str, object] | None
    reason: str
    on_behalf_of: str
    happened: bool | None
    """What a person says of a call of unknown outcome; nothing is then launched."""
    scopes: Collection[str] | None
    """Scopes of the key of who decides; None where there are no keys."""
    channel: Channel
    tenant: str


async def requested(
    host: Host, agent: str, message: str, options: SubmitOptions, *, approver: bool = False
) -> Request:
    """Request of a caller.

    Raises:
        InvalidIdError: an id that no store can keep.
        JudgesRefusedError: judges skipped in `prod`.
        AttachmentError: a file that is too large, too many, or of an unknown kind.

    """
    _check(message, options)
    host.agent(agent)
    judges = options.get("judges", "auto")
    if judges == "skip" and host.loaded.profile.name == "prod":
        raise JudgesRefusedError
    tenant = options.get("tenant", "default")
    session = checked_id(Text("session"), options.get("session"))
    run_id = checked_id(Text("run"), options.get("run_id"))
    files = options.get("attachments", ())
    principal = Principal.make(options.get("by", "python"), options.get("channel", "python"))
    key = checked_id(Text("key"), options.get("key"))
    if key is not None and run_id is None:
        run_id = _keyed(tenant, principal, key)
    if files and run_id is None:
        run_id = host.ports.ids.new()
    stored = await _stored(host, tenant, session or run_id or "", files)
    return Request(
        agent=agent,
        message=message,
        by=principal,
        tenant_id=tenant,
        session_id=session,
        run_id=run_id,
        key=key,
        files=stored,
        context=options.get("context") or {},
        judges=judges,
        approver=approver,
    )


def _check(message: object, options: Mapping[str, object]) -> None:
    """Refuse what no type checker stopped.

    Raises:
        InvalidRequestError: says what is expected.

    """
    if not isinstance(message, str):
        raise _unexpected(what="message", expected=Text("a text"), given=message)
    for name, value in options.items():
        if name not in _EXPECTED:
            raise _unexpected(name, Text("one of {names}", {"names": ", ".join(_EXPECTED)}), name)
        expected, fits = _EXPECTED[name]
        if not fits(value):
            raise _unexpected(name, expected, value)


def _unexpected(what: str, expected: Text, given: object) -> InvalidRequestError:
    return InvalidRequestError(what=what, expected=expected, given=repr(given)[:80])


def _text(value: object) -> bool:
    return isinstance(value, str)


def _text_or_none(value: object) -> bool:
    return value is None or isinstance(value, str)


def _json(value: object) -> bool:
    if value is not None and not isinstance(value, Mapping):
        return False
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


_EXPECTED: Mapping[str, tuple[Text, Callable[[object], bool]]] = {
    "session": (Text("a text"), _text_or_none),
    "tenant": (Text("a text"), _text),
    "attachments": (Text("a list of files"), lambda value: isinstance(value, list | tuple)),
    "context": (Text("a mapping of JSON values"), _json),
    "judges": (Text("auto, force or skip"), lambda value: value in {"auto", "force", "skip"}),
    "approver": (Text("a function"), lambda value: value is None or callable(value)),
    "by": (Text("a text"), _text),
    "channel": (Text("the name of a door"), lambda value: value in get_args(Channel)),
    "run_id": (Text("a text"), _text_or_none),
    "key": (Text("a text"), _text_or_none),
}


def _keyed(tenant: str, by: Principal, key: str) -> str:
    """Id of the run of a key: that a run of this id exists is what the store refuses."""
    return str(uuid5(KEYS, json.dumps([tenant, by.channel, by.id, key])))


def checked_id(what: Text, value: str | None) -> str | None:
    """An id chosen by a caller, once it is known that every store can keep it."""
    if value is None:
        return None
    problem = None
    if not value.strip():
        problem = Text("it is empty; give it at least one character")
    elif len(value) > MAX_ID:
        problem = Text(
            "it has {n} characters; keep it within {max}", {"n": len(value), "max": MAX_ID}
        )
    elif any(ord(c) < 32 or 0xD800 <= ord(c) <= 0xDFFF for c in value):  # noqa: PLR2004
        problem = Text("it holds a control character or half a character; remove it")
    if problem is not None:
        raise InvalidIdError(what=what, value=ascii(value[:40]), reason=problem)
    return value


async def _stored(host: Host, tenant: str, session: str, files: Sequence[Attachment]) -> Files:
    if not files:
        return ()
    from loom_ia.tools.media import Limits, load_attachments  # noqa: PLC0415

    limits = host.config.execution.attachments
    blocks: list[ImageBlock | FileBlock] = []
    allowed = Limits(max_bytes=limits.max_bytes, max_files=limits.max_files)
    for file in await load_attachments(files, allowed):
        uri = await host.artifacts.put(tenant, session, file.data, file.media_type)
        kind = ImageBlock if file.media_type.startswith("image/") else FileBlock
        blocks.append(kind(uri=uri, media_type=file.media_type, name=file.name))
    return tuple(blocks)


async def streamed(
    host: Host, agent: str, message: str, options: RunOptions
) -> AsyncGenerator[Shown]:
    """What a run shows, from its first event on; closing the generator stops the run."""
    approver = options.get("approver") is not None
    request = await requested(host, agent, message, options, approver=approver)
    scene = await host.runs.start(request)
    async with aclosing(host.runs.follow(scene)) as shown:
        async for item in shown:
            yield item
