from collections.abc import Callable
from pathlib import Path

import pytest

from loom_ia.config import ConfigError
from loom_ia.config.load import load
from loom_ia.config.profiles import overlay
from loom_ia.config.source import parse

Write = Callable[..., Path]

PROFILES = """\
profile: dev
profiles:
  dev: {execution: {lease: 10}}
  prod: {execution: {lease: 20}, imports: [b]}
"""


@pytest.mark.parametrize(
    ("asked", "environ", "expected"),
    [
        ("prod", {"LOOM_PROFILE": "dev"}, ("prod", "--profile", 20)),
        (None, {"LOOM_PROFILE": "prod"}, ("prod", "LOOM_PROFILE", 20)),
        (None, {}, ("dev", "'profile:'", 10)),
        (None, {"LOOM_PROFILE": ""}, ("dev", "'profile:'", 10)),
    ],
)
def test_the_option_wins_over_the_variable_which_wins_over_the_file(
    project: Write, root: str, asked, environ, expected
):
    loaded = load(project({"loom.yaml": root + PROFILES}), asked, environ)
    profile, execution = loaded.profile, loaded.config.execution
    assert (profile.name, profile.origin, execution.lease) == expected


def test_without_a_profile_nothing_changes(project: Write):
    loaded = load(project(), None, {})
    assert str(loaded.profile.summary()) == (
        "none (no --profile, no LOOM_PROFILE, no 'profile:'); overrides: none"
    )


def test_the_keys_that_a_profile_changes_are_listed(project: Write, root: str):
    loaded = load(project({"loom.yaml": root + PROFILES}), "prod", {})
    assert str(loaded.profile.summary()) == (
        "prod (from --profile); overrides: execution.lease, imports"
    )


def test_an_unknown_profile_says_who_named_it(project: Write):
    with pytest.raises(ConfigError, match="LOOM_PROFILE: unknown profile 'x'; choose dev or prod"):
        load(project(), None, {"LOOM_PROFILE": "x"})


def test_mappings_are_joined_and_lists_replaced():
    source = parse("a: {b: 1, c: [1, 2]}\nprofiles: {prod: {a: {c: [3], d: 4}}}\n", "f")
    merged, changed = overlay(source, "prod")
    assert changed == ("a.c", "a.d")
    assert isinstance(merged.value, dict)
    assert merged.value["a"] == {"b": 1, "c": [3], "d": 4}
    assert str(merged.at(("a", "c", 0))) == "f:2:27"
    assert str(merged.at(("a", "b"))) == "f:1:8"
    assert ("a", "c", 1) not in merged.marks


def test_another_backend_replaces_the_settings_of_the_first():
    source = parse(
        "s: {backend: jsonl, path: data}\n"
        "profiles:\n  dev: {s: {path: tmp}}\n  prod: {s: {backend: postgres, dsn_env: D}}\n",
        "f",
    )
    prod, changed = overlay(source, "prod")
    assert isinstance(prod.value, dict)
    assert prod.value["s"] == {"backend": "postgres", "dsn_env": "D"}
    assert changed == ("s",)
    dev, _ = overlay(source, "dev")
    assert isinstance(dev.value, dict)
    assert dev.value["s"] == {"backend": "jsonl", "path": "tmp"}


def test_an_error_that_a_profile_brings_is_told_in_the_profile(project: Write, root: str):
    text = root + "profiles:\n  prod:\n    models: [{id: A, sdk: fake}]\n"
    with pytest.raises(ConfigError) as caught:
        load(project({"loom.yaml": text}), "prod", {})
    assert str(caught.value).startswith("loom.yaml:8:14: models[0].model: missing key; write it")
