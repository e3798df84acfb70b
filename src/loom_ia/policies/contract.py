"""The form of an output: normalised without a model, then checked against a contract."""

from __future__ import annotations

import json
import logging
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeGuard

from loom_ia.core.cleaning import clean
from loom_ia.core.ports.checks import Finding
from loom_ia.core.wording import Language, say
from loom_ia.policies.extraction import Found, candidates
from loom_ia.policies.hook import InThread
from loom_ia.policies.schemas import Schema, matches

logger = logging.getLogger("loom_ia.policy")
_SCHEMA = 2000
"""Characters of a schema that is shown to a model that wrote no JSON."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a contract asks for."""

    schema: Mapping[str, object] | None = None
    must_match: str | None = None
    must_not_match: str | None = None
    max_chars: int | None = None


class Contract:
    """One contract, ready to read texts."""

    def __init__(self, terms: Terms, language: Language, in_thread: InThread) -> None:
        """Take terms that were checked when they were loaded."""
        self._terms, self._in_thread = terms, in_thread
        self._language: Language = language
        self._schema = None if terms.schema is None else Schema(terms.schema)

    async def check(self, text: str) -> Finding:
        """What is found in a text, in a thread: a schema or a pattern may take its time."""
        try:
            found = await self._in_thread(partial(self.judge, text))
        except Exception:
            logger.exception("a contract could not read a text")
            return Finding(say(self._language, "form_time"))
        return found if isinstance(found, Finding) else Finding()

    def judge(self, text: str) -> Finding:
        """What is found in a text."""
        if self._schema is None:
            problems = list(self._plain(text, text))
            return Finding(self._said(problems))
        chosen, problems = self._chosen(text, self._schema)
        if chosen is None:
            return Finding(self._said(problems))
        problems += self._plain(chosen.text, chosen.value)
        became = None if chosen.text == text else clean(chosen.text)
        return Finding(self._said(problems), text=became, parsed=not problems)

    def _chosen(self, text: str, schema: Schema) -> tuple[Found | None, list[str]]:
        """The last JSON value that fits, else the longest one with what is wrong in it."""
        found = candidates(text)
        if not found:
            shown = json.dumps(schema.schema, ensure_ascii=False)
            key = "form_no_json" if len(shown) <= _SCHEMA else "form_no_json_bare"
            return None, [say(self._language, key, schema=shown)]
        for one in reversed(found):
            if not schema.problems(one.value, self._language):
                return one, []
        longest = max(found, key=lambda one: len(one.text))
        return longest, schema.problems(longest.value, self._language)

    def _plain(self, text: str, value: object) -> Iterator[str]:
        terms, language = self._terms, self._language
        if terms.max_chars is not None and len(text) > terms.max_chars:
            yield say(language, "form_max_chars", count=len(text), limit=terms.max_chars)
        texts = [unicodedata.normalize("NFC", one) for one in (text, *_strings(value))]
        for pattern, wanted in ((terms.must_match, True), (terms.must_not_match, False)):
            if pattern is None:
                continue
            try:
                seen = any(matches(pattern, one) for one in texts)
            except TimeoutError:
                yield say(language, "form_pattern_time", pattern=pattern)
                continue
            if seen is not wanted:
                key = "form_must_match" if wanted else "form_must_not_match"
                yield say(language, key, pattern=pattern)

    def _said(self, problems: list[str]) -> str:
        return (
            "\n".join(f"- {problem}" for problem in problems) if problems[1:] else "".join(problems)
        )


def _strings(value: object) -> Iterator[str]:
    """Texts inside a JSON value, keys left out: what is escaped in JSON is plain there."""
    if _mapping(value):
        for one in value.values():
            yield from _strings(one)
    elif _listing(value):
        for one in value:
            yield from _strings(one)
    elif isinstance(value, str):
        yield value


def _mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping)


def _listing(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)
