"""A review that is cut anywhere goes on where it was: nothing is paid or done twice."""

from dataclasses import replace

import pytest

from loom_ia.core.plan import Plan, ToolPlan
from loom_ia.core.policy import CONTINUE, Repair, Replace
from loom_ia.core.ports import Finding
from loom_ia.testing import ScriptedModel
from loom_ia.testing.journals import Cut, Cutting, Gated


class Form:
    """A contract that wants `oui` in the text."""

    async def check(self, text):
        return Finding("" if "oui" in text else "dis oui")


class Rule:
    """A policy that decides from what it is shown."""

    def __init__(self, name, decide):
        self.name, self._decide = name, decide

    async def decide(self, subject, context):
        return self._decide(subject)


def judged(play):
    """A run where a turn, an answer's form and its text are each refused once, and a result
    replaced.
    """
    turns = [
        {"text": "d'abord", "tool_calls": [{"name": "lire", "arguments": {"a": 1}}]},
        {"tool_calls": [{"name": "lire"}]},
        "non",
        "oui mais non",
        "oui",
    ]
    after_model = Rule("tour", lambda s: Repair("pas lui") if s.text == "d'abord" else CONTINUE)
    after_tool = Rule(
        "résultat", lambda s: Replace(s.result + "+") if "+" not in s.result else CONTINUE
    )
    on_output = Rule("mais", lambda s: Repair("sans mais") if "mais" in s.text else Replace("oui."))
    plan = Plan(
        tools={"lire": ToolPlan(side_effects="none", checks=("résultat",))},
        turn_checks=("tour",),
        checks=("contract", "mais"),
        max_iterations=20,
    )
    play.world = replace(
        play.world,
        plan=plan,
        model=ScriptedModel(*turns),
        contract=Form(),
        after_model=[after_model],
        after_tool=[after_tool],
        on_output=[on_output],
    )
    return play


@pytest.mark.parametrize("kept", [True, False])
async def test_a_review_that_is_cut_anywhere_ends_the_same_and_keeps_every_answer(stage, kept):
    whole = judged(stage())
    await whole.start()
    expected = await whole.to_the_end()
    assert expected.ending.text == "oui."
    assert dict(expected.repairs) == {"tour": 1, "contract": 1, "mais": 1}
    cut, died = 0, True
    while died:
        play = judged(stage())
        await play.start()
        try:
            await play.to_the_end(Gated(play.inner, Cutting(cut, kept=kept)))
            died = False
        except Cut:
            before = [e for e in await play.events() if e.type == "model.responded"]
            asked = len(play.world.model.requests)
            state = await play.to_the_end(steal=True)
            assert (state.messages, state.ending) == (expected.messages, expected.ending)
            events = await play.events()
            answers = [e for e in events if e.type == "model.responded"]
            assert len(answers) == 5
            assert answers[: len(before)] == before
            assert len(play.world.model.requests) - asked == 5 - len(before)
        cut += 1
    assert cut > 15
