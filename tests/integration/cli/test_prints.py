"""What tools print stays off standard output, that is for the answer alone."""

import json
from pathlib import Path

import pytest

CHATTY = """
from loom_ia.tools import tool

print("import bavard")


@tool(side_effects="none")
def prix_ttc(montant_ht: float, taux_tva: float = 20.0) -> str:
    \"\"\"Parle trop.\"\"\"
    print("outil bavard")
    return "1 375"
"""


@pytest.mark.parametrize("option", [None, "--json", "--stream"])
def test_what_a_tool_prints_goes_to_standard_error(loom, tutorial: Path, option) -> None:
    (tutorial / "outils.py").write_text(CHATTY, encoding="utf-8")
    done = loom(tutorial, "run", "devis", "Combien ?", *([option] if option else []))
    assert done.returncode == 0
    assert "bavard" not in done.stdout
    assert "outil bavard" in done.stderr
    assert "import bavard" in done.stderr
    if option == "--json":
        assert json.loads(done.stdout)["status"] == "completed"
    else:
        assert done.stdout.endswith("paiera 1 375 € TTC.\n")


def test_what_a_project_prints_spoils_no_other_command(loom, tutorial: Path) -> None:
    (tutorial / "outils.py").write_text(CHATTY, encoding="utf-8")
    run = loom(tutorial, "run", "devis", "Combien ?").run_id
    tree = loom(tutorial, "inspect", run, "--json")
    assert json.loads(tree.stdout)["result"]["run_id"] == run
    checked = loom(tutorial, "validate")
    assert checked.stdout.startswith("Config     : ")
    assert "import bavard" in checked.stderr


def test_a_run_that_its_store_stopped_says_how_to_go_on(loom, tutorial: Path) -> None:
    lose = "import shutil; shutil.rmtree('data')"
    text = CHATTY.replace('print("outil bavard")', lose)
    (tutorial / "outils.py").write_text(text, encoding="utf-8")
    stopped = loom(tutorial, "run", "devis", "Combien ?")
    assert stopped.returncode in {1, 2}
    resume, error = stopped.stderr.splitlines()[-2:]
    assert resume.startswith("Reprise    : loom resume ")
    assert error.startswith("Erreur : ")
