"""One HTTP exchange with a provider, whatever its API: what comes back, and why nothing does."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Protocol

import httpx2

from loom_ia.adapters.models import sse
from loom_ia.core.failures import ModelError, ModelTransientError, classify
from loom_ia.core.model import Answer, ModelChunk, ModelSpec, RawExchange, Usage
from loom_ia.core.model.arguments import is_array, is_object

LONGEST_REASON = 500
KEPT_HEADERS = ("content-type", "request-id", "x-request-id", "retry-after")
SENT_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "anthropic-version",
        "connection",
        "content-length",
        "content-type",
        "host",
        "transfer-encoding",
        "user-agent",
    }
)
CONTENT = {"base64": "data", "image_generation_call": "result"}
"""Field that holds the bytes of a file, by the type of what it stands in."""
EMBEDDED = re.compile(r"data:[\w.+/-]+;base64,")
DONE = "[DONE]"
Response = httpx2.Response


def connections(credential: Mapping[str, str]) -> httpx2.AsyncClient:
    """Connections of one model: the engine holds the delays, and a key follows no redirection.

    The configuration says for whom requests are, the environment does not: of the headers that an
    SDK finds there, none leaves.
    """

    async def hold(request: httpx2.Request) -> None:
        for name in set(request.headers):
            if name not in SENT_HEADERS and not name.startswith("x-stainless-"):
                del request.headers[name]
        request.headers.update(credential)

    return httpx2.AsyncClient(
        follow_redirects=False,
        timeout=None,
        # Runs that wait for a connection would spend the delays of a model that was not asked.
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100),
        event_hooks={"request": [hold]},
    )


class Reader(Protocol):
    """Puts one answer together; it belongs to one request."""

    def feed(self, event: Mapping[str, object]) -> Iterable[ModelChunk]:
        """Pieces that an event brings.

        Raises:
            ModelError: the event is an error.

        """
        ...

    def whole(self, body: Mapping[str, object]) -> Answer:
        """The answer of a server that does not stream.

        Raises:
            ModelError: there is none in it.

        """
        ...

    def done(self) -> None:
        """The server said that nothing follows."""
        ...

    def answer(self) -> Answer | None:
        """The whole answer; None when the stream did not reach its end."""
        ...


class Exchange:
    """Sends one request and reads what comes; it belongs to one request."""

    def __init__(self, spec: ModelSpec, url: str, body: dict[str, object], secret: str) -> None:
        self._spec, self._secret = spec, secret
        self._url, self._body = _public(url), body
        self._kept: list[str] | None = [] if spec.capture.raw_exchanges else None
        self._response: Response | None = None

    async def run(
        self, post: Callable[[], Awaitable[Response]], reader: Reader
    ) -> AsyncGenerator[ModelChunk]:
        """Pieces of the answer, what was exchanged if it is asked for, then the answer.

        Raises:
            ModelError: there is no answer.

        """
        answer: Answer | None = None
        try:
            response = self._response = await post()
            try:
                if "json" in response.headers.get("content-type", ""):
                    answer = reader.whole(self._parsed((await response.aread()).decode()))
                else:
                    async for chunk in self._streamed(response, reader):
                        yield chunk
                    answer = reader.answer()
            finally:
                await response.aclose()
        except (ModelError, httpx2.HTTPError, UnicodeDecodeError) as error:
            for raw in self._exchanged():
                yield raw
            if isinstance(error, ModelError):
                raise
            reason = f"the connection broke: {type(error).__name__}"
            raise ModelTransientError(model=self._spec.id, reason=reason) from None
        for raw in self._exchanged():
            yield raw
        if answer is not None:
            yield answer

    async def _streamed(self, response: Response, reader: Reader) -> AsyncGenerator[ModelChunk]:
        async for data in sse.events(response.aiter_bytes()):
            if self._kept is not None:
                self._kept.append(data)
            if data == DONE:
                reader.done()
                return
            for chunk in reader.feed(self._parsed(data)):
                yield chunk

    def _parsed(self, data: str) -> Mapping[str, object]:
        try:
            value: object = json.loads(data)
        except (ValueError, RecursionError):
            value = None
        if is_object(value):
            return value
        raise ModelTransientError(model=self._spec.id, reason="the server sent an unreadable event")

    def refused(self, response: Response) -> ModelError:
        """What an HTTP status says; nothing was consumed."""
        self._response = response
        text = response.text
        if self._kept is not None:
            self._kept.append(text)
        codes, message = error_of(_loaded(text), text)
        reason = self._safe(f"{response.status_code} {message}".strip())
        kind = classify(response.status_code, codes, message)
        wait = retry_after(response.headers)
        return kind(usage=Usage(), retry_after=wait, model=self._spec.id, reason=reason)

    def unreachable(self, error: Exception) -> ModelError:
        """What a failure without any answer says."""
        cause = error.__cause__ or error
        never_left = isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout)
        reason = self._safe(f"no answer from {self._url} ({type(cause).__name__})")
        usage = Usage() if never_left else None
        return ModelTransientError(usage=usage, model=self._spec.id, reason=reason)

    def _safe(self, text: str) -> str:
        hidden = text.replace(self._secret, "***") if self._secret else text
        return hidden if len(hidden) <= LONGEST_REASON else f"{hidden[:LONGEST_REASON]}…"

    def _exchanged(self) -> Iterable[RawExchange]:
        if self._kept is None:
            return
        response = self._response
        headers: Mapping[str, str] = {} if response is None else response.headers
        request = _scrubbed(self._body, self._secret)
        yield RawExchange(
            url=self._url,
            request=request if is_object(request) else {},
            status=None if response is None else response.status_code,
            headers={name: headers[name] for name in KEPT_HEADERS if name in headers},
            body=tuple([self._told(text) for text in self._kept]),
        )

    def _told(self, text: str) -> str:
        """What came, as it was unless there is something in it that no journal keeps."""
        value = _loaded(text)
        kept = _scrubbed(value, self._secret)
        if kept == value:
            return text.replace(self._secret, "***") if self._secret else text
        return json.dumps(kept, ensure_ascii=False)


def _public(url: str) -> str:
    """The address without what may be secret in it."""
    return str(httpx2.URL(url).copy_with(username=None, password=None, query=None))


def _loaded(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def error_of(body: object, text: str = "") -> tuple[tuple[str, ...], str]:
    """Codes, the most telling first, and message of an error as providers write them."""
    if is_array(body) and body:
        body = body[0]
    if not is_object(body):
        return (), text.strip()
    inner = body.get("error", body)
    if not is_object(inner):
        return (), str(inner)
    said = (inner.get("code"), inner.get("type"))
    codes = tuple(str(code) for code in said if isinstance(code, str))
    return codes, str(inner.get("message") or text)


def stream_error(model: str, body: object) -> ModelError:
    """An error that came inside a stream that had begun."""
    codes, message = error_of(body)
    reason = message or ", ".join(codes) or "the stream ended in an error"
    return classify(None, codes, message)(model=model, reason=reason[:LONGEST_REASON])


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the provider asks to wait; a date counts from the server's own."""
    milliseconds, seconds = headers.get("retry-after-ms"), headers.get("retry-after")
    try:
        if milliseconds:
            return max(float(milliseconds) / 1000, 0.0)
        if not seconds:
            return None
        if seconds.strip().replace(".", "", 1).isdigit():
            return float(seconds)
        at, now = parsedate_to_datetime(seconds), parsedate_to_datetime(headers.get("date", ""))
        return max((at - now).total_seconds(), 0.0)
    except ValueError:
        return None


def _scrubbed(value: object, secret: str) -> object:
    """The value without the key and the contents of files."""
    if is_object(value):
        inside = CONTENT.get(str(value.get("type")))
        return {
            key: _weight(one) if key == inside else _scrubbed(one, secret)
            for key, one in value.items()
        }
    if is_array(value):
        return [_scrubbed(one, secret) for one in value]
    if not isinstance(value, str):
        return value
    if EMBEDDED.match(value):
        return _weight(value)
    return value.replace(secret, "***") if secret else value


def _weight(value: object) -> str:
    return f"({len(str(value))} characters)"


def tokens(usage: Mapping[str, object], name: str) -> int | None:
    """A count of tokens; None when it is absent, -1 when it is none."""
    value = usage.get(name)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return -1
