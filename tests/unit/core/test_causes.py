"""What the system refused is said in the reader's language."""

import errno
import os

import pytest

from loom_ia import locale
from loom_ia.core.causes import cause


@pytest.fixture
def french():
    locale.install({"LOOM_LANG": "fr"})
    yield
    locale.install(os.environ)


@pytest.mark.usefixtures("french")
@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.ENOENT, "ce fichier ou ce dossier n'existe pas"),
        (errno.EACCES, "permission refusée"),
        (errno.ENOSPC, "le disque est plein"),
    ],
)
def test_a_cause_that_people_meet_is_said_in_french(code, said):
    assert str(cause(OSError(code, os.strerror(code)))) == said


def test_a_rare_cause_keeps_the_words_of_the_system():
    assert "Broken pipe" in str(cause(OSError(errno.EPIPE, "Broken pipe")))
    assert "odd" in str(cause(OSError("odd")))
