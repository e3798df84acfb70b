"""Policies at the five points of the loop: what each decision does there, and what is journaled."""

import json
from collections.abc import Callable

import pytest

from loom_ia.access import Loom
from loom_ia.config import LoomConfig
from loom_ia.core.events import GuardChecked
from loom_ia.core.model import TextDelta, user
from loom_ia.core.policy import POINTS
from loom_ia.policies import (
    CONTINUE,
    AfterModel,
    AfterTool,
    BeforeModel,
    Deny,
    Fail,
    OnOutput,
    Pause,
    Repair,
    Replace,
    Stop,
    policy,
)
from loom_ia.policies.decorator import PolicyDeclarationError
from loom_ia.testing import ScriptedModel
from loom_ia.tools import ToolError, tool

CALL = {"tool_calls": [{"name": "lire", "arguments": {"numero": "D-42"}}]}
DECISIONS = {
    "replace": Replace("x"),
    "repair": Repair("pourquoi"),
    "deny": Deny("pourquoi"),
    "pause": Pause("pourquoi"),
    "stop": Stop("pourquoi"),
    "fail": Fail("pourquoi"),
}
MISFORMED = "L'outil a répondu, et sa réponse n'a pas la forme attendue"
UNKNOWN = "devis inconnu"
left: list[str] = []


@tool(side_effects="none")
def lire(numero: str) -> str:
    """Lit un devis."""
    left.append(numero)
    if numero == "D-0":
        raise ToolError(UNKNOWN)
    return f"{numero} : 1 840 €"


def ruled(point: str, decide: Callable[[object], object], *decisions: str, **options: object):
    """A policy that says what a function says of what it is shown."""
    kinds = [kind for kind in POINTS[point] if kind != "continue"]

    @policy(
        points=[point], decisions=decisions or kinds, name=options.pop("name", "regle"), **options
    )
    async def rule(subject, _context):
        return decide(subject)

    return rule


def opened(model: ScriptedModel, *rules: object, **agent: object) -> Loom:
    left.clear()
    names = [f"r{n}" for n in range(len(rules))]
    values = {
        "version": 1,
        "profile": "dev",
        "models": [{"id": "M", "sdk": "fake", "model": "fake-1"}],
        "agents": [
            {
                "name": "a",
                "main": {"model": "M", "system": "Tu aides."},
                "tools": [{"python": "lire"}],
                "policies": [{"hook": name} for name in names],
                **agent,
            }
        ],
    }
    loom = Loom(LoomConfig.model_validate_json(json.dumps(values)))
    for name, value in {"M": model, "lire": lire, **dict(zip(names, rules, strict=True))}.items():
        loom.register(name, value)
    return loom


async def guards(loom: Loom, run_id: str) -> list[tuple[str, str, str]]:
    found = [e.payload for e in await loom.events(run_id) if isinstance(e.payload, GuardChecked)]
    return [(g.check, g.point, g.decision) for g in found if g.decision]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("kind", DECISIONS)
def test_the_matrix_of_the_manual_is_checked_when_a_policy_is_declared(
    point: str, kind: str
) -> None:
    if kind in POINTS[point]:
        assert ruled(point, lambda _: CONTINUE, kind)
        return
    with pytest.raises(PolicyDeclarationError, match=f"'{kind}' is not possible at {point}"):
        ruled(point, lambda _: CONTINUE, kind)


async def test_a_request_is_replaced_before_it_leaves_and_can_be_read_again() -> None:
    def decide(subject: BeforeModel):
        if len(subject.messages) > 1:
            return CONTINUE
        kept = [user("Autre demande")]
        return Replace(
            {"system": subject.system + " Vite.", "messages": kept, "tools": []}, "ainsi"
        )

    model = ScriptedModel(CALL, "fini")
    async with opened(model, ruled("before_model", decide)) as loom:
        result = await loom.run("a", "Bonjour")
        sent = await loom.request(result.run_id, 1)
        after = await loom.request(result.run_id, 2)
        events = await loom.events(result.run_id)
        assert await guards(loom, result.run_id) == [("regle", "before_model", "replace")]
    first, second = model.requests
    assert (first.system, [m.text for m in first.messages]) == (
        "Tu aides. Vite.",
        ["Autre demande"],
    )
    assert (list(first.tools), second.system, len(second.tools)) == ([], "Tu aides.", 1)
    assert (sent.system, [m.text for m in sent.messages]) == ("Tu aides. Vite.", ["Autre demande"])
    assert (sent.tools, after.system, after.messages[0].text) == ((), "Tu aides.", "Bonjour")
    assert not [e for e in events if e.type == "config.changed"]


