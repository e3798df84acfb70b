"""Texts with `{{ path }}` variables, parsed once, and the variables that each kind may use."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

from loom_ia.core.errors import Kind, LoomError
from loom_ia.core.text import Text

_MARK = re.compile(r"\\\{\{|\{\{")
_PATH = re.compile(r"[^\W\d][\w-]*(?:\.\w[\w-]*)*")
_SHOWN = 40


class TemplateSyntaxError(LoomError):
    """Braces of a template that do not hold a path."""

    kind = Kind.CONFIG
    template = "{line}:{column}: {problem}"

    def __init__(self, *, line: int, column: int, problem: Text) -> None:
        super().__init__(line=line, column=column, problem=problem)
        self.line = line
        self.column = column
        self.problem = problem


class TemplateValueError(LoomError):
    """A variable of a template that got no value."""

    kind = Kind.BROKEN
    template = "variable '{name}' of a template has no value"


@dataclass(frozen=True, slots=True)
class Variable:
    """A path in a template, where it stands in the text (from 1)."""

    path: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Template:
    r"""A text cut at its variables. `\{{` is a literal `{{`; a lone `}}` is plain text."""

    parts: tuple[str | Variable, ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        r"""Template of a text.

        Raises:
            TemplateSyntaxError: `{{` without `}}`, or what stands between them is no dotted path.

        """
        parts: list[str | Variable] = []
        done = 0
        while found := _MARK.search(text, done):
            parts.append(text[done : found.start()])
            if found.group() != "{{":
                parts.append("{{")
                done = found.end()
                continue
            variable, done = _variable(text, found.start())
            parts.append(variable)
        parts.append(text[done:])
        return cls(tuple(part for part in parts if part))

    def variables(self) -> tuple[Variable, ...]:
        """Every use of a variable, in order."""
        return tuple(part for part in self.parts if isinstance(part, Variable))

    def names(self) -> frozenset[str]:
        """Paths used."""
        return frozenset(variable.path for variable in self.variables())

    def render(self, values: Mapping[str, object]) -> str:
        """Text with its values, looked up by dotted path; what is not a string is shown as JSON.

        A value is never read as a template.

        Raises:
            TemplateValueError: a path leads nowhere.

        """
        return "".join(
            part if isinstance(part, str) else _shown(_lookup(values, part.path))
            for part in self.parts
        )


EMPTY = Template(())


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Variables that one kind of template may use: exact paths, and families by their head."""

    paths: tuple[str, ...]
    families: tuple[str, ...] = ()

    def unknown(self, template: Template) -> tuple[Variable, ...]:
        """Uses of variables that are not accepted."""
        return tuple(use for use in template.variables() if not self._accepts(use.path))

    def _accepts(self, path: str) -> bool:
        head, dot, _ = path.partition(".")
        return path in self.paths or (bool(dot) and head in self.families)

    def listed(self) -> str:
        """The accepted ones, for a message."""
        return ", ".join((*self.paths, *(f"{family}.*" for family in self.families)))


PROMPT = Vocabulary(("agent.name", "tenant.id", "session.id", "run.id"))
"""System prompts: facts that the journal of the run holds; a clock would make a replay differ."""


def _variable(text: str, start: int) -> tuple[Variable, int]:
    end = text.find("}}", start)
    line, column = position(text, start)
    if end < 0:
        problem = Text("'{{{{' without '}}}}'; close it, or write '\\{{{{' for plain braces")
        raise TemplateSyntaxError(line=line, column=column, problem=problem)
    path = text[start + 2 : end].strip()
    if _PATH.fullmatch(path) is None:
        shown = path if len(path) <= _SHOWN else f"{path[:_SHOWN]}…"
        problem = Text(
            "'{found}' is not a variable; write a dotted name such as {{{{ agent.name }}}}, "
            "or '\\{{{{' for plain braces",
            {"found": shown},
        )
        raise TemplateSyntaxError(line=line, column=column, problem=problem)
    return Variable(path, line, column), end + 2


def position(text: str, index: int) -> tuple[int, int]:
    """Line and column, from 1, of a character of a text."""
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


def _lookup(values: Mapping[str, object], path: str) -> object:
    found: object = values
    for name in path.split("."):
        found = _child(found, name)
        if found is None:
            raise TemplateValueError(name=path)
    return found


def _child(parent: object, name: str) -> object:
    return parent.get(name) if _mapping(parent) else None


def _mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping)


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
