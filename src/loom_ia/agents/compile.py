"""From an agent's description to what drives it: a plan, and the ports it may touch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, partial
from typing import Literal

from loom_ia.agents.budget import BudgetsSection, budget_of
from loom_ia.agents.spec import (
    AgentSpec,
    ContractSection,
    McpTools,
    OutputSection,
    PythonTool,
)
from loom_ia.core.budget import Budget
from loom_ia.core.model import ModelSpec, ToolSpec
from loom_ia.core.names import safe_name
from loom_ia.core.plan import Asking, Plan, Remedy, ToolPlan
from loom_ia.core.policy import Point
from loom_ia.core.ports import Artifacts, Check, Form, KeyRule, Model, Tool, ToolContext
from loom_ia.core.pricing import prices_of
from loom_ia.core.state import CONTRACT
from loom_ia.core.templates import Template
from loom_ia.core.text import Text
from loom_ia.core.wording import Language, say
from loom_ia.engine.resilience import Breaker, Seat
from loom_ia.engine.world import World, nowhere
from loom_ia.policies.decorator import PolicyDeclarationError, declared
from loom_ia.policies.hook import Hook, Settings
from loom_ia.tools.decorator import (
    ATTRIBUTE,
    Declaration,
    ToolDeclarationError,
    declaration_of,
)
from loom_ia.tools.idempotency import business_key, key_of
from loom_ia.tools.python import Late, PythonFunctionTool
from loom_ia.tools.settling import check_of
from loom_ia.tools.threads import Pool


@dataclass(frozen=True, slots=True, eq=False)
class Workshop:
    """What agents are made from."""

    specs: Mapping[str, ModelSpec]
    models: Mapping[str, Model]
    breakers: Mapping[str, Breaker]
    """Shared by every agent, by the id of the model."""
    language: Language
    tool_timeout: float
    parallel: int
    budgets: BudgetsSection
    """Of every agent that does not say otherwise."""
    artifacts: Artifacts
    remembers: bool
    """Results are kept under idempotency keys, beside the journal."""
    late: Late
    """Told what a thread gave after its call had been given up."""
    resolve: Callable[[AgentSpec, Literal["tools", "policies"], int], object]
    """Python object of the n-th tool, or policy, of an agent."""
    place: Callable[[str, str], str] = nowhere
    """Where the configuration gives a parameter to a model."""

    def seat(self, model: str) -> Seat:
        """A model of a chain, by its id."""
        return Seat(self.specs[model], self.models[model], self.breakers[model])


@dataclass(frozen=True, slots=True)
class AgentView:
    """An agent as people see it."""

    name: str
    description: str
    model: str
    tools: tuple[str, ...]
    sources: tuple[str, ...] = ()
    """Servers of tools."""


@dataclass(frozen=True, slots=True, eq=False)
class Mounted:
    """One tool of an agent, its declarations merged."""

    original: str
    index: int
    """Place of its entry among the `tools` of the agent."""
    tool: Tool
    plan: ToolPlan
    timeout: float | None
    check: Check | None = None
    """Its check of unknown outcomes."""
    form: Form | None = None
    """The form that what it gives must have."""
    key: KeyRule | None = None
    """Under which key its effect is remembered."""


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """An agent ready to run."""

    spec: AgentSpec
    prompt: Template
    world: World
    tools: tuple[Mounted, ...]
    policies: tuple[Hook, ...] = ()
    sources: tuple[McpTools, ...] = ()
    """Where the tools come from that only an open connection tells."""

    @property
    def view(self) -> AgentView:
        """The agent as people see it."""
        return AgentView(
            self.spec.name,
            self.spec.description,
            self.spec.main.model,
            tuple(t.original for t in self.tools),
            tuple(source.mcp for source in self.sources),
        )


def compile_agent(spec: AgentSpec, prompt: Template, workshop: Workshop) -> Compiled:
    """An agent ready to run; the configuration wins over what its tools declare.

    Raises:
        ToolDeclarationError: a function cannot be a tool.
        PolicyDeclarationError: something is not a policy.

    """
    policies = tuple(_hooked(spec, n, workshop) for n in range(len(spec.policies)))
    results = names_at(policies, "after_tool")
    mounted = [_mounted(spec, n, workshop, results) for n in range(len(spec.tools))]
    tools = tuple(one for one in mounted if one is not None)
    world = World(
        plan=_rules(spec, tools, policies, workshop),
        spec=workshop.specs[spec.main.model],
        model=workshop.models[spec.main.model],
        breaker=workshop.breakers[spec.main.model],
        fallbacks=tuple(workshop.seat(model) for model in spec.main.fallbacks),
        prices=prices_of(workshop.specs.values()),
        files=workshop.artifacts.get,
        schema=None if spec.output is None else spec.output.schema_,
        place=workshop.place,
        system="" if prompt.variables() else prompt.render({}),
        tools={t.tool.spec.name: t.tool for t in tools},
        specs=tuple(t.tool.spec for t in tools),
        language=workshop.language,
        settles={t.tool.spec.name: t.check for t in tools if t.check is not None},
        keys={t.tool.spec.name: t.key for t in tools if t.key is not None},
        timeouts={t.tool.spec.name: t.timeout for t in tools if t.timeout is not None},
        tool_timeout=workshop.tool_timeout,
        parallel=workshop.parallel,
        before_model=at(policies, "before_model"),
        after_model=at(policies, "after_model"),
        before_tool=at(policies, "before_tool"),
        after_tool=at(policies, "after_tool"),
        on_output=at(policies, "on_output"),
        forms={t.tool.spec.name: t.form for t in tools if t.form is not None},
        contract=None if spec.output is None else _form(spec.output, workshop),
    )
    sources = tuple(entry for entry in spec.tools if isinstance(entry, McpTools))
    return Compiled(spec, prompt, world, tools, policies, sources)


def _launches(budget: Budget) -> int | None:
    """Launches after which calls are refused one by one; under `warn` none is."""
    most = budget.most("calls") if budget.stop else None
    return None if most is None else int(most)


def _rules(
    spec: AgentSpec, tools: Sequence[Mounted], policies: Sequence[Hook], workshop: Workshop
) -> Plan:
    output, budget = spec.output, budget_of(workshop.budgets, spec.budget)
    return Plan(
        turn_checks=names_at(policies, "after_model"),
        checks=(*(() if output is None else (CONTRACT,)), *names_at(policies, "on_output")),
        remedies={} if output is None else {CONTRACT: _remedy(output)},
        tools={t.tool.spec.name: t.plan for t in tools},
        max_iterations=spec.max_iterations,
        timeout=None if spec.timeout is None else timedelta(seconds=spec.timeout),
        asking=Asking(
            expires_in=timedelta(seconds=spec.approval.expires_in),
            on_expiry=spec.approval.on_expiry,
            scope=spec.approval.scope,
        ),
        fallback=say(workshop.language, "fallback"),
        budget=budget,
        max_calls=_launches(budget),
    )


def at(hooks: Sequence[Hook], point: Point) -> tuple[Hook, ...]:
    """Those that speak at a point, in order."""
    return tuple(hook for hook in hooks if point in hook.points)


def names_at(hooks: Sequence[Hook], point: Point) -> tuple[str, ...]:
    """Their names."""
    return tuple(hook.name for hook in at(hooks, point))


def _hooked(spec: AgentSpec, index: int, workshop: Workshop) -> Hook:
    entry = spec.policies[index]
    function = workshop.resolve(spec, "policies", index)
    said = declared(function)
    if said is None or not callable(function):
        reason = Text("this is not a policy; mark the function with @policy")
        raise PolicyDeclarationError(function=entry.hook, reason=reason)
    settings = Settings(
        params=entry.params,
        timeout=said.timeout if entry.timeout is None else entry.timeout,
        on_error=entry.on_error or said.on_error,
        language=workshop.language,
    )
    earlier = sum(entry.hook == other.hook for other in spec.policies[:index])
    name = f"{said.name}#{earlier + 1}" if earlier else said.name
    return Hook(function, said, settings, _policy_threads().run, name)


def _remedy(output: OutputSection) -> Remedy:
    return Remedy(output.repair.max_attempts, output.on_failure, output.fallback or "")


def _form(section: ContractSection, workshop: Workshop) -> Form:
    """A contract; what reads schemas and patterns is loaded by the first one."""
    from loom_ia.policies.contract import Contract, Terms  # noqa: PLC0415

    terms = Terms(section.schema_, section.must_match, section.must_not_match, section.max_chars)
    return Contract(terms, workshop.language, _policy_threads().run)


@cache
def _policy_threads() -> Pool:
    """Threads of synchronous policies; tools that hang do not hold them."""
    return Pool("loom-policy")


def _mounted(
    spec: AgentSpec, index: int, workshop: Workshop, checks: tuple[str, ...]
) -> Mounted | None:
    entry = spec.tools[index]
    if not isinstance(entry, PythonTool):
        return None
    function = workshop.resolve(spec, "tools", index)
    if not callable(function):
        raise ToolDeclarationError(function=entry.python, reason="this is not a function")
    said = declaration_of(function)
    original = entry.alias or said.name or str(getattr(function, "__name__", entry.python))

    save = partial(saved, workshop.artifacts)
    tool = PythonFunctionTool(
        function, safe_name(original), language=workshop.language, save=save, late=workshop.late
    )
    timeout = entry.timeout if entry.timeout is not None else said.timeout
    check = None if said.settle is None else check_of(said.settle)
    form = None if entry.output is None else _form(entry.output, workshop)
    checks = checks if form is None else (CONTRACT, *checks)
    key = _key(function, said, tool.spec)
    settles = check is not None or (key is not None and workshop.remembers)
    plan = replace(_plan(entry, said, tool.spec), checks=checks, settles=settles)
    return Mounted(original, index, tool, plan, timeout, check, form, key)


def _key(function: Callable[..., object], said: Declaration, spec: ToolSpec) -> KeyRule | None:
    """Under which key the effect of a tool is remembered: that of its own name, not of an alias."""
    declared_key = key_of(function)
    if declared_key is None:
        return None
    name = said.name or str(getattr(function, "__name__", spec.name))
    if declared_key.function is None:
        return KeyRule(name)
    return KeyRule(name, business_key(declared_key.function, spec.input_schema))


async def saved(artifacts: Artifacts, context: ToolContext, data: bytes, media_type: str) -> str:
    """Address of bytes that a call gave, kept with the files of its session."""
    return await artifacts.put(context.tenant_id, context.session_id, data, media_type)


def _plan(entry: PythonTool, said: Declaration, spec: ToolSpec) -> ToolPlan:
    idempotent = entry.idempotent if entry.idempotent is not None else said.idempotent
    return ToolPlan(
        side_effects=entry.side_effects or said.side_effects,
        idempotent=bool(idempotent),
        approval=entry.approval or said.approval or "never",
        on_unknown=entry.on_unknown or said.on_unknown or "error",
        definition=definition_of(spec),
    )


def definition_of(spec: ToolSpec) -> str:
    """Digest of what the model is shown of a tool."""
    text = json.dumps(spec.model_dump(mode="json"), sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def declared_name(value: object) -> str | None:
    """Name of an object that `@tool` or `@policy` marked; None for any other."""
    if (said := declared(value)) is not None:
        return said.name
    if not callable(value) or not hasattr(value, ATTRIBUTE):
        return None
    return declaration_of(value).name or str(getattr(value, "__name__", ""))