@pytest.mark.parametrize("point", ["before_model", "after_model"])
async def test_a_stop_leaves_a_last_answer_without_tools(point: str) -> None:
    model = ScriptedModel(CALL, "Voilà ce que je sais.", "autre")
    asked: list[object] = []

    def decide(subject: object):
        asked.append(subject)
        return Stop("assez") if len(asked) == (2 if point == "before_model" else 1) else CONTINUE

    async with opened(model, ruled(point, decide)) as loom:
        result = await loom.run("a", "Bonjour")
        assert await guards(loom, result.run_id) == [("regle", point, "stop")]
    assert (result.status, result.text) == ("completed", "Voilà ce que je sais.")
    assert model.requests[-1].final
    assert left == (["D-42"] if point == "before_model" else [])
    if point == "after_model":
        assert "Une règle arrête les appels. Motif : assez" in model.requests[-1].messages[-1].text


@pytest.mark.parametrize("point", POINTS)
async def test_a_policy_ends_the_run_at_every_point_with_its_reason(point: str) -> None:
    async with opened(ScriptedModel(CALL, "fini"), ruled(point, lambda _: Fail("jamais"))) as loom:
        result = await loom.run("a", "Bonjour")
        assert await guards(loom, result.run_id) == [("regle", point, "fail")]
    assert (result.status, result.resumable) == ("failed", False)
    assert "jamais" in str(result.error)


async def test_a_turn_is_refused_before_its_calls_are_made() -> None:
    def decide(subject: AfterModel):
        asked = [call.arguments["numero"] for call in subject.calls]
        return Repair("pas celui-là") if asked == ["D-42"] else CONTINUE

    other = {"tool_calls": [{"name": "lire", "arguments": {"numero": "D-43"}}]}
    model = ScriptedModel(CALL, other, "fini")
    async with opened(model, ruled("after_model", decide)) as loom:
        result = await loom.run("a", "Bonjour")
        assert await guards(loom, result.run_id) == [("regle", "after_model", "repair")]
    assert (result.text, left) == ("fini", ["D-43"])
    roles = [m.role for m in model.requests[1].messages]
    assert roles == ["user", "assistant", "tool", "user"]
    assert "pas acceptée" in model.requests[1].messages[2].blocks[0].content[0].text
    assert "pas celui-là" in model.requests[1].messages[3].text


@pytest.mark.parametrize(
    ("decide", "told", "error"),
    [
        (lambda s: Replace(s.result.replace("1 840", "***")), "D-42 : *** €", False),
        (lambda _: Repair("trop vieux"), "Résultat écarté par une règle. Motif : trop vieux", True),
        (lambda _: CONTINUE, "D-42 : 1 840 €", False),
    ],
)
async def test_a_result_is_judged_before_the_model_reads_it(
    decide, told: str, *, error: bool
) -> None:
    model = ScriptedModel(CALL, "fini")
    async with opened(model, ruled("after_tool", decide)) as loom:
        result = await loom.run("a", "Bonjour")
    block = model.requests[1].messages[-1].blocks[0]
    assert (result.status, block.content[0].text, block.is_error) == ("completed", told, error)
    assert left == ["D-42"], "a tool is not called again"


async def test_policies_see_a_result_in_order_as_replaced_so_far() -> None:
    seen: list[AfterTool] = []
    one = ruled("after_tool", lambda s: Replace(s.result + "+"), name="un")
    two = ruled("after_tool", lambda s: seen.append(s) or CONTINUE, name="deux")
    wrong = {"tool_calls": [{"name": "lire", "arguments": {"numero": "D-0"}}]}
    async with opened(ScriptedModel(CALL, wrong, "fini"), one, two) as loom:
        await loom.run("a", "Bonjour")
    assert [(s.tool, s.arguments, s.is_error) for s in seen] == [
        ("lire", {"numero": "D-42"}, False),
        ("lire", {"numero": "D-0"}, True),
    ]
    assert [s.result for s in seen] == ["D-42 : 1 840 €+", "devis inconnu+"]


async def test_an_answer_is_replaced_and_the_conversation_keeps_what_left() -> None:
    model = ScriptedModel("Votre code est 1234.", "fini")
    rule = ruled("on_output", lambda s: Replace(s.text.replace("1234", "****")))
    async with opened(model, rule) as loom:
        items = [item async for item in loom.stream("a", "Bonjour", session="s")]
        result = await loom.run("a", "Ensuite ?", session="s")
        assert result.status == "completed"
    shown = "".join(item.text for item in items if isinstance(item, TextDelta))
    assert shown == "Votre code est ****."
    assert [m.text for m in model.requests[1].messages] == [
        "Bonjour",
        "Votre code est ****.",
        "Ensuite ?",
    ]


