import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loom_ia.agents import AgentSpec, MainRole, PythonTool
from loom_ia.config import ConfigError, LoomConfig
from loom_ia.config.load import from_python, load
from loom_ia.core.model import ModelSpec

Write = Callable[..., Path]
NOBODY = 65534


def refusal(path: Path, profile: str | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(path, profile, {})
    return str(caught.value).splitlines()


def test_a_project_loads_with_its_agents_and_prompts(project: Write):
    loaded = load(project(), None, {})
    assert list(loaded.specs) == ["devis"]
    assert loaded.specs["devis"].tools == (PythonTool(python="prix_ttc"),)
    assert loaded.prompts["devis"].render({"agent": {"name": "devis"}}) == "Tu es devis.\n"
    assert [str(path) for path in loaded.files] == [
        *("loom.yaml", "agents/devis.yaml", "prompts/devis.md")
    ]


def test_the_five_declarations_are_set_for_each_tool(project: Write, agent: str):
    declared = (
        "    alias: envoi\n    side_effects: irreversible\n    approval: always\n"
        "    idempotent: false\n    on_unknown: pause\n    timeout: 20\n"
    )
    loaded = load(project({"agents/devis.yaml": agent + declared}), None, {})
    assert loaded.specs["devis"].tools == (
        PythonTool(
            python="prix_ttc",
            alias="envoi",
            side_effects="irreversible",
            approval="always",
            idempotent=False,
            on_unknown="pause",
            timeout=20.0,
        ),
    )


ROOT_ERRORS = [
    ("modeles: []\n", "loom.yaml:6:1: modeles: unknown key; did you mean 'models'?"),
    ("xyzzy: 1\n", "loom.yaml:6:1: xyzzy: unknown key; the accepted ones are: agents, agents_dir,"),
    ("language: de\n", "loom.yaml:6:11: language: 'de' is not accepted; choose 'fr', 'en'"),
    ("imports: outils\n", "loom.yaml:6:10: imports: a list is expected, not 'outils'"),
    ("imports: [no, 1]\n", "loom.yaml:6:15: imports[1]: a text is expected, not 1"),
    (
        "execution: {lease: 0}\n",
        "loom.yaml:6:20: execution.lease: 0 is too small; give at least 1",
    ),
    (
        "execution: {tool_timeout: '30'}\n",
        "loom.yaml:6:27: execution.tool_timeout: a number is expected, not '30'",
    ),
    (
        "execution:\n  attachments: {max_file: 3}\n",
        "loom.yaml:7:17: execution.attachments.max_file: unknown key; did you mean 'max_files'?",
    ),
    ("storage: {events: {path: data}}\n", "loom.yaml:6:19: storage.events.backend: missing key"),
    (
        "profile: staging\n",
        "loom.yaml:6:10: profile: 'staging' is not accepted; choose 'dev', 'prod'",
    ),
    (
        "telemetry: {logging: {level: info}}\n",
        "loom.yaml:6:30: telemetry.logging.level: 'info' is not accepted; choose 'DEBUG', 'INFO'",
    ),
    (
        "profiles: {prod: {execution: {lease: no}}}\n",
        "loom.yaml:6:38: execution.lease: a number is expected, not 'no'",
    ),
    ('agents_dir: "a\\0b"\n', "loom.yaml:6:13: agents_dir: folder a\\x00b: not a usable path"),
    (
        "profiles: {prod: {profile: dev}}\n",
        "loom.yaml:6:19: profiles.prod.profile: a profile cannot change this key; remove it",
    ),
]


@pytest.mark.parametrize(("extra", "sentence"), ROOT_ERRORS)
def test_an_error_of_the_root_is_told_at_its_place(
    project: Write, root: str, extra: str, sentence: str
):
    lines = refusal(project({"loom.yaml": root + extra}))
    assert len(lines) == 1
    assert lines[0].startswith(sentence)


AGENT_ERRORS = [
    (
        "name: no\nmain: {model: SIMULE}\nmax_iterations: yes\n",
        "3:17: max_iterations: a whole numb",
    ),
    ("name: no\nmain: {model: SIMUL}\n", "2:15: main.model: unknown model 'SIMUL'; did you mean"),
    ("name: a\nmain: {model: ZZ}\n", "2:15: main.model: unknown model 'ZZ'; the known ones are: S"),
    ("name: Devis\nmain: {model: SIMULE}\n", "1:7: name: agent name 'Devis': use 1 to 63 lower-"),
    ("name: ../x\nmain: {model: SIMULE}\n", "1:7: name: agent name '../x': use"),
    ("name: a\nmain: {modle: SIMULE}\n", "2:7: main.model: missing key; write it"),
    ("name: a\n", "1:1: main: missing key; write it"),
    (
        "name: a\nmain: {model: SIMULE, system: x, system_file: devis.md}\n",
        "2:7: main: both 'system' and 'system_file' are given; keep one of them",
    ),
    (
        "name: a\nmain: {model: SIMULE}\ntools: [{python: f, idempotent: no}]\n",
        "3:33: tools[0].idempotent: true or false is expected, not 'no'",
    ),
    (
        "name: a\nmain: {model: SIMULE}\ntools: [{python: f, sideeffects: none}]\n",
        "3:21: tools[0].sideeffects: unknown key; did you mean 'side_effects'?",
    ),
    (
        "name: a\nmain: {model: SIMULE}\ntools: [{python: f, alias: créer}]\n",
        "3:28: tools[0].alias: 'créer' does not match",
    ),
    (
        "name: a\nmain: {model: SIMULE}\ntools: [{python: m:f}, {python: g, alias: f}]\n",
        "3:43: tools[1].alias: two tools of agent 'a' are named 'f' (tools[0] and tools[1])",
    ),
    (
        "name: a\nmain:\n  model: SIMULE\n  system: |\n    é {{ agent.name }}\n    {{ date }}\n",
        "6:5: main.system: unknown variable 'date'; the accepted ones are: agent.name, tenant.id",
    ),
    (
        "name: a\nmain: {model: SIMULE, system: 'x {{ y'}\n",
        "2:34: main.system: '{{' without '}}'; close it, or write '\\{{' for plain braces",
    ),
    (
        "name: a\nmain: {model: SIMULE, system_file: ../loom.yaml}\n",
        "2:36: main.system_file: '../loom.yaml' leaves the folder prompts; name a file inside it",
    ),
    (
        "name: a\nmain: {model: SIMULE, system_file: x.md}\n",
        "2:36: main.system_file: file prompts/x.md: not found; check the path",
    ),
    (
        "name: a\nmain: {model: SIMULE, system_file: .}\n",
        "2:36: main.system_file: file prompts: is a folder; a file is expected",
    ),
    ("- a\n", "1:1: a mapping is expected, not a list"),
]


@pytest.mark.parametrize(("text", "sentence"), AGENT_ERRORS)
def test_an_error_of_an_agent_is_told_at_its_place(project: Write, text: str, sentence: str):
    lines = refusal(project({"agents/devis.yaml": text}))
    assert any(line.startswith(f"agents/devis.yaml:{sentence}") for line in lines), lines


def test_no_is_a_name_like_another(project: Write):
    loaded = load(project({"agents/devis.yaml": "name: no\nmain: {model: SIMULE}\n"}), None, {})
    assert list(loaded.specs) == ["no"]


def test_every_problem_of_every_file_is_told_at_once(project: Write, root: str, agent: str):
    lines = refusal(
        project(
            {
                "loom.yaml": root + "languge: fr\nexecution: {lease: x}\n",
                "agents/a.yaml": "name: a\nname: b\n",
                "agents/b.yml": "name: b\nmain: {model: SIMULE, sytem: x}\n",
                "prompts/devis.md": "un\n  {{ inconnu }}\n",
            }
        )
    )
    assert [line.split(" ")[0] for line in lines] == [
        "agents/a.yaml:2:1:",
        "agents/b.yml:2:23:",
        "loom.yaml:6:1:",
        "loom.yaml:7:20:",
        "prompts/devis.md:2:3:",
    ]


def test_prices_are_exact_decimals_and_nothing_else(project: Write, root: str):
    price = "    pricing: {input: %s, output: 0.30}\n"
    loaded = load(project({"loom.yaml": root + price % "3"}), None, {})
    pricing = loaded.config.models[0].pricing
    assert pricing
    assert (str(pricing.input), str(pricing.output)) == ("3", "0.3")
    for wrong in ("no", "'1.20'", "true"):
        assert refusal(project({"loom.yaml": root + price % wrong}))[0].startswith(
            "loom.yaml:6:22: models[0].pricing.input: a number is expected, not "
        )


def test_a_model_takes_no_value_of_another_type(project: Write, root: str):
    assert refusal(project({"loom.yaml": root + "    max_tokens: '16'\n"})) == [
        "loom.yaml:6:17: models[0].max_tokens: a whole number is expected, not '16'"
    ]


def test_a_root_that_is_not_keys_and_values_is_refused(project: Write):
    assert refusal(project({"loom.yaml": "- a\n"})) == [
        "loom.yaml:1:1: keys and values are expected, not a list"
    ]


def test_two_models_with_one_id_are_refused(project: Write, root: str):
    again = root + "  - id: SIMULE\n    sdk: fake\n    model: b\n"
    assert refusal(project({"loom.yaml": again}))[0].startswith(
        "loom.yaml:6:9: models[1].id: model 'SIMULE' is already declared (models[0])"
    )


def test_two_agents_with_one_name_are_refused(project: Write, agent: str):
    assert refusal(project({"agents/zz.yaml": agent})) == [
        (
            "agents/zz.yaml:1:7: name: agent 'devis' is already described at "
            "agents/devis.yaml:1:7; give it another name"
        )
    ]


def test_a_secret_is_never_shown(project: Write, root: str):
    secret = "sk-live-0123456789"
    texts = (
        f"execution: {{lease: {secret}}}\n",
        f"api_key: {secret}\n",
        f"profiles: {{prod: {{language: 'https://u:{secret}@h'}}}}\n",
        f"language: Bearer {secret}\n",
    )
    for text in texts:
        assert secret not in "".join(refusal(project({"loom.yaml": root + text})))


def test_a_missing_agents_folder_is_told(project: Write, root: str):
    lines = refusal(project({"loom.yaml": root + "agents_dir: agens/\n"}))
    assert lines == ["loom.yaml:6:13: agents_dir: folder agens: not found; check the path"]


def test_a_file_in_place_of_a_folder_is_told(project: Write, root: str):
    lines = refusal(project({"loom.yaml": root + "agents_dir: loom.yaml\n"}))
    assert lines == [
        "loom.yaml:6:13: agents_dir: folder loom.yaml: is a file; a folder is expected"
    ]


def test_an_unreadable_folder_is_told(project: Write, tmp_path: Path):
    project()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(tmp_path, folder, dirs_exist_ok=True)
        Path(folder).chmod(0o755)
        path = Path(folder) / "loom.yaml"
        load(path)
        (Path(folder) / "agents").chmod(0)
        with somebody_else():
            assert "permission denied" in refusal(path)[0]
        (Path(folder) / "agents").chmod(0o755)


@contextmanager
def somebody_else() -> Iterator[None]:
    """Another user than root, who reads every folder."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_folder_that_the_system_refuses_is_told(project: Write, root: str):
    lines = refusal(project({"loom.yaml": root + f"agents_dir: {'a' * 300}\n"}))
    assert lines[0].startswith("loom.yaml:6:13: agents_dir: folder aaa")
    assert lines[0].endswith("cannot be read: the name is too long")


def test_a_prompt_behind_a_link_that_leaves_its_folder_is_refused(project: Write, tmp_path: Path):
    path = project({"prompts/x.md": "x"})
    (tmp_path / "prompts" / "devis.md").unlink()
    (tmp_path / "prompts" / "devis.md").symlink_to(tmp_path / "loom.yaml")
    assert "leaves the folder" in refusal(path)[0]


def test_the_same_configuration_is_built_in_python():
    config = LoomConfig(
        version=1,
        models=(ModelSpec(id="HAIKU", sdk="fake", model="x"),),
        agents=(
            AgentSpec(
                name="devis",
                main=MainRole(model="HAIKU", system="Tu es l'assistant d'un artisan."),
                tools=(PythonTool(python="prix_ttc"),),
            ),
        ),
        profiles={"prod": {"execution": {"lease": 30}}},
    )
    loaded = from_python(config, profile="prod")
    assert loaded.profile.overrides == ("execution.lease",)
    assert loaded.config.execution.lease == 30
    assert loaded.prompts["devis"].render({}) == "Tu es l'assistant d'un artisan."


def test_a_configuration_built_in_python_is_checked_too():
    config = LoomConfig(version=1, agents=[AgentSpec(name="a", main=MainRole(model="X"))])
    with pytest.raises(ConfigError) as caught:
        from_python(config)
    assert str(caught.value) == "agents[0].main.model: unknown model 'X'; none is declared"
