"""`loom report`: consumption as people and as programs read it."""

import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

PRICED = """
version: 1
models:
  - id: M
    sdk: fake
    model: fake-1
    pricing: {input: 1000, output: 2000}
    params:
      script: [{text: Bonjour.}]
agents:
  - {name: a, main: {model: M, system: SYSTEM}}
storage:
  events: {backend: jsonl, path: data}
"""


@pytest.fixture
def priced(tmp_path: Path) -> Path:
    (tmp_path / "loom.yaml").write_text(PRICED.replace("SYSTEM", "mot " * 2000), encoding="utf-8")
    return tmp_path


def test_a_run_is_reported_by_role_and_model_in_the_figures_of_the_reader(loom, priced) -> None:
    run = loom(priced, "run", "a", "Bonjour").run_id
    total = json.loads(loom(priced, "report", run, "--json").stdout)["total"]
    tokens, cost = total["usage"]["input"], Decimal(total["cost"])
    assert tokens > 1000
    assert cost > 1
    told = {
        lang: loom(priced, "report", run, lang=lang).stdout.splitlines() for lang in ("fr", "en")
    }
    french, english = (re.split(" {2,}", told[lang][4]) for lang in ("fr", "en"))
    assert english[:4] == ["main", "fake-1", "1", f"{tokens:,}"]
    assert french[:4] == ["main", "fake-1", "1", f"{tokens:,}".replace(",", "\u202f")]
    assert english[-1] == f"{cost:.6f} $"
    assert french[-1] == f"{cost:.6f} $".replace(".", ",")
    assert told["en"][3].split()[:3] == ["Role", "Model", "Calls"]
    assert told["fr"][3].split()[:3] == ["Rôle", "Modèle", "Appels"]


def test_a_session_and_a_tenant_add_their_runs_up(loom, priced: Path) -> None:
    runs = [loom(priced, "run", "a", "Bonjour", "--session", "chantier").run_id for _ in "ab"]
    runs.append(loom(priced, "run", "a", "Bonjour").run_id)

    def report(*words: str) -> tuple[int, Decimal]:
        found = json.loads(loom(priced, "report", *words, "--json").stdout)
        return found["runs"], Decimal(found["total"]["cost"])

    costs = [report(run)[1] for run in runs]
    assert report("--session", "chantier") == (2, sum(costs[:2]))
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    for words in (
        ("--tenant", "default", "--periode", "jour", "--date", today),
        ("--tenant", "default", "--periode", "mois"),
        ("--period", "month"),
    ):
        assert report(*words) == (3, sum(costs)), words
    assert report("--date", "2001-01-01") == (0, 0)


def test_an_unpriced_call_is_shown_as_unknown(loom, project: Path) -> None:
    run = json.loads(loom(project, "run", "panne", "-", "--json").stdout)["run_id"]
    told = loom(project, "report", run)
    assert told.stdout.splitlines()[-3].split() == ["Total", "1", "?", "?", "?", "?", "?", "?"]
    assert told.stdout.splitlines()[-1].startswith("? : inconnu ; appels sans coût : 1")
    report = json.loads(loom(project, "report", run, "--json").stdout)
    assert (report["total"]["cost"], report["total"]["unpriced"]) == (None, 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "rapport : donnez un run"),
        (("r", "--session", "s"), "rapport : donnez un run"),
        (("r", "--periode", "jour"), "rapport : donnez un run"),
        (("--tenant", "x"), "client x : inconnu"),
        (("--session", "x"), "session x : inconnue"),
        (("x",), "run x : inconnu"),
        (("--date", "hier"), "ce n'est pas une date"),
        (("--periode", "an"), "--periode"),
    ],
)
def test_a_report_that_cannot_be_made_says_why(loom, priced: Path, words, said: str) -> None:
    refused = loom(priced, "report", *words)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert said in refused.stderr
