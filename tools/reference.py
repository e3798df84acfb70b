# ruff: noqa: INP001 - a script, run by path
"""Write the reference pages from what the program itself registers.

python tools/reference.py: writes docs/{en,fr}/reference/, as the build of the documents does.
"""

from __future__ import annotations

import argparse
import json
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from inspect import cleandoc
from pathlib import Path

import loom_ia
from loom_ia import locale
from loom_ia.access import Loom
from loom_ia.access.cli.main import COMMANDS
from loom_ia.access.http import create_app
from loom_ia.config import LoomConfig
from loom_ia.config.schema import field_docstrings, json_schema
from loom_ia.core.errors import Kind, LoomError
from loom_ia.core.events.envelope import TYPES, Event, Payload
from loom_ia.runtime import catalog

ROOT = Path(__file__).resolve().parents[1]
LANGUAGES = ("en", "fr")
PORTS: dict[str, Callable[[str], type]] = {
    "storage": catalog.store_settings,
    "artifacts": catalog.artifacts_settings,
    "idempotency": catalog.idempotency_settings,
    "bus": catalog.bus_settings,
    "models": catalog.model_settings,
    "sources": catalog.source_settings,
}
TITLES = {
    "en": {
        "commands": "Commands",
        "errors": "Errors",
        "settings": "Settings",
        "events": "Events",
        "routes": "Routes",
        "code": "code",
        "sentence": "sentence",
    },
    "fr": {
        "commands": "Commandes",
        "errors": "Erreurs",
        "code": "code",
        "sentence": "phrase",
    },
}


COMMON = {
    "accepted": "Whether it passed.",
    "agent": "Name of the agent.",
    "attempt": "Attempt of this step, from 1.",
    "body": "What came back, piece by piece.",
    "blocks": "What the tool gave, as the model reads it.",
    "by": "Who did it, and through which door.",
    "call_id": "The call, by the engine's own id.",
    "ceiling": "Dollars allowed.",
    "check": "Name of the check, with the digest of what it judged.",
    "code": "Stable code of the error.",
    "cost": "Dollars, or nothing when the price is unknown.",
    "decision": "What the policy decided.",
    "detail": "What was told of the cause.",
    "evidence": "What the check of the tool found.",
    "expires_at": "Instant from which a decision comes too late.",
    "file": "Where the line was kept.",
    "headers": "Headers of the answer, without secrets.",
    "happened": "Whether the effect took place.",
    "holder": "Process that drives.",
    "is_error": "The tool said that it could not.",
    "message": "The message, as typed blocks.",
    "model": "Name that the provider knows.",
    "ms": "Milliseconds that it took.",
    "on_behalf_of": "For whom, in the words of who decided.",
    "options": "What the caller chose for this run.",
    "params": "Values of the sentence of the error.",
    "payload": "What happened; its fields are below, by type.",
    "point": "Point of the loop where the policy stands.",
    "policy": "Name of the policy.",
    "principal": "Who asked, and through which door.",
    "reason": "Why.",
    "request": "What was sent, without secrets.",
    "resumable": "Whether `loom resume` can go on with it.",
    "role": "`main`, or the role that was called.",
    "run_id": "The run.",
    "scope": "What the ceiling is set on.",
    "session_id": "The conversation.",
    "spent": "Dollars spent so far.",
    "status": "What the fact says of its effect.",
    "step": "Number of the step, as `loom inspect` shows it.",
    "stop": "Why the model stopped, or whether the budget stops the run.",
    "tenant_id": "The customer.",
    "tool": "Name of the tool, as the model sees it.",
    "type": "Type of the event, as `<category>.<action>`.",
    "url": "Where it was sent.",
    "version": "Version of this format.",
}
"""Fields that mean the same wherever they stand."""


