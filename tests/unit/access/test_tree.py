"""Lines of a trace: what people read of durations, doubts, decisions and long contents."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from loom_ia import locale
from loom_ia.access.cli.session import printable
from loom_ia.access.cli.tree import SHORT, duration, lines
from loom_ia.core.events import Principal
from loom_ia.core.model import Usage
from loom_ia.core.projections.calls import CallNode, Question
from loom_ia.core.projections.trace import AskedCall, ModelNode, Note, StepNode, TraceRun, trace
from loom_ia.core.projections.view import RunResult

AT = datetime(2026, 9, 1, 8, 30, tzinfo=UTC)
ANN = Principal(id="cli:anne", channel="cli")
RESULT = trace([]).result.model_copy(update={"agent": "a", "status": "paused"})


@pytest.fixture(autouse=True)
def french(english: None) -> None:
    locale.install({"LOOM_LANG": "fr"})


def shown(*nodes: ModelNode | CallNode, full: bool = False, **changes: object) -> list[str]:
    """Lines of the only step of a run."""
    kind = "model" if nodes and nodes[0].kind == "model" else "tools"
    tree = TraceRun(result=RESULT, steps=(StepNode(number=1, kind=kind, nodes=nodes),))
    return list(lines(tree.model_copy(update=changes), full=full))[2:]


def call(**changes: object) -> CallNode:
    node = CallNode(call_id="c", name="envoyer", arguments={"à": "x"}, status="ok", ms=5)
    return node.model_copy(update=changes)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0.2, "0 ms"),
        (80, "80 ms"),
        (9_999, "9999 ms"),
        (12_340, "12.3 s"),
        (200_000, "3 min 20 s"),
        (7_500_000, "2 h 05 min"),
    ],
)
def test_durations_are_read_by_people(ms: float, text: str) -> None:
    assert duration(ms) == text


def test_a_model_shows_its_tokens_answer_and_calls() -> None:
    node = ModelNode(
        model="fake-1",
        role="main",
        attempt=1,
        status="ok",
        ms=1,
        usage=Usage(input=259, output=68),
        cost=Decimal(0),
        text="Je calcule.",
        calls=(AskedCall(call_id="c", name="prix_ttc", arguments={"montant_ht": 1250}),),
    )
    assert shown(node) == [
        "    modèle fake-1 (main) — 1 ms, 259 → 68 tokens, 0.000000 $",
        "      · répond    : Je calcule.",
        '      · appelle   : prix_ttc({"montant_ht": 1250})',
    ]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"status": "lost"}, "    modèle S (main) — coupé avant sa réponse, coût inconnu"),
        ({"status": "started"}, "    modèle S (main) — pas encore de réponse"),
        ({"status": "ok"}, "    modèle S (main) — 0 ms, tokens inconnus, coût inconnu"),
    ],
)
def test_what_a_model_did_not_say_is_unknown_never_zero(
    changes: dict[str, object], line: str
) -> None:
    node = ModelNode(model="S", role="main", attempt=1)
    assert shown(node.model_copy(update=changes)) == [line]


def test_a_decision_says_who_when_and_why() -> None:
    question = Question(
        asked_at=AT, answer="granted", at=AT, by=ANN, reason="vu", corrected={"à": "y"}
    )
    assert shown(call(questions=(question,), result="parti")) == [
        "    outil envoyer — 5 ms",
        '      · arguments : {"à": "x"}',
        "      · demandé   : 2026-09-01 08:30:00 UTC, déclaré par l'outil",
        "      · accordé   : 2026-09-01 08:30:00 UTC, par cli:anne — vu",
        '      · corrigé   : {"à": "y"}',
        "      · résultat  : parti",
    ]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"answer": "rejected", "by": ANN}, "      · rejeté    : "),
        ({"answer": "expired"}, "      · expiré    : "),
        ({"answer": "settled", "by": ANN, "happened": True}, "      · fait      : "),
        ({"answer": "settled", "by": ANN, "happened": False}, "      · pas fait  : "),
        ({"expires_at": AT}, "      · expire    : "),
    ],
)
def test_each_answer_has_its_word(changes: dict[str, object], line: str) -> None:
    question = Question(asked_at=AT).model_copy(update={"at": AT, **changes})
    assert shown(call(questions=(question,)))[3].startswith(f"{line}2026-09-01 08:30:00 UTC")


def test_an_unknown_outcome_says_why_nobody_knows() -> None:
    node = call(status="unknown", doubt="timeout", detail="30 s", still_running=True, ms=0)
    assert shown(node) == [
        "    outil envoyer — issue inconnue",
        '      · arguments : {"à": "x"}',
        "      · doute     : pas de réponse dans le délai — 30 s, il tourne peut-être encore",
    ]


def test_a_long_content_is_shortened_with_a_count_unless_all_is_wanted() -> None:
    long = "x" * (SHORT + 25)
    line = shown(call(result=long))[-1]
    assert line == f"      · résultat  : {'x' * SHORT}… (encore 25 caractères, --full)"
    assert shown(call(result=long), full=True)[-1].endswith(long)


def test_lines_of_a_content_stay_under_each_other() -> None:
    assert shown(call(result="un\ndeux"))[-1] == "      · résultat  : un ⏎ deux"
    text = shown(call(result="un\ndeux"), full=True)[-1]
    assert text == "      · résultat  : un\n        deux"


def test_a_terminal_obeys_nothing_that_a_model_wrote() -> None:
    assert printable("a\x1b[2Jb\x07\u202ec") == "a\\x1b[2Jb\\x07\\u202ec"
    assert printable("1\u00a0250\u202f€ à 10 %") == "1\u00a0250\u202f€ à 10 %"
    assert "\x1b" not in "".join(shown(call(result="\x1b[31m", name="\x1b[0m"), full=True))


def test_what_happened_to_the_run_ends_the_tree() -> None:
    notes = (Note(kind="crashed", at=AT), Note(kind="resumed", at=AT, by=ANN))
    result = RESULT.model_copy(update={"status": "failed", "error": "en panne"})
    assert isinstance(result, RunResult)
    assert shown(notes=notes, result=result) == [
        "  2026-09-01 08:30:00 UTC : le pilote précédent était mort, le run a été repris",
        "  2026-09-01 08:30:00 UTC : repris par cli:anne",
        "  échec : en panne",
    ]
