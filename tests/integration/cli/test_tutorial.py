"""The examples and the steps of the tutorial, typed as a reader types them."""

import json
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
QUESTION = "Quel prix TTC pour un devis de 1 250 € HT en rénovation (TVA à 10 %) ?"
ANSWER = "Pour 1 250 € HT avec une TVA à 10 %, votre client paiera 1 375 € TTC."

VALIDATED = {
    "fr": """\
Config     : loom.yaml
Profil     : aucun (ni --profile, ni LOOM_PROFILE, ni 'profile:') ; surcharges : aucune
Modèles    : SIMULE
Agents     : devis
Outils     : prix_ttc
Stockage   : jsonl (data)

  devis : modèle SIMULE, 1 outil(s) Python

À revoir   : agents/devis.yaml:11:5: tools[0]: l'outil 'prix_ttc' ne déclare pas \
side_effects ; écrire none, reversible ou irreversible

1 agent(s) monté(s) sans erreur.
""",
    "en": """\
Config     : loom.yaml
Profile    : none (no --profile, no LOOM_PROFILE, no 'profile:'); overrides: none
Models     : SIMULE
Agents     : devis
Tools      : prix_ttc
Storage    : jsonl (data)

  devis: model SIMULE, 1 Python tool(s)

To review  : agents/devis.yaml:11:5: tools[0]: tool 'prix_ttc' does not declare \
side_effects; write none, reversible or irreversible

1 agent(s) mounted without error.
""",
}
SUMMARY = {
    "fr": """\
Statut     : completed · itérations : 2 · tokens : #/# · coût : 0.0000 $
Run        : RUN
""",
    "en": """\
Status     : completed · iterations: 2 · tokens: #/# · cost: 0.0000 $
Run        : RUN
""",
}
TREE = {
    "fr": f"""\
run devis — completed, # ms, 0.000000 $
  étape 1
    modèle fake-1 (main) — # ms, # → # tokens, 0.000000 $
      · répond    : Je calcule le prix TTC.
      · appelle   : prix_ttc({{"montant_ht": 1250, "taux_tva": 10}})
  étape 2
    outil prix_ttc — # ms
      · arguments : {{"montant_ht": 1250, "taux_tva": 10}}
      · résultat  : {{"montant_ht": 1250.0, "tva": 125.0, "montant_ttc": 1375.0}}
  étape 3
    modèle fake-1 (main) — # ms, # → # tokens, 0.000000 $
      · répond    : {ANSWER}
""",
    "en": f"""\
run devis — completed, # ms, 0.000000 $
  step 1
    model fake-1 (main) — # ms, # → # tokens, 0.000000 $
      · answers   : Je calcule le prix TTC.
      · calls     : prix_ttc({{"montant_ht": 1250, "taux_tva": 10}})
  step 2
    tool prix_ttc — # ms
      · arguments : {{"montant_ht": 1250, "taux_tva": 10}}
      · result    : {{"montant_ht": 1250.0, "tva": 125.0, "montant_ttc": 1375.0}}
  step 3
    model fake-1 (main) — # ms, # → # tokens, 0.000000 $
      · answers   : {ANSWER}
""",
}


