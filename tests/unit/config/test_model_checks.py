import pytest

from loom_ia.config import ConfigError
from loom_ia.config.load import load

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
