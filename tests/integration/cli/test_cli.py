"""The command line, as real processes: what is typed, what comes out, where, with which code."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
QUESTION = "Quel prix TTC pour un devis de 1 250 € HT en rénovation (TVA à 10 %) ?"
ANSWER = "Pour 1 250 € HT avec une TVA à 10 %, votre client paiera 1 375 € TTC."

MAILER = """
import os
import time

from loom_ia.tools import tool


@tool(side_effects="irreversible", approval="always")
def envoyer_email(destinataire: str) -> str:
    \"\"\"Envoie un e-mail au client.\"\"\"
    with open("envois.txt", "a", encoding="utf-8") as sent:
        sent.write(destinataire + "\\n")
    return "envoyé"


@tool(side_effects="none")
def attendre() -> str:
    \"\"\"Attend longtemps.\"\"\"
    open("parti", "w").close()
    while not os.path.exists("assez"):
        time.sleep(0.01)
    return "fini"
"""

LOOM = """
version: 1
imports: [outils]
models:
  - id: MAIL
    sdk: fake
    model: fake-1
    params:
      script:
        - tool_calls: [{name: envoyer_email, arguments: {destinataire: martin}}]
        - text: C'est réglé.
  - id: LENT
    sdk: fake
    model: fake-1
    params:
      script:
        - tool_calls: [{name: attendre, arguments: {}}]
        - text: Enfin.
  - id: PANNE
    sdk: fake
    model: fake-1
    params: {script: [{error: en panne}]}
storage:
  events: {backend: jsonl, path: data}
