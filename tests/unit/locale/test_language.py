from collections.abc import Iterator

import pytest

from loom_ia.core.errors import RunExistsError
from loom_ia.core.text import install as install_translator
from loom_ia.locale import install, language


@pytest.fixture(autouse=True)
def english_again() -> Iterator[None]:
    yield
    install_translator(str)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "fr"),
        ({"LANG": "C"}, "fr"),
        ({"LANG": "C.UTF-8"}, "fr"),
        ({"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, "fr"),
        ({"LANG": "fr_FR.UTF-8"}, "fr"),
        ({"LANG": "en_US.UTF-8"}, "en"),
        ({"LANG": "de_DE@euro"}, "en"),
        ({"LC_MESSAGES": "fr_CA", "LANG": "en_US"}, "fr"),
        ({"LC_ALL": "", "LANG": "en_US"}, "en"),
        ({"LOOM_LANG": "en", "LANG": "fr_FR.UTF-8"}, "en"),
        ({"LOOM_LANG": "fr", "LC_ALL": "en_US.UTF-8"}, "fr"),
    ],
)
def test_the_language_is_that_of_the_variable_then_of_the_locale_then_french(environ, expected):
    assert language(environ) == expected


def test_an_error_is_told_in_the_language_of_its_reader():
    error = RunExistsError(run_id="r1")
    install({"LOOM_LANG": "fr"})
    assert str(error) == "le run r1 existe déjà ; choisir un autre identifiant"
    install({"LOOM_LANG": "en"})
    assert str(error) == "run r1 exists already; choose another id"
