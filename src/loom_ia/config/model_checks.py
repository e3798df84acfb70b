"""What models must be, and be able to do, beyond their form: one rule, one function."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from loom_ia.agents.spec import MainRole
from loom_ia.config.errors import Issue, Loc
from loom_ia.config.loaded import Loaded
from loom_ia.core.model import ModelSpec
from loom_ia.core.model.arguments import is_object
from loom_ia.core.model.dialects import not_native
from loom_ia.core.text import Text

REMOTE = frozenset({"anthropic", "openai"})
OWN = frozenset({"input", "instructions", "messages", "model", "stream", "system", "tools"})
"""Keys of a request that the engine writes."""
SAMPLING = ("temperature", "top_p")
LIMITS = ("max_tokens", "max_completion_tokens")
THINKING = ("thinking", "reasoning_effort", "reasoning")
"""Parameters by which vendors are asked for reasoning."""
FORCING = ("any", "function", "required", "tool")
"""Choices of tool that leave none."""
REASONERS = re.compile(r"(?:o\d|gpt-5)")
"""Models of OpenAI that take no other sampling than their own."""


def apis_belong_to_openai(loaded: Loaded) -> Iterator[Issue]:
    """`api` is given to an SDK that has only one."""
    for index, model in enumerate(loaded.config.models):
        if model.api is not None and model.sdk == "anthropic":
            problem = Text("'api' is for sdk openai, and this model has sdk anthropic; remove it")
            yield loaded.issue(("models", index, "api"), problem)


def providers_want_a_key(loaded: Loaded) -> Iterator[Issue]:
    """The address is the provider's own, and no key goes with it."""
    for index, model in enumerate(loaded.config.models):
        if model.sdk in REMOTE and model.base_url is None and model.api_key_env is None:
            problem = Text(
                "model '{id}' goes to the provider's own address without a key; give the name of "
                "its variable (api_key_env), or another address (base_url)",
                {"id": model.id},
            )
            yield loaded.issue(("models", index), problem)


def params_are_accepted(loaded: Loaded) -> Iterator[Issue]:
    """A parameter is one that the engine writes, or that the model does not take."""
    for index, model in enumerate(loaded.config.models):
        if model.sdk not in REMOTE:
            continue
        for name in model.params:
            problem = _refused(model, name)
            if problem is not None:
                yield loaded.issue(("models", index, "params", name), problem)


def _refused(model: ModelSpec, name: str) -> Text | None:
    values: dict[str, object] = {"id": model.id, "name": name}
    if name in OWN:
        return Text("parameter '{name}' is written by Loom-IA; remove it", values)
    reasoner = model.sdk == "openai" and model.base_url is None and REASONERS.match(model.model)
    if name in model.capabilities.refused_params or (
        reasoner and name in SAMPLING and model.params[name] != 1
    ):
        return Text("model '{id}' does not accept parameter '{name}'; remove it", values)
    if model.sdk == "anthropic" and name == "top_p" and "temperature" in model.params:
        return Text("'temperature' and 'top_p' are both given; keep one of them", values)
    if name in LIMITS and (model.api == "responses" or (reasoner and name == "max_tokens")):
        return Text(
            "parameter '{name}' has another name there; write max_tokens beside params", values
        )
    thinking = model.sdk == "anthropic" and thinks(model)
    if thinking and name == "temperature" and model.params[name] != 1:
        return Text("with 'thinking', 'temperature' can only be 1; remove it", values)
    if thinking and name == "top_k":
        return Text("with 'thinking', 'top_k' is refused; remove it", values)
    return None


def thinks(model: ModelSpec) -> bool:
    """Whether the parameters of a model ask it to reason."""
    asked = [model.params[name] for name in THINKING if name in model.params]
    return any(
        one is not None and one != "none" and not (is_object(one) and one.get("type") == "disabled")
        for one in asked
    )


def forced(model: ModelSpec) -> bool:
    """Whether the parameters of a model oblige it to call a tool."""
    choice = model.params.get("tool_choice")
    word = choice.get("type") if is_object(choice) else choice
    return word in FORCING


