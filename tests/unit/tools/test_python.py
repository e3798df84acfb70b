"""A function as a tool: bound, launched, and what the model reads of it."""

import asyncio
import functools
import threading
from collections.abc import Callable
from contextvars import ContextVar

import pytest

from loom_ia.core.model import ImageBlock, TextBlock
from loom_ia.core.ports import InvalidArgumentsError, ToolContext, ToolError, ToolOutput
from loom_ia.tools import Image, tool
from loom_ia.tools.decorator import ToolDeclarationError
from loom_ia.tools.python import PythonFunctionTool
from loom_ia.tools.results import ToolResultUnreadableError
from loom_ia.tools.threads import Pool

CONTEXT = ToolContext(
    tenant_id="default", session_id="s", run_id="r", call_id="c", idempotency_key="k", fence=1
)
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8


async def text(function: Callable[..., object], /, **arguments: object) -> str:
    output = await PythonFunctionTool(function, "f").bind(arguments)(CONTEXT)
    (block,) = output.blocks
    assert isinstance(block, TextBlock)
    return block.text


@tool
def prix_ttc(montant_ht: float, taux_tva: float = 20.0) -> dict[str, float]:
    tva = round(montant_ht * taux_tva / 100, 2)
    return {"montant_ht": montant_ht, "tva": tva}


async def test_a_synchronous_function_gives_its_result_as_json():
    assert await text(prix_ttc, montant_ht=1250, taux_tva=10) == (
        '{"montant_ht": 1250.0, "tva": 125.0}'
    )


async def test_an_async_function_runs_on_the_loop():
    async def where() -> str:
        return asyncio.current_task() and threading.current_thread().name

    assert await text(where) == threading.current_thread().name


async def test_a_synchronous_function_runs_off_the_loop():
    def where() -> str:
        return threading.current_thread().name

    assert await text(where) == "loom-tool"


async def test_a_synchronous_function_that_gives_a_coroutine_is_awaited():
    async def later(x: int) -> int:
        return x

    assert await text(functools.partial(later, 3)) == "3"
    assert await text(lambda: later(4)) == "4"


async def test_an_object_with_an_async_call_is_awaited():
    class Service:
        async def __call__(self, x: int) -> int:
            return x

    assert await text(Service(), x=3) == "3"


async def test_a_function_sees_the_context_of_its_call():
    def keyed(x: int, ctx: ToolContext) -> str:
        return f"{x} {ctx.idempotency_key}"

    async def keyed_later(ctx: ToolContext | None = None) -> str:
        return "nothing" if ctx is None else ctx.idempotency_key

    assert await text(keyed, x=1) == "1 k"
    assert await text(keyed_later) == "k"


def test_a_model_cannot_give_the_context():
    def keyed(ctx: ToolContext) -> str:
        return ctx.idempotency_key

    with pytest.raises(InvalidArgumentsError):
        PythonFunctionTool(keyed).bind({"ctx": {}})


async def test_a_function_sees_the_context_variables_of_its_caller():
    variable: ContextVar[str] = ContextVar("variable")
    variable.set("seen")

    def read() -> str:
        return variable.get()

    assert await text(read) == "seen"


def test_nothing_has_run_when_bind_returns():
    ran: list[int] = []

    def add(x: int) -> None:
        ran.append(x)

    PythonFunctionTool(add).bind({"x": 1})
    assert ran == []


async def test_a_launch_does_not_see_later_changes_of_its_arguments():
    arguments: dict[str, object] = {"names": ["a"]}
    launch = PythonFunctionTool(lambda names: names, "f").bind(arguments)
    arguments["names"] = ["b"]
    assert (await launch(CONTEXT)).blocks == (TextBlock(text='["a"]'),)


async def test_exceptions_leave_as_they_are():
    def refuses() -> None:
        message = "solde insuffisant"
        raise ToolError(message)

    async def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ToolError, match="solde insuffisant"):
        await text(refuses)
    with pytest.raises(ZeroDivisionError):
        await text(fails)


async def test_a_tool_that_exits_ends_itself_only():
    def leaves() -> None:
        raise SystemExit(3)

    async def leaves_later() -> None:
        raise SystemExit(3)

    def stops() -> None:
        raise StopIteration

    for function in (leaves, leaves_later):
        with pytest.raises(RuntimeError, match="SystemExit: 3"):
            await text(function)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await text(stops)


def refused(function: Callable[..., object], arguments: dict[str, object], language="fr") -> str:
    with pytest.raises(InvalidArgumentsError) as caught:
        PythonFunctionTool(function, language=language).bind(arguments)
    return str(caught.value)


