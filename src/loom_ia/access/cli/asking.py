"""Questions to the person at the terminal, on standard error; nobody there is an error."""

from __future__ import annotations

import sys
from collections.abc import Callable

from loom_ia.access.cli.session import say
from loom_ia.core.errors import Kind, LoomError
from loom_ia.core.text import Text


class ConfirmationNeededError(LoomError):
    """Nobody is there to confirm."""

    kind = Kind.INVALID
    template = "nothing was done: it cannot be undone, and nobody can be asked; type {command}"


class AnswersNeededError(LoomError):
    """Nobody is there to answer questions."""

    kind = Kind.INVALID
    template = "nothing was done: nobody can be asked; type {command}"


class QuestionsEndedError(LoomError):
    """The person closed the input instead of answering."""

    kind = Kind.UNAVAILABLE
    template = "no answer was given; nothing was done"


def reachable() -> bool:
    """Tell whether a person can be asked, and can answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirmed(what: Text, typed: str) -> bool:
    """Whether the person agrees to something that cannot be undone.

    Raises:
        ConfirmationNeededError: nobody is there to answer; `typed` asks nothing.

    """
    if not reachable():
        raise ConfirmationNeededError(command=typed)
    question = Text("Erase it for good? [y/N]")
    print(what, question, end=" ", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes", "o", "oui"}


def ask(question: Text, usual: str, fault: Callable[[str], object | None]) -> str:
    """What the person answers, or the usual answer; asked again as long as it has a fault.

    Raises:
        QuestionsEndedError: the input ended.

    """
    while True:
        print(f"{question} [{usual}]", end=" ", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            say("")
            raise QuestionsEndedError
        answer = line.strip() or usual
        wrong = fault(answer)
        if wrong is None:
            return answer
        say(wrong)