def models_can_do_what_their_parameters_ask(loaded: Loaded) -> Iterator[Issue]:
    """A parameter asks what the capabilities of the same model exclude."""
    for index, model in enumerate(loaded.config.models):
        able = model.capabilities
        if model.sdk not in REMOTE:
            continue
        if thinks(model) and "thinking" in able.model_fields_set and not able.thinking:
            name = next(name for name in THINKING if name in model.params)
            problem = Text(
                "model '{id}' does not reason (capabilities.thinking), and '{name}' asks it to; "
                "remove one of them",
                {"id": model.id, "name": name},
            )
            yield loaded.issue(("models", index, "params", name), problem)
        if forced(model) and (problem := _unforceable(model)) is not None:
            yield loaded.issue(("models", index, "params", "tool_choice"), problem)
        if able.context_window is not None and (model.max_tokens or 0) >= able.context_window:
            problem = Text(
                "'max_tokens' leaves nothing of the {window} tokens that model '{id}' can read "
                "(capabilities.context_window); lower it",
                {"id": model.id, "window": able.context_window},
            )
            yield loaded.issue(("models", index, "max_tokens"), problem)


def _unforceable(model: ModelSpec) -> Text | None:
    if not model.capabilities.forced_tool:
        return Text(
            "model '{id}' cannot be obliged to call a tool (capabilities.forced_tool); "
            "remove 'tool_choice'",
            {"id": model.id},
        )
    if model.sdk == "anthropic" and thinks(model):
        return Text("with 'thinking', a tool call cannot be forced; remove 'tool_choice'")
    return None


def chain_of(main: MainRole) -> Iterator[tuple[Loc, str]]:
    """The models of a chain, in order, and where each is named."""
    yield ("main", "model"), main.model
    for index, name in enumerate(main.fallbacks):
        yield ("main", "fallbacks", index), name


def models_can_do_what_agents_ask(loaded: Loaded) -> Iterator[Issue]:
    """A model of a chain cannot call the tools that its agent has, or must call one of none."""
    known = {model.id: model for model in loaded.config.models}
    for agent in loaded.agents:
        for place, name in chain_of(agent.spec.main):
            model = known.get(name)
            values: dict[str, object] = {"agent": agent.spec.name, "id": name}
            if model is None:
                continue
            if agent.spec.tools and not model.capabilities.tools:
                problem = Text(
                    "agent '{agent}' has tools, and model '{id}' cannot call any "
                    "(capabilities.tools); choose another model",
                    values,
                )
                yield agent.issue(place, problem)
            if not agent.spec.tools and model.sdk in REMOTE and forced(model):
                problem = Text(
                    "model '{id}' is obliged to call a tool (params.tool_choice), and agent "
                    "'{agent}' has none; choose another model",
                    values,
                )
                yield agent.issue(place, problem)


def chains_do_not_turn_back(loaded: Loaded) -> Iterator[Issue]:
    """A chain names a model twice."""
    for agent in loaded.agents:
        main = agent.spec.main
        for index, name in enumerate(main.fallbacks):
            if name in (main.model, *main.fallbacks[:index]):
                problem = Text("model '{id}' is already in this chain; remove it", {"id": name})
                yield agent.issue(("main", "fallbacks", index), problem)


def check_chains(
    loaded: Loaded, sizes: Mapping[str, int], schemas: Mapping[str, Mapping[str, object]]
) -> Iterator[Issue]:
    """What is known of chains once agents are made: sizes of requests, schemas of answers.

    `sizes` are tokens, estimated, of the prompt and tools of each agent.
    """
    known = {model.id: model for model in loaded.config.models}
    for agent in loaded.agents:
        name = agent.spec.name
        for place, model_id in chain_of(agent.spec.main):
            model = known.get(model_id)
            if model is None:
                continue
            window = model.capabilities.context_window
            if window is not None and sizes.get(name, 0) > window:
                problem = Text(
                    "the prompt and the tools of agent '{agent}' take about {size} tokens, and "
                    "model '{id}' reads {window} (capabilities.context_window); choose another "
                    "model",
                    {"agent": name, "id": model_id, "size": sizes[name], "window": window},
                )
                yield agent.issue(place, problem)
            if name in schemas and (why := not_native(model, schemas[name])) is not None:
                problem = Text(
                    "model '{id}' is not held to the schema of agent '{agent}' by its provider "
                    "({why}); its answers are checked all the same",
                    {"agent": name, "id": model_id, "why": why},
                )
                here = (*agent.at, *place)
                yield Issue(agent.source.at(here), problem, here, "warning")


MODEL_RULES = (
    apis_belong_to_openai,
    providers_want_a_key,
    params_are_accepted,
    models_can_do_what_their_parameters_ask,
    models_can_do_what_agents_ask,
    chains_do_not_turn_back,
)
