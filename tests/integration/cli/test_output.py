"""Where the command line writes, in which order and characters, and who it says is typing."""

import json
import os
import pwd
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from loom_ia.access.cli import main as door
from loom_ia.access.cli.commands import schema

LOOM = [sys.executable, "-m", "loom_ia.access.cli.main"]
QUESTION = "Quel prix TTC ?"


def shell(folder: Path, line: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of shell where `$LOOM` is the command."""
    environ = {**os.environ, "LOOM_LANG": "fr", "LOOM": " ".join(LOOM), **variables}
    words = ["bash", "-o", "pipefail", "-c", line]
    return subprocess.run(words, cwd=folder, env=environ, capture_output=True, check=False)


def test_the_summary_stands_before_the_answer_in_one_pipe(tutorial: Path) -> None:
    done = shell(tutorial, f"$LOOM run devis '{QUESTION}' 2>&1 | cat")
    lines = done.stdout.decode().splitlines()
    assert [line[:6] for line in lines] == ["Statut", "Run   ", "Pour 1"]


def test_a_stream_shows_its_answer_before_its_summary_in_one_pipe(tutorial: Path) -> None:
    done = shell(tutorial, f"$LOOM run devis '{QUESTION}' --stream 2>&1 | cat")
    lines = done.stdout.decode().splitlines()
    assert [line[:6] for line in lines] == ["Je cal", "[outil", "Pour 1", "Statut", "Run   "]


def test_a_reader_who_left_is_no_error(tutorial: Path) -> None:
    for line in ("$LOOM validate | true", "$LOOM --help | true", "$LOOM schema | head -n 1"):
        done = shell(tutorial, line)
        assert done.stderr == b"", line
        assert done.returncode in {0, 1}, line


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&-"])
def test_a_closed_stream_stops_nothing_and_lets_no_print_into_a_journal(
    tutorial: Path, closed: str
) -> None:
    with (tutorial / "outils.py").open("a", encoding="utf-8") as tools:
        tools.write('\nprint("BRUIT", flush=True)\n')
    done = shell(tutorial, f"$LOOM run devis '{QUESTION}' {closed}")
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    journals = list((tutorial / "data" / "default").glob("[!.]*.jsonl"))
    assert len(journals) == 1
    assert b"BRUIT" not in journals[0].read_bytes()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_output_is_one_sentence(tutorial: Path) -> None:
    done = shell(tutorial, "$LOOM validate >/dev/full")
    assert done.returncode == 1
    told = done.stderr.decode()
    assert told.startswith("Erreur : ")
    assert len(told.splitlines()) == 1


def test_what_the_terminal_cannot_write_is_replaced_and_json_stays_whole(tutorial: Path) -> None:
    plain = shell(tutorial, f"$LOOM run devis '{QUESTION}'", PYTHONIOENCODING="ascii")
    assert plain.returncode == 0
    assert plain.stdout.startswith(b"Pour 1 250 ? HT")
    coded = shell(tutorial, f"$LOOM run devis '{QUESTION}' --json", PYTHONIOENCODING="latin-1")
    assert "1 250 € HT" in json.loads(coded.stdout)["text"]
    described = shell(tutorial, "$LOOM schema", PYTHONIOENCODING="ascii")
    assert "properties" in json.loads(described.stdout)


def test_bytes_that_are_no_text_are_refused_or_kept_without_a_traceback(tutorial: Path) -> None:
    for line in ("$LOOM run devis $'\\xff'", "$LOOM run $'\\xff' x", "$LOOM inspect $'\\xff'"):
        done = shell(tutorial, line)
        assert done.returncode in {0, 2}, line
        assert b"Traceback" not in done.stderr, line


def test_the_principal_is_the_user_that_the_system_knows(loom, project: Path) -> None:
    run = loom(project, "run", "relance", "Va", LOGNAME="directrice", USER="directrice").run_id
    done = loom(project, "approve", run, LOGNAME="directrice", USER="directrice")
    assert done.returncode == 0
    tree = json.loads(loom(project, "inspect", run, "--json").stdout)
    name = pwd.getpwuid(os.getuid()).pw_name
    expected = {"id": f"cli:{name}", "channel": "cli"}
    assert tree["by"] == expected
    assert tree["steps"][1]["nodes"][0]["questions"][0]["by"] == expected


def test_global_options_after_the_command_are_told_where_they_go(loom, tutorial: Path) -> None:
    refused = loom(tutorial, "validate", "--config", "loom.yaml")
    assert refused.returncode == 2
    assert "--config et --profile se placent avant la commande" in refused.stderr


@pytest.mark.parametrize(
    ("words", "french", "english"),
    [
        ((), "arguments obligatoires manquants : COMMAND", "required: COMMAND"),
        (("bidule",), "choix invalide : 'bidule'", "invalid choice: 'bidule'"),
        (("run", "a", "b", "--session"), "un argument est attendu", "expected one argument"),
        (("run", "a", "b", "c"), "arguments inconnus : c", "unrecognized arguments: c"),
        (("run", "a", "b", "--stream=x"), "cette option ne prend pas", "ignored explicit argument"),
        (("run", "a", "b", "--str"), "arguments inconnus : --str", "unrecognized arguments: --str"),
    ],
)
def test_what_argparse_says_is_in_the_language_of_the_reader(
    loom, tmp_path: Path, words: tuple[str, ...], french: str, english: str
) -> None:
    for lang, expected, usage in (("fr", french, "usage : "), ("en", english, "usage: ")):
        refused = loom(tmp_path, *words, lang=lang)
        assert refused.returncode == 2
        assert refused.stderr.startswith(usage)
        assert expected in refused.stderr


@pytest.mark.parametrize("command", ["run", "resume", "approve", "reject", "inspect", "validate"])
def test_the_help_of_every_command_is_in_french(loom, tmp_path: Path, command: str) -> None:
    told = loom(tmp_path, command, "--help")
    assert told.returncode == 0
    assert "options :" in told.stdout
    assert "afficher cette aide et quitter" in told.stdout
    assert " the " not in told.stdout


def test_an_interrupted_decision_says_how_to_go_on(loom, until, project: Path) -> None:
    (project / "agents" / "relance.yaml").write_text(
        "name: relance\nmain: {model: LENT}\ntools: [{python: attendre, approval: always}]\n",
        encoding="utf-8",
    )
    run = loom(project, "run", "relance", "Attends").run_id
    environ = {**os.environ, "LOOM_LANG": "fr"}
    process = subprocess.Popen(
        [*LOOM, "approve", run], cwd=project, env=environ, stderr=subprocess.PIPE
    )
    until((project / "parti").exists)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"loom resume {run}" in told.decode()
    assert b"Traceback" not in told
    (project / "assez").touch()
    done = loom(project, "resume", run)
    assert (done.returncode, done.stdout) == (0, "Enfin.\n")


def test_what_nobody_foresaw_is_one_sentence_unless_more_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_arguments: object) -> int:
        message = "trop\nlong"
        raise ZeroDivisionError(message)

    monkeypatch.setattr(schema, "run", broken)
    assert door.main(["schema"]) == 1
    told = capsys.readouterr()
    assert (told.out, told.err) == (
        "",
        "Error: ZeroDivisionError: trop long (LOOM_DEBUG=1 shows where)\n",
    )
    monkeypatch.setenv("LOOM_DEBUG", "1")
    assert door.main(["schema"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err
