"""What a configuration must be beyond its form: one rule, one function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from loom_ia.agents.spec import PythonTool
from loom_ia.config.errors import ConfigError, Issue, Loc
from loom_ia.config.loaded import Agent, Loaded
from loom_ia.config.model_checks import MODEL_RULES
from loom_ia.config.problems import unknown
from loom_ia.config.server_checks import SERVER_RULES
from loom_ia.core.names import safe_name
from loom_ia.core.ports import SideEffects
from loom_ia.core.text import Text

AGENT_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")

Rule = Callable[[Loaded], Iterable[Issue]]
RULES: list[Rule] = [*MODEL_RULES, *SERVER_RULES]
"""Rules that need nothing but the configuration."""


def rule(function: Rule) -> Rule:
    """Add a rule to those that `check` applies."""
    RULES.append(function)
    return function


def check(loaded: Loaded) -> list[Issue]:
    """Every issue of every rule."""
    return [issue for each in RULES for issue in each(loaded)]


@rule
def model_ids_differ(loaded: Loaded) -> Iterator[Issue]:
    """Two models have one id."""
    first: dict[str, int] = {}
    for index, model in enumerate(loaded.config.models):
        if (known := first.setdefault(model.id, index)) != index:
            problem = Text(
                "model '{id}' is already declared (models[{first}]); give it another id",
                {"id": model.id, "first": known},
            )
            yield loaded.issue(("models", index, "id"), problem)


@rule
def agent_names_differ(loaded: Loaded) -> Iterator[Issue]:
    """Two agents have one name."""
    first: dict[str, Agent] = {}
    for agent in loaded.agents:
        known = first.setdefault(agent.spec.name, agent)
        if known is not agent:
            problem = Text(
                "agent '{name}' is already described at {first}; give it another name",
                {"name": agent.spec.name, "first": known.source.at((*known.at, "name"))},
            )
            yield agent.issue(("name",), problem)


@rule
def agent_names_are_plain(loaded: Loaded) -> Iterator[Issue]:
    """A name would not fit an address, a file or a tool."""
    for agent in loaded.agents:
        if problem := name_fault(agent.spec.name):
            yield agent.issue(("name",), problem)


def name_fault(name: str) -> Text | None:
    """Why an agent cannot be named so."""
    if AGENT_NAME.fullmatch(name):
        return None
    return Text(
        "agent name '{name}': use 1 to 63 lower-case letters (a-z), digits, '-' or '_', "
        "starting with a letter or a digit",
        {"name": name},
    )


@rule
def models_are_known(loaded: Loaded) -> Iterator[Issue]:
    """An agent names a model that nobody declares."""
    known = [model.id for model in loaded.config.models]
    for agent in loaded.agents:
        if agent.spec.main.model not in known:
            text = unknown(Text("model"), agent.spec.main.model, known)
            yield agent.issue(("main", "model"), text)
        for index, name in enumerate(agent.spec.main.fallbacks):
            if name not in known:
                yield agent.issue(("main", "fallbacks", index), unknown(Text("model"), name, known))


@rule
def tool_names_differ(loaded: Loaded) -> Iterator[Issue]:
    """Two tools of an agent would have one name; what a decorator renames is seen once resolved."""
    for agent in loaded.agents:
        names = [
            (index, tool.alias or re.split("[:.]", tool.python)[-1])
            for index, tool in enumerate(agent.spec.tools)
            if isinstance(tool, PythonTool)
        ]
        yield from _collisions(agent, names)


def _collisions(agent: Agent, names: Sequence[tuple[int, str]]) -> Iterator[Issue]:
    first: dict[str, int] = {}
    for index, name in names:
        known = first.setdefault(safe_name(name), index)
        if known != index:
            problem = Text(
                "two tools of agent '{agent}' are named '{name}' (tools[{first}] and "
                "tools[{index}]); give one of them an 'alias'",
                {"agent": agent.spec.name, "name": name, "first": known, "index": index},
            )
            entry = agent.spec.tools[index]
            key = "alias" if entry.alias else "python"
            yield agent.issue(("tools", index, key), problem)


@dataclass(frozen=True, slots=True)
class Installed:
    """What can be opened here, by the names that a configuration uses."""

    sdks: frozenset[str]
    journals: frozenset[str]
    artifacts: frozenset[str]
    buses: frozenset[str]
    idempotency: frozenset[str] = frozenset({"journal"})


def check_installed(loaded: Loaded, installed: Installed) -> list[Issue]:
    """SDKs and backends that are not known here."""
    found = [
        loaded.issue(("models", index, "sdk"), unknown(Text("SDK"), model.sdk, installed.sdks))
        for index, model in enumerate(loaded.config.models)
        if model.sdk not in installed.sdks
    ]
    storage = loaded.config.storage
    if storage.events.backend not in installed.journals:
        text = unknown(Text("journal"), storage.events.backend, installed.journals)
        found.append(loaded.issue(("storage", "events", "backend"), text))
    if storage.artifacts is not None and storage.artifacts.backend not in installed.artifacts:
        text = unknown(Text("file store"), storage.artifacts.backend, installed.artifacts)
        found.append(loaded.issue(("storage", "artifacts", "backend"), text))
    if storage.idempotency.backend not in installed.idempotency:
        text = unknown(Text("key store"), storage.idempotency.backend, installed.idempotency)
        found.append(loaded.issue(("storage", "idempotency", "backend"), text))
    if storage.bus.backend not in installed.buses:
        text = unknown(Text("bus"), storage.bus.backend, installed.buses)
        found.append(loaded.issue(("storage", "bus", "backend"), text))
    return found


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """What the checks need of a tool once it is resolved and its declarations merged."""

    name: str
    """Original name: its alias, or what the decorator says."""
    side_effects: SideEffects | None
    """None where neither the decorator nor the agent says it."""
    pauses: bool
    """It may wait for a human, whatever policies say: `approval: always`, `on_unknown: pause`."""
    by_policy: bool = False
    """It waits for a human where a policy says so."""
    business_key: bool = False
    """Its effect is remembered under a key that several runs share."""
    index: int = 0
    """Place of its entry among the `tools` of the agent."""


def check_tools(
    loaded: Loaded, tools: Mapping[str, Sequence[ToolFacts]], *, durable: bool
) -> list[Issue]:
    """Issues of resolved tools, given by agent in the order of its `tools`; some are warnings."""
    found: list[Issue] = []
    for agent in loaded.agents:
        facts = tools.get(agent.spec.name, ())
        found.extend(_collisions(agent, [(tool.index, tool.name) for tool in facts]))
        found.extend(_undeclared(loaded, agent, facts))
        if not durable and loaded.profile.name != "dev":
            found.extend(_pausing(loaded, agent, facts))
    return found


def _undeclared(loaded: Loaded, agent: Agent, facts: Sequence[ToolFacts]) -> Iterator[Issue]:
    severity: Literal["error", "warning"] = "error" if loaded.profile.name == "prod" else "warning"
    for tool in facts:
        if tool.side_effects is None:
            here = (*agent.at, "tools", tool.index)
            problem = Text(
                "tool '{name}' does not declare side_effects; "
                "write none, reversible or irreversible",
                {"name": tool.name},
            )
            yield Issue(agent.source.at(here), problem, here, severity)


def check_keys(
    loaded: Loaded, tools: Mapping[str, Sequence[ToolFacts]], *, shared: bool
) -> list[Issue]:
    """Issues of tools with a business key, given by agent; the store of keys may be `shared`."""
    found: list[Issue] = []
    for agent in loaded.agents:
        for index, tool in enumerate(tools.get(agent.spec.name, ())):
            if tool.business_key and not shared:
                text = Text(
                    "tool '{name}' has a business key, which several runs share, and the key "
                    "store '{backend}' is not shared and durable; write "
                    "storage: {{idempotency: {{backend: sqlite}}}}",
                    {"name": tool.name, "backend": loaded.config.storage.idempotency.backend},
                )
                found.append(agent.issue(("tools", index), text))
    return found


def _pausing(loaded: Loaded, agent: Agent, facts: Sequence[ToolFacts]) -> Iterator[Issue]:
    for tool in facts:
        if tool.pauses:
            what = Text("tool '{name}'", {"name": tool.name})
            yield _waits(loaded, agent, ("tools", tool.index), what)


def check_policies(
    loaded: Loaded,
    tools: Mapping[str, Sequence[ToolFacts]],
    pausing: Mapping[str, Mapping[int, str]],
    *,
    durable: bool,
) -> list[Issue]:
    """Issues of policies that may pause, given by agent with their place in its `policies`."""
    found: list[Issue] = []
    for agent in loaded.agents:
        policies = pausing.get(agent.spec.name, {})
        for tool in tools.get(agent.spec.name, ()):
            if tool.by_policy and not policies:
                text = Text(
                    "tool '{name}' has 'approval: policy', and no policy of the agent may pause; "
                    "plug one, or write always or never",
                    {"name": tool.name},
                )
                found.append(agent.issue(("tools", tool.index), text))
        if not durable and loaded.profile.name != "dev":
            for index, name in policies.items():
                what = Text("policy '{name}'", {"name": name})
                found.append(_waits(loaded, agent, ("policies", index), what))
    return found


def _waits(loaded: Loaded, agent: Agent, loc: Loc, what: Text) -> Issue:
    problem = Text(
        "agent '{agent}' may pause on {what}, and the journal '{backend}' is not "
        "durable; choose a durable journal (storage.events), or the profile dev",
        {
            "agent": agent.spec.name,
            "what": what,
            "backend": loaded.config.storage.events.backend,
        },
    )
    return agent.issue(loc, problem)


def refuse(issues: Iterable[Issue]) -> tuple[Issue, ...]:
    """Warnings among issues.

    Raises:
        ConfigError: with the errors, if there are any.

    """
    found = tuple(issues)
    errors = [issue for issue in found if issue.severity == "error"]
    if errors:
        raise ConfigError(errors)
    return found
