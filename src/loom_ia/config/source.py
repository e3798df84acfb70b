"""YAML with the place of every key and value; what could be read two ways is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from loom_ia.config.errors import ConfigError, Loc, Place
from loom_ia.config.files import read, refused
from loom_ia.core.templates import position
from loom_ia.core.text import Text

_DEEPEST = 60
_LONGEST_NUMBER = 300
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")

# YAML 1.2, core schema: `yes`, `no`, `on`, `off`, dates and 12:30 are texts.
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


class _Parser(Protocol):
    def check_event(self) -> bool: ...
    def get_event(self) -> Event: ...
    def dispose(self) -> None: ...


_PARSER: Callable[[str], _Parser] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Source:
    """A document: JSON-like `value`, and where each of its keys and values stands."""

    path: str
    value: object
    marks: Mapping[Loc, Place] = field(default_factory=dict[Loc, Place])
    keys: Mapping[Loc, Place] = field(default_factory=dict[Loc, Place])
    text: str = ""

    def at(self, loc: Loc) -> Place:
        """Place of a value, or of the nearest thing around it."""
        while loc not in self.marks and loc:
            loc = loc[:-1]
        return self.marks.get(loc, Place(self.path))

    def key(self, loc: Loc) -> Place:
        """Place of the key of a value; the value's where it has none."""
        return self.keys.get(loc) or self.at(loc)


def load_source(path: Path) -> Source:
    """Document of a YAML file.

    Raises:
        ConfigError: the file cannot be read, or holds what is refused.

    """
    return parse(read(path), str(path))


def parse(text: str, path: str) -> Source:
    """Document of a YAML text.

    Raises:
        ConfigError: not YAML, or with tabs for indentation, duplicate keys, anchors, aliases, merge
            keys, tags, keys that are not texts, several documents.

    """
    if found := _CONTROL.search(text):
        code = f"U+{ord(found.group()):04X}"
        problem = Text("control character {code}; remove it", {"code": code})
        raise refused(Place(path, *position(text, found.start())), problem)
    reader = _Reader(text, path)
    try:
        return reader.document()
    except yaml.MarkedYAMLError as error:
        raise _syntax(error, reader) from error


def _events(text: str) -> Iterator[Event]:
    parser = _PARSER(text)
    try:
        while parser.check_event():
            yield parser.get_event()
    finally:
        parser.dispose()