async def test_an_answer_is_repaired_once_then_fails() -> None:
    model = ScriptedModel("non", "toujours non", "oui")
    rule = ruled("on_output", lambda s: Repair("dis oui") if s.text != "oui" else CONTINUE)
    async with opened(model, rule) as loom:
        result = await loom.run("a", "Bonjour")
    assert (result.status, result.error_code, len(model.requests)) == (
        "failed",
        "answer_refused",
        2,
    )


async def test_what_a_policy_makes_of_an_answer_must_still_have_its_form() -> None:
    seen: list[object] = []

    def decide(subject: OnOutput):
        seen.append(subject.data)
        return Replace("pas du JSON")

    output = {"schema": {"type": "object"}, "repair": {"max_attempts": 0}}
    async with opened(ScriptedModel('{"a": 1}'), ruled("on_output", decide), output=output) as loom:
        result = await loom.run("a", "Bonjour")
    assert seen == [{"a": 1}]
    assert (result.status, result.data) == ("failed", None)


@pytest.mark.parametrize(
    ("point", "status", "told"),
    [
        ("before_model", "failed", None),
        ("after_model", "failed", None),
        ("before_tool", "completed", "Refusé par une règle. Motif : la règle regle"),
        ("after_tool", "completed", "Résultat écarté par une règle. Motif : la règle regle"),
        ("on_output", "failed", None),
    ],
)
@pytest.mark.parametrize("on_error", ["block", "allow"])
async def test_a_broken_policy_blocks_unless_told_otherwise(
    point: str, status: str, told: str | None, on_error: str
) -> None:
    def broken(_subject: object):
        raise OSError

    model = ScriptedModel(CALL, "fini")
    async with opened(model, ruled(point, broken, on_error=on_error)) as loom:
        result = await loom.run("a", "Bonjour")
    if on_error == "allow":
        assert (result.status, left) == ("completed", ["D-42"])
        return
    assert result.status == status
    if told is None:
        assert (result.error_code, result.resumable) == ("policy_ended", True)
    else:
        assert told in model.requests[1].messages[-1].blocks[0].content[0].text


async def test_a_tool_must_be_used_before_the_answer() -> None:
    model = ScriptedModel("Environ 2 000 €.", CALL, "1 840 €.")
    policies = [{"hook": "loom.require_tool", "params": {"tools": ["lire"]}}]
    async with opened(model, policies=policies) as loom:
        result = await loom.run("a", "Combien ?")
        assert await guards(loom, result.run_id) == [("loom.require_tool", "after_model", "repair")]
    assert (result.text, result.iterations, left) == ("1 840 €.", 3, ["D-42"])
    assert "appelle d'abord un de ces outils : lire" in model.requests[1].messages[-1].text


async def test_a_last_answer_needs_no_tool() -> None:
    model = ScriptedModel("non", "non", "Tant pis.")
    policies = [{"hook": "loom.require_tool"}]
    async with opened(model, policies=policies, max_iterations=2) as loom:
        result = await loom.run("a", "Combien ?")
    assert (result.status, result.text) == ("completed", "Tant pis.")
    assert [r.final for r in model.requests] == [False, False, True]


async def test_one_policy_may_be_plugged_twice_with_other_parameters() -> None:
    @policy(points=["on_output"], decisions=["replace"])
    async def suffixe(subject, context):
        return Replace(subject.text + context.params["mot"])

    policies = [{"hook": "suffixe", "params": {"mot": mot}} for mot in ("+un", "+deux")]
    loom = opened(ScriptedModel("x"), policies=policies)
    loom.register("suffixe", suffixe)
    async with loom:
        assert (await loom.run("a", "Bonjour")).text == "x+un+deux"


async def test_a_synchronous_policy_runs_off_the_loop() -> None:
    import threading

    seen: list[str] = []

    @policy(points=["before_model", "on_output"], decisions=["fail"])
    def ou(_subject, _context):
        seen.append(threading.current_thread().name)
        return CONTINUE

    async with opened(ScriptedModel("x"), ou) as loom:
        await loom.run("a", "Bonjour")
    assert len(seen) == 2
    assert "MainThread" not in seen


@pytest.mark.parametrize(
    ("contract", "told", "error"),
    [
        ({"must_match": "€"}, "D-42 : 1 840 €", False),
        (
            {"max_chars": 5},
            f"{MISFORMED} : 14 caractères ; au plus 5",
            True,
        ),
    ],
)
async def test_a_tool_is_held_to_its_contract_and_never_called_again(
    contract: object, told: str, *, error: bool
) -> None:
    model = ScriptedModel(CALL, "fini")
    tools = [{"python": "lire", "output": contract}]
    async with opened(model, tools=tools) as loom:
        await loom.run("a", "Bonjour")
    block = model.requests[1].messages[-1].blocks[0]
    assert (block.content[0].text, block.is_error, left) == (told, error, ["D-42"])
