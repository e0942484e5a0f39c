"""The rules of the house that a machine can hold: arrows between rooms, names, sizes, packaging, recipes."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from dragoman.shared.recipe.locations import is_base
from dragoman.shared.recipe.recipe import Recipe

ROOT = Path(__file__).parent.parent
ROOMS = ("dragoman", "shared", "mt", "st")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]

# What a room, or a part of one, may not import. "recipes -> st, mt -> shared; dragoman -> shared"
FORBIDDEN = {
    "dragoman": ("mt", "st", "recipes", "tests"),
    "shared": ("dragoman", "mt", "st", "recipes", "tests"),
    "mt": ("dragoman", "st", "recipes", "tests"),
    "st": ("dragoman", "mt", "recipes", "tests"),
}
#: The subpackages of two rooms from the lowest layer to the highest: each may import those of earlier lines only.
LAYERS = {
    "shared": [
        ["machine"],
        ["text", "recipe"],
        ["sound", "nn", "search"],
        ["batches"],
        ["preparing"],
        ["systems"],
        ["objectives", "evaluation"],
        ["training"],
        ["phases"],
    ],
    "dragoman": [
        ["runs", "reporting", "preparing", "placing"],
        ["almanac", "exchange", "simultaneous"],
        ["commands"],
        ["serving"],
        ["cli"],
    ],
}
#: Modules at the top of these: core types, which every layer may import; and what may import all.
CORE = {
    "shared": ["annotations", "batch", "described", "errors", "generator", "moved", "padded", "ranges"],
    "dragoman": [],
}
FACE = {"shared": [], "dragoman": ["__main__", "functions", "version", "wording"]}
#: All of shared that searches may know.
SEARCH = {"shared.generator", "shared.batch", "shared.padded", "shared.errors"}
SEARCH |= {"shared.described", "shared.annotations", "shared.ranges", "shared.search"}

#: Published methods and models. Their files are in mt/ and st/; dragoman/exchange reads files that others made.
NAMES = set(
    """
    albert almt bart bert chimera comsl costt cress csanmt ctnmt data2vec deltalm espnet fatmlm graformer hubert
    julst m2m mbart mrasp mrasp2 mslam mt5 nllb roberta seamless sga simcse speecht5 ssw stemm tcen unist veco waco
    wav2vec wav2vec2 wavlm whisper xlm xlmr xlmt xlsr xstnet
    """.split()
)


def modules(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def nodes(path: Path) -> list[ast.AST]:
    return [*ast.walk(tree(path))]


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    """Return line and name of what is imported: "a.b" for ``import a.b``, "a.b.c" for ``from a.b import c``.

    Rooms at the top of the project are called as recipes call them: "shared.nn" for ``dragoman.shared.nn``.
    """
    package = name_of(path) if path.name == "__init__.py" else name_of(path).rpartition(".")[0]
    found: list[tuple[int, str]] = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += [(node.lineno, short(alias.name)) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            found += [(node.lineno, short(f"{base}.{alias.name}")) for alias in node.names]
    return found


def imported(*folders: str) -> Iterator[tuple[Path, str, str]]:
    """Yield the files of folders with what they import: path, "path:line imports name", name."""
    for path in modules(*folders):
        for line, name in imports(path):
            yield path, f"{path.relative_to(ROOT)}:{line} imports {name}", name


def check_none(wrong: list[str]) -> None:
    assert not wrong, "\n".join(wrong)


def short(name: str) -> str:
    return re.sub(r"^dragoman\.(?=(?:shared|mt|st|recipes)\b)", "", name)


def is_in(name: str, room: str) -> bool:
    return name == room or name.startswith(room + ".")


# -- arrows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_arrows_run_one_way(folder):
    check_none([said for _, said, name in imported(folder) if any(is_in(name, room) for room in FORBIDDEN[folder])])


@pytest.mark.parametrize("house", LAYERS)
def test_subpackages_import_lower_layers_only(house):
    level = {room: number for number, rooms in enumerate(LAYERS[house]) for room in rooms}
    wrong = []
    for path, said, name in imported(house):
        room, *inside = path.relative_to(ROOT / house).with_suffix("").parts
        if room in (*FACE[house], "__init__") or not is_in(name, house) or "." not in name:
            continue
        target = name.split(".")[1]
        if target in level and target != room:
            wrong += [] if inside and level[target] < level[room] else [said]
        elif target not in (*level, *CORE[house]):
            wrong.append(said)
    check_none(wrong)


@pytest.mark.parametrize("house", LAYERS)
def test_a_house_shows_its_architecture(house):
    folders = [path for path in (ROOT / house).iterdir() if path.is_dir() and not path.is_symlink()]
    assert {path.name for path in folders} - {"__pycache__"} == {room for rooms in LAYERS[house] for room in rooms}
    assert {path.stem for path in (ROOT / house).glob("*.py")} == {*CORE[house], *FACE[house], "__init__"}


def test_rooms_are_installed_under_one_name():
    for room in ("shared", "mt", "st", "recipes"):
        assert (ROOT / "dragoman" / room).is_symlink() and (ROOT / "dragoman" / room).resolve() == ROOT / room
    wrong = []
    for path in modules(*ROOMS, "tests", "benchmarks"):
        for node in nodes(path):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            if {name.partition(".")[0] for name in names} & {"shared", "mt", "st", "recipes"}:
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    check_none(wrong)


def test_no_module_name_is_used_twice():
    names = [path.stem for path in modules("shared", "dragoman") if path.name != "__init__.py"]
    assert sorted(name for name in {*names} if names.count(name) > 1) == []


def test_search_knows_the_generator_only():
    theirs = [(said, name) for _, said, name in imported("shared/search") if is_in(name, "shared")]
    check_none([said for said, name in theirs if not any(is_in(name, known) for known in SEARCH)])


def test_recipes_name_rooms_only():
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "recipes").rglob("*.yaml")
        for name in re.findall(r"!(?:new|name|apply|module):(\S+)", path.read_text(encoding="utf-8"))
        if name.split(".")[0] not in (*ROOMS, "torch", "torchaudio", "speechbrain")
    ]
    check_none(wrong)


def test_no_circular_imports():
    known = {name_of(path): path for path in modules(*ROOMS)}

    def module(name: str) -> str:
        return name if name in known else name.rpartition(".")[0]

    edges: dict[str, set[str]] = {name: set() for name in known}
    for path, _, target in imported(*ROOMS):
        edges[name_of(path)] |= {module(target)} & {*known} - {name_of(path)}
    done: set[str] = set()

    def visit(name: str, above: list[str]) -> None:
        assert name not in above, " -> ".join([*above[above.index(name) :], name])
        if name not in done:
            for target in sorted(edges[name]):
                visit(target, [*above, name])
            done.add(name)

    for name in sorted(known):
        visit(name, [])


# -- names, sizes, packaging ----------------------------------------------------------------------------------------


def words(text: str) -> set[str]:
    """Split ``XlmEncoder``, ``wav2vec_layers`` and sentences into lower-case words."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text)
    return {word.lower() for word in re.findall(r"[A-Za-z0-9]+", apart)} | set(re.findall(r"[a-z0-9]+", text.lower()))