class _Reader:
    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path
        self.events: Iterator[Event] = _events(text)
        self.marks: dict[Loc, Place] = {}
        self.keys: dict[Loc, Place] = {}

    def document(self) -> Source:
        """Source of the only document of the text."""
        next(self.events)
        start = next(self.events)
        if isinstance(start, StreamEndEvent):
            raise refused(Place(self.path), Text("the file is empty; write its content"))
        value = self.value(next(self.events), ())
        next(self.events)
        after = next(self.events)
        if isinstance(after, DocumentStartEvent):
            raise refused(self.place(after), Text("a second document starts here; keep one a file"))
        return Source(self.path, value, self.marks, self.keys, self.text)

    def place(self, event: Event) -> Place:
        mark = event.start_mark
        if mark is None:  # as the stubs have it; events that were read always have one
            return Place(self.path)
        return Place(self.path, mark.line + 1, mark.column + 1)

    def value(self, event: Event, loc: Loc) -> object:
        """Value that starts with an event, its parts read from those that follow."""
        place = self.place(event)
        self.marks[loc] = place
        self.check(event, place, loc)
        match event:
            case ScalarEvent():
                return self.scalar(event, place, loc)
            case SequenceStartEvent():
                return self.sequence(loc)
            case MappingStartEvent():
                return self.mapping(loc)
            case _:
                raise refused(place, Text("unexpected content"), loc)

    def check(self, event: Event, place: Place, loc: Loc) -> None:
        """Refuse what this YAML leaves out."""
        if isinstance(event, AliasEvent):
            problem = Text(
                "alias '*{name}' is not accepted; repeat the value", {"name": event.anchor}
            )
            raise refused(place, problem, loc)
        if not isinstance(event, NodeEvent):
            return
        if event.anchor is not None:
            problem = Text("anchor '&{name}' is not accepted; remove it", {"name": event.anchor})
            raise refused(place, problem, loc)
        tag: object = getattr(event, "tag", None)
        if tag is not None:
            problem = Text("tag '{tag}' is not accepted; remove it", {"tag": tag})
            raise refused(place, problem, loc)
        if len(loc) > _DEEPEST:
            raise refused(place, Text("nested too deep; simplify"), loc[:1])

    def scalar(self, event: ScalarEvent, place: Place, loc: Loc) -> object:
        text = str(event.value)
        if event.style is not None and event.style != "":
            return text
        if _INFINITE.fullmatch(text):
            problem = Text("'{value}' is not a finite number; write one", {"value": text})
            raise refused(place, problem, loc)
        return resolved(text)

    def sequence(self, loc: Loc) -> list[object]:
        items: list[object] = []
        while not isinstance(event := next(self.events), SequenceEndEvent):
            items.append(self.value(event, (*loc, len(items))))
        return items

    def mapping(self, loc: Loc) -> dict[str, object]:
        items: dict[str, object] = {}
        while not isinstance(event := next(self.events), MappingEndEvent):
            key = self.key(event, loc)
            here = (*loc, key)
            if key in items:
                first = self.keys[here]
                problem = Text("key already given on line {line}; keep one", {"line": first.line})
                raise refused(self.place(event), problem, here)
            self.keys[here] = self.place(event)
            items[key] = self.value(next(self.events), here)
        return items

    def key(self, event: Event, loc: Loc) -> str:
        place = self.place(event)
        self.check(event, place, loc)
        if not isinstance(event, ScalarEvent):
            raise refused(place, Text("a key must be a text"), loc)
        plain = event.style is None or event.style == ""
        key = str(event.value)
        if plain and key == "<<":
            raise refused(place, Text("merge key '<<' is not accepted; repeat the keys"), loc)
        if plain and not isinstance(resolved(key), str):
            problem = Text("key {key} is not a text; put it between quotes", {"key": key or "''"})
            raise refused(place, problem, loc)
        return key


def resolved(text: str) -> object:
    """Value of an unquoted word."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _LONGEST_NUMBER:
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    return _finite(text) if _FLOAT.fullmatch(text) else text


def _finite(text: str) -> float | str:
    number = float(text)
    return number if abs(number) != float("inf") else text


def _syntax(error: yaml.MarkedYAMLError, reader: _Reader) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    place = Place(reader.path)
    following = ""
    if mark is not None:
        place = Place(reader.path, mark.line + 1, mark.column + 1)
        lines = reader.text.split("\n")
        line = lines[mark.line] if mark.line < len(lines) else ""
        following = line[mark.column : mark.column + 1]
    return refused(place, _explained(error.problem or "", following))


def _explained(problem: str, following: str) -> Text:
    if following == "\t":
        return Text("tab used for indentation; use spaces")
    if "mapping values are not allowed" in problem:
        return Text("unexpected ':'; check the indentation, or put the text between quotes")
    if "cannot start any token" in problem:
        return Text(
            "a text cannot start with '{character}'; put it between quotes",
            {"character": following},
        )
    if "end of stream" in problem:
        return Text("a quote is never closed; close it")
    if "expected ',' or" in problem:
        return Text("a bracket is never closed, or a comma is missing; check the brackets")
    if "expected <block end>" in problem or "did not find expected key" in problem:
        return Text("indentation does not match the lines above; align it")
    if "could not find expected ':'" in problem:
        return Text("a key has no ':'; write 'key: value'")
    return Text("not valid YAML ({problem}); correct it", {"problem": problem})
