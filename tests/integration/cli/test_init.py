"""`loom init`: what it writes works, and nothing of what was there is lost."""

import json
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FRENCH = ["loom.yaml", "outils.py", "agents/devis.yaml", "prompts/devis.md", "loom.schema.json"]
ENGLISH = ["loom.yaml", "pricing.py", "agents/quote.yaml", "prompts/quote.md", "loom.schema.json"]


def held(folder: Path) -> list[str]:
    """Files of a project, without the journal and what Python keeps."""
    found = [p.relative_to(folder) for p in folder.rglob("*") if p.is_file()]
    return sorted(str(p) for p in found if not {"data", "__pycache__"} & set(p.parts))


@pytest.mark.parametrize(
    ("lang", "files", "answer"),
    [("fr", FRENCH, "paiera 1 375 € TTC"), ("en", ENGLISH, "will pay €1,375")],
)
@pytest.mark.parametrize("journal", ["jsonl", "sqlite"])
def test_the_project_runs_as_the_last_lines_say(
    loom, tmp_path: Path, lang: str, files: list[str], answer: str, journal: str
) -> None:
    made = loom(tmp_path, "init", "mon projet", "--yes", "--journal", journal, lang=lang)
    assert (made.returncode, made.stderr) == (0, "")
    folder = tmp_path / "mon projet"
    assert held(folder) == sorted(files)
    assert ", ".join(files) in made.stdout
    typed = [shlex.split(line) for line in made.stdout.splitlines() if line.startswith("  ")]
    assert typed[0] == ["cd", "mon projet"]
    told = [loom(folder, *words[1:], lang=lang) for words in typed[1:]]
    assert [done.returncode for done in told] == [0, 0, 0]
    assert told[0].stderr == ""
    assert answer in told[1].stdout
    assert len(told[2].stdout.splitlines()) == 2
    assert loom(folder, "--profile", "prod", "validate", lang=lang).returncode == 0


def test_what_it_writes_in_french_is_the_project_of_the_tutorial(loom, tmp_path: Path) -> None:
    assert loom(tmp_path, "init", "--yes").returncode == 0
    shown = ROOT / "examples/j1/mon-agent"
    for name in ("agents/devis.yaml", "prompts/devis.md"):
        assert (tmp_path / name).read_text("utf-8") == (shown / name).read_text("utf-8")
    for name, kept in (("loom.yaml", "  events:"), ("outils.py", "@tool")):
        ours, theirs = (
            [line for line in (at / name).read_text("utf-8").splitlines() if kept not in line]
            for at in (tmp_path, shown)
        )
        assert ours == theirs
    schema = json.loads((tmp_path / "loom.schema.json").read_text("utf-8"))
    assert schema == json.loads(loom(tmp_path, "schema").stdout)


@pytest.mark.parametrize("present", ["loom.yaml", "prompts/devis.md", "loom.schema.json"])
def test_nothing_is_written_over_what_is_there(loom, tmp_path: Path, present: str) -> None:
    (tmp_path / present).parent.mkdir(exist_ok=True)
    (tmp_path / present).write_text("à moi", encoding="utf-8")
    refused = loom(tmp_path, "init", "--yes")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"déjà là : {present}" in refused.stderr
    assert held(tmp_path) == [present]
    assert (tmp_path / present).read_text("utf-8") == "à moi"


def test_a_link_that_leads_nowhere_is_left_as_it_is(loom, tmp_path: Path) -> None:
    (tmp_path / "loom.yaml").symlink_to(tmp_path / "ailleurs.yaml")
    refused = loom(tmp_path, "init", "--yes")
    assert refused.returncode == 2
    assert not (tmp_path / "ailleurs.yaml").exists()


def test_a_folder_that_takes_no_file_is_left_without_any(loom, tmp_path: Path) -> None:
    (tmp_path / "prompts").write_text("un fichier", encoding="utf-8")
    refused = loom(tmp_path, "init", "--yes")
    assert refused.returncode in {1, 2}
    assert "rien n'a été écrit" in refused.stderr
    assert held(tmp_path) == ["prompts"]


def test_at_a_terminal_three_questions_are_asked_and_bad_answers_asked_again(
    terminal, tmp_path: Path
) -> None:
    code, screen = terminal(
        tmp_path,
        "init",
        answers=[
            ("Dossier du projet ? [.]", "ici\n"),
            ("Nom de l'agent ? [devis]", "Mon Agent\n"),
            ("Nom de l'agent ? [devis]", "prix\n"),
            ("Journal, jsonl ou sqlite ? [jsonl]", "\n"),
        ],
    )
    assert code == 0
    assert "agent nommé" in screen or "'Mon Agent'" in screen
    assert "  loom run prix 'Quel prix TTC" in screen
    assert (tmp_path / "ici/agents/prix.yaml").read_text("utf-8").startswith("name: prix\n")
    assert (tmp_path / "ici/prompts/prix.md").exists()


@pytest.mark.parametrize(("key", "code"), [("\x04", 1), ("\x03", 130)])
def test_somebody_who_does_not_answer_finds_nothing_written(
    terminal, tmp_path: Path, key: str, code: int
) -> None:
    gone, screen = terminal(tmp_path, "init", answers=[("Dossier du projet ? [.]", key)])
    assert (gone, list(tmp_path.iterdir())) == (code, [])
    assert "Traceback" not in screen


def test_what_is_written_can_be_read_by_a_program(loom, tmp_path: Path) -> None:
    made = loom(tmp_path, "init", "x", "--yes", "--agent", "prix", "--json")
    told = json.loads(made.stdout)
    assert (told["folder"], told["agent"], told["warnings"]) == ("x", "prix", [])
    assert held(tmp_path / "x") == sorted(told["files"])
    assert [shlex.split(line)[0] for line in told["next"]] == ["cd", "loom", "loom", "loom"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("init",), "taper loom init --yes"),
        (("init", "a b"), "taper loom init 'a b' --yes"),
        (("init", "--yes", "--agent", "-x"), "--agent"),
        (("init", "--yes", "--agent=É"), "'É'"),
        (("init", "--yes", "--journal", "postgres"), "postgres"),
        (("--config", "autre.yaml", "init", "--yes"), "--config"),
    ],
)
def test_what_cannot_be_written_is_said_and_nothing_is_written(
    loom, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    refused = loom(tmp_path, *words)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert said in refused.stderr
    assert list(tmp_path.iterdir()) == []
