"""What a terminal shows that a pipe does not: colours, and what goes on while one waits."""

import pytest

GREEN, RED, YELLOW, BOLD = ("\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[1m")


def test_an_error_is_red(project, terminal):
    code, screen = terminal(project, "run", "personne", "Bonjour")
    assert code == 2
    assert RED in screen


@pytest.fixture
def enough(project):
    """Let the tool that waits go on."""
    return (project / "assez").touch


def test_a_person_who_waits_is_told_what_goes_on_and_the_line_goes_away(project, terminal, enough):
    code, screen = terminal(
        project, "run", "lent", "Va", answers=[("travail des outils (attendre)", enough)]
    )
    assert code == 0
    told, _, rest = screen.rpartition("\r\x1b[K")
    assert "travail des outils (attendre)" in told
    assert f"{GREEN}completed" in rest
    assert "Enfin." in rest


def test_a_pipe_gets_neither_colours_nor_progress(project, loom, enough):
    enough()
    done = loom(project, "run", "lent", "Va", TERM="xterm-256color")
    assert done.returncode == 0
    tree = loom(project, "inspect", done.run_id)
    assert "\x1b" not in done.stdout + done.stderr + tree.stdout


@pytest.mark.parametrize(
    ("variables", "seen"),
    [({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)],
)
def test_a_terminal_without_colours_is_obeyed(project, terminal, variables, seen):
    _, screen = terminal(project, "run", "panne", "Va", **variables)
    assert ("\x1b[31m" in screen) is seen
    assert "failed" in screen


def test_colours_can_be_forced_into_a_pipe(project, loom):
    done = loom(project, "run", "relance", "Va", FORCE_COLOR="1")
    assert f"{YELLOW}waiting" in done.stderr or f"{YELLOW}paused" in done.stderr
    refused = loom(project, "run", "relance", "Va", FORCE_COLOR="1", NO_COLOR="1")
    assert "\x1b" not in refused.stderr
    tree = loom(project, "inspect", done.run_id, FORCE_COLOR="1").stdout
    assert tree.startswith(YELLOW)
    assert "\x1b[0m" in tree
    listed = loom(project, "sessions", "list", FORCE_COLOR="1").stdout
    assert listed.startswith(BOLD + "Session")
