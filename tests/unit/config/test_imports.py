import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from loom_ia.config import ConfigError
from loom_ia.config.imports import PREFIX, Project
from loom_ia.config.load import load

Make = Callable[[str, dict[str, str]], Project]


def named(value: object) -> str | None:
    name = getattr(value, "registered_as", None)
    return name if isinstance(name, str) else None


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Project] = []

    def build(imports: str, files: dict[str, str], name: str = "p") -> Project:
        root = tmp_path / f"{name}{len(made)}"
        for file, text in files.items():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(text, encoding="utf-8")
        root.mkdir(exist_ok=True)
        (root / "loom.yaml").write_text(f"version: 1\nimports: {imports}\nagents_dir: .\n")
        (root / "agents").mkdir()
        (root / "loom.yaml").write_text(f"version: 1\nimports: {imports}\n")
        made.append(Project(load(root / "loom.yaml", None, {}), named))
        return made[-1]

    yield build
    for project in made:
        project.close()


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as caught:
        act()
    return str(caught.value)


def tool(name: str, value: str) -> str:
    return f"def {name}(): return {value}\n{name}.registered_as = '{name}'\n"


def test_two_projects_keep_modules_of_the_same_name_apart(make: Make):
    files = [
        {
            "outils.py": "import voisin\nfrom paquet.fond import NOM\n"
            + tool("f", "(voisin.V, NOM, tard())")
            + "def tard():\n    from tardif import T\n    return T\n",
            "voisin.py": f"V = {number}\n",
            "tardif.py": f"T = {number}\n",
            "paquet/__init__.py": "from . import fond\n",
            "paquet/fond.py": f"NOM = {number}\n",
        }
        for number in (1, 2)
    ]
    projects = [make("[outils]", each) for each in files]
    before = set(sys.modules)
    for project in projects:
        project.import_all()
    assert [project.resolve("f")() for project in projects] == [(1, 1, 1), (2, 2, 2)]
    assert {name for name in set(sys.modules) - before if not name.startswith(PREFIX)} == set()


def test_a_closed_project_leaves_no_module(make: Make):
    project = make("[outils]", {"outils.py": "x = 1\n"})
    project.import_all()
    project.close()
    assert [name for name in sys.modules if name.split(".")[0] == project.package] == []


def test_a_neighbour_wins_over_an_installed_module_for_the_project_only(make: Make):
    project = make("[outils]", {"outils.py": "import yaml\nW = yaml.W\n", "yaml.py": "W = 1\n"})
    project.import_all()
    import yaml

    assert project.resolve("outils:W") == 1
    assert not hasattr(yaml, "W")


def test_a_folder_does_not_hide_an_installed_package(make: Make):
    project = make("[json, dossier.m]", {"json/x.txt": "", "dossier/m.py": "A = 1\n"})
    project.import_all()
    assert project.resolve("json:dumps")([1]) == "[1]"
    assert project.resolve("dossier.m:A") == 1


def test_a_registered_object_wins_and_may_come_late(make: Make):
    project = make("[outils]", {"outils.py": tool("f", "1")})
    project.import_all()
    project.register("f", 7)
    assert project.resolve("f") == 7


def test_an_unknown_reference_is_told_with_what_is_close(make: Make):
    project = make("[outils]", {"outils.py": tool("prix_ttc", "1")})
    project.import_all()
    assert refusal(lambda: project.resolve("prix_tcc")) == (
        "unknown name 'prix_tcc'; did you mean 'prix_ttc'?"
    )
    assert refusal(lambda: project.resolve("envoyer")) == (
        "no Python object is registered as 'envoyer'; add its module to 'imports', "
        "or write 'module:envoyer'"
    )
    assert refusal(lambda: project.resolve("outils:absent")) == (
        "module 'outils' has no 'absent'; define it there, or correct the name"
    )


def test_one_name_in_two_modules_is_refused(make: Make):
    project = make("[a, b]", {"a.py": tool("f", "1"), "b.py": tool("f", "2")})
    project.import_all()
    assert "'f' is defined in several modules (a, b); write 'module:f'" in refusal(
        lambda: project.resolve("f")
    )
    assert project.resolve("b:f")() == 2


def test_one_object_seen_from_two_modules_is_one(make: Make):
    project = make("[a, b]", {"a.py": tool("f", "1"), "b.py": "from a import f\n"})
    project.import_all()
    assert project.resolve("f")() == 1


def test_every_module_that_cannot_be_loaded_is_told_where_it_is_named(make: Make):
    project = make(
        "[outil, casse, besoin, syntaxe, sortie, outils.py]",
        {
            "outils.py": "x = 1\n",
            "casse.py": "\n1 / 0\n",
            "besoin.py": "import paquet_absent\n",
            "syntaxe.py": "x = \n",
            "sortie.py": "import sys\nsys.exit(3)\n",
        },
    )
    at = f"{project.loaded.root}/loom.yaml:2:"
    assert refusal(project.import_all).splitlines() == [
        f"{at}11: imports[0]: module 'outil' not found; did you mean 'outils'?",
        (
            f"{at}18: imports[1]: module 'casse' fails while loading (casse.py:2): "
            "ZeroDivisionError: division by zero; correct it"
        ),
        (
            f"{at}25: imports[2]: module 'besoin' needs 'paquet_absent', which is not installed; "
            "install it"
        ),
        (
            f"{at}33: imports[3]: module 'syntaxe' fails while loading (syntaxe.py:1): "
            "SyntaxError: invalid syntax; correct it"
        ),
        (
            f"{at}42: imports[4]: module 'sortie' fails while loading (sortie.py:2): "
            "SystemExit: 3; correct it"
        ),
        f"{at}50: imports[5]: module 'outils.py' not found; did you mean 'outils'?",
    ]


def test_annotations_and_models_of_a_project_module_resolve(make: Make):
    text = (
        "from __future__ import annotations\nfrom pydantic import BaseModel\n"
        "class A(BaseModel):\n    b: B\nclass B(BaseModel):\n    x: int\n"
    )
    project = make("[modeles]", {"modeles.py": text})
    project.import_all()
    assert project.resolve("modeles:A").model_validate({"b": {"x": 1}}).b.x == 1
