"""The form of an answer: checked, repaired by its author, and what becomes of a wrong one."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from loom_ia.access import Loom
from loom_ia.config import ConfigError, LoomConfig
from loom_ia.core.events import AnswerRefused, Event, GuardChecked
from loom_ia.core.model import Discard, TextDelta
from loom_ia.testing import ScriptedModel
from loom_ia.tools import tool

MAIL = {
    "type": "object",
    "properties": {"objet": {"type": "string", "minLength": 5}},
    "required": ["objet"],
}
GOOD, SHORT = '{"objet": "Votre devis"}', '{"objet": "Non"}'


def opened(
    model: ScriptedModel, given: Mapping[str, object] | None = None, **agent: object
) -> Loom:
    """An agent `a` on a model, with what is said of it."""
    values = {
        "version": 1,
        "models": [{"id": "M", "sdk": "fake", "model": "fake-1"}],
        "agents": [{"name": "a", "main": {"model": "M"}, **agent}],
    }
    loom = Loom(LoomConfig.model_validate_json(json.dumps(values)))
    for name, value in {"M": model, **(given or {})}.items():
        loom.register(name, value)
    return loom


async def test_a_wrong_answer_is_corrected_in_the_conversation_of_its_author() -> None:
    model = ScriptedModel("Je ne sais pas", f"```json\n{GOOD}\n```")
    async with opened(model, output={"schema": MAIL}) as loom:
        result = await loom.run("a", "Rédige")
        events = await loom.events(result.run_id)
    assert (result.status, result.text, result.data) == ("completed", GOOD, json.loads(GOOD))
    assert (result.verified, result.iterations) == (True, 2)
    first, second = model.requests
    assert [m.role for m in second.messages] == ["user", "assistant", "user"]
    assert second.messages[1].text == "Je ne sais pas"
    assert "aucun JSON dans la réponse" in second.messages[2].text
    assert result.usage.output > 0
    assert result.usage.input > len(first.messages)
    kinds = [e.payload for e in events if isinstance(e.payload, GuardChecked | AnswerRefused)]
    assert [type(k).__name__ for k in kinds] == ["GuardChecked", "AnswerRefused", "GuardChecked"]
    assert [e.status for e in events if e.type == "guard.checked"] == ["refused", "ok"]


async def test_refused_attempts_stay_out_of_the_conversation_that_goes_on() -> None:
    seen = []
    model = ScriptedModel(SHORT, f"Donc : {GOOD}")
    other = {"name": "b", "main": {"model": "N"}}
    values = {
        "version": 1,
        "models": [{"id": n, "sdk": "fake", "model": "fake-1"} for n in ("M", "N")],
        "agents": [{"name": "a", "main": {"model": "M"}, "output": {"schema": MAIL}}, other],
    }
    loom = Loom(LoomConfig.model_validate_json(json.dumps(values)))
    loom.register("M", model)
    loom.register("N", ScriptedModel(lambda r: seen.append(r) or "fini"))
    async with loom:
        await loom.run("a", "Rédige", session="s")
        await loom.run("b", "Et ensuite ?", session="s")
    told = [(m.role, m.text) for m in seen[0].messages]
    assert told == [("user", "Rédige"), ("assistant", GOOD), ("user", "Et ensuite ?")]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({}, ("failed", "", True)),
        ({"on_failure": "unverified"}, ("completed", SHORT, False)),
        (
            {"on_failure": "fallback"},
            ("completed", "Je n'ai pas pu terminer cette demande.", False),
        ),
        (
            {"on_failure": "fallback", "fallback": "Rappelez-nous."},
            ("completed", "Rappelez-nous.", False),
        ),
    ],
)
async def test_an_answer_that_stays_wrong_ends_as_the_contract_says(
    output: Mapping[str, object], expected: tuple[str, str, bool]
) -> None:
    async with opened(ScriptedModel(SHORT, SHORT), output={"schema": MAIL, **output}) as loom:
        result = await loom.run("a", "Rédige")
    assert (result.status, result.text, result.verified) == expected
    assert result.data is None
    if result.status == "failed":
        assert result.error_code == "answer_refused"
        assert "objet : au moins 5 caractères ; reçu 3" in str(result.error)


@pytest.mark.parametrize(("attempts", "calls"), [(0, 1), (3, 4)])
async def test_the_author_corrects_as_often_as_the_contract_allows(
    attempts: int, calls: int
) -> None:
    model = ScriptedModel(*[SHORT] * 5)
    output = {"schema": MAIL, "repair": {"max_attempts": attempts}}
    async with opened(model, output=output) as loom:
        assert (await loom.run("a", "Rédige")).status == "failed"
    assert len(model.requests) == calls


async def test_a_last_answer_is_not_repaired() -> None:
    model = ScriptedModel(SHORT, SHORT, GOOD)
    output = {"schema": MAIL, "repair": {"max_attempts": 5}}
    async with opened(model, max_iterations=1, output=output) as loom:
        result = await loom.run("a", "Rédige")
    assert [request.final for request in model.requests] == [False, True]
    assert (result.status, result.error_code) == ("failed", "answer_refused")


ROOT = """\
version: 1
models: [{id: M, sdk: fake, model: fake-1}]
"""


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (
            "schema: {type: objet}",
            "agents/a.yaml:3:25: output.schema.type: this is not a JSON Schema",
        ),
        ("schema_file: absent.json", "agents/a.yaml:3:23: output.schema_file: file"),
        ("schema_file: casse.json", "casse.json:2:1: not valid YAML"),
        ("schema_file: faux.json", "faux.json:1:10: type: this is not a JSON Schema"),
        (
            "must_match: '('",
            "agents/a.yaml:3:22: output.must_match: '(' is not a regular expression",
        ),
        ("must_not_match: '['", "output.must_not_match: '[' is not a regular expression"),
        ("max_chars: 0", "agents/a.yaml:3:21: output.max_chars: 0 is too small; give at least 1"),
        ("fallback: Non, max_chars: 3", "output.fallback: 'fallback' is only said with"),
        ("on_failure: maybe", "output.on_failure: 'maybe' is not accepted"),
        ("repair: {max_attempts: -1}", "output.repair.max_attempts: -1 is too small"),
        ("must_macth: a", "output.must_macth: unknown key; did you mean 'must_match'?"),
        ("schem: {}", "output.schem: unknown key; did you mean 'schema'?"),
        ("on_failure: fail", "agents/a.yaml:3:9: output: this contract asks for nothing"),
        ("schema: {}, schema_file: faux.json", "both 'schema' and 'schema_file' are given"),
    ],
)
def test_each_wrong_key_of_a_contract_is_told_where_it_stands(
    tmp_path: Path, output: str, expected: str
) -> None:
    (tmp_path / "loom.yaml").write_text(ROOT, encoding="utf-8")
    (tmp_path / "agents").mkdir()
    agent = f"name: a\nmain: {{model: M}}\noutput: {{{output}}}\n"
    (tmp_path / "agents/a.yaml").write_text(agent, encoding="utf-8")
    (tmp_path / "casse.json").write_text("{", encoding="utf-8")
    (tmp_path / "faux.json").write_text('{"type": "objet"}', encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        Loom.from_config(tmp_path / "loom.yaml")
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("output", "turns", "shown"),
    [
        (None, [SHORT], SHORT),
        ({"schema": MAIL}, [SHORT, GOOD], GOOD),
        ({"schema": MAIL}, ["Rien", f"Donc {GOOD}"], GOOD),
        ({"schema": MAIL}, [SHORT, SHORT], ""),
        ({"schema": MAIL, "on_failure": "unverified"}, [SHORT, SHORT], SHORT),
        ({"max_chars": 3, "on_failure": "fallback", "fallback": "Non."}, ["long", "long"], "Non."),
    ],
)
async def test_only_what_is_accepted_is_streamed(
    output: object, turns: list[str], shown: str
) -> None:
    async with opened(ScriptedModel(*turns, by_word=True), output=output) as loom:
        items = [item async for item in loom.stream("a", "Rédige")]
    assert "".join(item.text for item in items if isinstance(item, TextDelta)) == shown
    assert not any(isinstance(item, Discard) for item in items)


async def test_what_a_model_says_while_it_calls_a_tool_is_shown_before_the_tool_runs() -> None:
    seen: list[str] = []

    @tool(side_effects="none")
    def lire() -> str:
        """Lit."""
        return "lu"

    calling = {"text": "Je lis.", "tool_calls": [{"name": "lire"}]}
    output = {"schema": MAIL}
    async with opened(
        ScriptedModel(calling, GOOD),
        output=output,
        tools=[{"python": "lire"}],
        given={"lire": lire},
    ) as loom:
        async for item in loom.stream("a", "Rédige"):
            if isinstance(item, TextDelta):
                seen.append(item.text)
            elif isinstance(item, Event) and item.type == "tool.called":
                seen.append("[lire]")
    assert seen == ["Je lis.", "[lire]", GOOD]


async def test_a_schema_may_stand_in_a_file(tmp_path: Path) -> None:
    def written() -> str:
        (tmp_path / "mail.json").write_text(json.dumps(MAIL), encoding="utf-8")
        (tmp_path / "agents").mkdir()
        agent = "name: a\nmain: {model: M}\noutput: {schema_file: mail.json}\n"
        (tmp_path / "agents/a.yaml").write_text(agent, encoding="utf-8")
        (tmp_path / "loom.yaml").write_text(ROOT, encoding="utf-8")
        return str(tmp_path / "loom.yaml")

    loom = await asyncio.to_thread(lambda: Loom.from_config(written()))
    assert [path.name for path in loom.loaded.files] == ["loom.yaml", "a.yaml", "mail.json"]
    loom.register("M", ScriptedModel(GOOD))
    async with loom:
        assert (await loom.run("a", "Rédige")).data == {"objet": "Votre devis"}
