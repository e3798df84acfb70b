import asyncio

import pytest

from loom_ia.access import Loom
from loom_ia.config import ConfigError, LoomConfig
from loom_ia.config.load import from_python, load
from loom_ia.config.model_checks import check_chains

HEAD = "version: 1\nmodels:\n"
AGENT = """agents:
  - name: a
    main: {model: A, fallbacks: [B]}
    tools: [{python: "x:y"}]
"""


def model(**keys):
    said = {"id": "A", "sdk": "anthropic", "model": "m", "api_key_env": "K", **keys}
    return "  - {" + ", ".join(f"{k}: {v}" for k, v in said.items() if v is not None) + "}\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (model(api="chat"), "models[0].api: 'api' is for sdk openai"),
        (model(api_key_env=None), "models[0]: model 'A' goes to the provider's own address"),
        (model(params="{stream: false}"), "models[0].params.stream: parameter 'stream'"),
        (model(params="{temperature: 1, top_p: 1}"), "keep one of them"),
        (model(params="{thinking: {type: enabled}, temperature: 0.3}"), "can only be 1"),
        (
            model(params="{seed: 1}", capabilities="{refused_params: [seed]}"),
            "model 'A' does not accept parameter 'seed'",
        ),
        (
            model(sdk="openai", model="gpt-5-mini", params="{temperature: 0.3}"),
            "model 'A' does not accept parameter 'temperature'",
        ),
        (
            model(params="{thinking: {type: enabled}, top_k: 3}"),
            "models[0].params.top_k: with 'thinking', 'top_k' is refused",
        ),
        (
            model(params="{thinking: {type: enabled}}", capabilities="{thinking: false}"),
            "models[0].params.thinking: model 'A' does not reason (capabilities.thinking)",
        ),
        (
            model(
                sdk="openai",
                params="{reasoning_effort: low}",
                base_url="http://x/v1",
                capabilities="{thinking: false}",
            ),
            "models[0].params.reasoning_effort: model 'A' does not reason",
        ),
        (
            model(params="{tool_choice: {type: any}}", capabilities="{forced_tool: false}"),
            "models[0].params.tool_choice: model 'A' cannot be obliged to call a tool",
        ),
        (
            model(params="{tool_choice: {type: tool, name: x}, thinking: {type: adaptive}}"),
            "models[0].params.tool_choice: with 'thinking', a tool call cannot be forced",
        ),
        (
            model(max_tokens=4096, capabilities="{context_window: 4096}"),
            "models[0].max_tokens: 'max_tokens' leaves nothing of the 4096 tokens",
        ),
        (
            model(sdk="openai", api="responses", params="{max_completion_tokens: 5}"),
            "write max_tokens beside params",
        ),
        (
            model(sdk="openai", model="gpt-5-mini", params="{max_tokens: 5}"),
            "parameter 'max_tokens' has another name there",
        ),
        (
            model(params="{tool_choice: {type: any}}")
            + "agents:\n  - {name: a, main: {model: A}}\n",
            "agents[0].main.model: model 'A' is obliged to call a tool",
        ),
        (model() + AGENT, "main.fallbacks[0]: unknown model 'B'"),
        (
            model() + model(id="B", capabilities="{tools: false}") + AGENT,
            "main.fallbacks[0]: agent 'a' has tools, and model 'B' cannot call any",
        ),
        (model() + AGENT.replace("[B]", "[A]"), "model 'A' is already in this chain"),
    ],
)
def test_what_load_knows_of_a_model_is_told_at_load(project, text, told):
    with pytest.raises(ConfigError) as caught:
        load(project({"loom.yaml": HEAD + text}), None, {})
    issues = [str(i) for i in caught.value.issues if "SIMULE" not in str(i)]
    assert len(issues) == 1
    assert told in issues[0]


def test_a_local_server_needs_no_key_and_takes_any_parameter(project):
    text = model(sdk="openai", base_url="http://localhost/v1", api_key_env=None, model="gpt-5-x")
    text = text.replace("}", ", params: {temperature: 0.3}}")
    text = text.replace("id: A", "id: SIMULE")
    assert load(project({"loom.yaml": HEAD + text}), None, {}).config.models[0].id == "SIMULE"


@pytest.mark.parametrize(
    "params",
    [
        "{thinking: {type: disabled}, temperature: 0.3}",
        "{tool_choice: {type: auto}}",
        "{reasoning_effort: none}",
    ],
)
def test_a_parameter_that_asks_for_nothing_is_accepted(project, params):
    able = "{thinking: false, forced_tool: false}"
    text = model(params=params, capabilities=able, id="SIMULE")
    assert load(project({"loom.yaml": HEAD + text}), None, {}).config.models[0].id == "SIMULE"


CHAIN = LoomConfig.model_validate(
    {
        "version": 1,
        "models": [
            {"id": "A", "sdk": "fake", "model": "f", "params": {"script": [{"text": "-"}]}},
            {
                "id": "B",
                "sdk": "fake",
                "model": "f",
                "params": {"script": [{"text": "-"}]},
                "capabilities": {"context_window": 50},
            },
        ],
        "agents": [
            {"name": "a", "main": {"model": "A", "fallbacks": ["B"], "system": "Tu aides. " * 30}}
        ],
    }
)


async def test_a_fallback_that_cannot_read_the_prompt_is_refused_at_load():
    loom = await asyncio.to_thread(Loom, CHAIN)
    with pytest.raises(ConfigError, match=r"main.fallbacks\[0\]: the prompt and the tools"):
        async with loom:
            pass


def test_a_schema_that_a_vendor_cannot_hold_to_is_a_warning():
    able = {"capabilities": {"native_json": True}, "base_url": "http://x"}
    models = [
        {"id": "A", "sdk": "openai", "model": "m", **able},
        {"id": "B", "sdk": "anthropic", "model": "m", **able},
    ]
    main = {"model": "A", "fallbacks": ["B"]}
    values = {"version": 1, "models": models, "agents": [{"name": "a", "main": main}]}
    loaded = from_python(LoomConfig.model_validate(values))
    found = list(check_chains(loaded, {}, {"a": {"type": "array", "items": {"type": "string"}}}))
    assert [issue.severity for issue in found] == ["warning", "warning"]
    assert "main.fallbacks[0]" in str(found[1])
    assert "the answer must be an object" in str(found[1])
    optional = {f"p{n}": {"type": "string"} for n in range(30)}
    schemas = {"a": {"type": "object", "properties": optional}}
    assert len(list(check_chains(loaded, {}, schemas))) == 1
