import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from loom_ia.core.names import safe_name

ACCEPTED = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NAMES = st.text(max_size=100) | st.from_regex(r"[a-zA-Z0-9_-]{1,70}", fullmatch=True)


def test_a_name_that_providers_accept_stays_as_it_is():
    for name in ("prix_ttc", "read-only", "a", "x" * 64):
        assert safe_name(name) == name


def test_names_that_look_alike_stay_apart():
    accented = "créer_devis"
    names = {
        *("read-only", "read_only", "catalogue.lire", "catalogue_lire"),
        *(unicodedata.normalize(form, accented) for form in ("NFC", "NFD")),
        *("n" * 64 + "a" * 26, "n" * 64 + "b" * 26),
    }
    assert len(names) == 8
    assert len({safe_name(name) for name in names}) == 8


def test_a_changed_name_stays_readable_and_stable():
    assert safe_name("créer.devis") == "creer_devis_x5329f0e1baa4"


@given(NAMES)
def test_every_name_becomes_one_that_providers_accept(name: str):
    assert ACCEPTED.fullmatch(safe_name(name))


@given(NAMES, NAMES)
def test_two_names_never_become_one(left: str, right: str):
    assert (safe_name(left) == safe_name(right)) == (left == right)


@given(NAMES)
def test_a_name_made_by_hand_like_a_changed_one_is_told_from_it(name: str):
    made = safe_name(name)
    assert made == name or safe_name(made) != made
