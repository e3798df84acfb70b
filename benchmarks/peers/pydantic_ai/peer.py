"""pydantic-ai: an agent on a scripted model; by itself it keeps nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from jobs import Run, Task, main
from pydantic_ai import Agent, UsageLimits
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@asynccontextmanager
async def opening(task: Task) -> AsyncGenerator[Run]:
    """The agent, made once."""

    async def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        if task.delay:
            await asyncio.sleep(task.delay)
        turn = sum(message.kind == "response" for message in messages)
        if turn == task.turns:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("add", {"a": turn, "b": 1}, f"c{turn}")])

    agent = Agent(FunctionModel(answer), tools=[add], system_prompt="You help.")
    limits = UsageLimits(request_limit=None)

    async def run() -> None:
        result = await agent.run("hi", usage_limits=limits)
        assert result.output == "done"

    yield run


main(opening, "BCF")
