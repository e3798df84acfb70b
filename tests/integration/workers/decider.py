"""Starts, decides and stops runs of one project as it is told, beside others that do the same.

Reads lines of JSON, `{"verb": …, "run": …}`; answers each with a line that says what came of it.
"""

import asyncio
import json
import sys

from loom_ia.access import Loom
from loom_ia.core.errors import LoomError


async def done(loom, verb, run, me):
    match verb:
        case "start":
            return await loom.run("a", "Relance", run_id=run)
        case "approve":
            return await loom.approve(run, by=me, call="fake_0_0")
        case "edit":
            return await loom.approve(run, by=me, call="fake_0_0", arguments={"a": me})
        case "reject":
            return await loom.reject(run, by=me, call="fake_0_0", reason=me)
        case "cancel":
            return await loom.cancel(run, by=me)
        case "resume":
            return await loom.resume(run, by=me)
    raise ValueError(verb)


async def main():
    config, me = sys.argv[1:]
    loop, lines = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with await asyncio.to_thread(Loom.from_config, config) as loom:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while line := await lines.readline():
            asked = json.loads(line)
            try:
                result = await done(loom, asked["verb"], asked["run"], me)
                answer = {"status": result.status}
            except LoomError as error:
                answer = {"error": error.code, "text": str(error)}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
