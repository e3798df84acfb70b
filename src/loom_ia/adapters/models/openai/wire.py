"""The two APIs of OpenAI as one: neutral requests to JSON, streams to neutral answers."""

from __future__ import annotations

from dataclasses import dataclass

from loom_ia.adapters.models.exchange import Reader
from loom_ia.adapters.models.files import Attachments
from loom_ia.adapters.models.openai import chat, responses
from loom_ia.adapters.models.openai.parts import Json
from loom_ia.core.model import ModelRequest
from loom_ia.core.model.dialects import native


@dataclass(frozen=True, slots=True)
class Letter:
    """What leaves, where to, and who reads what comes."""

    path: str
    body: Json
    reader: Reader


def letter(request: ModelRequest, files: Attachments) -> Letter:
    """The request in the API that its model names."""
    spec = request.spec
    schema = request.schema if native(spec, request.schema) else None
    if spec.api == "responses":
        body = responses.encode(request, files)
        return Letter("/responses", body, responses.Reader(spec, schema))
    return Letter("/chat/completions", chat.encode(request, files), chat.Reader(spec, schema))
