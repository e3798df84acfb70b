"""Python modules of a project, loaded apart from those of every other project of the process."""

from __future__ import annotations

import builtins
import difflib
import importlib
import itertools
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from loom_ia.config.errors import ConfigError, Issue, Loc, Place
from loom_ia.config.loaded import Loaded
from loom_ia.config.problems import unknown
from loom_ia.core.errors import Kind, LoomError
from loom_ia.core.text import Text

PREFIX = "loom_project_"
_MODULE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_numbers = itertools.count(1)
_builtins: dict[str, dict[str, object]] = {}
"""Builtins of the modules of each project, by its package."""


class ImportRefusedError(LoomError):
    """A module or a reference of a configuration leads nowhere."""

    kind = Kind.CONFIG
    template = "{problem}"

    def __init__(self, problem: Text) -> None:
        super().__init__(problem=problem)
        self.problem = problem


class Project:
    """Modules beside a configuration, and the references that it makes to Python objects.

    The modules live in `sys.modules` under a package of this project only. Their own imports of
    their neighbours, even late ones, find the neighbours of this project: each module sees an
    `__import__` that looks there first. `importlib.import_module` does not.
    """

    def __init__(self, loaded: Loaded, names_of: Callable[[object], str | None]) -> None:
        """`names_of` tells the name of an object that a decorator registered, None for others."""
        self.loaded = loaded
        self.names_of = names_of
        self.root = loaded.root.resolve()
        self.package = f"{PREFIX}{next(_numbers)}"
        self.modules: list[ModuleType] = []
        self.registered: dict[str, object] = {}
        self._owned: dict[str, bool] = {}

    def register(self, name: str, value: object) -> None:
        """Make an object known by a name; it wins over what the modules define."""
        self.registered[name] = value

    def import_all(self) -> None:
        """Load every module of `imports`, in order. Reads files and runs their code.

        Raises:
            ConfigError: each module that is not found or raises, where `imports` names it.

        """
        self._open()
        issues: list[Issue] = []
        for index, name in enumerate(self.loaded.config.imports):
            try:
                self.modules.append(self.module(name))
            except ImportRefusedError as error:
                issues.append(self.loaded.issue(("imports", index), error.problem))
        if issues:
            raise ConfigError(issues)

    def close(self) -> None:
        """Forget the modules of this project."""
        for name in [name for name in sys.modules if name.split(".")[0] == self.package]:
            del sys.modules[name]
        _builtins.pop(self.package, None)
        self.modules.clear()

    def resolve(self, reference: str, place: Place | None = None, loc: Loc = ()) -> object:
        """Object of a registered name or of `module:attribute`.

        Raises:
            ConfigError: there is none, or several; said at `place`.

        """
        try:
            return self._resolved(reference)
        except ImportRefusedError as error:
            raise ConfigError((Issue(place or Place(), error.problem, loc),)) from error

    def module(self, name: str) -> ModuleType:
        """Module of this project, or an installed one.

        Raises:
            ImportRefusedError: not found, or it raises.

        """
        if _MODULE.fullmatch(name) is None:
            raise ImportRefusedError(self._absent(name))
        self._open()
        full = f"{self.package}.{name}" if self.owns(name.partition(".")[0]) else name
        try:
            return importlib.import_module(full)
        except ModuleNotFoundError as error:
            missing = (error.name or "").removeprefix(f"{self.package}.")
            if name == missing or name.startswith(f"{missing}."):
                raise ImportRefusedError(self._absent(name)) from error
            raise ImportRefusedError(_needs(name, missing)) from error
        except (Exception, SystemExit) as error:  # a user's module may raise anything
            raise ImportRefusedError(_raised(name, error, self.root)) from error

    def owns(self, top: str) -> bool:
        """Tell whether a top-level name is a file or a package beside the configuration.

        A folder without `__init__.py` counts only if nothing installed has its name.
        """
        if (known := self._owned.get(top)) is None:
            known = self._owned[top] = _beside(self.root, top)
        return known

    def _open(self) -> None:
        if self.package in sys.modules:
            return
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder())
        package = ModuleType(self.package, f"Modules of {self.root}.")
        package.__path__ = [str(self.root)]
        package.__package__ = self.package
        _builtins[self.package] = self._builtins()
        sys.modules[self.package] = package

    def _builtins(self) -> dict[str, object]:
        plain = builtins.__import__

        def local(
            name: str,
            globals: Mapping[str, object] | None = None,  # noqa: A002 - the builtin's own names
            locals: Mapping[str, object] | None = None,  # noqa: A002
            fromlist: Sequence[str] | None = (),
            level: int = 0,
        ) -> ModuleType:
            top = name.partition(".")[0]
            if level or not self.owns(top):
                return plain(name, globals, locals, fromlist or (), level)
            full = f"{self.package}.{name}"
            if fromlist:
                return plain(full, globals, locals, fromlist, 0)
            importlib.import_module(full)
            return sys.modules[f"{self.package}.{top}"]

        return {**vars(builtins), "__import__": local}

    def _resolved(self, reference: str) -> object:
        if reference in self.registered:
            return self.registered[reference]
        module, colon, attribute = reference.partition(":")
        if colon:
            return _attribute(self.module(module), module, attribute)
        found = self._named()
        values = found.get(reference, {})
        if len(values) == 1:
            return next(iter(values.values()))[0]
        if values:
            where = ", ".join(sorted(module for _, module in values.values()))
            problem = Text(
                "'{name}' is defined in several modules ({modules}); write 'module:{name}'",
                {"name": reference, "modules": where},
            )
            raise ImportRefusedError(problem)
        raise ImportRefusedError(_nameless(reference, (*found, *self.registered)))

    def _named(self) -> dict[str, dict[int, tuple[object, str]]]:
        """Decorated objects by name then identity, each with the module where it was met first."""
        own = [
            module for name, module in sys.modules.items() if name.startswith(f"{self.package}.")
        ]
        found: dict[str, dict[int, tuple[object, str]]] = {}
        for module in (*self.modules, *own):
            shown = module.__name__.removeprefix(f"{self.package}.")
            for value in list(vars(module).values()):
                if (name := self.names_of(value)) is not None:
                    found.setdefault(name, {}).setdefault(id(value), (value, shown))
        return found

    def _absent(self, name: str) -> Text:
        stem = name.removesuffix(".py")
        beside = sorted(path.stem for path in self.root.glob("*.py"))
        close = [stem] if stem in beside else difflib.get_close_matches(name, beside, 1)
        if close:
            return Text(
                "module '{module}' not found; did you mean '{close}'?",
                {"module": name, "close": close[0]},
            )
        return Text(
            "module '{module}' not found, neither in {folder} nor installed; "
            "create {module}.py there, or install it",
            {"module": name, "folder": self.loaded.root},
        )


