"""Policies before a tool: every one speaks, on what is asked and on what would leave."""

from dataclasses import replace

import pytest

from loom_ia.core.events import ApprovalGranted, GuardChecked, Principal
from loom_ia.core.fold import fold
from loom_ia.core.model import TextBlock, ToolSpec
from loom_ia.core.plan import ToolPlan
from loom_ia.core.policy import CONTINUE, Deny, Fail, Pause, Replace
from loom_ia.core.ports import InvalidArgumentsError, ToolOutput
from loom_ia.testing import ScriptedModel

ME = Principal(id="cli:dupont", channel="cli")
SENDING = ToolPlan(side_effects="irreversible")


class Post:
    """A tool that keeps what left; it wants a text in `a`."""

    def __init__(self):
        self.spec = ToolSpec(name="envoyer", description="", input_schema={})
        self.sent = []

    def bind(self, arguments):
        if not isinstance(arguments.get("a"), str):
            msg = "a : texte attendu"
            raise InvalidArgumentsError(msg)

        async def launch(context):
            self.sent.append(dict(arguments))
            return ToolOutput((TextBlock(text="parti"),))

        return launch


class Rule:
    """A policy that decides from the arguments, and keeps what it saw."""

    def __init__(self, name, decide):
        self.name, self._decide, self.seen = name, decide, []

    async def decide(self, subject, context):
        self.seen.append(dict(subject.arguments))
        decision = self._decide(dict(subject.arguments))
        subject.arguments["a"] = "abîmé"  # what a policy does to its copy touches nobody
        return decision


def says(name, decision):
    return Rule(name, lambda _: decision)


def to(name, value):
    return Rule(name, lambda _: Replace({"a": value}))


async def play_of(stage, *rules, plan=SENDING, arguments=None):
    play, post = stage(), Post()
    turn = {"tool_calls": [{"name": "envoyer", "arguments": arguments or {"a": "x"}}]}
    play.world = replace(
        play.world,
        plan=replace(play.world.plan, tools={"envoyer": plan}),
        tools={"envoyer": post},
        specs=[post.spec],
        model=ScriptedModel(turn, "fini"),
        before_tool=rules,
    )
    await play.start()
    return play, post


async def facts(play):
    found = [e.payload for e in await play.events() if isinstance(e.payload, GuardChecked)]
    assert all(f.point == "before_tool" and f.call_id == "fake_0_0" for f in found)
    return [(f.check, f.decision) for f in found]


def told(play, state):
    [text] = play.results(state).values()
    return text


async def grant(play, **fields):
    await play.decide(ApprovalGranted(call_id="fake_0_0", by=ME, **fields))


async def test_each_policy_sees_the_arguments_as_replaced_so_far_then_all_see_the_last(stage):
    rules = (to("un", "y"), to("deux", "z"), says("trois", CONTINUE))
    rules[0]._decide = lambda a: Replace({"a": "y"}) if a["a"] == "x" else CONTINUE
    play, post = await play_of(stage, *rules)
    state = await play.drive()
    assert post.sent == [{"a": "z"}]
    assert [r.seen for r in rules] == [
        [{"a": "x"}, {"a": "z"}],
        [{"a": "y"}, {"a": "z"}],
        [{"a": "z"}, {"a": "z"}],
    ]
    assert await facts(play) == [("un", "replace"), ("deux", "replace")]
    [called] = [e.payload for e in await play.events() if e.type == "tool.called"]
    assert called.arguments == {"a": "z"}
    assert told(play, state) == "parti"


async def test_arguments_that_do_not_change_are_judged_once(stage):
    rule = says("un", CONTINUE)
    play, post = await play_of(stage, rule)
    await play.drive()
    assert (rule.seen, post.sent, await facts(play)) == ([{"a": "x"}], [{"a": "x"}], [])


ORDER = [("fail", Fail("f")), ("deny", Deny("d")), ("pause", Pause("p"))]


@pytest.mark.parametrize("strong", range(3))
@pytest.mark.parametrize("weak", range(3))
@pytest.mark.parametrize("strong_first", [True, False])
async def test_the_strongest_decision_holds_and_every_policy_is_heard(
    stage, strong, weak, strong_first
):
    if strong > weak:
        return
    pair = [says("fort", ORDER[strong][1]), says("faible", ORDER[weak][1])]
    rules = pair if strong_first else pair[::-1]
    play, post = await play_of(stage, *rules, says("après", Replace({"a": "x"})))
    state = await play.drive()
    expected = {"fail": "failed", "deny": "completed", "pause": "paused"}[ORDER[strong][0]]
    assert (state.status, post.sent) == (expected, [])
    kinds = {"fort": ORDER[strong][0], "faible": ORDER[weak][0]}
    assert dict(await facts(play)) == kinds


async def test_a_refusal_is_told_with_its_reason(stage):
    play, _ = await play_of(stage, says("dimanche", Deny("pas le dimanche")))
    assert told(play, await play.drive()) == "Refusé par une règle. Motif : pas le dimanche"


async def test_a_policy_ends_the_run_with_its_reason(stage):
    play, _ = await play_of(stage, says("dimanche", Fail("jamais")))
    ending = (await play.drive()).ending
    assert (ending.code, ending.resumable) == ("policy_failed", False)
    assert ending.params == {"policy": "dimanche", "tool": "envoyer", "reason": "jamais"}


