"""`@policy` and what becomes of a policy that fails, hangs or says something else."""

import asyncio
import threading

import pytest

from loom_ia.core.model import ToolSpec
from loom_ia.policies import CONTINUE, BeforeTool, Deny, Pause, PolicyContext, Replace, policy
from loom_ia.policies.decorator import PolicyDeclarationError, declared
from loom_ia.policies.hook import Hook, Settings
from loom_ia.tools.threads import Pool

SUBJECT = BeforeTool(ToolSpec(name="t", description="", input_schema={}), {"a": 1}, "c")
CONTEXT = PolicyContext("t", "s", "r", "agent")


def hook(function, *, timeout=5.0, on_error="block", **params):
    settings = Settings(params, timeout, on_error, "fr")
    return Hook(function, declared(function), settings, Pool("test").run)


@policy(points=["before_tool"], decisions=["deny"])
def taux(subject, context):
    """The policy of the manual."""
    return CONTINUE if subject.arguments["a"] in context.params["taux"] else Deny("inconnu")


async def test_a_synchronous_policy_reads_its_parameters_off_the_loop():
    assert await hook(taux, taux=[1]).decide(SUBJECT, CONTEXT) == CONTINUE
    assert await hook(taux, taux=[2]).decide(SUBJECT, CONTEXT) == Deny("inconnu")
    assert declared(taux).name == "taux"

    @policy(points=["before_tool"], decisions=["deny"])
    def where(subject, context):
        return Deny(threading.current_thread().name)

    assert (await hook(where).decide(SUBJECT, CONTEXT)).reason == "test"


async def test_an_asynchronous_policy_is_awaited():
    @policy(points=["before_tool"], decisions=["pause"], name="autre")
    async def later(subject, context):
        await asyncio.sleep(0)
        return Pause(context.agent)

    assert await hook(later).decide(SUBJECT, CONTEXT) == Pause("agent")
    assert hook(later).name == "autre"


async def test_parameters_changed_by_a_policy_are_as_they_were_for_the_next():
    @policy(points=["before_tool"], decisions=["deny"])
    async def greedy(subject, context):
        context.params["list"].append(1)
        return Deny(str(len(context.params["list"])))

    one = hook(greedy, list=[])
    assert [(await one.decide(SUBJECT, CONTEXT)).reason for _ in range(2)] == ["1", "1"]


async def hanging(subject, context):
    await asyncio.Event().wait()


async def stubborn(subject, context):
    for _ in range(3):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
    return CONTINUE


def raising(subject, context):
    msg = "secret"
    raise ValueError(msg)


def wrong(subject, context):
    return True


def undeclared(subject, context):
    return Pause()


def unwritable(subject, context):
    return Replace({"a": object()})


BROKEN = {
    hanging: "TimeoutError",
    stubborn: "TimeoutError",
    raising: "ValueError",
    wrong: "NotDecidedError",
    undeclared: "NotDecidedError",
    unwritable: "TypeError",
}


@pytest.mark.parametrize("on_error", ["block", "allow"])
@pytest.mark.parametrize("function", BROKEN, ids=lambda f: f.__name__)
async def test_what_a_policy_could_not_decide_is_refused_unless_told_otherwise(function, on_error):
    marked = policy(points=["before_tool"], decisions=["deny", "replace"])(function)
    seconds = 0.01 if BROKEN[function] == "TimeoutError" else 60.0
    decision = await hook(marked, timeout=seconds, on_error=on_error).decide(SUBJECT, CONTEXT)
    if on_error == "allow":
        assert decision == CONTINUE
        return
    assert BROKEN[function] in decision.reason
    assert "secret" not in decision.reason


async def test_a_policy_is_stopped_with_who_waits_for_it():
    stopped = asyncio.Event()

    @policy(points=["before_tool"], decisions=["deny"])
    async def waits(subject, context):
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    task = asyncio.create_task(hook(waits).decide(SUBJECT, CONTEXT))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await stopped.wait()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"points": [], "decisions": []}, "points is []"),
        ({"points": "before_tool", "decisions": []}, "points is 'before_tool'"),
        ({"points": ["avant"], "decisions": ["deny"]}, "points is 'avant'"),
        ({"points": ["before_tool"], "decisions": ["repair"]}, "'repair' is not possible at"),
        ({"points": ["before_tool"], "decisions": []}, "'' is not possible at"),
        ({"points": ["before_tool"], "decisions": ["deny"], "timeout": 0}, "timeout is 0"),
        ({"points": ["before_tool"], "decisions": ["deny"], "timeout": True}, "timeout is True"),
        ({"points": ["before_tool"], "decisions": ["deny"], "on_error": "x"}, "on_error is 'x'"),
        ({"points": ["before_tool"], "decisions": ["deny"], "name": " "}, "name is ' '"),
        ({"points": ["before_tool"], "decisions": ["deny"], "nom": "x"}, "option 'nom' is unknown"),
    ],
)
def test_a_declaration_that_cannot_be_says_what_is_accepted(options, said):
    with pytest.raises(PolicyDeclarationError, match="hanging") as error:
        policy(**options)(hanging)
    assert said in str(error.value)
