"""LangGraph: a model node and a tool node, durable by its SQLite checkpointer in `sync` mode."""

from __future__ import annotations

import asyncio
import itertools
import operator
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, TypedDict

from jobs import Run, Task, main
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode


class State(TypedDict):
    """The conversation."""

    messages: Annotated[list[AnyMessage], operator.add]


@tool
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@asynccontextmanager
async def opening(task: Task) -> AsyncGenerator[Run]:
    """The graph, compiled once."""

    async def model(state: State) -> dict[str, list[AnyMessage]]:
        if task.delay:
            await asyncio.sleep(task.delay)
        turn = sum(message.type == "ai" for message in state["messages"])
        if turn == task.turns:
            return {"messages": [AIMessage("done")]}
        call = {"name": "add", "args": {"a": turn, "b": 1}, "id": f"c{turn}", "type": "tool_call"}
        return {"messages": [AIMessage("", tool_calls=[call])]}

    def onward(state: State) -> str:
        return "tools" if state["messages"][-1].tool_calls else END

    graph = StateGraph(State)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([add]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", onward, ["tools", END])
    graph.add_edge("tools", "model")
    threads = itertools.count()
    async with AsyncExitStack() as stack:
        saver = None
        if task.folder is not None:
            path = str(task.folder / "graph.db")
            saver = await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(path))
        compiled = graph.compile(checkpointer=saver)

        async def run() -> None:
            config = {"configurable": {"thread_id": str(next(threads))}, "recursion_limit": 1000}
            durability = {} if saver is None else {"durability": "sync"}
            asked = {"messages": [HumanMessage("hi")]}
            state = await compiled.ainvoke(asked, config, **durability)
            assert state["messages"][-1].content == "done"

        yield run


main(opening)
