"""What every backend of the files of sessions promises."""

import pkgutil
from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path

import pytest

import loom_ia.adapters.artifacts
from loom_ia.adapters.env import Env
from loom_ia.core.ports import Artifacts

BACKENDS = sorted(
    m.name for m in pkgutil.iter_modules(loom_ia.adapters.artifacts.__path__) if m.ispkg
)


@pytest.fixture(params=BACKENDS)
async def artifacts(request, tmp_path: Path) -> AsyncIterator[Artifacts]:
    settings = import_module(f"loom_ia.adapters.artifacts.{request.param}").Settings()
    async with settings.open(Env(tmp_path)) as opened:
        yield opened


async def test_a_file_is_given_back_at_its_address(artifacts: Artifacts):
    uri = await artifacts.put("t", "s", b"content", "image/png")
    assert uri.startswith("artifact://t/s/")
    assert uri.endswith(".png")
    assert await artifacts.get(uri) == b"content"
    assert await artifacts.put("t", "s", b"content", "image/png") == uri


async def test_a_file_belongs_to_its_session_and_its_tenant(artifacts: Artifacts):
    uri = await artifacts.put("t", "s", b"content", "image/png")
    assert await artifacts.get(uri.replace("/s/", "/other/")) is None
    assert await artifacts.get(uri.replace("//t/", "//other/")) is None


@pytest.mark.parametrize(
    ("media_type", "ending"),
    [
        ("text/plain; charset=utf-8", ".txt"),
        ("application/pdf", ".pdf"),
        ("TEXT/MARKDOWN", ".md"),
        ("application/json", ".json"),
        ("application/x-unheard-of", ".bin"),
        ("", ".bin"),
        ("../../x", ".bin"),
    ],
)
async def test_the_ending_tells_the_type(artifacts: Artifacts, media_type: str, ending: str):
    assert (await artifacts.put("t", "s", b"x", media_type)).endswith(ending)


@pytest.mark.parametrize("name", ["../x", "a/b", "nul\x00", "é", "Chat", "%2e", "n" * 300, "#?&"])
async def test_any_identifier_names_its_own_files(artifacts: Artifacts, name: str):
    uri = await artifacts.put(name, name, name.encode(), "text/plain")
    assert uri.count("/") == 4
    assert await artifacts.get(uri) == name.encode()


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "artifact://t/s/x.png",
        "artifact://t/s/../../.key",
        "artifact://t/%2e%2e/" + "0" * 32 + ".png",
        "artifact://t/s/" + "0" * 32,
        "https://t/s/" + "0" * 32 + ".png",
        "artifact://t/s/" + "0" * 32 + ".png/",
    ],
)
async def test_an_address_that_leads_nowhere_gives_nothing(artifacts: Artifacts, uri: str):
    assert await artifacts.get(uri) is None


async def test_the_files_of_an_erased_session_are_gone_and_no_other(artifacts: Artifacts):
    mine = await artifacts.put("t", "s", b"content", "image/png")
    others = [
        await artifacts.put(tenant, session, b"content", "image/png")
        for tenant, session in (("t", "x"), ("other", "s"))
    ]
    for _ in range(2):
        await artifacts.drop("t", "s")
        assert await artifacts.get(mine) is None
    assert [await artifacts.get(uri) for uri in others] == [b"content"] * 2
