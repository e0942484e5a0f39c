"""``dragoman prepare``: a corpus that is made, and its layouts read back by name."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import soundfile

from dragoman import DataError, Manifest, UsageError
from dragoman.commands import prepare as prepare_module
from dragoman.commands.prepare import corpus_class, prepare_corpus, reader_options
from dragoman.commands.reader_help import reader_help
from dragoman.preparing.manifests import Prepare
from dragoman.st.corpora import mustc
from tests.small import refusal, refuses


def test_the_help_lists_all_corpora(dragoman):
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    _, shown, _ = dragoman("prepare", "--help")
    words = {*re.findall(r"\w+", shown)}
    assert {*project["entry-points"]["dragoman.corpora"]} <= words, shown


def test_the_help_of_a_corpus_is_its_layout_and_the_options_of_its_reader(dragoman):
    _, general, _ = dragoman("prepare", "--help")
    _, shown, _ = dragoman("prepare", "mustc", "--help")
    assert shown.startswith(general.rstrip())
    drawn = re.search(r"^    \{root\}.*\.yaml", inspect.getdoc(mustc), re.MULTILINE)[0]
    assert drawn in shown and drawn not in general
    [line] = [line for line in shown.splitlines() if "--target-language" in line]
    assert line.split() == ["--target-language", "of", "the", "translation.", "(default:", "de)"]
    assert "--root" not in shown.partition("Options of mustc")[2]


@pytest.mark.parametrize("name", sorted(entry.name for entry in entry_points(group="dragoman.corpora")))
def test_every_reader_tells_its_layout_and_all_its_options(name):
    kind = corpus_class(name)
    told = reader_help(name, kind)
    layout, _, options = told.partition(f"Options of {name}, beside those above:")
    assert len(layout.strip()) > 100 and "``" not in told and "::" not in told
    own = [key for key in inspect.signature(kind.__init__).parameters if key not in ("self", "root", "workers")]
    assert own
    assert re.findall(r"^  --([\w-]+)", options, re.MULTILINE) == [key.replace("_", "-") for key in own]
    if name != "almanac":  # whose class tells what its arguments are
        assert not re.findall(r"^  --[\w-]+\s*(?:\(.*\))?$", options, re.MULTILINE)


def test_the_help_of_no_corpus_names_those_that_there_are(dragoman):
    code, _, messages = dragoman("prepare", "must", "--help")
    assert code == 2 and "no corpus 'must'; there are aligned, almanac, " in messages
    assert all(f", {name}," in messages for name in ("covost2", "monolingual", "moses", "mustc", "tsv"))


def test_almanac_is_written_and_read_back_in_all_its_layouts(dragoman, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = "train=8,dev=2,tst-COMMON=2,tst-HE=2,text=10"
    options = ["--languages", "en,de,fr", "--pairs", "en-de,fr-en", "--sizes", sizes]
    code, _, messages = dragoman("prepare", "almanac", "--root", "corpus", *options)
    assert code == 0, messages
    for corpus, options, splits in (
        ("mustc", ["--target-language", "de"], {"train": 8, "tst-HE": 2}),
        ("covost2", ["--root", "corpus/covost2", "--source-language", "fr"], {"train": 8, "test": 2}),
        ("moses", ["--root", "corpus/text", "--source-language", "de,fr", "--target-language", "en"], {"train": 10}),
        ("monolingual", ["--root", "corpus/text", "--language", "de,fr"], {"train": 10}),
    ):
        code, said, messages = dragoman("prepare", corpus, "--root", "corpus", "--out", corpus, *options)
        assert code == 0, messages
        folders = [path for path in (tmp_path / corpus).iterdir() if path.is_dir()]
        assert len(folders) == (2 if corpus in ("moses", "monolingual") else 1)
        for split, rows in splits.items():
            assert len(Manifest.open(folders[0] / f"{split}.arrow")) == rows
            assert split in said
    settings = ["--languages", "en,de,fr", "--seed", "2"]
    code, _, messages = dragoman("prepare", "almanac", "--root", "corpus", *settings)
    assert code == 1 and "almanac.json" in messages


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--source-language", "de,xx"], "xx"),
        (["--source-language", "de,de"], "--source-language: 'de' is named twice"),
        (["--source-language", "de", "--splits", "train,train"], "--splits: 'train' is named twice"),
    ],
)
def test_nothing_is_prepared_before_all_options_are_checked(tmp_path, options, message):
    for language in ("de", "en", "xx"):
        (tmp_path / f"train.de-en.{language}").write_text("eins\n", encoding="utf-8")
    arguments = [*options, "--target-language", "en"]
    with pytest.raises((DataError, UsageError), match=message):
        prepare_corpus("moses", root=tmp_path, out=tmp_path / "out", workers=1, arguments=arguments)
    assert not (tmp_path / "out").exists()


def test_the_tolerance_at_the_end_is_an_option(tmp_path):
    """A second that begins 0.94 s before the end of its recording, in a test split."""
    soundfile.write(tmp_path / "a.wav", [0.1] * 16000, 8000)
    (tmp_path / "test.tsv").write_text("id\taudio\tstart\tduration\tsource_text\n1\ta.wav\t1.06\t1\tHi.\n")
    options = {"root": tmp_path, "out": tmp_path / "out", "workers": 1, "arguments": ["--source-language", "en"]}
    refuses(DataError, r"by 0\.060 s; --end-tolerance 0\.06 cuts it there", prepare_corpus, "tsv", **options)
    for value in (float("nan"), float("inf"), -1.0):
        with pytest.raises(UsageError, match="--end-tolerance must be a number at least 0"):
            prepare_corpus("tsv", **options, end_tolerance=value)
    prepare_corpus("tsv", **options, end_tolerance=0.06)
    [row] = Manifest.open(tmp_path / "out" / "test.arrow")
    assert row["duration"] == pytest.approx(0.94)
    assert Prepare(corpora=[], out=str(tmp_path), end_tolerance=0.06).end_tolerance == 0.06
    with pytest.raises(UsageError, match="Prepare: end_tolerance must be a finite number between 0 and .*, not nan"):
        Prepare(corpora=[], out=str(tmp_path), end_tolerance=float("nan"))


class Kind:
    """A reader that keeps its options."""

    folder = ""

    def __init__(
        self, *, root: str, workers: int = 1, language: str, other_language: str = "en", sizes: Mapping[str, int] = {},
        pairs: Sequence[Sequence[str]] = (), names: list[str] | None = None, more: Sequence[str] = (), seed: int = 1,
        quick: bool = False,
    ) -> None:  # fmt: skip
        self.given = {name: value for name, value in locals().items() if name != "self"}

    def rows(self, split):
        return iter(())


def test_options_become_what_a_constructor_asks_for():
    words = ["--language", "de", "--sizes=train=3,dev=2", "--pairs", "en-de,fr-en", "--names", "a,b", "--more", "c"]
    words += ["--seed", "-5", "--quick", "TRUE", "--other-language", "de,fr"]
    assert reader_options(Kind, words) == {
        "language": "de", "sizes": {"train": 3, "dev": 2}, "pairs": [["en", "de"], ["fr", "en"]], "names": ["a", "b"],
        "more": ["c"], "seed": -5, "quick": True, "other_language": ["de", "fr"],
    }  # fmt: skip
    assert reader_options(Kind, ["--language=", "--quick=false"]) == {"language": "", "quick": False}
    assert reader_options(Kind, ["--language", "a=b"]) == {"language": "a=b"}


NO_OPTION = "is not an option of Kind, which has --language, --other-language, --sizes, --pairs, --names, --more, "
NO_OPTION += "--seed, --quick"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["language", "de"], "'language': expected --key value"),
        (["--language"], "'--language': expected --key value"),
        (["--root", "x"], f"--root {NO_OPTION}"),
        (["--workers", "2"], f"--workers {NO_OPTION}"),
        (["--no-such", "2"], f"--no-such {NO_OPTION}"),
        ([], "Kind needs --language"),
        (["--sizes", "train"], "--sizes: 'train' is not NAME=NUMBER"),
        (["--sizes", "train=x"], "--sizes: 'x' is not a whole number"),
        (["--seed", "1.5"], "--seed: '1.5' is not a whole number"),
        (["--quick", "yes"], "--quick: 'yes' is neither true nor false"),
        (["--other-language", "de,en,de"], "--other-language: 'de' is named twice"),
    ],
)  # fmt: skip
def test_options_that_no_constructor_asks_for(words, said):
    assert refusal(UsageError, reader_options, Kind, words) == said


def test_several_languages_make_several_readers(monkeypatch):
    monkeypatch.setattr(prepare_module, "corpus_class", lambda name: Kind)
    words = ["--language", "de,fr", "--other-language", "en,it"]
    found = [corpus.given for corpus in prepare_module.corpora("kind", root=Path("r"), arguments=words)]
    assert [(own["language"], own["other_language"]) for own in found] == [
        ("de", "en"), ("de", "it"), ("fr", "en"), ("fr", "it"),
    ]  # fmt: skip
    assert {own["root"] for own in found} == {"r"}


def test_a_corpus_that_is_made_is_not_read(tmp_path):
    given = {"root": tmp_path, "arguments": []}
    said = refusal(UsageError, lambda: [*prepare_module.corpora("almanac", **given)])
    assert said.startswith("almanac is made, not read: give the name of the layout that it was written")
    given |= {"out": None, "workers": 1}
    for options in ({"skip_bad": True}, {"shard": "1/2"}, {"end_tolerance": 0.1}):
        said = refusal(UsageError, prepare_corpus, "almanac", **given, **options)
        assert said == "almanac is made, not read: --skip-bad, --end-tolerance and --shard are not for it"
    refuses(UsageError, "^prepare moses: --out is missing$", prepare_corpus, "moses", **given)


def test_corpora_are_made_or_prepared_with_their_options(tmp_path, monkeypatch, capsys):
    asked = []

    class Made:
        def __init__(self, *, root: str, workers: int, seed: int = 1) -> None:
            asked.append((root, workers, seed))

        def write(self, progress):
            progress(1, 2)

    monkeypatch.setattr(prepare_module, "corpus_class", lambda name: Made)
    prepare_corpus("made", root=tmp_path, out=None, workers=3, arguments=["--seed", "7"])
    assert asked == [(str(tmp_path), 3, 7)] and capsys.readouterr().out == f"{tmp_path}: written\n"
    monkeypatch.setattr(prepare_module, "corpus_class", lambda name: Kind)
    monkeypatch.setattr(Kind, "folder", "part")
    monkeypatch.setattr(prepare_module, "render", lambda reports: f"{reports} rows")
    monkeypatch.setattr(prepare_module, "prepare", lambda corpus, out, **how: asked.append((out, how)) or 5)
    given = {"root": tmp_path, "out": tmp_path / "out", "workers": 2, "arguments": ["--language", "de"]}
    prepare_corpus("kind", **given)
    out, how = asked[-1]
    assert out == tmp_path / "out" and how.pop("progress") and how == {"workers": 2, "skip_bad": False}
    assert capsys.readouterr().out == "kind part\n5 rows\n"
    prepare_corpus("kind", **given, skip_bad=True, end_tolerance=0.0)
    assert asked[-1][1]["skip_bad"] is True and asked[-1][1]["end_tolerance"] == 0.0
    capsys.readouterr()
    monkeypatch.setattr(prepare_module, "prepare_shard", lambda corpus, out, **how: asked.append((out, how)) or 9)
    prepare_corpus("kind", **given, shard="2/4")
    assert asked[-1][1]["shard"] == (2, 4) and capsys.readouterr().out == "kind part\n9 rows\n"
