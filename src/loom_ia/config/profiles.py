"""Which profile is active, who chose it, and what it changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeGuard

from loom_ia.config.errors import ConfigError, Issue, Loc, Place, dotted
from loom_ia.config.model import ProfileName
from loom_ia.config.problems import mapping, part
from loom_ia.config.source import Source
from loom_ia.core.text import Text

Origin = Literal["--profile", "LOOM_PROFILE", "'profile:'"]
VARIABLE = "LOOM_PROFILE"
_FIXED = ("version", "profile", "profiles")


@dataclass(frozen=True, slots=True)
class Profile:
    """The active profile. `name` and `origin` are None together."""

    name: ProfileName | None = None
    origin: Origin | None = None
    overrides: tuple[str, ...] = ()
    """Keys that it changes, dotted."""

    def summary(self) -> Text:
        """One line for people."""
        changed = ", ".join(self.overrides) or Text("none")
        if self.name is None:
            return Text(
                "none (no --profile, no LOOM_PROFILE, no 'profile:'); overrides: {overrides}",
                {"overrides": changed},
            )
        return Text(
            "{name} (from {origin}); overrides: {overrides}",
            {"name": self.name, "origin": self.origin, "overrides": changed},
        )


NO_PROFILE = Profile()


def choose(asked: str | None, environ: Mapping[str, str], source: Source) -> Profile:
    """Active profile: what was asked, else LOOM_PROFILE, else the file's key; empty is absent.

    Raises:
        ConfigError: a name that is no profile.

    """
    asked_for: tuple[tuple[str | None, Origin], ...] = (
        (asked, "--profile"),
        (environ.get(VARIABLE), VARIABLE),
    )
    for value, origin in asked_for:
        if not value:
            continue
        if _known(value):
            return Profile(value, origin)
        problem = Text(
            "{origin}: unknown profile '{name}'; choose dev or prod",
            {"origin": origin, "name": value},
        )
        raise ConfigError((Issue(Place(), problem),))
    written = part(source.value, ("profile",))
    # A wrong name in the file is told with the other values of the file.
    return Profile(written, "'profile:'") if _known(written) else NO_PROFILE


def _known(value: object) -> TypeGuard[ProfileName]:
    return value in ("dev", "prod")


def overlay(source: Source, name: str) -> tuple[Source, tuple[str, ...]]:
    """Document with a profile laid over it, and the keys that changed.

    Mappings are joined, everything else is replaced. A mapping that names another `backend`
    replaces: the settings of one backend mean nothing to another.

    Raises:
        ConfigError: the profile changes what no profile may.

    """
    head: Loc = ("profiles", name)
    changes = part(source.value, head)
    base = source.value
    if not mapping(changes) or not mapping(base):
        return source, ()
    wrong = [
        Issue(
            source.key((*head, key)),
            Text("a profile cannot change this key; remove it"),
            (*head, key),
        )
        for key in changes
        if key in _FIXED
    ]
    if wrong:
        raise ConfigError(wrong)
    layer = _Layer(source, head)
    merged = Source(
        source.path, layer.merge(base, changes, ()), layer.marks, layer.keys, source.text
    )
    return merged, tuple(layer.changed)


class _Layer:
    def __init__(self, source: Source, head: Loc) -> None:
        self.source = source
        self.head = head
        self.marks = dict(source.marks)
        self.keys = dict(source.keys)
        self.changed: list[str] = []

    def merge(
        self, base: Mapping[str, object], changes: Mapping[str, object], loc: Loc
    ) -> dict[str, object]:
        merged = dict(base)
        for key, value in changes.items():
            here = (*loc, key)
            below = merged.get(key)
            if mapping(below) and mapping(value) and _joined(below, value):
                merged[key] = self.merge(below, value, here)
            else:
                merged[key] = value
                self.move(here)
                self.changed.extend(_leaves(value, here))
        return merged

    def move(self, loc: Loc) -> None:
        """Give a replaced value, and all below it, the places it has in the profile."""
        size = len(loc)
        for places, found in ((self.marks, self.source.marks), (self.keys, self.source.keys)):
            for old in [old for old in places if old[:size] == loc]:
                del places[old]
            start = (*self.head, *loc)
            for old, place in found.items():
                if old[: len(start)] == start:
                    places[old[len(self.head) :]] = place


def _leaves(value: object, loc: Loc) -> list[str]:
    if not mapping(value) or not value or "backend" in value:
        return [dotted(loc)]
    return [leaf for key, below in value.items() for leaf in _leaves(below, (*loc, key))]


def _joined(below: Mapping[str, object], value: Mapping[str, object]) -> bool:
    """Tell whether a change is joined to what is there rather than put in its place."""
    backend = value.get("backend")
    return backend is None or backend == below.get("backend")
