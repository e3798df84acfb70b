import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_ia.core.templates import (
    PROMPT,
    Template,
    TemplateSyntaxError,
    TemplateValueError,
    Variable,
    Vocabulary,
)


def test_a_template_gives_its_paths_and_renders_its_values():
    template = Template.parse("Tu es {{ agent.name }}, client {{tenant.id}}, {{ agent.name }}.")
    assert template.names() == {"agent.name", "tenant.id"}
    values = {"agent": {"name": "devis"}, "tenant": {"id": "default"}}
    assert template.render(values) == "Tu es devis, client default, devis."


def test_a_variable_knows_where_it_stands():
    template = Template.parse("un\ndeux é {{ run.id }}")
    assert template.variables() == (Variable("run.id", 2, 8),)


@given(st.text().filter(lambda text: "{{" not in text))
def test_a_text_without_double_braces_renders_as_itself(text: str):
    assert Template.parse(text).render({}) == text


@given(st.text())
def test_any_text_renders_as_itself_once_its_braces_are_escaped(text: str):
    if "\\{{" not in text:
        assert Template.parse(text.replace("{{", "\\{{")).render({}) == text


@given(st.text())
def test_a_value_is_never_read_as_a_template(value: str):
    assert Template.parse("[{{ a }}]").render({"a": value}) == f"[{value}]"


def test_json_with_closing_braces_is_plain_text():
    assert Template.parse('{"a": {"b": 1}}').render({}) == '{"a": {"b": 1}}'


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("{{ agent.name", 1, 1),
        ("a\n  {{ }}", 2, 3),
        ("{{ agent..name }}", 1, 1),
        ("{{ agent.name | upper }}", 1, 1),
        ("{{ a }} {{ 1a }}", 1, 9),
        ("{{ a {{ b }}", 1, 1),
    ],
)
def test_malformed_braces_are_refused_where_they_stand(text: str, line: int, column: int):
    with pytest.raises(TemplateSyntaxError) as caught:
        Template.parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).startswith(f"{line}:{column}: ")


def test_the_sentence_shows_the_braces_as_they_are_written():
    with pytest.raises(
        TemplateSyntaxError, match=r"write a dotted name such as \{\{ agent.name \}\}"
    ):
        Template.parse("{{ 1 }}")


def test_what_is_not_a_text_is_shown_as_json():
    values = {"a": {"b": [1, "é", None]}}
    assert Template.parse("{{ a.b }} {{ a }}").render(values) == (
        '[1, "é", null] {"b": [1, "é", null]}'
    )


def test_a_path_that_leads_nowhere_is_an_error():
    with pytest.raises(TemplateValueError, match=r"'agent\.name'"):
        Template.parse("{{ agent.name }}").render({"agent": "x"})


def test_the_variables_of_a_prompt_are_listed_and_the_others_found():
    template = Template.parse("{{ agent.name }} {{ date }} {{ variables.entreprise }}")
    assert [use.path for use in PROMPT.unknown(template)] == ["date", "variables.entreprise"]
    later = Vocabulary(PROMPT.paths, ("variables",))
    assert [use.path for use in later.unknown(template)] == ["date"]
    assert later.listed() == "agent.name, tenant.id, session.id, run.id, variables.*"
