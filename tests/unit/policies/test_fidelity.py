"""Whether what a text states is found where it comes from: documents, spellings, inventions."""

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

pytest.importorskip("phonenumbers")
pytest.importorskip("stdnum")

from loom_ia.policies.fidelity import Sources, ungrounded
from loom_ia.policies.items import KINDS, items
from loom_ia.policies.numerals import number_of
from loom_ia.policies.spelling import Spelling


def grounded_in(source, text, **spelling):
    sources = Sources(Spelling(**spelling))
    sources.add("s", source)
    return not ungrounded(text, sources, KINDS)


def spaced(whole, space):
    return f"{whole:,}".replace(",", space)


SPELLINGS = (
    lambda w, c: f"{spaced(w, ' ')},{c:02} €",
    lambda w, c: f"{spaced(w, chr(0xA0))},{c:02} €",
    lambda w, c: f"{spaced(w, chr(0x202F))},{c:02}\N{NO-BREAK SPACE}€",
    lambda w, c: f"{spaced(w, '.')},{c:02} €",
    lambda w, c: f"{spaced(w, chr(0x2019))}.{c:02} EUR",
    lambda w, c: f"{w},{c:02} euros",
    lambda w, c: f"€{w:,}.{c:02}",
    lambda w, c: f"EUR {w}.{c:02}",
    lambda w, c: f"{w}.{c:02}",
    lambda w, c: f"{w},{c:02} € TTC",
    lambda w, c: f"{spaced(w, ' ')},{c:02} €".translate(
        {ord(d): ord(d) - 0x30 + 0xFF10 for d in "0123456789"}
    ),
    lambda w, c: f'{{"total": {w}.{c:02}}}',
    lambda w, c: f'[["total", "{spaced(w, chr(0x202F))},{c:02} €"]]',
)
PRICED = SPELLINGS[:-2]
spellings = st.sampled_from(SPELLINGS)
amounts = st.tuples(st.integers(1, 9_999_999), st.integers(0, 99))


@given(amounts, spellings, spellings)
def test_an_amount_in_another_accepted_spelling_stays_grounded(amount, said, written):
    text = written(*amount)
    assert grounded_in(f"{said(*amount)}", text)
    assert grounded_in(f"Le total est de {SPELLINGS[0](*amount)}, net.", text)


@settings(max_examples=300)
@given(amounts, spellings, spellings, st.data())
def test_an_amount_with_one_other_digit_is_not_grounded(amount, said, written, data):
    digits = f"{amount[0]}{amount[1]:02}"
    at = data.draw(st.integers(0, len(digits) - 1))
    others = [d for d in "0123456789" if d != digits[at] and (d != "0" or at)]
    changed = digits[:at] + data.draw(st.sampled_from(others)) + digits[at + 1 :]
    assume(int(changed) > 1000 or written in PRICED)  # a bare 2 counts something

    assert not grounded_in(said(*amount), written(int(changed[:-2]), int(changed[-2:])))


@pytest.mark.parametrize(
    "spelling",
    [
        "1 250,00 €",
        "1\u00a0250,00 €",
        "1\u202f250,00 €",
        "1'250,00 €",
        "1\u2019250.00 €",
        "\uff11 \uff12\uff15\uff10,\uff10\uff10 €",
        "1.250,00 €",
        "1,250.00 €",
        "1250 €",
        "1.250 €",
        "€1250",
        "1,25 k€",
        "mille deux cent cinquante euros",
        "one thousand two hundred and fifty euros",
    ],
)
def test_every_spelling_of_one_amount_is_the_same_number_and_a_hundred_times_more_is_not(spelling):
    assert grounded_in("1 250,00 €", spelling)
    assert grounded_in(spelling, "1 250,00 €")
    assert not grounded_in("125 000 €", spelling)
    assert not grounded_in(spelling, "125 000 €")


def test_a_sign_is_part_of_an_amount_but_a_discount_may_be_said_without():
    assert grounded_in('{"remise": -50}', "une remise de 50 €")
    assert grounded_in("solde : -1 250,00 €", "solde : -1250 €")
    assert not grounded_in("solde : 1 250,00 €", "solde : -1 250,00 €")


def test_another_currency_is_another_amount():
    assert not grounded_in("100 €", "$100")
    assert grounded_in('{"total": 100}', "$100")


def test_a_figure_finer_than_a_cent_is_rounded_half_up_and_no_further():
    assert grounded_in('{"ht": 340.425}', "340,43 €")
    assert not grounded_in('{"ht": 340.425}', "340,42 €")
    assert not grounded_in('{"ht": 340.425}', "340 €")


def test_a_delay_is_no_price():
    assert not grounded_in("dans les 10 jours", "10 €")
    assert grounded_in("dans les 10 jours", "sous 10 jours")


@pytest.mark.parametrize(
    "written",
    [
        "7 décembre 2026",
        "7 déc. 2026",
        "lundi 7 décembre",
        "07/12/2026",
        "7.12.26",
        "le 07/12",
        "2026-12-07",
        "2026-12-07T10:00:00Z",
        "December 7th, 2026",
        "7 December 2026",
        "Dec. 7, 2026",
        "le sept décembre",
        "the seventh of December",
        "décembre 2026",
        "aujourd'hui",
        "today",
    ],
)
def test_a_date_is_the_same_however_it_is_written(written):
    today = date(2026, 12, 7)
    assert grounded_in("le 7 décembre 2026", written, today=today)
    assert not grounded_in("le 8 novembre 2026", written, today=today)


