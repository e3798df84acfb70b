"""agent-framework: an agent on a scripted chat client; by itself it keeps nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    tool,
)
from jobs import Run, Task, main


@tool(approval_mode="never_require")
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


class Scripted(FunctionInvocationLayer, BaseChatClient):
    """Asks for calls, then answers."""

    task = Task(0)

    async def _inner_get_response(
        self,
        *,
        messages: Sequence[Message],
        stream: bool,  # noqa: ARG002  only whole answers are asked for
        options: Mapping[str, object],  # noqa: ARG002
        **_: object,
    ) -> ChatResponse:
        if self.task.delay:
            await asyncio.sleep(self.task.delay)
        turn = sum(message.role == "assistant" for message in messages)
        if turn == self.task.turns:
            return ChatResponse(messages=Message("assistant", ["done"]))
        call = Content.from_function_call(f"c{turn}", "add", arguments={"a": turn, "b": 1})
        return ChatResponse(messages=Message("assistant", [call]))


@asynccontextmanager
async def opening(task: Task) -> AsyncGenerator[Run]:
    """The agent, made once."""
    configuration = {"max_iterations": 1000, "max_function_calls": None}
    client = Scripted(function_invocation_configuration=configuration)
    client.task = task
    agent = Agent(client, "You help.", tools=[add])

    async def run() -> None:
        result = await agent.run("hi")
        assert result.text == "done", result

    yield run


main(opening, "BCF")
