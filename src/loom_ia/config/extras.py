"""Which extra of our own distribution brings a missing package, read from its metadata."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from importlib import metadata

from loom_ia.core.errors import Kind, LoomError
from loom_ia.core.text import Text

DISTRIBUTION = "loom-ia"
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")


class ExtraMissingError(LoomError):
    """What the configuration asks for needs a package that an extra brings."""

    kind = Kind.CONFIG
    template = (
        "{what} '{name}': package '{package}' is not installed "
        "(install the extra: loom-ia[{extra}])"
    )


class PackageMissingError(LoomError):
    """What the configuration asks for needs a package that no extra brings."""

    kind = Kind.CONFIG
    template = "{what} '{name}': package '{package}' is not installed"


def missing_package(what: Text, name: str, module: str) -> LoomError:
    """Error for a module that could not be imported: `what` and `name` say what needed it.

    `missing_package(Text("Journal"), "postgres", error.name)`
    """
    package, extra = providing(module)
    if extra is None:
        return PackageMissingError(what=what, name=name, package=package)
    return ExtraMissingError(what=what, name=name, package=package, extra=extra)


def providing(module: str) -> tuple[str, str | None]:
    """Distribution that holds a module, by its name, and the extra that requires it."""
    wanted = _normal(module)
    candidates = [
        (package, extra)
        for package, extra in _requirements()
        if f"-{package}-" in f"-{wanted}-" or f"-{wanted}-" in f"-{package}-"
    ]
    if not candidates:
        return module.partition(".")[0], None
    sizes = Counter(extra for _, extra in _requirements())
    # The closest name; of two extras that bring it, the one that brings least else.
    return max(candidates, key=lambda found: (len(_common(found[0], wanted)), -sizes[found[1]]))


@cache
def _requirements() -> tuple[tuple[str, str], ...]:
    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return ()
    found: list[tuple[str, str]] = []
    for line in lines:
        name, extra = _REQUIREMENT.match(line), _EXTRA.search(line)
        if name and extra and _normal(name[1]) != DISTRIBUTION:
            found.append((_normal(name[1]), extra[1]))
    return tuple(found)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _common(left: str, right: str) -> str:
    size = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
    return left[: min(len(left), len(right)) if size is None else size]
