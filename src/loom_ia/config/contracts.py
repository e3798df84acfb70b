"""Contracts: their schema files read, their schemas and patterns checked where they stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from loom_ia.agents.spec import AgentSpec, ContractSection, OutputSection, PythonTool
from loom_ia.config.errors import ConfigError, Issue, Loc
from loom_ia.config.loaded import Agent
from loom_ia.config.problems import mapping, shown
from loom_ia.config.source import Source, load_source
from loom_ia.core.text import Text


def contracts_of(spec: AgentSpec) -> Iterator[tuple[Loc, ContractSection]]:
    """Every contract of an agent, and where it stands in it."""
    if spec.output is not None:
        yield ("output",), spec.output
    for index, tool in enumerate(spec.tools):
        if isinstance(tool, PythonTool) and tool.output is not None:
            yield ("tools", index, "output"), tool.output


def with_schemas(agent: Agent, root: Path) -> tuple[Agent, tuple[Path, ...]]:
    """An agent whose contracts hold the schemas of the files they name, and these files.

    Raises:
        ConfigError: a file cannot be used, a schema or a pattern is wrong.

    """
    issues: list[Issue] = []
    files: list[Path] = []
    changed: dict[Loc, dict[str, object]] = {}
    for loc, contract in contracts_of(agent.spec):
        issues += _fallback(agent, loc, contract)
        issues += _patterns(agent, loc, contract)
        try:
            if contract.schema_file is not None:
                path = root / contract.schema_file
                files.append(path)
                changed[loc] = _read(agent, (*loc, "schema_file"), path)
            elif contract.schema_ is not None:
                _check(contract.schema_, agent.source, (*agent.at, *loc, "schema"))
        except ConfigError as error:
            issues += error.issues
    if issues:
        raise ConfigError(issues)
    spec = agent.spec
    for loc, schema in changed.items():
        spec = _filled(spec, loc, schema)
    return replace(agent, spec=spec), tuple(files)


def _filled(spec: AgentSpec, loc: Loc, schema: dict[str, object]) -> AgentSpec:
    """The agent, once the contract that stands at a place holds its schema."""
    update = {"schema_": schema, "schema_file": None}
    match loc:
        case ("tools", int(index), "output"):
            tools = list(spec.tools)
            tool = tools[index]
            contract = tool.output if isinstance(tool, PythonTool) else None
            filled = contract and contract.model_copy(update=update)
            tools[index] = tool.model_copy(update={"output": filled})
            return spec.model_copy(update={"tools": tuple(tools)})
        case _:
            filled = spec.output and spec.output.model_copy(update=update)
            return spec.model_copy(update={"output": filled})


def _read(agent: Agent, loc: Loc, path: Path) -> dict[str, object]:
    try:
        source = load_source(path)
    except ConfigError as error:
        reason = error.issues[0]
        if reason.place.line:
            raise
        problem = Text("file {path}: {why}", {"path": path, "why": reason.text})
        raise ConfigError((agent.issue(loc, problem),)) from error
    if not mapping(source.value):
        problem = Text("keys and values are expected, not {value}", {"value": shown(source.value)})
        raise ConfigError((Issue(source.at(()), problem),))
    schema = dict(source.value)
    _check(schema, source, ())
    return schema


def _check(schema: dict[str, object], source: Source, loc: Loc) -> None:
    from loom_ia.policies.schemas import flaw  # noqa: PLC0415  its library takes long to load

    found = flaw(schema)
    if found is not None:
        text, place = found
        here = (*loc, *place)
        raise ConfigError((Issue(source.at(here), text, here),))


def _patterns(agent: Agent, loc: Loc, contract: ContractSection) -> Iterator[Issue]:
    patterns = {"must_match": contract.must_match, "must_not_match": contract.must_not_match}
    for key, pattern in patterns.items():
        if pattern is None:
            continue
        from loom_ia.policies.schemas import pattern_flaw  # noqa: PLC0415  same reason

        if (wrong := pattern_flaw(pattern)) is not None:
            yield agent.issue((*loc, key), wrong)


def _fallback(agent: Agent, loc: Loc, contract: ContractSection) -> Iterator[Issue]:
    if not isinstance(contract, OutputSection) or contract.fallback is None:
        return
    if contract.on_failure != "fallback":
        text = Text("'fallback' is only said with 'on_failure: fallback'; add it, or remove this")
        yield agent.issue((*loc, "fallback"), text)
