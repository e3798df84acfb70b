"""Server-sent events from bytes cut anywhere.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterable, AsyncIterator, Iterator


class Decoder:
    """Data of the events of one stream; names, ids and comments are left out.

    Every API here repeats the name of an event inside its data.
    """

    def __init__(self) -> None:
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._data: list[str] = []
        self._first = True

    def feed(self, data: bytes, *, last: bool = False) -> Iterator[str]:
        """Data of the events that these bytes complete.

        Raises:
            UnicodeDecodeError: the stream is not UTF-8, or ends in half a character.

        """
        text = self._text + self._utf8.decode(data, last)
        if self._first and text:
            self._first, text = False, text.removeprefix("\ufeff")
        # A final CR may be half of a CR LF: it waits for what follows.
        held = "\r" if text.endswith("\r") and not last else ""
        body = text[: len(text) - len(held)]
        lines = body.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._text = lines.pop() + held
        for line in lines:
            if line:
                self._take(line)
            elif self._data:
                yield self._event()
        if last and self._text:
            self._take(self._text)
        if last and self._data:
            yield self._event()

    def _event(self) -> str:
        data, self._data = "\n".join(self._data), []
        return data

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))


async def events(stream: AsyncIterable[bytes]) -> AsyncIterator[str]:
    """Data of each event of a stream of bytes; the last one may lack its blank line.

    Raises:
        UnicodeDecodeError: see `Decoder.feed`.

    """
    decoder = Decoder()
    async for data in stream:
        for event in decoder.feed(data):
            yield event
    for event in decoder.feed(b"", last=True):
        yield event
