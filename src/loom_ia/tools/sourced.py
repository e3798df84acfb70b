"""A tool that a source offers: its arguments checked against its schema, its result kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache, partial
from itertools import islice

import jsonschema
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from loom_ia.core.cleaning import clean
from loom_ia.core.model import ContentBlock, FileBlock, ImageBlock, TextBlock, ToolSpec
from loom_ia.core.ports import (
    Answered,
    InvalidArgumentsError,
    Launch,
    Offer,
    ToolContext,
    ToolOutput,
    ToolWithdrawnError,
)
from loom_ia.core.wording import Language, say
from loom_ia.tools.media import IMAGES
from loom_ia.tools.python import Save
from loom_ia.tools.wording import misfit

MAX_TEXT = 200_000
"""Characters of a result that the journal keeps and the model is shown."""
WRONG = 5
"""Problems of arguments that are told at once."""


class SourcedTool:
    """One tool of an open source, under the name that the model sees."""

    def __init__(self, offer: Offer, name: str, language: Language, save: Save) -> None:
        """Read the offer once; nothing of it is read again at a call."""
        self._offer, self._save = offer, save
        self._language: Language = language
        self.spec = ToolSpec(
            name=name, description=offer.description, input_schema=dict(offer.input_schema)
        )

    def bind(self, arguments: Mapping[str, object]) -> Launch:
        """What will run; the arguments are copied now.

        Raises:
            InvalidArgumentsError: they do not fit the schema.
            ToolWithdrawnError: the source changed what it says of the tool.

        """
        if self._offer.withdrawn():
            raise ToolWithdrawnError(say(self._language, "withdrawn", name=self.spec.name))
        try:
            written = json.dumps(arguments, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidArgumentsError(misfit(self._language, self.spec.name, ())) from error
        problems = self._problems(written)
        if problems:
            raise InvalidArgumentsError(misfit(self._language, self.spec.name, problems))
        return partial(self._launch, json.loads(written))

    def _problems(self, written: str) -> list[tuple[str, str]]:
        """Where and what: the rule that each wrong argument breaks."""
        validator = _validator(json.dumps(self.spec.input_schema, sort_keys=True))
        if validator is None:
            return []
        with suppress(Unresolvable):  # a schema that names another document: the server judges
            found = islice(validator.iter_errors(json.loads(written)), WRONG)
            return [(".".join(map(str, error.absolute_path)), _rule(error)) for error in found]
        return []

    async def _launch(self, given: Mapping[str, object], context: ToolContext) -> ToolOutput:
        answered = await self._offer.call(given, context)
        return ToolOutput(await self._kept(answered, context), is_error=answered.is_error)

    async def _kept(self, answered: Answered, context: ToolContext) -> tuple[ContentBlock, ...]:
        blocks: list[ContentBlock] = []
        left = MAX_TEXT
        for part in answered.parts:
            if isinstance(part, str):
                blocks.append(TextBlock.of(self._cut(part, left)))
                left = max(left - len(part), 0)
                continue
            uri = await self._save(context, part.data, part.media_type)
            kind = ImageBlock if part.media_type in IMAGES else FileBlock
            blocks.append(kind(uri=uri, media_type=part.media_type, name=part.name))
        return tuple(blocks)

    def _cut(self, text: str, left: int) -> str:
        if len(text) <= left:
            return text
        note = say(self._language, "cut", shown=left, total=len(text))
        return f"{text[:left]}\n{note}"


def _rule(error: jsonschema.ValidationError) -> str:
    """What the schema asks there, as it is written in it."""
    shown = json.dumps(error.validator_value, ensure_ascii=False)
    text = f"{error.validator}: {shown}"
    return clean(text if len(text) <= MAX_RULE else f"{text[:MAX_RULE]}…")


MAX_RULE = 160
"""Characters shown of a rule of a schema."""


@lru_cache(1024)
def _validator(schema: str) -> Validator | None:
    """Validator of a schema, which reaches no other document; None when it is no schema."""
    kind = validator_for(json.loads(schema))
    try:
        kind.check_schema(json.loads(schema))
        return kind(json.loads(schema), registry=Registry())
    except jsonschema.SchemaError:
        return None
