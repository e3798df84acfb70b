"""`loom.grounded` in a run: what the arguments of a tool state comes from somewhere."""

import asyncio
import sys
from pathlib import Path

import pytest

from loom_ia.access import Loom
from loom_ia.config.errors import ConfigError
from loom_ia.config.extras import ExtraMissingError

pytest.importorskip("phonenumbers")
pytest.importorskip("stdnum")

ROOT = """\
version: 1
imports: [outils]
language: {language}
models:
  - id: M
    sdk: fake
    model: fake-1
    params:
      script:
        - tool_calls: [{{name: chercher_devis, arguments: {{numero: D-2026-041}}}}]
        - tool_calls: [{{name: envoyer, arguments: {{a: claire@example.fr, corps: "{first}"}}}}]
        - tool_calls: [{{name: envoyer, arguments: {{a: claire@example.fr, corps: "{then}"}}}}]
        - text: fini
storage:
  events: {{backend: jsonl, path: data}}
agents:
  - name: relance
    main: {{model: M}}
    tools: [{{python: chercher_devis}}, {{python: envoyer}}]
    policies:
      - hook: loom.grounded
        params: {params}
"""
TOOLS = """\
from loom_ia.tools import tool

@tool(side_effects="none")
def chercher_devis(numero: str) -> dict:
    return {"numero": numero, "ttc": 1250.0, "valable": "2027-01-12", "email": "claire@example.fr"}

@tool(side_effects="reversible")
def envoyer(a: str, corps: str) -> str:
    return "ok"
"""
ASKED = "Relance D-2026-041"
INVENTED = "Devis D-2026-041 : 1 350 €, valable jusqu'au 12 janvier 2027, remise 5 %"
FAITHFUL = "Devis D-2026-041 : 1 250,00 €, valable jusqu'au 12 janvier 2027"


async def entered(folder: Path, *, language="fr", params="{}"):
    text = ROOT.format(language=language, first=INVENTED, then=FAITHFUL, params=params)
    await asyncio.to_thread((folder / "loom.yaml").write_text, text, encoding="utf-8")
    await asyncio.to_thread((folder / "outils.py").write_text, TOOLS, encoding="utf-8")
    return await asyncio.to_thread(Loom.from_config, folder / "loom.yaml")


async def told(loom):
    result = await loom.run("relance", ASKED)
    events = await loom.events(result.run_id)
    said = [e.model_dump(mode="json")["payload"] for e in events if e.type == "guard.checked"]
    checked = [one for one in said if one["point"] == "before_tool"]
    return result, [e.type for e in events].count("tool.called"), checked


async def test_an_invented_amount_is_refused_with_where_it_was_looked_for(tmp_path):
    async with await entered(tmp_path) as loom:
        result, called, [refused] = await told(loom)

    assert result.status == "completed"
    assert called == 2  # the search, then the mail once it is faithful
    assert (refused["check"], refused["decision"]) == ("loom.grounded", "deny")
    assert "montant «1 350 €» (au plus près : «1250.0»)" in refused["diagnosis"]
    assert "pourcentage «5 %»" in refused["diagnosis"]
    assert "la demande, le résultat de chercher_devis" in refused["diagnosis"]
    assert "12 janvier" not in refused["diagnosis"]


async def test_the_refusal_follows_the_language_of_the_configuration(tmp_path):
    async with await entered(tmp_path, language="en") as loom:
        _, _, [refused] = await told(loom)
    assert "amount «1 350 €» (closest: «1250.0»)" in refused["diagnosis"]


async def test_declared_values_and_other_tools_are_let_through(tmp_path):
    params = '{values: ["1 350 €", 5 %], tools: [envoyer]}'
    async with await entered(tmp_path, params=params) as loom:
        _, called, checked = await told(loom)
    assert (called, checked) == (3, [])


async def test_only_what_is_asked_is_checked(tmp_path):
    async with await entered(tmp_path, params="{kinds: [percentage]}") as loom:
        _, _, [refused] = await told(loom)
    assert "pourcentage" in refused["diagnosis"]
    assert "montant" not in refused["diagnosis"]


async def test_what_no_source_may_give_is_an_invention(tmp_path):
    async with await entered(tmp_path, params="{sources: [request]}") as loom:
        _, called, checked = await told(loom)
    assert called == 1
    assert len(checked) == 2
    assert "adresse «claire@example.fr»" in checked[0]["diagnosis"]


async def test_a_wrong_parameter_is_told_where_it_is_written(tmp_path):
    loom = await entered(tmp_path, params="{kinds: [prix], source: [request]}")
    with pytest.raises(ConfigError) as caught:
        async with loom:
            pass
    text = str(caught.value)
    assert "loom.yaml:22:26: agents[0].policies[0].params.kinds[0]" in text
    assert "unknown key; did you mean 'sources'?" in text or "clé inconnue" in text


async def test_a_missing_package_names_the_extra_that_brings_it(tmp_path, monkeypatch):
    loom = await entered(tmp_path)
    monkeypatch.setitem(sys.modules, "phonenumbers", None)
    monkeypatch.delitem(sys.modules, "loom_ia.policies.grounded", raising=False)
    from loom_ia.policies.items import libraries

    libraries.cache_clear()
    with pytest.raises(ExtraMissingError, match=r"loom-ia\[grounded\]"):
        async with loom:
            pass
    libraries.cache_clear()


ANSWERS = """\
version: 1
imports: [outils]
models:
  - id: M
    sdk: fake
    model: fake-1
    params:
      script:
        - tool_calls: [{{name: chercher_devis, arguments: {{numero: D-2026-041}}}}]
        - text: "{first}"
        - text: "{then}"
agents:
  - name: relance
    main: {{model: M}}
    tools: [{{python: chercher_devis}}]
    policies:
      - hook: loom.grounded
"""


async def answering(folder, first, then):
    text = ANSWERS.format(first=first, then=then)
    await asyncio.to_thread((folder / "loom.yaml").write_text, text, encoding="utf-8")
    await asyncio.to_thread((folder / "outils.py").write_text, TOOLS, encoding="utf-8")
    return await asyncio.to_thread(Loom.from_config, folder / "loom.yaml")


async def test_an_answer_that_invents_is_corrected_by_its_author(tmp_path):
    async with await answering(tmp_path, INVENTED, FAITHFUL) as loom:
        result = await loom.run("relance", ASKED)
        events = await loom.events(result.run_id)

    assert (result.status, result.text) == ("completed", FAITHFUL)
    told = next(e.payload.message.text for e in events if e.type == "answer.refused")
    assert "montant «1 350 €» (au plus près : «1250.0»), pourcentage «5 %»" in told


async def test_what_the_model_was_told_it_invented_does_not_become_a_source(tmp_path):
    async with await answering(tmp_path, INVENTED, INVENTED) as loom:
        result = await loom.run("relance", ASKED)

    assert result.status == "failed"
    assert "1 350 €" in str(result.error)
