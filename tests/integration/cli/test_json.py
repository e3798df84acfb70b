"""`--json`: one document, or one a line, alone on standard output; errors too."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

LOUD = """
import atexit
import os
import subprocess
import sys

from loom_ia.tools import tool

os.write(1, b"bruit brut a l'import\\n")
print("bruit a l'import", file=sys.__stdout__)
atexit.register(lambda: print("bruit a la fin"))


@tool(side_effects="none")
def prix_ttc(montant_ht: float, taux_tva: float = 20.0) -> str:
    \"\"\"Parle par tous les moyens.\"\"\"
    print("bruit")
    print("bruit garde", file=sys.__stdout__)
    os.write(1, b"bruit brut\\n")
    subprocess.run(["echo", "bruit d'un enfant"], check=True)
    return "1 375"
"""

COMMANDS = [
    ("init",),
    ("validate",),
    ("run",),
    ("resume",),
    ("approve",),
    ("reject",),
    ("inspect",),
    ("report",),
    ("sessions", "list"),
    ("sessions", "show"),
    ("sessions", "export"),
    ("sessions", "delete"),
    ("sessions", "repair"),
    ("schema",),
    ("completion",),
]


@pytest.fixture
def loud(tutorial: Path) -> Path:
    (tutorial / "outils.py").write_text(LOUD, encoding="utf-8")
    return tutorial


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_documents_the_option(loom, tmp_path: Path, words: tuple[str, ...]) -> None:
    told = loom(tmp_path, *words, "--help").stdout
    assert "--json" in told.partition("options :")[2]


def test_no_noise_of_a_project_reaches_standard_output(loom, loud: Path) -> None:
    done = loom(loud, "run", "devis", "-", "--session", "s", "--json")
    result = json.loads(done.stdout)
    assert (done.returncode, result["status"]) == (0, "completed")
    told = done.stderr.splitlines()
    for noise in ("bruit", "bruit brut", "bruit garde", "bruit d'un enfant", "bruit a la fin"):
        assert noise in told, noise
    run = result["run_id"]
    for words in (
        ("validate",),
        ("inspect", run),
        ("inspect", run, "--request", "1"),
        ("report", run),
        ("sessions", "list"),
        ("sessions", "show", "s"),
        ("sessions", "export", "s", "--output", "s.jsonl"),
        ("sessions", "repair", "s"),
        ("sessions", "delete", "s", "--yes"),
        ("schema",),
    ):
        done = loom(loud, *words, "--json")
        assert done.returncode == 0, words
        assert json.loads(done.stdout), words


def test_without_the_option_answers_stay_alone_too(loom, loud: Path) -> None:
    done = loom(loud, "run", "devis", "-")
    assert "bruit" not in done.stdout
    assert done.stdout.endswith("paiera 1 375 € TTC.\n")


def test_a_stream_as_json_is_a_line_for_each_thing_then_the_result(loom, loud: Path) -> None:
    done = loom(loud, "run", "devis", "-", "--stream", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    types = [line["type"] for line in lines]
    assert types[-1] == "result"
    assert {"text", "run.started", "tool.called", "run.completed"} <= set(types)
    answer = "".join(line["text"] for line in lines if line["type"] == "text")
    assert answer.endswith(lines[-1]["text"])
    assert {line["run_id"] for line in lines} == {lines[-1]["run_id"]}


def test_an_export_as_json_is_its_lines_and_nothing_else(loom, loud: Path) -> None:
    loom(loud, "run", "devis", "-", "--session", "s")
    plain, coded = (loom(loud, "sessions", "export", "s", *more) for more in ((), ("--json",)))
    assert coded.stdout == plain.stdout
    told = json.loads(loom(loud, "sessions", "export", "s", "--output", "f", "--json").stdout)
    assert told["lines"] == len(plain.stdout.splitlines())
    assert (loud / "f").read_text("utf-8") == plain.stdout


@pytest.mark.parametrize(
    ("words", "exit_code", "code", "kind"),
    [
        (("run", "absent", "x"), 2, "unknown_agent", "missing"),
        (("run", "devis"), 2, "usage", "invalid"),
        (("bidule",), 2, "usage", "invalid"),
        (("validate", "--bidule"), 2, "usage", "invalid"),
        (("inspect", "absent"), 2, "run_not_found", "missing"),
        (("report",), 2, "report_options", "invalid"),
        (("sessions", "delete", "x"), 2, "session_not_found", "missing"),
        (("sessions", "export", "x"), 2, "session_not_found", "missing"),
        (("sessions", "list", "--after", "x"), 2, "invalid_cursor", "invalid"),
        (("init",), 2, "answers_needed", "invalid"),
        (("init", "--yes"), 2, "project_exists", "conflict"),
    ],
)
def test_an_error_is_one_document_with_its_exit_code(
    loom, tutorial: Path, words: tuple[str, ...], exit_code: int, code: str, kind: str
) -> None:
    refused = loom(tutorial, *words, "--json")
    assert refused.returncode == exit_code
    error = json.loads(refused.stdout)["error"]
    assert (error["code"], error["kind"]) == (code, kind)
    assert error["message"].splitlines()[-1] in refused.stderr
    assert loom(tutorial, *words).stdout == ""


def test_the_problems_of_a_configuration_come_with_their_places(loom, project: Path) -> None:
    wrong = "name: a\nmain: {model: ABSENT}\ninconnu: 1\n"
    (project / "agents" / "a.yaml").write_text(wrong, encoding="utf-8")
    refused = loom(project, "validate", "--json")
    assert refused.returncode == 2
    error = json.loads(refused.stdout)["error"]
    assert error["kind"] == "config"
    found = {(issue["path"], issue["line"], issue["key"]) for issue in error["issues"]}
    assert ("agents/a.yaml", 3, "inconnu") in found


def test_an_interrupted_run_names_itself(until, project: Path) -> None:
    words = [sys.executable, "-m", "loom_ia.access.cli.main", "run", "lent", "-", "--json"]
    environ = {**os.environ, "LOOM_LANG": "fr"}
    process = subprocess.Popen(
        words, cwd=project, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    until((project / "parti").exists)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    error = json.loads(out)["error"]
    assert (process.returncode, error["code"]) == (130, "interrupted")
    assert (project / "data" / "default" / f"{error['run_id']}.jsonl").exists()


def test_paused_and_failed_runs_keep_their_codes(loom, project: Path) -> None:
    paused = loom(project, "run", "relance", "-", "--json")
    assert (paused.returncode, json.loads(paused.stdout)["status"]) == (3, "paused")
    failed = loom(project, "run", "panne", "-", "--json", "--stream")
    assert failed.returncode == 1
    assert json.loads(failed.stdout.splitlines()[-1])["status"] == "failed"
    unreadable = loom(project, "approve", "x", "--arguments", "{", "--json")
    assert unreadable.returncode == 2
    assert json.loads(unreadable.stdout)["error"]["code"] == "arguments_unreadable"


def test_a_word_behind_two_dashes_is_no_option(loom, tutorial: Path) -> None:
    refused = loom(tutorial, "sessions", "show", "--", "--json")
    assert (refused.returncode, refused.stdout) == (2, "")
