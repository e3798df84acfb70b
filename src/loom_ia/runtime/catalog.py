"""Finds adapters by name: the only place that reaches them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, distributions
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules

from pydantic import BaseModel

from loom_ia.core.errors import Kind, LoomError
from loom_ia.core.model import ModelSpec
from loom_ia.core.ports import Artifacts, Bus, Clock, Idempotency, Ids, Model, Store, ToolSource
from loom_ia.core.sources import McpServer
from loom_ia.core.wording import Language


class UnknownAdapterError(LoomError):
    """Nothing installed has this name."""

    kind = Kind.CONFIG
    template = "{port} {name}: unknown; installed: {names}"


class StoreSettings(BaseModel):
    """Settings of a storage backend."""

    @property
    def folder(self) -> str | None:
        """Where the files of sessions go when nothing else is said; None keeps them in memory."""
        return "data"

    def open(self, env: object) -> AbstractAsyncContextManager[Store]:
        """Open what is described."""
        raise NotImplementedError


class ArtifactsSettings(BaseModel):
    """Settings of an artifact backend."""

    def open(self, env: object) -> AbstractAsyncContextManager[Artifacts]:
        """Open what is described."""
        raise NotImplementedError


class IdempotencySettings(BaseModel):
    """Settings of a store of idempotency keys."""

    def open(self, env: object) -> AbstractAsyncContextManager[Idempotency]:
        """Open what is described."""
        raise NotImplementedError


class BusSettings(BaseModel):
    """Settings of a bus."""

    def open(self, env: object) -> AbstractAsyncContextManager[Bus]:
        """Open what is described."""
        raise NotImplementedError


class ModelSettings(BaseModel):
    """Settings of a model adapter."""

    def open(self, env: object, spec: ModelSpec) -> AbstractAsyncContextManager[Model]:
        """Open what is described."""
        raise NotImplementedError


class SourceSettings(BaseModel):
    """Settings of a kind of tool sources."""

    def open(
        self, env: object, server: McpServer, language: Language
    ) -> AbstractAsyncContextManager[ToolSource]:
        """A source that connects when it is needed."""
        raise NotImplementedError


@cache
def _points() -> tuple[EntryPoint, ...]:
    """Entry points of everything installed, read once: it takes tens of milliseconds."""
    return tuple(point for found in distributions() for point in found.entry_points)


def installed(port: str) -> frozenset[str]:
    """Names of the adapters of a port: ours, and those of the entry points `loom_ia.<port>`."""
    package = import_module(f"loom_ia.adapters.{port}")
    own = {module.name for module in iter_modules(package.__path__) if module.ispkg}
    return frozenset(own | {point.name for point in _points() if point.group == f"loom_ia.{port}"})


def _settings(port: str, name: str) -> object:
    if name.isidentifier() and find_spec(f"loom_ia.adapters.{port}.{name}") is not None:
        return vars(import_module(f"loom_ia.adapters.{port}.{name}"))["Settings"]
    for point in _points():
        if (point.group, point.name) == (f"loom_ia.{port}", name):
            return point.load()
    raise UnknownAdapterError(port=port, name=name, names=", ".join(sorted(installed(port))))


def store_settings(name: str) -> type[StoreSettings]:
    """Settings class of a storage backend."""
    return _settings("storage", name)  # pyright: ignore[reportReturnType] reason: found by name


def artifacts_settings(name: str) -> type[ArtifactsSettings]:
    """Settings class of an artifact backend."""
    return _settings("artifacts", name)  # pyright: ignore[reportReturnType] reason: found by name


def idempotency_settings(name: str) -> type[IdempotencySettings]:
    """Settings class of a store of idempotency keys."""
    return _settings("idempotency", name)  # pyright: ignore[reportReturnType] reason: found by name


def bus_settings(name: str) -> type[BusSettings]:
    """Settings class of a bus."""
    return _settings("bus", name)  # pyright: ignore[reportReturnType] reason: found by name


def model_settings(name: str) -> type[ModelSettings]:
    """Settings class of a model adapter."""
    return _settings("models", name)  # pyright: ignore[reportReturnType] reason: found by name


def source_settings(name: str) -> type[SourceSettings]:
    """Settings class of a kind of tool sources."""
    return _settings("sources", name)  # pyright: ignore[reportReturnType] reason: found by name


def environment(
    root: Path, variables: Mapping[str, str], clock: Callable[[], datetime] | None = None
) -> object:
    """What an adapter may know of the place it is opened in."""
    from loom_ia.adapters.env import Env  # noqa: PLC0415

    return Env(root, variables) if clock is None else Env(root, variables, clock)


def system() -> tuple[Clock, Ids]:
    """The clock and the identifiers of this machine."""
    from loom_ia.adapters.system import SystemClock, SystemIds  # noqa: PLC0415

    return SystemClock(), SystemIds()
