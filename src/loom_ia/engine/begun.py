"""Starts a coroutine at once in a task of its own: what answers at once waits for no loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from contextvars import copy_context
from typing import Generic, TypeVar

T = TypeVar("T")


class Begun(Coroutine[object, object, T], Generic[T]):
    """A coroutine that has run to its first suspension, or to its end.

    `asyncio` has as much from Python 3.12 on (`eager_start`), which 3.11 lacks. The task is there
    before the first step, which sees it as the current one, as a deadline or a group of tasks
    must; when the coroutine has ended at once, nothing is left for it to do.
    """

    __slots__ = ("_error", "_first", "_held", "_inner", "_value", "ended")

    def __init__(self, inner: Coroutine[object, object, T]) -> None:
        self._inner = inner
        self._first: object = None
        self._value: list[T] = []
        self._error: BaseException | None = None
        self._held = self.ended = False

    def begin(self) -> asyncio.Task[T]:
        """Take the first step; the task of those that are left.

        It is not kept here: a task holds its coroutine, and a cycle would wait for the collector.
        """
        loop, context = asyncio.get_running_loop(), copy_context()
        task = loop.create_task(self, context=context)
        outer = asyncio.current_task(loop)
        _pass(loop, outer, task)
        try:
            self._first = context.run(self._inner.send, None)
            self._held = True
        except StopIteration as stop:
            self._value.append(stop.value)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - see `result`
            self._error = error
        finally:
            self.ended = not self._held
            _pass(loop, task, outer)
        return task

    def result(self) -> T:
        """What a coroutine that ended at once gave; raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._value[0]

    def send(self, value: object, /) -> object:
        """The next suspension; the first one has been waiting since the beginning."""
        if self.ended:
            raise StopIteration
        if self._held:
            self._held = False
            return self._first
        return self._inner.send(value)

    def throw(self, error: BaseException, /, *_: object) -> object:  # pyright: ignore[reportIncompatibleMethodOverride] reason: tasks give the error alone
        """Raise inside; what ended at once is no longer there to be stopped."""
        if self.ended:
            raise StopIteration
        self._held = False
        return self._inner.throw(error)

    def close(self) -> None:
        """Close what is suspended."""
        self._inner.close()

    def __await__(self) -> Generator[object, object, T]:
        return self._inner.__await__()


def _pass(
    loop: asyncio.AbstractEventLoop,
    before: asyncio.Task[object] | None,
    after: asyncio.Task[object] | None,
) -> None:
    """Make a task the current one in the place of another."""
    if before is not None:
        asyncio._leave_task(loop, before)  # public to those who step tasks
    if after is not None:
        asyncio._enter_task(loop, after)
