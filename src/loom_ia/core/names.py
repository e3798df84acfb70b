"""Tool names that every model provider accepts, different for different originals."""

from __future__ import annotations

import hashlib
import re
import unicodedata

LONGEST = 64
_SAFE = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_TAIL = re.compile(r"_x[0-9a-f]{12}")
_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]+")
_TAIL_LENGTH = 14


def safe(name: str) -> bool:
    """Tell whether providers accept a name as it is."""
    return _SAFE.fullmatch(name) is not None


def safe_name(original: str) -> str:
    """Name for models: the original if it is safe, else what is readable of it and a digest.

    The digest is of the exact code points, so NFC and NFD spellings differ. An original that looks
    as if it had a digest gets one too: no two originals can meet.
    """
    if safe(original) and _TAIL.fullmatch(original[-_TAIL_LENGTH:]) is None:
        return original
    digest = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()
    plain = unicodedata.normalize("NFKD", original)
    letters = "".join(c for c in plain if not unicodedata.combining(c))
    stem = _UNSAFE.sub("_", letters)[: LONGEST - _TAIL_LENGTH]
    return f"{stem}_x{digest[:12]}"
