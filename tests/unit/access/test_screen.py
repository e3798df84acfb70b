"""What a person sees of a run while it goes on."""

import pytest

from loom_ia.access.cli.commands.run import _Screen
from loom_ia.core.model import Discard, TextDelta


def test_what_a_model_takes_back_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    screen = _Screen()
    for text in ("Il ", "est"):
        screen.take(TextDelta(run_id="r", text=text))
    screen.take(Discard(run_id="r"))
    screen.take(TextDelta(run_id="r", text="Voilà."))
    assert screen.answer == "Voilà."
    screen.end()
    told = capsys.readouterr()
    assert told.out == "Il est\nVoilà.\n"
    assert told.err == "[what stands above is void]\n"
