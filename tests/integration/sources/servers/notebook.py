"""A server of the official SDK over stdio: tools of every temper, counted in a file it is given.

python notebook.py LEDGER [--grandchild]
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

LEDGER = Path(sys.argv[1])
server = MCPServer("notebook", version="1.0")


def count(what: str) -> None:
    with LEDGER.open("a", encoding="utf-8") as ledger:
        ledger.write(f"{what}\n")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def read(name: str) -> str:
    """Read a note."""
    count(f"read {name}")
    return f"note {name}: 1 840,00 €"


@server.tool()
def send(to: str) -> str:
    """Send a note."""
    count(f"send {to}")
    return f"sent to {to}"


@server.tool()
def fail() -> str:
    """Fail."""
    msg = "out of paper"
    raise ToolError(msg)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def slow_read(name: str) -> str:
    """Read, never to the end."""
    count(f"slow_read {name}")
    await asyncio.sleep(600)
    return "late"


@server.tool()
async def slow_send(to: str) -> str:
    """Send, never to the end."""
    count(f"slow_send {to}")
    await asyncio.sleep(600)
    return "late"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def walk(steps: int, ctx: Context) -> str:
    """Tell how far it is."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps, f"step {step + 1}")
    return "arrived"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def loud(size: int) -> str:
    """Answer much, in the middle of noise."""
    print("this is not JSON")  # noqa: T201
    sys.stdout.buffer.write(b'\xff\xfe{"half": \n{"jsonrpc":"2.0","id":null,"result":{}}\n')
    sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":"unknown","result":{}}\n')
    sys.stdout.flush()
    for _ in range(1000):
        sys.stderr.write("x" * 1000 + "\n")
    return "y" * size


if __name__ == "__main__":
    count(f"pid {os.getpid()}")
    if "--grandchild" in sys.argv:
        child = subprocess.Popen(["sleep", "600"])
        alone = subprocess.Popen(["sleep", "600"], start_new_session=True)
        count(f"pid {child.pid}")
        count(f"pid {alone.pid}")
    server.run("stdio")