def code_words(path: Path) -> Iterator[tuple[int, str]]:
    """Yield lines and words of identifiers and strings; not of comments and docstrings."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree(path)):
        for field in ("id", "attr", "arg", "name", "asname", "module", "value"):
            text = getattr(node, field, None)
            if isinstance(text, str) and id(node) not in docstrings:
                yield from ((getattr(node, "lineno", 0), word) for word in words(text))


def test_no_method_is_named_in_shared():
    wrong = [
        f"{path.relative_to(ROOT)}:{line} {word}"
        for path in modules("shared")
        if path.name != "languages.py"  # ISO codes
        for line, word in code_words(path)
        if word in NAMES
    ] + [str(path) for path in modules("shared") if words(path.stem) & NAMES]
    check_none(wrong)


def test_files_have_one_subject():
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in modules(*ROOMS)}
    assert {str(path): lines for path, lines in sizes.items() if lines >= 450} == {}


#: Wordings that a native speaker stumbles over, and what to write instead.
DIALECT = {
    r"(?:is|are|was|were) (?:not )?to be had\b": "is (not) available",
    r"\bthe so many\b|\+ so many\b": "the K ..., or the number of ...",
    r"what it says is the reason": "its message gives the reason",
    r"\bstands? (?:there|here) (?:twice|a second time)|\bstands where a\b": "is defined twice; expected ...",
    r"(?:was|were) had\b": "was drawn, was read",
    r"how much became how much": "the sizes before and after",
    r"has no part in (?:beam|decoding|--)": "does not apply to",
    r'"""(?:What|How|Whether|That|Of|Where|Which) ': "a noun, or Return ...",
}


