"""Types of files as their first bytes tell them, and the checks of what comes attached."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from loom_ia.core.causes import cause
from loom_ia.core.errors import Kind, LoomError
from loom_ia.core.text import Text
from loom_ia.tools.threads import Pool, shared

MIB = 1024 * 1024
MAX_BYTES = 5 * MIB
MAX_FILES = 10

EXTENSIONS = {
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/gif": "gif",
    "image/webp": "webp",
    "application/pdf": "pdf",
}
IMAGES = frozenset(name for name in EXTENSIONS if name.startswith("image/"))

_SIGNATURES = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)


class AttachmentTooLargeError(LoomError):
    """A file is larger than the limit."""

    kind = Kind.INVALID
    template = "attachment {name}: {size} bytes, at most {limit} are accepted"


class TooManyAttachmentsError(LoomError):
    """More files than the limit."""

    kind = Kind.INVALID
    template = "{count} attachments, at most {limit} are accepted"


class AttachmentTypeError(LoomError):
    """The first bytes of a file are of no accepted type."""

    kind = Kind.INVALID
    template = "attachment {name}: its content is not one of {accepted}"


class AttachmentUnreadableError(LoomError):
    """A file cannot be read."""

    kind = Kind.INVALID
    template = "attachment {name}: {reason}"


@dataclass(frozen=True, slots=True)
class Limits:
    """What may come attached."""

    max_bytes: int = MAX_BYTES
    """Of one file."""
    max_files: int = MAX_FILES
    accepted: frozenset[str] = IMAGES
    """Media types."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that passed the checks."""

    data: bytes
    media_type: str
    name: str = ""


def media_type_of(data: bytes) -> str | None:
    """Media type told by the first bytes: JPEG, PNG, GIF, WebP or PDF; None for anything else."""
    for signature, media_type in _SIGNATURES:
        if data.startswith(signature):
            return media_type
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def extension_of(media_type: str) -> str:
    """Extension of files of this type, without its dot."""
    return EXTENSIONS.get(media_type, "bin")


def load_attachment(
    source: str | Path | bytes, limits: Limits | None = None, *, name: str = ""
) -> Attachment:
    """Read one file and check it. Blocks: on a loop, use `load_attachments`.

    Raises:
        AttachmentUnreadableError: the file cannot be read.
        AttachmentTooLargeError: it is too large.
        AttachmentTypeError: its content is of no accepted type.

    """
    limits = limits or Limits()
    given = isinstance(source, bytes)
    label = name or ("" if given else Path(source).name)
    data, size = (source, len(source)) if given else _read(Path(source), limits.max_bytes)
    if size > limits.max_bytes:
        raise AttachmentTooLargeError(name=label, size=size, limit=limits.max_bytes)
    media_type = media_type_of(data)
    if media_type not in limits.accepted:
        raise AttachmentTypeError(name=label, accepted=_listed(limits.accepted))
    return Attachment(data, media_type, label)


async def load_attachments(
    sources: Sequence[str | Path | bytes], limits: Limits | None = None, *, pool: Pool | None = None
) -> tuple[Attachment, ...]:
    """Read and check files off the loop, in order.

    Raises:
        TooManyAttachmentsError: there are too many of them.
        AttachmentUnreadableError: one cannot be read.
        AttachmentTooLargeError: one is too large.
        AttachmentTypeError: the content of one is of no accepted type.

    """
    chosen = limits or Limits()
    if len(sources) > chosen.max_files:
        raise TooManyAttachmentsError(count=len(sources), limit=chosen.max_files)
    if not sources:
        return ()
    loaded: list[Attachment] = []
    await (pool or shared()).run(
        lambda: loaded.extend(load_attachment(source, chosen) for source in sources)
    )
    return tuple(loaded)


def _read(path: Path, limit: int) -> tuple[bytes, int]:
    """Bytes of a regular file and its size; no more than the limit and one byte are read."""
    try:
        if not path.is_file():
            raise AttachmentUnreadableError(name=str(path), reason=Text("there is no such file"))
        with path.open("rb") as file:
            data = file.read(limit + 1)
        return data, max(len(data), path.stat().st_size)
    except (OSError, ValueError) as error:
        reason = cause(error) if isinstance(error, OSError) else Text("not a usable path")
        raise AttachmentUnreadableError(name=str(path), reason=reason) from error


def _listed(types: Iterable[str]) -> str:
    return ", ".join(sorted(name.rpartition("/")[2].upper() for name in types))
