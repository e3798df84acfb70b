"""System prompts: found, read and parsed, with every unknown variable told."""

from __future__ import annotations

import os
from pathlib import Path

from loom_ia.config.errors import ConfigError, Issue, Loc, Place
from loom_ia.config.files import read
from loom_ia.config.loaded import Agent
from loom_ia.core.templates import EMPTY, PROMPT, Template, TemplateSyntaxError, position
from loom_ia.core.text import Text

_INLINE: Loc = ("main", "system")
_FILE: Loc = ("main", "system_file")


def prompt_of(agent: Agent, prompts: Path) -> Template:
    """Prompt of an agent; empty where it has none.

    Raises:
        ConfigError: the file is not under `prompts` or cannot be read, the template is malformed or
            uses an unknown variable.

    """
    main = agent.spec.main
    if main.system is not None:
        return _parsed(main.system, _Inline(agent, main.system))
    if main.system_file is None:
        return EMPTY
    path = _inside(agent, prompts, main.system_file)
    try:
        text = read(path)
    except ConfigError as error:
        reason = error.issues[0]
        if reason.place.line:
            raise
        problem = Text("file {path}: {why}", {"path": path, "why": reason.text})
        raise ConfigError((agent.issue(_FILE, problem),)) from error
    return _parsed(text, _InFile(path))


class _InFile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def issue(self, line: int, column: int, text: Text) -> Issue:
        return Issue(Place(str(self.path), line, column), text)


class _Inline:
    def __init__(self, agent: Agent, prompt: str) -> None:
        self.agent = agent
        self.prompt = prompt

    def issue(self, line: int, column: int, text: Text) -> Issue:
        """Issue where the same brace stands in the document; at the prompt if it is not found."""
        issue = self.agent.issue(_INLINE, text)
        whole = self.agent.source.text
        lines = self.prompt.split("\n")
        index = sum(len(before) + 1 for before in lines[: line - 1]) + column - 1
        rank = self.prompt.count("{{", 0, index) + 1
        at = _index(whole, issue.place)
        for _ in range(rank):
            at = whole.find("{{", at) + 2
            if at == 1:
                return issue
        return Issue(Place(issue.place.path, *position(whole, at - 2)), text, issue.loc)


def _index(text: str, place: Place) -> int:
    lines = text.split("\n")
    return sum(len(before) + 1 for before in lines[: max(place.line - 1, 0)]) + place.column


def _parsed(text: str, where: _InFile | _Inline) -> Template:
    try:
        template = Template.parse(text)
    except TemplateSyntaxError as error:
        raise ConfigError((where.issue(error.line, error.column, error.problem),)) from error
    unknown = [
        where.issue(
            use.line,
            use.column,
            Text(
                "unknown variable '{name}'; the accepted ones are: {known}",
                {"name": use.path, "known": PROMPT.listed()},
            ),
        )
        for use in PROMPT.unknown(template)
    ]
    if unknown:
        raise ConfigError(unknown)
    return template


def _inside(agent: Agent, prompts: Path, name: str) -> Path:
    path = prompts / name
    real = os.path.realpath(prompts) if "\0" not in name else ""
    if "\0" in name or not Path(os.path.realpath(path)).is_relative_to(real):
        problem = Text(
            "'{name}' leaves the folder {folder}; name a file inside it",
            {"name": name.replace("\0", "\\0"), "folder": prompts},
        )
        raise ConfigError((agent.issue(_FILE, problem),))
    return path
