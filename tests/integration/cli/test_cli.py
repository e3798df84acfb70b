"""The command line, as real processes: what is typed, what comes out, where, with which code."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
QUESTION = "Quel prix TTC pour un devis de 1 250 € HT en rénovation (TVA à 10 %) ?"
ANSWER = "Pour 1 250 € HT avec une TVA à 10 %, votre client paiera 1 375 € TTC."


def test_the_schema_describes_the_tutorial(loom, tutorial: Path) -> None:
    schema = json.loads(loom(tutorial, "schema").stdout)
    assert {"models", "storage", "imports", "agents_dir"} <= set(schema["properties"])
    events = json.loads(loom(tutorial, "schema", "--events").stdout)
    assert "run.started" in json.dumps(events)


def test_streaming_prints_the_answer_once_and_the_calls_apart(loom, tutorial: Path) -> None:
    done = loom(tutorial, "run", "devis", QUESTION, "--stream")
    assert done.stdout == f"Je calcule le prix TTC.\n{ANSWER}\n"
    assert '[outil] prix_ttc({"montant_ht": 1250, "taux_tva": 10})' in done.stderr


def test_json_is_alone_on_standard_output(loom, tutorial: Path) -> None:
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


def test_a_paused_run_gives_the_command_that_decides_it(loom, project: Path) -> None:
    paused = loom(project, "run", "relance", "Relance Mme Martin")
    assert paused.returncode == 3
    line = paused.stderr.splitlines()[-1]
    assert line == (
        f"En attente : envoyer_email (fake_0_0) — loom approve {paused.run_id} --call fake_0_0"
    )
    typed = line.split("— loom ")[1].split()
    done = loom(project, *typed)
    assert (done.returncode, done.stdout) == (0, "C'est réglé.\n")
    assert (project / "envois.txt").read_text() == "martin\n"
    again = loom(project, *typed)
    assert again.returncode == 0
    assert (project / "envois.txt").read_text() == "martin\n"


def test_the_command_that_decides_names_another_configuration(loom, project: Path) -> None:
    paused = loom(project.parent, "--config", str(project / "loom.yaml"), "run", "relance", "Va")
    assert f"— loom --config {project / 'loom.yaml'} approve" in paused.stderr


def test_corrected_arguments_come_from_the_command_or_a_file(loom, project: Path) -> None:
    first, second = (loom(project, "run", "relance", "Va").run_id for _ in range(2))
    given = loom(project, "approve", first, "--arguments", '{"destinataire": "durand"}')
    assert given.returncode == 0
    (project / "corrigé.json").write_text('{"destinataire": "petit"}')
    assert loom(project, "approve", second, "--arguments", "@corrigé.json").returncode == 0
    assert (project / "envois.txt").read_text() == "durand\npetit\n"


@pytest.mark.parametrize("wrong", ["{", "[1]", '{"autre": 1}', "@absent.json"])
def test_unusable_corrections_decide_nothing(loom, project: Path, wrong: str) -> None:
    run = loom(project, "run", "relance", "Va").run_id
    refused = loom(project, "approve", run, "--arguments", wrong)
    assert refused.returncode == 2
    assert refused.stderr.startswith("Erreur : ")
    assert loom(project, "resume", run).returncode == 3


def test_a_rejection_is_told_to_the_model(loom, project: Path) -> None:
    run = loom(project, "run", "relance", "Va").run_id
    done = loom(project, "reject", run, "--reason", "trop tôt")
    assert done.returncode == 0
    assert not (project / "envois.txt").exists()
    assert "trop tôt" in loom(project, "inspect", run).stdout


def test_a_failed_run_exits_with_one_and_says_why(loom, project: Path) -> None:
    done = loom(project, "run", "panne", "Bonjour")
    assert done.returncode == 1
    assert "Erreur     : modèle PANNE : en panne" in done.stderr
    assert f"Reprise    : loom resume {done.run_id}" in done.stderr


def test_a_killed_run_is_resumed_by_another_process(until, loom, project: Path) -> None:
    environ = {**os.environ, "LOOM_LANG": "fr"}
    words = [sys.executable, "-m", "loom_ia.access.cli.main", "run", "lent", "Attends"]
    process = subprocess.Popen(words, cwd=project, env=environ, stderr=subprocess.DEVNULL)
    until((project / "parti").exists)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (project / "assez").touch()
    journal = next((project / "data" / "default").glob("[!.]*.jsonl"))
    done = loom(project, "resume", journal.stem)
    assert (done.returncode, done.stdout) == (0, "Enfin.\n")


def test_an_interrupted_run_says_how_to_go_on(until, project: Path) -> None:
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
def test_a_wrong_agent_is_refused_with_its_place(loom, project: Path, text: str, told: str) -> None:
    (project / "agents" / "a.yaml").write_text(text, encoding="utf-8")
    refused = loom(project, "validate")
    assert refused.returncode == 2
    assert refused.stderr.startswith("Configuration : ")
    assert told in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_unknown_backend_is_named_with_its_place(loom, project: Path) -> None:
    path = project / "loom.yaml"
    text = path.read_text(encoding="utf-8").replace("jsonl, path: data", "inexistant")
    path.write_text(text, encoding="utf-8")
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
def test_bad_input_is_one_sentence_and_code_two(
    loom, project: Path, words: tuple[str, ...]
) -> None:
    refused = loom(project, *words)
    assert refused.returncode == 2
    assert refused.stderr.strip()
    assert "Traceback" not in refused.stderr


def test_a_damaged_line_is_named_then_set_aside(loom, project: Path) -> None:
    paused = loom(project, "run", "relance", "Va", "--session", "martin")
    journal = project / "data" / "default" / "martin.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[3] = b"\0" * 300 + b"\n"
    journal.write_bytes(b"".join(lines))
    refused = loom(project, "resume", paused.run_id)
    assert refused.returncode == 1
    assert "martin.jsonl:4" in refused.stderr
    assert "loom sessions repair martin" in refused.stderr
    repaired = loom(project, "sessions", "repair", "martin")
    assert (repaired.returncode, repaired.stdout) == (0, "La ligne 4 a été mise de côté.\n")
    assert loom(project, "sessions", "repair", "martin").returncode == 0
    assert "Traceback" not in loom(project, "resume", paused.run_id).stderr


def test_an_undeclared_tool_is_an_error_in_production(loom, tutorial: Path) -> None:
    refused = loom(tutorial, "--profile", "prod", "validate")
    assert refused.returncode == 2
    assert "prix_ttc" in refused.stderr


def test_logs_follow_the_configuration_and_hold_no_content(loom, tutorial: Path) -> None:
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
def test_the_language_is_the_readers(
    loom, tmp_path: Path, variables: dict[str, str], word: str
) -> None:
    assert word in loom(tmp_path, "--help", **variables).stdout


@pytest.mark.parametrize(
    ("lang", "parts"),
    [
        ("fr", ["paramètres", "prompt système", "outils", "messages"]),
        ("en", ["parameters", "system prompt", "tools", "messages"]),
    ],
)
def test_a_request_is_shown_whole(loom, tutorial: Path, lang: str, parts: list[str]) -> None:
    run = loom(tutorial, "run", "devis", "Combien ?", lang=lang).run_id
    seen = loom(tutorial, "inspect", run, "--request", "2", lang=lang)
    assert (seen.returncode, seen.stderr) == (0, "")
    lines = seen.stdout.splitlines()
    assert [line.strip() for line in lines if re.fullmatch(r"  \w.*", line)] == parts
    assert (
        "    Tu es l'assistant d'un artisan. Tu réponds en français, en une ou deux phrases."
        in (lines)
    )
    assert '      prix_ttc({"montant_ht": 1250, "taux_tva": 10})  [fake_0_0]' in lines
    told = json.loads(loom(tutorial, "inspect", run, "--request", "1", "--json").stdout)
    assert [message["role"] for message in told["messages"]] == ["user"]
    assert told["tools"][0]["name"] == "prix_ttc"
    refused = loom(tutorial, "inspect", run, "--request", "3", lang=lang)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert " 2 " in refused.stderr
    assert loom(tutorial, "inspect", run, "--request", "deux").returncode == 2
