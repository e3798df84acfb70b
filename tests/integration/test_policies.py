"""Policies of a project, from its files to what the model is told."""

import asyncio
from pathlib import Path

import pytest

from loom_ia.access import Loom
from loom_ia.policies.decorator import PolicyDeclarationError

ROOT = """\
version: 1
imports: [outils, politiques]
models:
  - id: M
    sdk: fake
    model: fake-1
    params:
      script:
        - tool_calls: [{name: prix_ttc, arguments: {montant_ht: 100, taux_tva: 19}}]
        - tool_calls: [{name: prix_ttc, arguments: {montant_ht: 100, taux_tva: 20}}]
        - text: fini
storage:
  events: {backend: jsonl, path: data}
"""
AGENT = """\
name: devis
main: {model: M}
tools: [{python: prix_ttc}]
policies:
  - hook: taux_de_tva
    params: {taux: [20, 10, 5.5, 2.1]}
"""
TOOLS = """\
from loom_ia.tools import tool

@tool(side_effects="none")
def prix_ttc(montant_ht: float, taux_tva: float = 20.0) -> float:
    \"\"\"Calcule un prix.\"\"\"
    return montant_ht * (1 + taux_tva / 100)
"""
POLICIES = """\
from loom_ia.policies import CONTINUE, BeforeTool, Decision, Deny, PolicyContext, policy

@policy(points=["before_tool"], decisions=["deny"])
def taux_de_tva(subject: BeforeTool, context: PolicyContext) -> Decision:
    if subject.spec.name != "prix_ttc":
        return CONTINUE
    autorises = context.params.get("taux", [20, 10, 5.5, 2.1])
    taux = subject.arguments.get("taux_tva", 20)
    if isinstance(autorises, list) and taux not in autorises:
        return Deny(f"taux de TVA {taux} % inconnu ; taux possibles : {autorises}")
    return CONTINUE
"""


def project(folder: Path, **changes: str) -> str:
    files = {
        "loom.yaml": ROOT,
        "agents/devis.yaml": AGENT,
        "outils.py": TOOLS,
        "politiques.py": POLICIES,
    }
    for name, text in {**files, **changes}.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return str(folder / "loom.yaml")


async def test_the_policy_of_the_manual_refuses_and_the_model_corrects_itself(
    tmp_path: Path,
) -> None:
    loom = await asyncio.to_thread(Loom.from_config, await asyncio.to_thread(project, tmp_path))
    async with loom:
        result = await loom.run("devis", "Combien ?")
        events = await loom.events(result.run_id)
    assert (result.status, result.iterations) == ("completed", 3)
    [checked] = [e for e in events if e.type == "guard.checked"]
    assert checked.status == "refused"
    written = checked.model_dump(mode="json")["payload"]
    assert (written["check"], written["decision"]) == ("taux_de_tva", "deny")
    assert written["diagnosis"].startswith("taux de TVA 19")
    assert [e.type for e in events].count("tool.called") == 1


async def test_what_is_not_a_policy_is_refused_when_it_is_mounted(tmp_path: Path) -> None:
    changed = {"agents/devis.yaml": AGENT.replace("taux_de_tva", "prix_ttc")}
    loom = await asyncio.to_thread(
        Loom.from_config, await asyncio.to_thread(lambda: project(tmp_path, **changed))
    )
    with pytest.raises(PolicyDeclarationError, match="this is not a policy"):
        async with loom:
            pass