def write(folder: Path, language: str) -> None:
    """Write the pages of one language."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages(language).items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def pages(language: str) -> dict[str, str]:
    """Reference pages of one language, by name."""
    words = TITLES[language]
    locale.install({"LOOM_LANG": language})
    try:
        written = {
            "commands": "".join(_commands(words["commands"])),
            "errors": "".join(_errors(words)),
        }
    finally:
        locale.install({"LOOM_LANG": "en"})
    if language == "en":
        written["settings"] = "".join(_settings(words["settings"]))
        written["events"] = "".join(_events(words["events"]))
        written["routes"] = "".join(_routes(words["routes"]))
    return written


def _commands(title: str) -> Iterator[str]:
    yield f"# {title}\n\n"
    for name in COMMANDS:
        module = import_module(f"loom_ia.access.cli.commands.{name}")
        parser = argparse.ArgumentParser(prog=f"loom {name}", add_help=False)
        module.configure(parser)
        yield f"## loom {name}\n\n{_sentence(str(module.HELP))}\n\n{_options(parser)}"
        for words, child in _children(parser):
            yield f"### loom {name} {words}\n\n{_sentence(child.description or '')}\n\n"
            yield _options(child)


def _children(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _options(parser: argparse.ArgumentParser) -> str:
    rows = ""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction | argparse._HelpAction):
            continue
        metavar = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
        shown = ", ".join(action.option_strings) or str(metavar)
        value = f" {metavar}" if action.option_strings and action.nargs != 0 else ""
        rows += f"`{shown}{value}`\n: {_sentence(action.help or '')}\n\n"
    return rows


def _sentence(text: str) -> str:
    text = " ".join(text.split()) or "–"
    return text[0].upper() + text[1:].rstrip(".") + "."


def errors() -> Mapping[str, type[LoomError]]:
    """Every error of the package, by code."""
    for module in pkgutil.walk_packages(loom_ia.__path__, "loom_ia."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    return dict(sorted(LoomError.registry.items()))


def _errors(words: Mapping[str, str]) -> Iterator[str]:
    yield f"# {words['errors']}\n\n"
    found = errors()
    for kind in Kind:
        yield f"## {kind.value}\n\n| {words['code']} | {words['sentence']} |\n|---|---|\n"
        for code, error in found.items():
            if error.kind is kind:
                yield f"| `{code}` | {_cell(locale.translate(error.template))} |\n"
        yield "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("{", "\\{")


def _settings(title: str) -> Iterator[str]:
    schema = json_schema()
    yield f"# {title}\n\n## `loom.yaml`\n\n{_rows(schema)}"
    definitions: Mapping[str, Mapping[str, object]] = schema["$defs"]
    for name, model in definitions.items():
        yield f"## {name}\n\n{_sentence(str(model.get('description', '')))}\n\n{_rows(model)}"
    for port, settings in PORTS.items():
        for name in sorted(catalog.installed(port)):
            model = settings(name)
            about = field_docstrings(model)
            yield f"## {port}: `{name}`\n\n{_sentence(_about(model))}\n\n"
            properties = model.model_json_schema()
            for field, said in properties.get("properties", {}).items():
                said.setdefault("description", about.get(field, ""))
            yield _rows(properties)


def _about(model: type) -> str:
    return cleandoc(model.__doc__ or "").partition("\n\n")[0]


def _rows(model: Mapping[str, object]) -> str:
    properties: Mapping[str, Mapping[str, object]] = model.get("properties", {})
    if not properties:
        return ""
    required = model.get("required", [])
    rows = "| key | type | default | meaning |\n|---|---|---|---|\n"
    for name, said in properties.items():
        default = "required" if name in required else _default(said)
        meaning = _cell(str(said.get("description", "")))
        rows += f"| `{name}` | {_type(said)} | {default} | {meaning} |\n"
    return f"{rows}\n"


def _default(said: Mapping[str, object]) -> str:
    value = said.get("default")
    return "–" if value in (None, [], {}, "") else f"`{json.dumps(value, ensure_ascii=False)}`"


def _type(said: Mapping[str, object]) -> str:
    for key in ("anyOf", "oneOf"):
        if options := said.get(key):
            return ", ".join(t for t in map(_type, options) if t != "null") or "null"
    if reference := said.get("$ref"):
        return str(reference).rsplit("/", 1)[-1]
    if values := said.get("enum"):
        return ", ".join(f"`{value}`" for value in values)
    if "const" in said:
        return f"`{said['const']}`"
    kind = str(said.get("type", "any"))
    return f"list of {_type(said['items'])}" if kind == "array" and "items" in said else kind


def _events(title: str) -> Iterator[str]:
    yield f"# {title}\n\n## Envelope\n\n{_fields(Event)}"
    for name, payload in sorted(TYPES.items()):
        yield f"## `{name}`\n\n{_sentence(_about(payload))}\n\n{_fields(payload)}"
        if payload.content:
            hidden = ", ".join(f"`{one}`" for one in sorted(payload.content))
            yield f"Hidden from a reader who may not see content: {hidden}.\n\n"


def _fields(model: type[Payload | Event]) -> str:
    schema = model.model_json_schema(mode="serialization")
    properties: Mapping[str, Mapping[str, object]] = schema.get("properties", {})
    about = {k: v for base in reversed(model.__mro__) if issubclass(base, Payload | Event)
             for k, v in field_docstrings(base).items()}  # fmt: skip
    if not properties:
        return ""
    rows = "| field | type | meaning |\n|---|---|---|\n"
    for name, said in properties.items():
        rows += f"| `{name}` | {_type(said)} | {_cell(about.get(name) or COMMON.get(name, ''))} |\n"
    return f"{rows}\n"


def _routes(title: str) -> Iterator[str]:
    document = api()
    yield f"# {title}\n\n| method | route | what it does | scope | answers |\n"
    yield "|---|---|---|---|---|\n"
    for path, methods in document["paths"].items():
        for method, said in methods.items():
            scopes = ", ".join(f"`{one}`" for one in said.get("x-scopes", ())) or "–"
            answers = ", ".join(sorted(said["responses"]))
            summary = _sentence(said.get("summary", ""))
            yield f"| {method.upper()} | `{path}` | {summary} | {scopes} | {answers} |\n"
    for path, methods in document["paths"].items():
        for method, said in methods.items():
            yield f"\n## {method.upper()} `{path}`\n\n{_sentence(said.get('description', ''))}\n\n"
            yield _parameters(said.get("parameters", []))


def _parameters(parameters: list[Mapping[str, object]]) -> str:
    if not parameters:
        return ""
    rows = "| parameter | in | type | meaning |\n|---|---|---|---|\n"
    for one in parameters:
        meaning = _cell(str(one.get("description") or one["schema"].get("description", "")))
        rows += f"| `{one['name']}` | {one['in']} | {_type(one['schema'])} | {meaning or '–'} |\n"
    return rows


def api() -> Mapping[str, Mapping[str, Mapping[str, object]]]:
    """Description of the REST door, as it gives it itself."""
    config = LoomConfig.model_validate({"version": 1})
    return create_app(Loom(config)).openapi()


if __name__ == "__main__":
    for spoken in LANGUAGES:
        write(ROOT / "docs" / spoken / "reference", spoken)