def test_the_text_is_plain_english():
    paths = [*modules("dragoman", "shared", "mt", "st"), *(ROOT / "recipes").rglob("*.yaml")]
    wrong = [
        f"{path.relative_to(ROOT)}:{number} {match[0]!r}: write {plain!r}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        for words_of, plain in DIALECT.items()
        for match in re.finditer(words_of, line)
    ]
    check_none(wrong)


def test_tests_are_not_packaged():
    assert PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["dragoman"]
    assert not [*(ROOT / "dragoman").rglob("test_*.py")]


@cache
def _skips(path: Path) -> int:
    """Return the line on which a test module asks for a library that may be missing; 0 if it asks for none."""
    for statement in tree(path).body:
        if isinstance(statement, ast.Assign | ast.Expr) and "importorskip" in ast.unparse(statement):
            return statement.lineno
    return 0


def test_tests_are_skipped_before_they_import_from_what_is_skipped():
    """Else a machine without the library cannot collect them, and none of the tests runs there.

    pytest keeps a test module that was skipped, half read, where other modules import it from.
    """
    wrong = []
    for path in modules("tests"):
        for statement in tree(path).body:
            if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("tests."):
                other = ROOT / (statement.module.replace(".", "/") + ".py")
                if other.exists() and other.name.startswith("test_") and _skips(other):
                    wrong += [] if 0 < _skips(path) < statement.lineno else [f"{path}, line {statement.lineno}"]
    check_none(wrong)


def test_what_pyproject_names_exists():
    for target in [*PROJECT["scripts"].values(), *PROJECT["entry-points"]["dragoman.corpora"].values()]:
        module, _, name = target.partition(":")
        place = ROOT / short(module).replace(".", "/")
        path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        assert path.is_file(), target
        body = tree(path).body
        names = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        names |= {alias.name for node in body if isinstance(node, ast.ImportFrom) for alias in node.names}
        assert name in names, target


PINNED = (
    "demo test hf adapters adam8bit offload vad resegment media serve dev docs plots speechbrain tensorboard".split()
)

#: Modules whose distributions have another name.
DISTRIBUTIONS = {
    "markdown_it": "markdown-it-py",
    "translate": "translate-toolkit",
    "yaml": "pyyaml",
    "webvtt": "webvtt-py",
}
#: Modules that are nothing without a library which they import themselves.
IMPORTED_BY = {"torch.utils.tensorboard": "tensorboard", "sentencepiece.sentencepiece_model_pb2": "protobuf"}
#: Plugins that a program loads by itself.
PLUGINS = {"pytest-xdist"}


def normal(name: str) -> str:
    """Return the normal form of a distribution's name, without a version."""
    return re.sub(r"[-_.]+", "-", re.split(r"[<>=!~ \[;]", name, maxsplit=1)[0]).lower()


def distributions(names: set[str]) -> set[str]:
    """Return what may bring modules: by the names that they begin with, of one or two parts (ruamel.yaml)."""
    tops = {name.split(".")[0] for name in names}
    used = {normal(DISTRIBUTIONS.get(top, top)) for top in tops}
    used |= {library for module, library in IMPORTED_BY.items() if any(is_in(name, module) for name in names)}
    return used | {normal(".".join(name.split(".")[:2])) for name in names}


def test_what_is_imported_is_declared():
    """A library that only another one brings disappears with it."""
    declared = {*map(normal, sum(PROJECT["optional-dependencies"].values(), PROJECT["dependencies"]))}
    known = {*sys.stdlib_module_names, *ROOMS, "recipes"}
    theirs = [(said, name) for _, said, name in imported(*ROOMS) if name.split(".")[0] not in known]
    check_none([said for said, name in theirs if distributions({name}).isdisjoint(declared)])


def test_what_is_required_is_imported():
    """A dependency that nothing needs is installed by everybody; one that only a part needs is an extra."""
    used = distributions({name for _, _, name in imported(*ROOMS)})
    assert {normal(name) for name in PROJECT["dependencies"]} - used == set()


