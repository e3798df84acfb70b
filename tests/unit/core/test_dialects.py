"""Schemas as vendors take them."""

import json

import jsonschema
import pytest

from loom_ia.core.model import ModelSpec
from loom_ia.core.model.dialects import NotNativeError, derive, dialect_of, native, restored

QUOTE = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Devis",
    "type": "object",
    "properties": {
        "objet": {"type": "string", "minLength": 3, "description": "De quoi il s'agit."},
        "numero": {"type": "string", "pattern": "^D-\\d{4}$"},
        "remise": {"type": "number", "minimum": 0},
        "client": {"$ref": "#/$defs/client"},
        "paiement": {"oneOf": [{"const": "comptant"}, {"$ref": "#/$defs/delai"}]},
        "lignes": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/ligne"}},
        "le": {"type": "string", "format": "date"},
    },
    "required": ["objet", "numero", "client", "paiement", "lignes"],
    "$defs": {
        "client": {"type": "object", "properties": {"nom": {"type": "string"}}},
        "delai": {
            "type": "object",
            "properties": {"jours": {"type": "integer"}},
            "required": ["jours"],
        },
        "ligne": {
            "type": "object",
            "properties": {"prix": {"type": "number"}, "unite": {"enum": ["h", "m²", None]}},
            "required": ["prix"],
            "additionalProperties": True,
        },
    },
}
ANSWER = {
    "objet": "Chauffe-eau",
    "numero": "D-0042",
    "client": {"nom": "Martin"},
    "paiement": {"jours": 30},
    "lignes": [{"prix": 12.5, "unite": None}],
}
KEPT = {"additionalProperties", "anyOf", "description", "enum", "format", "items", "properties"}
KEPT |= {"required", "type"}


def words(schema):
    found = set(schema)
    parts = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    for part in (*parts, *([schema["items"]] if "items" in schema else [])):
        found |= words(part)
    return found


def objects(schema):
    parts = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    for part in (*parts, *([schema["items"]] if "items" in schema else [])):
        yield from objects(part)
    if schema.get("type") == "object":
        yield schema


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
def test_a_derived_schema_is_closed_and_holds_only_the_words_that_vendors_know(dialect):
    """S20."""
    found = derive(QUOTE, dialect)
    jsonschema.Draft202012Validator.check_schema(found)
    assert words(found) <= KEPT
    for one in objects(found):
        assert one["additionalProperties"] is False
        if dialect == "openai":
            assert one["required"] == list(one["properties"])


def test_what_a_vendor_does_not_understand_is_told_to_the_model():
    found = derive(QUOTE, "anthropic")["properties"]
    assert found["objet"]["description"] == "De quoi il s'agit.\nminLength: 3"
    assert found["numero"]["description"] == 'pattern: "^D-\\\\d{4}$"'
    assert found["le"] == {"type": "string", "format": "date"}
    uri = {"type": "object", "properties": {"u": {"type": "string", "format": "uri"}}}
    assert derive(uri, "anthropic")["properties"]["u"] == {"type": "string", "format": "uri"}
    assert derive({**uri, "required": ["u"]}, "openai")["properties"]["u"] == {
        "type": "string",
        "description": 'format: "uri"',
    }


def test_an_optional_property_is_null_where_all_must_stand_and_is_left_out_again():
    found = derive(QUOTE, "openai")
    full = {
        **ANSWER,
        "remise": None,
        "le": None,
        "client": {"nom": None},
        "lignes": [{"prix": 12.5, "unite": None}],
    }
    jsonschema.validate(full, found)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(full, QUOTE)
    plain = restored(full, QUOTE)
    jsonschema.validate(plain, QUOTE)
    assert plain == {**ANSWER, "client": {}}  # a null that the schema names stays


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
def test_a_valid_answer_fits_what_was_derived(dialect):
    jsonschema.validate(ANSWER, QUOTE)
    whole = {**ANSWER, "remise": 3, "le": "2026-09-01"}
    jsonschema.validate(whole, derive(QUOTE, dialect))


@pytest.mark.parametrize(
    ("one", "told"),
    [
        ({}, "nothing says"),
        ({"type": "object"}, "not named"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "not named"),
        ({"type": "array"}, "what the array holds"),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, "what the array holds"),
        ({"enum": [["a"]]}, "not a plain one"),
        ({"enum": []}, "nothing says"),
        ({"$ref": "https://exemple.fr/s"}, "leads nowhere"),
        ({"$ref": "#"}, "leads nowhere"),
        ({"$ref": "#/$defs/noeud"}, "holds itself"),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "several schemas"),
        ({"type": "object", "properties": {"a": {}}, "required": ["b"]}, "'b' is not described"),
        (True, "nothing says"),
    ],
)
def test_what_cannot_be_derived_is_said_with_its_place(one, told):
    """S20."""
    node = {"type": "object", "properties": {"suite": {"$ref": "#/$defs/noeud"}}}
    schema = {
        "type": "object",
        "properties": {"x": one},
        "required": ["x"],
        "$defs": {"noeud": node},
    }
    with pytest.raises(NotNativeError, match=told) as caught:
        derive(schema, "openai")
    assert str(caught.value).startswith("schema, at #/properties/x")


@pytest.mark.parametrize(
    "schema", [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]
)
def test_an_answer_that_is_no_object_is_not_native(schema):
    with pytest.raises(NotNativeError, match="must be an object"):
        derive(schema, "anthropic")


def test_objects_that_must_be_several_things_are_one():
    schema = {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"type": "object", "properties": {"b": {"type": "null"}}, "required": ["b"]},
        ]
    }
    found = derive(schema, "anthropic")
    assert (list(found["properties"]), found["required"]) == (["a", "b"], ["a", "b"])


def test_a_type_among_several_and_values_of_several_types_are_alternatives():
    schema = {
        "type": "object",
        "properties": {"a": {"type": ["string", "null"], "maxLength": 9}, "b": {"enum": [1, "x"]}},
        "required": ["a", "b"],
    }
    found = derive(schema, "openai")["properties"]
    assert [one["type"] for one in found["a"]["anyOf"]] == ["string", "null"]
    assert found["b"] == {
        "anyOf": [{"type": "integer", "enum": [1]}, {"type": "string", "enum": ["x"]}]
    }


def test_a_schema_beyond_the_limits_of_a_vendor_is_not_native():
    many = {f"p{n}": {"type": "string"} for n in range(25)}
    schema = {"type": "object", "properties": many}
    with pytest.raises(NotNativeError, match="too many optional"):
        derive(schema, "anthropic")
    assert derive(schema, "openai")
    deep = {"type": "string"}
    for _ in range(12):
        deep = {"type": "object", "properties": {"x": deep}}
    with pytest.raises(NotNativeError, match="too deep"):
        derive(deep, "openai")


def test_only_a_model_that_says_so_is_held_to_a_schema():
    able, schema = {"native_json": True}, {"type": "object", "properties": {"a": {"const": 1}}}
    model = ModelSpec(id="A", sdk="openai", model="m", capabilities=able)
    assert native(model, schema) == derive(schema, "openai")
    assert native(model, {"type": "array"}) is None
    assert native(model, None) is None
    assert native(model.model_copy(update={"capabilities": model.capabilities.model_copy(
        update={"native_json": False})}), schema) is None  # fmt: skip
    assert dialect_of(ModelSpec(id="A", sdk="fake", model="m", capabilities=able)) is None
    assert json.loads(json.dumps(native(model, schema)))