def plain(text: str) -> str:
    """Text without what varies: durations, token counts, ids."""
    text = re.sub(r"\d+(?= ms)|\d+(?= → )|(?<= → )\d+|(?<=: )\d+(?=/)|(?<=#/)\d+", "#", text)
    return re.sub(r"(?<=#/)\d+", "#", re.sub(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-\w{12}", "RUN", text))


@pytest.mark.parametrize("lang", ["fr", "en"])
def test_steps_1_to_6_print_what_the_tutorial_shows(loom, tutorial: Path, lang: str) -> None:
    schema = json.loads(loom(tutorial, "schema", lang=lang).stdout)
    assert {"models", "storage", "imports", "agents_dir"} <= set(schema["properties"])
    checked = loom(tutorial, "validate", lang=lang)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, VALIDATED[lang], "")
    done = loom(tutorial, "run", "devis", QUESTION, lang=lang)
    assert (done.returncode, done.stdout) == (0, f"{ANSWER}\n")
    assert plain(done.stderr) == SUMMARY[lang]
    assert [path.stem for path in (tutorial / "data" / "default").glob("[!.]*.jsonl")] == [
        done.run_id
    ]
    seen = loom(tutorial, "inspect", done.run_id, lang=lang)
    assert (seen.returncode, plain(seen.stdout), seen.stderr) == (0, TREE[lang], "")
    spent = loom(tutorial, "report", done.run_id, lang=lang)
    assert (spent.returncode, spent.stderr) == (0, "")
    assert spent.stdout.splitlines()[4].split()[:3] == ["main", "fake-1", "2"]


def test_step_10_continues_a_conversation(loom, tutorial: Path) -> None:
    first, second = (
        loom(tutorial, "run", "devis", question, "--session", "chantier-durand", "--json")
        for question in ("Quel prix TTC pour 1 250 € HT à 10 % ?", "Et avec une TVA à 20 % ?")
    )
    told = [json.loads(done.stdout) for done in (first, second)]
    assert [result["session_id"] for result in told] == ["chantier-durand"] * 2
    assert told[1]["usage"]["input"] > told[0]["usage"]["input"]
    assert [path.name for path in (tutorial / "data" / "default").glob("[!.]*.jsonl")] == [
        "chantier-durand.jsonl"
    ]


def test_step_10_sends_nothing_before_somebody_decides(loom, tutorial: Path) -> None:
    with (tutorial / "outils.py").open("a", encoding="utf-8") as tools:
        tools.write(
            '\n\n@tool(side_effects="irreversible", approval="always")\n'
            "def envoyer_email(destinataire: str, objet: str, corps: str) -> str:\n"
            '    """Envoie un e-mail au client."""\n'
            "    ...\n"
        )
    path = tutorial / "loom.yaml"
    text = path.read_text(encoding="utf-8")
    before, after = text.split("        - text: Je calcule le prix TTC.")
    _, after = after.split("        - text: Pour 1 250")
    asked = (
        "        - tool_calls: [{name: envoyer_email, arguments: "
        "{destinataire: Martin, objet: Devis, corps: Bonjour}}]\n"
    )
    path.write_text(f"{before}{asked}        - text: Pour 1 250{after}", encoding="utf-8")
    agent = tutorial / "agents" / "devis.yaml"
    agent.write_text(agent.read_text(encoding="utf-8") + "  - python: envoyer_email\n", "utf-8")
    paused = loom(tutorial, "run", "devis", "Relance Martin")
    assert (paused.returncode, paused.stdout) == (3, "")
    assert plain(paused.stderr) == (
        "Statut     : paused · itérations : 1 · tokens : #/# · coût : 0.0000 $\n"
        "Run        : RUN\n"
        "En attente : envoyer_email (fake_0_0) — loom approve RUN --call fake_0_0\n"
    )
    done = loom(tutorial, "approve", paused.run_id)
    assert (done.returncode, done.stdout) == (0, f"{ANSWER}\n")


@pytest.mark.parametrize("lang", ["fr", "en"])
def test_the_demonstration_answers_87(loom, tmp_path: Path, lang: str) -> None:
    shutil.copytree(
        ROOT / "examples/j1/demo", tmp_path / "demo", ignore=shutil.ignore_patterns("data")
    )
    words = ("--config", "demo/loom.yaml", "run", "demo", "Combien font 12 × 7 + 3 ?")
    done = loom(tmp_path, *words, lang=lang)
    assert (done.returncode, done.stdout) == (0, "12 fois 7, plus 3, font 87.\n")
    assert plain(done.stderr) == SUMMARY[lang]
    seen = loom(tmp_path, "--config", "demo/loom.yaml", "inspect", done.run_id)
    assert '      · résultat  : {"resultat": 87}' in seen.stdout


@pytest.mark.parametrize(
    "expression", ["1/0", "9**9", "__import__('os')", "1e308*10", "(" * 5000, "9" * 5000, "a\0"]
)
def test_the_calculator_computes_arithmetic_and_nothing_else(expression: str) -> None:
    from importlib.util import module_from_spec, spec_from_file_location

    from loom_ia.tools import ToolError

    spec = spec_from_file_location("demo_outils", ROOT / "examples/j1/demo/outils.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.calculer("12 × 7 + 3") == {"resultat": 87}
    with pytest.raises(ToolError):
        module.calculer(expression)
