"""What models must be, and be able to do, beyond their form: one rule, one function."""

from __future__ import annotations

import re
from collections.abc import Iterator

from loom_ia.config.errors import Issue
from loom_ia.config.loaded import Loaded
from loom_ia.core.model import ModelSpec
from loom_ia.core.text import Text

REMOTE = frozenset({"anthropic", "openai"})
OWN = frozenset({"input", "instructions", "messages", "model", "stream", "system", "tools"})
"""Keys of a request that the engine writes."""
SAMPLING = ("temperature", "top_p")
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
    thinking = model.sdk == "anthropic" and model.params.get("thinking")
    if thinking and name == "temperature" and model.params[name] != 1:
        return Text("with 'thinking', 'temperature' can only be 1; remove it", values)
    return None


def models_can_do_what_agents_ask(loaded: Loaded) -> Iterator[Issue]:
    """A model of a chain cannot call the tools that its agent has."""
    known = {model.id: model for model in loaded.config.models}
    for agent in loaded.agents:
        main = agent.spec.main
        places = [(("main", "model"), main.model)]
        places += [(("main", "fallbacks", n), name) for n, name in enumerate(main.fallbacks)]
        for place, name in places:
            model = known.get(name)
            if model is not None and agent.spec.tools and not model.capabilities.tools:
                problem = Text(
                    "agent '{agent}' has tools, and model '{id}' cannot call any "
                    "(capabilities.tools); choose another model",
                    {"agent": agent.spec.name, "id": name},
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


MODEL_RULES = (
    apis_belong_to_openai,
    providers_want_a_key,
    params_are_accepted,
    models_can_do_what_agents_ask,
    chains_do_not_turn_back,
)
