"""`loom.yaml`, its agents and its prompts, read and checked; every problem is told at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from loom_ia.agents.spec import AgentSpec
from loom_ia.config.checks import check
from loom_ia.config.contracts import with_schemas
from loom_ia.config.errors import ConfigError, Issue
from loom_ia.config.files import folder
from loom_ia.config.loaded import Agent, Loaded
from loom_ia.config.model import LoomConfig
from loom_ia.config.problems import part, shown, validated
from loom_ia.config.profiles import Profile, choose, overlay
from loom_ia.config.prompts import prompt_of
from loom_ia.config.source import Source, load_source
from loom_ia.core.text import Text

R = TypeVar("R")
DEFAULT = "loom.yaml"
SUFFIXES = (".yaml", ".yml")


def load(
    path: str | Path = DEFAULT,
    profile: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """Configuration of a file, with its agents and prompts.

    Reads files: call it from a thread where an event loop runs.

    Raises:
        ConfigError: every problem found, each with file, line and column.

    """
    written = load_source(Path(path))
    if not isinstance(written.value, dict):
        problem = Text("keys and values are expected, not {value}", {"value": shown(written.value)})
        raise ConfigError((Issue(written.at(()), problem),))
    root = Path(path).parent
    gathered = _Gathered()
    chosen = gathered.take(
        lambda: choose(profile, os.environ if environ is None else environ, written)
    )
    active = chosen or Profile()
    source = written
    if active.name is not None:
        name = active.name
        laid = gathered.take(lambda: overlay(written, name))
        source, overrides = laid or (written, ())
        active = replace(active, overrides=overrides)
    config = gathered.take(lambda: validated(LoomConfig, source))
    _check_idle_profiles(written, active, gathered)
    agents = (*_inline(config, source), *_files(root, source, gathered))
    prompts = _folder(root, source, "prompts_dir", "prompts/")
    agents, texts = _with_prompts(agents, prompts, gathered)
    agents, schemas = _with_schemas(agents, root, gathered)
    if config is None:
        raise ConfigError(gathered.issues)
    files = (Path(path), *(Path(agent.source.path) for agent in agents if agent.at == ()))
    files = (*files, *texts, *schemas)
    loaded = Loaded(config, source, root, active, agents, files)
    gathered.issues.extend(check(loaded))
    if gathered.issues:
        raise ConfigError(gathered.issues)
    return loaded


def from_python(
    config: LoomConfig,
    *,
    root: Path | None = None,
    profile: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """Configuration built in Python, as `load` gives it; relative paths start from `root`.

    Raises:
        ConfigError: every problem found.

    """
    source = Source("", {"profile": config.profile})
    active = choose(profile, environ or {}, source)
    changes = config.profiles.get(active.name) if active.name else None
    if changes:
        document = config.model_dump(mode="json", exclude_unset=True, by_alias=True)
        laid, overrides = overlay(Source("", document), str(active.name))
        config = validated(LoomConfig, laid)
        active = replace(active, overrides=overrides)
    gathered = _Gathered()
    base = root or Path()
    agents, texts = _with_prompts(_inline(config, source), base / config.prompts_dir, gathered)
    agents, schemas = _with_schemas(agents, base, gathered)
    loaded = Loaded(config, source, base, active, agents, (*texts, *schemas))
    gathered.issues.extend(check(loaded))
    if gathered.issues:
        raise ConfigError(gathered.issues)
    return loaded


class _Gathered:
    """Problems of steps that do not stop each other."""

    def __init__(self) -> None:
        self.issues: list[Issue] = []

    def take(self, step: Callable[[], R]) -> R | None:
        """Result of a step; None, and its issues kept, when it is refused."""
        try:
            return step()
        except ConfigError as error:
            self.issues.extend(error.issues)
            return None


def _check_idle_profiles(written: Source, active: Profile, gathered: _Gathered) -> None:
    """Check what the other profiles say: they must not wait for production to be refused."""
    told = {issue.place for issue in gathered.issues}
    for name in ("dev", "prod"):
        if name == active.name or not isinstance(part(written.value, ("profiles", name)), dict):
            continue
        try:
            laid, _ = overlay(written, name)
            validated(LoomConfig, laid)
        except ConfigError as error:
            gathered.issues.extend(issue for issue in error.issues if issue.place not in told)


def _with_prompts(
    agents: tuple[Agent, ...], prompts: Path, gathered: _Gathered
) -> tuple[tuple[Agent, ...], tuple[Path, ...]]:
    done: list[Agent] = []
    files: list[Path] = []
    for agent in agents:
        name = agent.spec.main.system_file
        if name is not None:
            files.append(prompts / name)
        prompt = gathered.take(lambda agent=agent: prompt_of(agent, prompts))
        done.append(replace(agent, prompt=prompt or agent.prompt))
    return tuple(done), tuple(files)


def _with_schemas(
    agents: tuple[Agent, ...], root: Path, gathered: _Gathered
) -> tuple[tuple[Agent, ...], tuple[Path, ...]]:
    done: list[Agent] = []
    files: list[Path] = []
    for agent in agents:
        read = gathered.take(lambda agent=agent: with_schemas(agent, root))
        done.append(agent if read is None else read[0])
        files += () if read is None else read[1]
    return tuple(done), tuple(files)


def _folder(root: Path, source: Source, key: str, default: str) -> Path:
    given = part(source.value, (key,))
    return root / (given if isinstance(given, str) and given else default)


def _inline(config: LoomConfig | None, source: Source) -> tuple[Agent, ...]:
    specs = config.agents if config else ()
    return tuple(Agent(spec, source, ("agents", index)) for index, spec in enumerate(specs))


def _files(root: Path, source: Source, gathered: _Gathered) -> tuple[Agent, ...]:
    where = _folder(root, source, "agents_dir", "agents/")
    inline = part(source.value, ("agents",)) and part(source.value, ("agents_dir",)) is None
    if inline and not where.exists():
        return ()
    paths = gathered.take(lambda: _listed(where, source))
    found = (gathered.take(lambda path=path: _agent(path)) for path in paths or ())
    return tuple(agent for agent in found if agent is not None)


def _listed(where: Path, source: Source) -> list[Path]:
    try:
        return folder(where, SUFFIXES)
    except ConfigError as error:
        problem = Text(
            "folder {path}: {why}",
            {"path": repr(str(where)).strip("'"), "why": error.issues[0].text},
        )
        raise ConfigError((Issue(source.at(("agents_dir",)), problem, ("agents_dir",)),)) from error


def _agent(path: Path) -> Agent:
    source = load_source(path)
    return Agent(validated(AgentSpec, source, value=source.value), source)
