# ruff: noqa: INP001 - a script, run by path
"""Follow a page as its reader would: write the files it shows, type the commands it gives.

A block that comes after a sentence ending with `name.ext`: is that file (added to it when the
sentence says so); in a `console` block, what follows `$` is typed in one shell per page.

python tools/pages.py PAGE...: writes into each page what its commands print today.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`([\w./-]+\.\w+)`[^`]*:\s*\Z")
ADDED = re.compile(r"\b(add|append|ajoute[rz]?)\b", re.IGNORECASE)
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
LAST = "<RUN>"
"""In a page being written: the id of the run that was named last."""
VARIES = (
    (ID, "ID"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?"), "INSTANT"),
    (re.compile(r"\b\d+([.,]\d+)? (ms|s|kB)\b"), "AMOUNT"),
    (re.compile(r"\b\d+/\d+\b|\b\d+ → \d+\b"), "TOKENS"),
    (re.compile(r"[0-9a-f]{16,}"), "DIGEST"),
    (re.compile(r"\b\d+ Killed"), "Killed"),
)


@dataclass
class Step:
    """One command of a page: what it shows, and what came."""

    command: str
    shown: str
    start: int
    end: int
    printed: str = ""


@dataclass
class Reading:
    """A page followed from its first line to its last."""

    page: Path
    steps: list[Step] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)
    """Ids of the page, and those that took their place today."""


def shape(printed: str) -> str:
    """What is printed, without what differs from one day to the next."""
    for pattern, name in VARIES:
        printed = pattern.sub(name, printed)
    lines = [" ".join(line.split()) for line in printed.strip().splitlines()]
    return "\n".join(lines)


def commands(body: str, offset: int) -> Iterator[Step]:
    """Commands of a console block, each with the output shown under it."""
    starts = [match.start() for match in re.finditer(r"^\$ ", body, re.MULTILINE)]
    for start, end in zip(starts, [*starts[1:], len(body)], strict=True):
        lines = body[start:end].splitlines(keepends=True)
        taken = 1
        while lines[taken - 1].rstrip().endswith("\\"):
            taken += 1
        typed = "".join(lines[:taken])
        yield Step(typed[2:].strip(), "".join(lines[taken:]), offset + start + len(typed),
                   offset + end)  # fmt: skip


class Shell:
    """A folder and the environment of one reader."""

    def __init__(self, folder: Path, language: str) -> None:
        self.folder = folder
        self.cwd = folder
        kept = {k: v for k, v in os.environ.items() if not k.startswith("LOOM_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environ = {**kept, "LOOM_LANG": language, "LC_ALL": "C.UTF-8", "PATH": path}

    def write(self, name: str, text: str, *, add: bool) -> None:
        path = self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a" if add else "w", encoding="utf-8") as file:
            file.write(f"\n\n{text}" if add and path.suffix == ".py" else text)

    def type(self, command: str) -> str:
        where = self.folder / ".where"
        done = subprocess.run(  # noqa: S603  commands of our own pages
            ["/bin/bash", "-c", f"{command}\npwd > {where}"],
            cwd=self.cwd,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        self.cwd = Path(where.read_text(encoding="utf-8").strip()) if where.exists() else self.cwd
        return done.stdout.decode()


def language(page: Path) -> str:
    """Language of a page, by its folder or its name."""
    return "fr" if page.parent.name == "fr" or page.stem.endswith(".fr") else "en"


def follow(page: Path, folder: Path) -> Reading:
    """Do in `folder` all that a page says."""
    text = page.read_text(encoding="utf-8")
    reading, shell = Reading(page), Shell(folder, language(page))
    last = ""
    for block in FENCE.finditer(text):
        before = text[: block.start()].rstrip().rsplit("\n\n", 1)[-1]
        if block[1] == "console":
            for step in commands(block[2], block.start(2)):
                typed = step.command.replace(LAST, last)
                for shown, today in reading.ids.items():
                    typed = typed.replace(shown, today)
                step.printed = shell.type(typed)
                known = ID.findall(step.printed)
                pairs = zip(ID.findall(step.shown), known, strict=False)  # as many as both have
                reading.ids.update({old: new for old, new in pairs if old not in reading.ids})
                last = known[0] if known else last
                step.command = step.command.replace(LAST, last)
                reading.steps.append(step)
        elif named := NAMED.search(before):
            shell.write(named[1], block[2], add=bool(ADDED.search(before)))
    return reading


def filled(page: Path) -> str:
    """Text of a page with what its commands print today."""
    with tempfile.TemporaryDirectory() as folder:
        reading = follow(page, Path(folder))
    text = page.read_text(encoding="utf-8")
    for step in reversed(reading.steps):
        begin = text.rindex("$ ", 0, step.start)
        printed = step.printed if step.printed.endswith("\n") or not step.printed else (
            f"{step.printed}\n"
        )  # fmt: skip
        text = f"{text[:begin]}$ {step.command}\n{printed}{text[step.end :]}"
    for old, new in reading.ids.items():
        text = text.replace(old, new)
    return text


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_text(filled(Path(name)), encoding="utf-8")
