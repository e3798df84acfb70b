from collections.abc import Callable
from pathlib import Path

import pytest

from loom_ia.config import ConfigError
from loom_ia.config.checks import (
    Installed,
    ToolFacts,
    check_installed,
    check_policies,
    check_tools,
    refuse,
)
from loom_ia.config.extras import missing_package, providing
from loom_ia.config.load import load
from loom_ia.core.text import Text

Write = Callable[..., Path]
HERE = Installed(
    frozenset({"fake"}),
    frozenset({"memory", "jsonl"}),
    frozenset({"local"}),
    frozenset({"memory"}),
)


def test_what_is_not_installed_is_told_with_what_is(project: Write, root: str):
    text = root.replace("sdk: fake", "sdk: anthropik") + (
        "storage:\n  events: {backend: jsonll}\n  artifacts: {backend: s3}\n"
    )
    issues = check_installed(load(project({"loom.yaml": text}), None, {}), HERE)
    assert [str(issue) for issue in issues] == [
        "loom.yaml:4:10: models[0].sdk: unknown SDK 'anthropik'; the known ones are: fake",
        "loom.yaml:7:21: storage.events.backend: unknown journal 'jsonll'; did you mean 'jsonl'?",
        (
            "loom.yaml:8:24: storage.artifacts.backend: unknown file store 's3'; "
            "the known ones are: local"
        ),
    ]


def test_a_missing_package_names_its_extra():
    assert str(missing_package(Text("Journal"), "postgres", "asyncpg")) == (
        "Journal 'postgres': package 'asyncpg' is not installed "
        "(install the extra: loom-ia[postgres])"
    )
    assert str(missing_package(Text("Journal"), "x", "inconnu.y")) == (
        "Journal 'x': package 'inconnu' is not installed"
    )


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("anthropic", "anthropic"),
        ("openai", "openai"),
        ("mcp.server", "mcp"),
        ("fastapi", "http"),
        ("multipart", "http"),
        ("redis.asyncio", "redis"),
        ("aio_pika", "rabbitmq"),
        ("opentelemetry.sdk.trace", "otel"),
        ("cryptography", "crypto"),
        ("msgspec", "contracts"),
        ("json", None),
    ],
)
def test_the_extra_of_a_module_is_read_from_our_metadata(module: str, extra: str | None):
    assert providing(module)[1] == extra


def facts(**changes) -> dict[str, list[ToolFacts]]:
    return {
        "devis": [ToolFacts(**{"name": "prix", "side_effects": "none", "pauses": False} | changes)]
    }


def test_a_tool_that_declares_nothing_is_a_warning_then_an_error_in_prod(project: Write):
    path = project()
    issues = check_tools(load(path, None, {}), facts(side_effects=None), durable=True)
    assert [str(issue) for issue in refuse(issues)] == [
        (
            "agents/devis.yaml:6:5: tools[0]: tool 'prix' does not declare side_effects; "
            "write none, reversible or irreversible"
        )
    ]
    hard = check_tools(load(path, "prod", {}), facts(side_effects=None), durable=True)
    with pytest.raises(ConfigError):
        refuse(hard)


@pytest.mark.parametrize(
    ("profile", "durable", "refused"),
    [(None, False, True), ("prod", False, True), ("dev", False, False), (None, True, False)],
)
def test_a_pause_needs_a_durable_journal_except_in_dev(
    project: Write, profile: str | None, durable: bool, refused: bool
):
    loaded = load(project(), profile, {})
    issues = check_tools(loaded, facts(pauses=True), durable=durable)
    assert bool(issues) is refused
    if refused:
        assert str(issues[0]).startswith(
            "agents/devis.yaml:6:5: tools[0]: agent 'devis' may pause on tool 'prix', and the "
            "journal 'memory' is not durable"
        )


def test_two_tools_that_decorators_name_alike_are_refused(project: Write, agent: str):
    loaded = load(project({"agents/devis.yaml": agent + "  - python: autre\n"}), None, {})
    same = [ToolFacts("prix", "none", pauses=False, index=index) for index in range(2)]
    issues = check_tools(loaded, {"devis": same}, durable=True)
    assert [str(issue) for issue in issues] == [
        (
            "agents/devis.yaml:7:13: tools[1].python: two tools of agent 'devis' are named 'prix' "
            "(tools[0] and tools[1]); give one of them an 'alias'"
        )
    ]


def test_approval_by_policy_needs_a_policy_that_may_pause(project: Write):
    loaded = load(project(), None, {})
    tools = facts(by_policy=True)
    [issue] = check_policies(loaded, tools, {"devis": {}}, durable=True)
    assert "no policy of the agent may pause" in str(issue)
    assert check_policies(loaded, tools, {"devis": {0: "gros"}}, durable=True) == []


def test_a_policy_that_may_pause_needs_a_durable_journal(project: Write, agent: str):
    text = agent + "policies:\n  - hook: gros\n"
    loaded = load(project({"agents/devis.yaml": text}), None, {})
    [issue] = check_policies(loaded, facts(), {"devis": {0: "gros"}}, durable=False)
    assert str(issue).startswith(
        "agents/devis.yaml:8:5: policies[0]: agent 'devis' may pause on policy 'gros'"
    )
    loose = load(project({"agents/devis.yaml": text}), "dev", {})
    assert check_policies(loose, facts(), {"devis": {0: "gros"}}, durable=False) == []