async def test_a_change_in_the_final_check_is_a_refusal(stage):
    loop = Rule("boucle", lambda a: Replace({"a": a["a"] + "+"}))
    play, post = await play_of(stage, loop)
    state = await play.drive()
    assert post.sent == []
    assert "change encore les arguments" in told(play, state)
    assert await facts(play) == [("boucle", "replace"), ("boucle", "deny")]


async def test_a_refusal_of_the_final_arguments_holds(stage):
    guard = Rule("garde", lambda a: Deny("z interdit") if a["a"] == "z" else CONTINUE)
    play, post = await play_of(stage, guard, to("vers z", "z"))
    assert "z interdit" in told(play, await play.drive())
    assert post.sent == []


async def test_replaced_arguments_that_do_not_fit_are_a_refusal(stage):
    play, post = await play_of(stage, says("casse", Replace({"a": 1})))
    assert "casse" in told(play, await play.drive())
    assert post.sent == []


async def test_a_number_and_a_boolean_are_not_the_same_arguments(stage):
    rule = Rule("vrai", lambda a: Replace({"a": "x", "n": True}))
    play, post = await play_of(stage, rule, arguments={"a": "x", "n": 1})
    await play.drive()
    assert post.sent[0]["n"] is True


async def test_a_pause_asks_with_its_reason_and_counts_no_more_once_approved(stage):
    play, post = await play_of(stage, says("gros", Pause("plus de 1 000 €")))
    state = await play.drive()
    request = state.calls[0].request
    assert (request.why, request.policies, request.reason) == (
        "policy",
        ("gros",),
        "plus de 1 000 €",
    )
    await grant(play)
    state = await play.drive()
    assert (state.status, post.sent) == ("completed", [{"a": "x"}])
    assert await facts(play) == [("gros", "pause")]


async def test_a_declared_approval_also_answers_the_policies_that_paused(stage):
    plan = replace(SENDING, approval="always")
    play, post = await play_of(stage, says("gros", Pause("p")), plan=plan)
    request = (await play.drive()).calls[0].request
    assert (request.why, request.policies) == ("declared", ("gros",))
    await grant(play)
    assert (await play.drive()).status == "completed"
    assert len(post.sent) == 1


async def test_a_call_to_approve_that_a_policy_refuses_is_never_asked(stage):
    plan = replace(SENDING, approval="always")
    play, post = await play_of(stage, says("non", Deny("non")), plan=plan)
    state = await play.drive()
    assert (state.status, post.sent) == ("completed", [])
    assert "approval.requested" not in [e.type for e in await play.events()]


async def test_the_human_is_shown_the_arguments_that_would_leave(stage):
    plan = replace(SENDING, approval="always")
    once = Rule("corrige", lambda a: Replace({"a": "y"}) if a["a"] == "x" else CONTINUE)
    play, post = await play_of(stage, once, plan=plan)
    state = await play.drive()
    assert state.calls[0].request.arguments == {"a": "y"}
    await grant(play)
    await play.drive()
    assert post.sent == [{"a": "y"}]


async def test_a_policy_that_pauses_on_corrected_arguments_asks_and_both_are_then_answered(stage):
    first = Rule("un", lambda a: Pause("un"))
    second = Rule("deux", lambda a: Pause("deux") if a["a"] == "corrigé" else CONTINUE)
    play, post = await play_of(stage, first, second)
    await play.drive()
    await grant(play, arguments={"a": "corrigé"})
    state = await play.drive()
    assert (state.status, post.sent) == ("paused", [])
    assert state.calls[0].request.policies == ("un", "deux")
    await grant(play)
    assert (await play.drive()).status == "completed"
    assert post.sent == [{"a": "corrigé"}]


async def test_a_refusal_when_an_approved_call_is_about_to_leave_holds(stage):
    closed = []
    rule = Rule("horaire", lambda _: Deny("fermé") if closed else Pause("p"))
    play, post = await play_of(stage, rule)
    await play.drive()
    closed.append(1)
    await grant(play)
    assert "fermé" in told(play, await play.drive())
    assert post.sent == []


async def test_a_change_of_approved_arguments_asks_again_once_then_refuses(stage):
    values = iter(["y", "y", "z", "z"])
    plan = replace(SENDING, approval="always")
    rule = Rule("taux", lambda _: CONTINUE)
    play, post = await play_of(stage, rule, plan=plan)
    await play.drive()
    rule._decide = lambda a: Replace({"a": next(values)})
    await grant(play)
    state = await play.drive()
    assert (state.status, post.sent) == ("paused", [])
    request = state.calls[0].request
    assert (request.arguments, request.again) == ({"a": "y"}, True)
    values = iter(["z"])
    await grant(play)
    state = await play.drive()
    assert (state.status, post.sent) == ("completed", [])
    assert "change encore" in told(play, state)


async def test_the_journal_alone_tells_the_same_state(stage):
    once = Rule("corrige", lambda a: Replace({"a": "y"}) if a["a"] == "x" else Pause("p"))
    play, _ = await play_of(stage, once)
    state = await play.drive()
    assert fold(await play.events()).calls == state.calls