def test_what_an_extra_brings_is_imported():
    """Tests count: they compare with libraries that nobody needs to use this one; programs do not."""
    names = {name for _, _, name in imported(*ROOMS, "tests", "benchmarks")}
    for path in modules(*ROOMS, "tests", "benchmarks"):  # importorskip("transformers"), find_spec("silero_vad")
        for node in nodes(path):
            function = node.func if isinstance(node, ast.Call) else None
            if getattr(function, "attr", getattr(function, "id", "")) in ("importorskip", "find_spec"):
                names |= {str(one.value) for arg in node.args for one in ast.walk(arg) if isinstance(one, ast.Constant)}
    used = distributions(names) | PLUGINS
    extras = {name: some for name, some in PROJECT["optional-dependencies"].items() if name not in ("dev", "docs")}
    brought = {(name, normal(one)) for name, some in extras.items() for one in some}
    unused = {(name, one) for name, one in brought if one not in used and not one.startswith("pytest-")}  # plugins
    assert unused == set()


LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
PINS = {normal(line): line.partition("==")[2] for line in LINES if line and not line.startswith("#")}


def test_pins_cover_the_dependencies():
    wanted = sum((PROJECT["optional-dependencies"][extra] for extra in PINNED), PROJECT["dependencies"])
    assert {normal(name) for name in wanted} - {*PINS} == set()
    assert PINS["torch"] == PINS["torchaudio"]


def test_pins_are_what_the_libraries_that_are_here_take():
    """Or pip refuses them; what is not here is seen where it is: make test-all has more than make test."""
    wrong = []
    for library in importlib.metadata.distributions():
        for need in map(Requirement, library.requires or []):
            pin = PINS.get(normal(need.name)) if normal(library.name) in PINS else None
            if pin and (need.marker is None or need.marker.evaluate({"extra": ""})) and pin not in need.specifier:
                wrong.append(f"{library.name} {library.version} asks for {need}, and constraints.txt has {pin}")
    check_none(wrong)


# -- recipes --------------------------------------------------------------------------------------------------------

#: What is given for placeholders, by a part of their names; "there" for others.
FILLED = {"languages": "[de]", "language": "de", "manifests": "[there]"}
RECIPES = sorted(path for path in (ROOT / "recipes").rglob("*.yaml") if not is_base(path))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.relative_to(ROOT / "recipes").as_posix())
def test_every_recipe_passes_its_check(path):
    recipe = Recipe.load(path)
    fill = {key: next((text for part, text in FILLED.items() if part in key), "there") for key in recipe.placeholders}
    filled = Recipe.load(path, fill)
    filled.check()
    assert filled.placeholders == []
    assert recipe.header, f"{path} does not begin with comment lines that say what it is"


def test_commands_in_headers_can_be_pasted():
    """A command that goes on in the next line says so to the shell, or the shell runs half of it."""
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {line}"
        for path in RECIPES
        for lines in [path.read_text(encoding="utf-8").splitlines()]
        for number, (line, after) in enumerate(pairwise(lines), start=1)
        if re.match(r"#   (?:dragoman|torchrun|    )", line)
        and after.startswith("#       ")
        and not line.endswith("\\")
    ]
    check_none(wrong)


@pytest.mark.parametrize("path", sorted((ROOT / "tests/recipes").glob("*.py")), ids=lambda path: path.name)
def test_what_is_tested_of_all_recipes_knows_none_by_name(path):
    """A new recipe edits no test. Stories that are told of one recipe lie in tests/recipes/scenarios."""
    source = path.read_text(encoding="utf-8")
    names = {recipe.relative_to(ROOT / "recipes").with_suffix("").as_posix() for recipe in RECIPES}
    assert [name for name in sorted(names) if f'"{name}"' in source] == []


PROGRAMS = sorted(path.relative_to(ROOT) for path in (ROOT / "benchmarks").rglob("*.py"))


@pytest.mark.parametrize("path", PROGRAMS, ids=str)
def test_benchmarks_name_what_there_is(path):
    """Nothing else imports most of them, so nobody would notice."""
    try:
        module = importlib.import_module(".".join(path.with_suffix("").parts))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in (*ROOMS, "benchmarks"):
            raise
        pytest.skip(f"{error.name} is not installed")  # one of the others' toolkits
    assert module.__doc__, "`python -m benchmarks` tells what each is for"
