"""`loom init`: write a small project that works, check it, say what to do next."""

from __future__ import annotations

import json
import os
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from loom_ia.access.cli.session import DEFAULT_CONFIG, command, loom_of, show, show_data, wait
from loom_ia.core.text import Text

if TYPE_CHECKING:
    from loom_ia.access.cli.project import Project
    from loom_ia.runtime.loom import Loom

HELP = Text("write a small project that works, and check it")
JOURNALS = ("jsonl", "sqlite")
QUESTION = Text("What is the price with tax of a renovation quote of €1,250 before tax (VAT 10%)?")
_BAD_JOURNAL = Text("use jsonl or sqlite")


def configure(parser: ArgumentParser) -> None:
    """Where, and what."""
    parser.add_argument(
        "folder", metavar="FOLDER", nargs="?", help=str(Text("where; it is made if needed (.)"))
    )
    parser.add_argument("--agent", metavar="NAME", help=str(Text("name of the agent")))
    parser.add_argument(
        "--journal", choices=JOURNALS, help=str(Text("how the journal is kept (jsonl)"))
    )
    parser.add_argument(
        "--yes", action="store_true", help=str(Text("ask nothing, take the usual answers"))
    )
    about = str(Text("print what was written as JSON"))
    parser.add_argument("--json", action="store_true", help=about)


def run(arguments: Namespace) -> int:
    """Write, check, tell."""
    from loom_ia.access.cli.project import SCHEMA, files, write  # noqa: PLC0415
    from loom_ia.config.schema import json_schema  # noqa: PLC0415

    project = _project(arguments)
    schema = json.dumps(json_schema(), ensure_ascii=False, indent=2) + "\n"
    texts = {**files(project), SCHEMA: schema}
    write(project, texts)
    arguments.config = str(project.config)
    wait(_checked(loom_of(arguments), arguments, project, tuple(texts)))
    return 0


def _project(arguments: Namespace) -> Project:
    """What the options, then the person, say of the project.

    Raises:
        InitOptionError: an option cannot be used.
        AnswersNeededError: something is not said, and nobody can be asked.

    """
    from pathlib import Path  # noqa: PLC0415

    from loom_ia import locale  # noqa: PLC0415
    from loom_ia.access.cli.asking import AnswersNeededError, ask, reachable  # noqa: PLC0415
    from loom_ia.access.cli.project import AGENTS, InitOptionError, Project  # noqa: PLC0415
    from loom_ia.config.checks import name_fault  # noqa: PLC0415

    language = locale.language(os.environ)
    name, journal, folder = arguments.agent, arguments.journal, arguments.folder
    if name is not None and (fault := name_fault(name)):
        raise InitOptionError(option="--agent", reason=fault)
    if arguments.config != DEFAULT_CONFIG:
        raise InitOptionError(option="--config", reason=Text("init writes FOLDER/loom.yaml"))
    if not arguments.yes:
        if not reachable():
            given = (folder,) if folder else ()
            raise AnswersNeededError(command=shlex.join(("loom", "init", *given, "--yes")))
        folder = folder or ask(Text("Folder of the project?"), ".", lambda _: None)
        name = name or ask(Text("Name of the agent?"), AGENTS[language], name_fault)
        journal = journal or ask(Text("Journal, jsonl or sqlite?"), JOURNALS[0], _bad_journal)
    return Project(
        folder=Path(folder or "."),
        language=language,
        agent=name or AGENTS[language],
        journal="sqlite" if journal == "sqlite" else "jsonl",
    )


def _bad_journal(name: str) -> Text | None:
    return None if name in JOURNALS else _BAD_JOURNAL


async def _checked(
    loom: Loom, arguments: Namespace, project: Project, names: Sequence[str]
) -> None:
    """Mount what was written, then tell it."""
    async with loom:
        count, warnings = len(loom.agents), [str(warning) for warning in loom.warnings]
    typed = _next(arguments, project)
    if arguments.json:
        told: dict[str, object] = {
            "folder": str(project.folder),
            "files": list(names),
            "agent": project.agent,
            "warnings": warnings,
            "next": typed,
        }
        show_data(told)
        return
    show(Text("Folder     : {value}", {"value": project.folder}))
    show(Text("Written    : {value}", {"value": ", ".join(names)}))
    for warning in warnings:
        show(Text("To review  : {warning}", {"warning": warning}))
    show("")
    show(Text("{count} agent(s) mounted without error.", {"count": count}))
    show("")
    show(Text("What to do next:"))
    for line in typed:
        show(f"  {line}")


def _next(arguments: Namespace, project: Project) -> list[str]:
    """Commands that can be typed as they are, one after the other."""
    from pathlib import Path  # noqa: PLC0415

    arguments.config = DEFAULT_CONFIG
    inside = [
        command(arguments, "validate"),
        command(arguments, "run", project.agent, str(QUESTION)),
        command(arguments, "sessions", "list"),
    ]
    here = project.folder.resolve() == Path.cwd()
    return inside if here else [shlex.join(("cd", str(project.folder))), *inside]