class _Finder(MetaPathFinder):
    """Gives the modules of each project the builtins of that project."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        project = fullname.partition(".")[0]
        if project not in _builtins:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        """Run the module; `exec` keeps the builtins that it finds."""
        vars(module)["__builtins__"] = _builtins[module.__name__.partition(".")[0]]
        super().exec_module(module)


def _beside(root: Path, top: str) -> bool:
    at = root / top
    if (root / f"{top}.py").is_file() or (at / "__init__.py").is_file():
        return True
    return at.is_dir() and not _installed(top)


def _installed(top: str) -> bool:
    try:
        spec = find_spec(top)
    except ValueError:  # a module that has no spec, such as __main__
        return True
    return spec is not None and spec.origin is not None


def _attribute(module: ModuleType, name: str, path: str) -> object:
    found: object = module
    for step in path.split("."):
        if not hasattr(found, step):
            problem = Text(
                "module '{module}' has no '{attribute}'; define it there, or correct the name",
                {"module": name, "attribute": path},
            )
            raise ImportRefusedError(problem)
        found = getattr(found, step)
    return found


def _nameless(reference: str, known: Sequence[str]) -> Text:
    if close := difflib.get_close_matches(reference, known, 1):
        return unknown(Text("name"), reference, close)
    return Text(
        "no Python object is registered as '{name}'; add its module to 'imports', "
        "or write 'module:{name}'",
        {"name": reference},
    )


def _needs(name: str, missing: str) -> Text:
    return Text(
        "module '{module}' needs '{missing}', which is not installed; install it",
        {"module": name, "missing": missing},
    )


def _raised(name: str, error: BaseException, root: Path) -> Text:
    where = ""
    if isinstance(error, SyntaxError) and error.filename:
        where = f"{Path(error.filename).name}:{error.lineno}"
    for frame in traceback.extract_tb(error.__traceback__):
        if not isinstance(error, SyntaxError) and Path(frame.filename).is_relative_to(root):
            where = f"{Path(frame.filename).relative_to(root)}:{frame.lineno}"
    cause = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    return Text(
        "module '{module}' fails while loading ({where}): {cause}; correct it",
        {"module": name, "where": where or name, "cause": cause},
    )