def test_a_refusal_says_where_what_was_expected_and_what_was_given():
    assert refused(prix_ttc, {"montant_ht": "cher", "taux": 5}) == (
        "Arguments invalides pour prix_ttc. Corrige et refais l'appel :\n"
        '- montant_ht : nombre attendu ; reçu "cher"\n'
        "- taux : argument inconnu ; arguments acceptés : montant_ht, taux_tva"
    )


def test_a_refusal_can_be_in_english():
    assert refused(prix_ttc, {"taux_tva": None}, "en") == (
        "Invalid arguments for prix_ttc. Correct them and make the call again:\n"
        "- montant_ht: required argument is missing\n"
        "- taux_tva: a number is expected; got null"
    )


def test_a_refusal_gives_the_path_inside_a_value():
    def f(lines: list[dict[str, int]]) -> None: ...

    assert "- lines[0].a : entier attendu ; reçu 1.5" in refused(f, {"lines": [{"a": 1.5}]})


def test_a_long_value_is_shown_in_part():
    assert refused(prix_ttc, {"montant_ht": "x" * 500}).endswith("x…")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x", "\ud800"])
def test_what_is_not_json_is_refused(value):
    def f(x: object) -> None: ...

    assert "f" in refused(f, {"x": value})


async def test_an_image_is_kept_and_shown_by_its_address():
    kept: list[tuple[str, bytes, str]] = []

    async def save(context: ToolContext, data: bytes, media_type: str) -> str:
        kept.append((context.call_id, data, media_type))
        return "artifact://default/s/abc.png"

    def draw() -> list[object]:
        return ["voici", Image(PNG, "image/jpeg"), {"a": 1}]

    output = await PythonFunctionTool(draw, save=save).bind({})(CONTEXT)
    assert output.blocks == (
        TextBlock(text="voici"),
        ImageBlock(uri="artifact://default/s/abc.png", media_type="image/png"),
        TextBlock(text='{"a": 1}'),
    )
    assert kept == [("c", PNG, "image/png")]


async def test_an_image_that_nothing_can_keep_is_unreadable():
    with pytest.raises(ToolResultUnreadableError, match="rien ne peut ranger"):
        await text(lambda: Image(PNG))


async def test_a_text_that_stores_refuse_is_cleaned_and_marked():
    output = await PythonFunctionTool(lambda: "a\0b", "f").bind({})(CONTEXT)
    assert output.blocks == (TextBlock(text="a\ufffdb", altered=True),)


def test_the_name_is_chosen_declared_or_that_of_the_function():
    @tool(name="declared", description="Décrit.")
    def written() -> None:
        """Docstring."""

    assert PythonFunctionTool(written, "chosen").spec.name == "chosen"
    assert PythonFunctionTool(written).spec.name == "declared"
    assert PythonFunctionTool(written).spec.description == "Décrit."
    assert PythonFunctionTool(prix_ttc).spec.name == "prix_ttc"


@pytest.mark.parametrize("name", ["évaluer", "a b", "x" * 65, "a.b"])
def test_a_name_that_providers_refuse_is_refused(name):
    with pytest.raises(ToolDeclarationError, match="not usable by models"):
        PythonFunctionTool(prix_ttc, name)


def test_a_function_without_a_name_needs_one():
    with pytest.raises(ToolDeclarationError, match="give name="):
        PythonFunctionTool(functools.partial(prix_ttc, 1.0))


async def test_a_result_that_comes_after_its_caller_left_is_told():
    started, go = asyncio.Event(), threading.Event()
    told: asyncio.Future[tuple[ToolContext, ToolOutput | Exception]] = asyncio.Future()
    loop = asyncio.get_running_loop()

    def slow() -> str:
        loop.call_soon_threadsafe(started.set)
        go.wait(10)
        return "envoyé"

    tool_ = PythonFunctionTool(
        slow, pool=Pool(), late=lambda context, outcome: told.set_result((context, outcome))
    )
    task = asyncio.ensure_future(tool_.bind({})(CONTEXT))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    assert await told == (CONTEXT, ToolOutput((TextBlock(text="envoyé"),)))


async def test_a_failure_that_comes_after_its_caller_left_is_told():
    started, go = asyncio.Event(), threading.Event()
    told: asyncio.Future[ToolOutput | Exception] = asyncio.Future()
    loop = asyncio.get_running_loop()

    def slow() -> None:
        loop.call_soon_threadsafe(started.set)
        go.wait(10)
        raise ZeroDivisionError

    tool_ = PythonFunctionTool(
        slow, pool=Pool(), late=lambda _context, outcome: told.set_result(outcome)
    )
    task = asyncio.ensure_future(tool_.bind({})(CONTEXT))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    assert isinstance(await told, ZeroDivisionError)