"""


def loom(folder: Path, *words: str, lang: str = "fr", **variables: str):
    """Run `loom`; its code and both outputs."""
    environ = {**os.environ, "LOOM_LANG": lang, **variables}
    return subprocess.run(
        [sys.executable, "-m", "loom_ia.access.cli.main", *words],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def run_id(done: subprocess.CompletedProcess[str]) -> str:
    return next(line for line in done.stderr.splitlines() if line.startswith("Run")).split()[-1]


@pytest.fixture
def tutorial(tmp_path: Path) -> Path:
    """The project of the tutorial, without data."""
    shutil.copytree(
        ROOT / "examples/j1/mon-agent",
        tmp_path / "mon-agent",
        ignore=shutil.ignore_patterns("data", "__pycache__"),
    )
    return tmp_path / "mon-agent"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Agents that send, wait and fail."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "outils.py").write_text(MAILER, encoding="utf-8")
    (tmp_path / "loom.yaml").write_text(LOOM, encoding="utf-8")
    for name, model, tool in (
        ("relance", "MAIL", "envoyer_email"),
        ("lent", "LENT", "attendre"),
        ("panne", "PANNE", None),
    ):
        tools = f"tools: [{{python: {tool}}}]\n" if tool else ""
        text = f"name: {name}\nmain: {{model: {model}}}\n{tools}"
        (tmp_path / "agents" / f"{name}.yaml").write_text(text, encoding="utf-8")
    return tmp_path


def test_the_tutorial_prints_what_it_promises(tutorial: Path) -> None:
    checked = loom(tutorial, "validate")
    lines = checked.stdout.splitlines()
    assert lines[:5] == [
        "Config     : loom.yaml",
        "Profil     : aucun (ni --profile, ni LOOM_PROFILE, ni 'profile:') ; surcharges : aucune",
        "Modèles    : SIMULE",
        "Agents     : devis",
        "Outils     : prix_ttc",
    ]
    assert lines[-3:] == [
        "  devis : modèle SIMULE, 1 outil(s) Python",
        "",
        "1 agent(s) monté(s) sans erreur.",
    ]
    done = loom(tutorial, "run", "devis", QUESTION)
    status, run = done.stderr.splitlines()
    assert status.startswith("Statut     : completed · itérations : 2 · tokens : ")
    assert status.endswith(" · coût : 0.0000 $")
    assert run.startswith("Run        : ")
    assert done.stdout == ANSWER + "\n"
    seen = loom(tutorial, "inspect", run_id(done)).stdout.splitlines()
    assert seen[0].startswith("run devis — completed, ")
    assert seen[0].endswith(" ms, 0.000000 $")
    assert seen[1] == "  étape 1"
    assert seen[2].startswith("    modèle fake-1 (main) — ")
    assert seen[2].endswith(" tokens, 0.000000 $")
    assert seen[3:5] == [
        "      · répond    : Je calcule le prix TTC.",
        '      · appelle   : prix_ttc({"montant_ht": 1250, "taux_tva": 10})',
    ]
    assert seen[5] == "  étape 2"
    assert seen[6].startswith("    outil prix_ttc — ")
    assert seen[7:9] == [
        '      · arguments : {"montant_ht": 1250, "taux_tva": 10}',
        '      · résultat  : {"montant_ht": 1250.0, "tva": 125.0, "montant_ttc": 1375.0}',
    ]
    assert seen[9] == "  étape 3"
    assert seen[11] == f"      · répond    : {ANSWER}"
    assert len(seen) == 12


def test_the_tutorial_speaks_english_too(tutorial: Path) -> None:
    checked = loom(tutorial, "validate", lang="en").stdout.splitlines()
    assert "Models     : SIMULE" in checked
    assert checked[-1] == "1 agent(s) mounted without error."
    done = loom(tutorial, "run", "devis", QUESTION, lang="en")
    assert done.stderr.startswith("Status     : completed · iterations: 2 · tokens: ")
    seen = loom(tutorial, "inspect", run_id(done), lang="en").stdout.splitlines()
    assert seen[1] == "  step 1"


def test_the_schema_describes_the_tutorial(tutorial: Path) -> None:
    schema = json.loads(loom(tutorial, "schema").stdout)
    assert {"models", "storage", "imports", "agents_dir"} <= set(schema["properties"])
    events = json.loads(loom(tutorial, "schema", "--events").stdout)
    assert "run.started" in json.dumps(events)


def test_streaming_prints_the_answer_once_and_the_calls_apart(tutorial: Path) -> None:
    done = loom(tutorial, "run", "devis", QUESTION, "--stream")
    assert done.stdout == f"Je calcule le prix TTC.\n{ANSWER}\n"
    assert '[outil] prix_ttc({"montant_ht": 1250, "taux_tva": 10})' in done.stderr


def test_json_is_alone_on_standard_output(tutorial: Path) -> None:
    done = loom(tutorial, "run", "devis", QUESTION, "--json", "--session", "durand")
    result = json.loads(done.stdout)
    assert (result["status"], result["session_id"], result["text"]) == (
        "completed",
        "durand",
        ANSWER,
    )
    assert done.stderr == ""
    tree = json.loads(loom(tutorial, "inspect", result["run_id"], "--json").stdout)
    assert [step["number"] for step in tree["steps"]] == [1, 2, 3]


def test_a_paused_run_gives_the_command_that_decides_it(project: Path) -> None:
    paused = loom(project, "run", "relance", "Relance Mme Martin")
    assert paused.returncode == 3
    line = paused.stderr.splitlines()[-1]
    assert line == (
        f"En attente : envoyer_email (fake_0_0) — loom approve {run_id(paused)} --call fake_0_0"
    )
    typed = line.split("— loom ")[1].split()
    done = loom(project, *typed)
    assert (done.returncode, done.stdout) == (0, "C'est réglé.\n")
    assert (project / "envois.txt").read_text() == "martin\n"
    again = loom(project, *typed)
    assert again.returncode == 0
    assert (project / "envois.txt").read_text() == "martin\n"


def test_the_command_that_decides_names_another_configuration(project: Path) -> None:
    paused = loom(project.parent, "--config", str(project / "loom.yaml"), "run", "relance", "Va")
    assert f"— loom --config {project / 'loom.yaml'} approve" in paused.stderr


def test_corrected_arguments_come_from_the_command_or_a_file(project: Path) -> None:
    first, second = (run_id(loom(project, "run", "relance", "Va")) for _ in range(2))
    given = loom(project, "approve", first, "--arguments", '{"destinataire": "durand"}')
    assert given.returncode == 0
    (project / "corrigé.json").write_text('{"destinataire": "petit"}')
    assert loom(project, "approve", second, "--arguments", "@corrigé.json").returncode == 0
    assert (project / "envois.txt").read_text() == "durand\npetit\n"


@pytest.mark.parametrize("wrong", ["{", "[1]", '{"autre": 1}', "@absent.json"])
def test_unusable_corrections_decide_nothing(project: Path, wrong: str) -> None:
    run = run_id(loom(project, "run", "relance", "Va"))
    refused = loom(project, "approve", run, "--arguments", wrong)
    assert refused.returncode == 2
    assert refused.stderr.startswith("Erreur : ")
    assert loom(project, "resume", run).returncode == 3


def test_a_rejection_is_told_to_the_model(project: Path) -> None:
    run = run_id(loom(project, "run", "relance", "Va"))
    done = loom(project, "reject", run, "--reason", "trop tôt")
    assert done.returncode == 0
    assert not (project / "envois.txt").exists()
    assert "trop tôt" in loom(project, "inspect", run).stdout


def test_a_failed_run_exits_with_one_and_says_why(project: Path) -> None:
    done = loom(project, "run", "panne", "Bonjour")
    assert done.returncode == 1
    assert "Erreur     : modèle PANNE : en panne" in done.stderr
    assert f"Reprise    : loom resume {run_id(done)}" in done.stderr


def test_a_killed_run_is_resumed_by_another_process(project: Path) -> None:
    environ = {**os.environ, "LOOM_LANG": "fr"}
    words = [sys.executable, "-m", "loom_ia.access.cli.main", "run", "lent", "Attends"]
    process = subprocess.Popen(words, cwd=project, env=environ, stderr=subprocess.DEVNULL)
    until((project / "parti").exists)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (project / "assez").touch()
    journal = next((project / "data" / "default").glob("*.jsonl"))
    done = loom(project, "resume", journal.stem)
    assert (done.returncode, done.stdout) == (0, "Enfin.\n")


def test_an_interrupted_run_says_how_to_go_on(project: Path) -> None:
    environ = {**os.environ, "LOOM_LANG": "fr"}
    words = [sys.executable, "-m", "loom_ia.access.cli.main", "run", "lent", "Attends"]
    process = subprocess.Popen(
        words, cwd=project, env=environ, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    until((project / "parti").exists)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "loom resume" in told
    assert "Traceback" not in told


def until(ready) -> None:
    """Wait for another process."""
    end = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: a\nmain: {model: ABSENT}\n", "agents/a.yaml:2:"),
        ("name: a\nmain: {model: MAIL}\ntools: [{python: absent}]\n", "absent"),
        ("name: a\nmain: {model: MAIL}\nname: b\n", "agents/a.yaml:3:1"),
        ("name: a\nmain: {model: MAIL}\ninconnu: 1\n", "agents/a.yaml:3:1"),
        ("name: a\n\tmain: 1\n", "agents/a.yaml:2:"),
        ("name: &x a\nmain: {model: MAIL}\n", "agents/a.yaml:1:"),
        ("name: a\nmain: {model: MAIL}\nmax_iterations: no\n", "agents/a.yaml:3:"),
        ("name: a\nmain: {model: MAIL, system: 'Bonjour {{ inconnue }}'}\n", "inconnue"),
    ],
)
def test_a_wrong_agent_is_refused_with_its_place(project: Path, text: str, told: str) -> None:
    (project / "agents" / "a.yaml").write_text(text, encoding="utf-8")
    refused = loom(project, "validate")
    assert refused.returncode == 2
    assert refused.stderr.startswith("Configuration : ")
    assert told in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_unknown_backend_is_named_with_its_place(project: Path) -> None:
    text = LOOM.replace("{backend: jsonl, path: data}", "{backend: inexistant}")
    (project / "loom.yaml").write_text(text, encoding="utf-8")
    refused = loom(project, "validate")
    assert refused.returncode == 2
    assert "loom.yaml" in refused.stderr
    assert "inexistant" in refused.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("run", "inconnu", "Bonjour"),
        ("inspect", "inconnu"),
        ("resume", "../x"),
        ("approve", "a/b"),
        ("run", "relance", "x", "--session", "x" * 300),
        ("--config", "absent.yaml", "validate"),
        ("--profile", "autre", "validate"),
        ("run",),
        ("bidule",),
        (),
        ("sessions", "repair", "absente", "trop"),
    ],
)
def test_bad_input_is_one_sentence_and_code_two(project: Path, words: tuple[str, ...]) -> None:
    refused = loom(project, *words)
    assert refused.returncode == 2
    assert refused.stderr.strip()
    assert "Traceback" not in refused.stderr


def test_a_damaged_line_is_named_then_set_aside(project: Path) -> None:
    paused = loom(project, "run", "relance", "Va", "--session", "martin")
    journal = project / "data" / "default" / "martin.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[3] = b"\0" * 300 + b"\n"
    journal.write_bytes(b"".join(lines))
    refused = loom(project, "resume", run_id(paused))
    assert refused.returncode == 1
    assert "martin.jsonl:4" in refused.stderr
    assert "loom sessions repair martin" in refused.stderr
    repaired = loom(project, "sessions", "repair", "martin")
    assert (repaired.returncode, repaired.stdout) == (0, "La ligne 4 a été mise de côté.\n")
    assert loom(project, "sessions", "repair", "martin").returncode == 0
    assert "Traceback" not in loom(project, "resume", run_id(paused)).stderr


def test_an_undeclared_tool_is_an_error_in_production(tutorial: Path) -> None:
    refused = loom(tutorial, "--profile", "prod", "validate")
    assert refused.returncode == 2
    assert "prix_ttc" in refused.stderr


def test_logs_follow_the_configuration_and_hold_no_content(tutorial: Path) -> None:
    path = tutorial / "loom.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("WARNING", "INFO"), encoding="utf-8")
    told = loom(tutorial, "run", "devis", QUESTION).stderr
    assert "model SIMULE answered" in told
    assert "tool prix_ttc: ok" in told
    assert "1250" not in told


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys\nfrom loom_ia.access.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('pydantic', 'asyncio', 'yaml', 'jsonschema') if m in sys.modules])"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, encoding="utf-8", check=True
    )
    assert told.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("variables", "word"),
    [
        ({"LOOM_LANG": "", "LC_ALL": "", "LANG": "C.UTF-8"}, "commandes :"),
        ({"LOOM_LANG": "", "LC_ALL": "en_US.UTF-8"}, "commands:"),
        ({"LOOM_LANG": "en", "LC_ALL": "fr_FR.UTF-8"}, "commands:"),
    ],
)
def test_the_language_is_the_readers(tmp_path: Path, variables: dict[str, str], word: str) -> None:
    assert word in loom(tmp_path, "--help", **variables).stdout


def test_the_demonstration_answers_87() -> None:
    done = loom(
        ROOT, "--config", "examples/j1/demo/loom.yaml", "run", "demo", "Combien font 12 × 7 + 3 ?"
    )
    assert done.stdout == "12 fois 7, plus 3, font 87.\n"