def test_the_first_of_a_month_may_be_in_words_or_not():
    assert grounded_in("1er mars 2027", "premier mars 2027")
    assert grounded_in("le premier mars", "le 01/03")
    assert grounded_in("March 1st", "1 mars")


def test_a_year_that_nobody_gave_is_an_invention():
    assert not grounded_in("le 7 décembre", "le 7 décembre 2026")
    assert grounded_in("le 7 décembre, exercice 2026", "le 7 décembre 2026")


def test_the_order_of_day_and_month_is_a_setting():
    assert grounded_in("December 7, 2026", "12/07/2026", month_first=True)
    assert not grounded_in("December 7, 2026", "12/07/2026")


@pytest.mark.parametrize(
    ("said", "written", "same"),
    [
        ("06 12 34 56 78", "+33 6 12 34 56 78", True),
        ("06.12.34.56.78", "0033612345678", True),
        ('{"tel": "33612345678"}', "06 12 34 56 78", True),
        ("06 12 34 56 78", "06 12 34 56 79", False),
        ("020 7946 0958", "020 7946 0985", False),
        ("(212) 555-0187", "212-555-0187", True),
        ("FR76 3000 6000 0112 3456 7890 189", "FR7630006000011234567890189", True),
        ("FR76 3000 6000 0112 3456 7890 189", "FR76 3000 6000 0112 3456 7890 188", False),
        ("D-2026-041", "devis D 2026-041 ", False),
        ("D-2026-041", "d-2026-041", True),
        ("D\u20112026\u2011041", "D-2026-041", True),
        ("D-2026-041", "D-2026-014", False),
        ('{"id": 4521}', "n° 4521", True),
        ("Marie.Dupont@example.fr", "marie.dupont@EXAMPLE.fr", True),
        ("marie.dupont@example.fr", "marie.dupond@example.fr", False),
        ("20 %", "20 pour cent", True),
        ("20 %", "0020%", True),
        ('{"taux": 0.2}', "20 %", True),
        ('{"taux": 5.5}', "5,5 %", True),
        ("20 %", "21 %", False),
    ],
)
def test_references_and_addresses_are_compared_without_their_dress(said, written, same):
    assert grounded_in(said, written) is same


def test_what_is_computed_without_a_tool_is_told_with_its_operation():
    sources = Sources()
    sources.add("calcul", "net 1 250,00 € ; port 50,00 € ; remise 10 %")

    (sum_,) = ungrounded("Total : 1 300 €", sources)
    (part,) = ungrounded("Remise : 125 €", sources)
    (wild,) = ungrounded("Total : 1 251,00 €", sources)

    assert (sum_.computed, sum_.looked) == ("1 250,00 € + 50,00 €", ("calcul",))
    assert part.computed == "1 250,00 € × 10 %"
    assert (wild.computed, wild.closest) == ("", "1 250,00 €")


def test_an_operation_that_a_tool_did_is_grounded():
    sources = Sources()
    sources.add("request", "3 × 99,99 avec la TVA à 20 %")
    sources.add("prix_ttc", '{"ht": 299.97, "tva": 59.994, "ttc": 359.964}')

    assert ungrounded("299,97 € HT, TVA 59,99 €, 359,96 € TTC", sources) == ()


def test_arguments_are_read_value_by_value():
    sources = Sources()
    sources.add("request", "Envoie 340,43 € à Marie, marie@example.fr")
    arguments = {"a": {"to": ["marie@example.fr"]}, "montant": 340.43, "copies": 2, "urgent": True}

    assert ungrounded(arguments, sources, KINDS) == ()
    (found,) = ungrounded({**arguments, "montant": 341}, sources, KINDS)
    assert (found.item.kind, found.item.value) == ("number", "341")


def test_words_that_only_look_like_references_are_left_alone():
    text = "24/7, 10h30, 15 m2, 250kg, 60x60, COVID-19, T2, 2ème étage, 3rd floor, ISO, A4"
    assert [item.text for item in items(text) if item.kind == "reference"] == []


def test_each_part_of_a_text_is_in_one_item_at_most():
    text = "FR76 3000 6000 0112 3456 7890 189 le 07.12.2026 pour 1 250,00 € HT (D-2026-041)"
    assert [item.kind for item in items(text)] == ["iban", "date", "amount", "reference"]


@given(st.text(max_size=80))
def test_any_text_is_read_without_an_error(text):
    for item in items(text):
        assert item.value


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("quatre-vingt-dix-neuf", 99),
        ("soixante et onze", 71),
        ("deux mille vingt-six", 2026),
        ("cent vingt et un mille quatre cents", 121_400),
        ("septante-huit", 78),
        ("two hundred and five thousand", 205_000),
        ("twenty-first", 21),
        ("bonjour", None),
    ],
)
def test_numbers_in_words_are_read(words, value):
    assert number_of(words) == value


def test_the_exact_value_is_kept():
    (item,) = items("0,1 + 0,2 = 0,30 €")[2:]
    assert item.numbers == (Decimal("0.30"),)
