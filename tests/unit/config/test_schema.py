import jsonschema
import pytest
import yaml

from loom_ia.config.schema import json_schema

CONFIG = """
version: 1
imports: [outils]
models:
  - {id: A, sdk: fake, model: fake-1, params: {script: []}, pricing: {input: 0.1, output: 0.5}}
storage:
  events: {backend: jsonl, path: data}
telemetry:
  logging: {level: WARNING}
"""


def test_the_schema_is_a_schema_that_accepts_a_configuration():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(yaml.safe_load(CONFIG))
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({"version": 1, "modeles": []})


def test_the_schema_of_an_agent_file_is_one_of_its_definitions():
    schema = json_schema()
    agents = {**schema, "$ref": "#/$defs/AgentSpec"}
    for key in ("properties", "required", "additionalProperties", "type"):
        agents.pop(key)
    jsonschema.validate({"name": "a", "main": {"model": "A"}}, agents)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "a"}, agents)


def test_every_model_and_every_key_of_ours_is_described():
    schema = json_schema()
    definitions = schema["$defs"]
    assert isinstance(definitions, dict)
    silent = [
        f"{name}.{key}"
        for name, definition in {"LoomConfig": schema, **definitions}.items()
        if name not in {"ModelSpec", "Pricing", "Tier"}
        for key, value in {"": definition, **definition.get("properties", {})}.items()
        if not value.get("description")
    ]
    assert silent == []
    assert definitions["ModelSpec"]["properties"]["id"]["description"]


def test_every_reading_of_the_schema_is_the_same():
    assert json_schema() == json_schema()
