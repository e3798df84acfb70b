# ruff: noqa: INP001 - a script, run by path
"""Bring the French catalogue up to date with the message ids of the source, then compile it.

python tools/catalogue.py: keeps translations, adds empty ones, drops those that nothing uses.
"""

from __future__ import annotations

import ast
import io
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

SOURCE = Path(__file__).resolve().parents[1] / "src" / "loom_ia"
FOLDER = SOURCE / "locale" / "fr" / "LC_MESSAGES"
PO = FOLDER / "loom_ia.po"
MO = FOLDER / "loom_ia.mo"
KEYWORDS = {"_": None, "Text": None, "PydanticCustomError": (2,)}
BARE = {"{issues}", "{problem}", "{code}"}
_FIELD = re.compile(r"\{\{|\}\}|\{(\w*)[^{}]*\}")


def message_ids() -> dict[str, list[tuple[str, int]]]:
    """Message ids of the source, each with the files and lines that use it."""
    found: dict[str, list[tuple[str, int]]] = {}
    for name, line, message, _comments, _context in extract_from_dir(
        str(SOURCE), [("**.py", "python")], keywords=KEYWORDS
    ):
        found.setdefault(str(message), []).append((name, line))
    for template, module in error_templates():
        found.setdefault(template, []).append((module, 0))
    return {message: found[message] for message in sorted(found) if message not in BARE}


def error_templates() -> Iterator[tuple[str, str]]:
    """Templates of our error classes, each with its file."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name.endswith("Error"):
                for template in _assigned(node, "template"):
                    yield template, str(path.relative_to(SOURCE))


def _assigned(node: ast.ClassDef, name: str) -> Iterator[str]:
    for line in node.body:
        match line:
            case (
                ast.Assign(targets=[ast.Name(id=target)], value=ast.Constant(value=str(text)))
                | ast.AnnAssign(target=ast.Name(id=target), value=ast.Constant(value=str(text)))
            ) if target == name:
                yield text
            case _:
                continue


def fields(message: str) -> set[str]:
    """Names between braces."""
    return {match[1] for match in _FIELD.finditer(message) if match[1] is not None}


def catalogue() -> Catalog:
    """Catalogue as it is written."""
    with PO.open("rb") as stream:
        return read_po(stream, locale="fr")


def compiled(translations: Catalog) -> bytes:
    """Compilation of a catalogue."""
    out = io.BytesIO()
    write_mo(out, translations)
    return out.getvalue()


def updated() -> Catalog:
    """Catalogue with exactly the message ids of the source."""
    known = catalogue() if PO.exists() else Catalog(locale="fr")
    fresh = Catalog(locale="fr", project="loom-ia", fuzzy=False, header_comment="")
    # Instants of a catalogue would change at every run and say nothing.
    fresh.creation_date = fresh.revision_date = datetime(2000, 1, 1, tzinfo=UTC)
    fresh.last_translator = fresh.language_team = fresh.msgid_bugs_address = "loom-ia"
    for message, places in message_ids().items():
        old = known.get(message)
        files = sorted({name for name, _ in places})
        fresh.add(message, string=old.string if old else "", locations=[(f, 0) for f in files])
    return fresh


def write() -> list[Message]:
    """Write both files; returns the messages that still need a translation."""
    fresh = updated()
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = io.BytesIO()
    write_po(text, fresh, width=0, include_lineno=False, omit_header=False, sort_output=True)
    PO.write_bytes(text.getvalue())
    MO.write_bytes(compiled(catalogue()))
    return [message for message in fresh if message.id and not message.string]


if __name__ == "__main__":
    for missing in write():
        sys.stdout.write(f"to translate: {missing.id}\n")
