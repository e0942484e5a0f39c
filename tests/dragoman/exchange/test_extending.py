"""A language more: old lines keep ids and logits, new vectors are means (by loops), and what is refused."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from typer.testing import CliRunner

from dragoman import DataError, Manifest, System, UsageError
from dragoman.cli.main import app
from dragoman.exchange.extending import extend
from dragoman.exchange.trimming import trim
from dragoman.exchange.vocabularies.adding import JsonPieces, mixed, ranked
from dragoman.exchange.vocabularies.extended import ExtendedTokenizer
from dragoman.shared.evaluation import scoring
from dragoman.shared.nn.heads import CtcHead
from dragoman.shared.text.normalise import Lowercase
from dragoman.shared.text.piece_file import parsed
from tests import small
from tests.dragoman.exchange.huggingface.test_hf_export import system_of
from tests.small import refuses

OLD = ["the low tower is slow", "der Turm ist nieder", "a lower tower", "die Türme sind alt", "wer ist der Tor"] * 9
#: "rest" and "low" are known letters in new words; Cherokee letters are not known.
NEW = ["ᎣᏏᏲ lowerest", "ᎣᏏᏲ ᏙᎯᏧ towerest", "lowerest ᏙᎯᏧ towerest", "ᎣᏏ towerest ᏙᎯᏧ"] * 5
LETTERS = {*"ᎣᏏᏲᏙᎯᏧ"}


def made(folder: Path, kind: str = "unigram", *, size: int = 60, source: Any = None, **changes: Any) -> System:
    """Save a system from English to German in which nothing is 0; return it."""
    tokenizer = small.tokenizer(OLD, ["en", "de"], kind=kind, size=size, byte_fallback=False)
    torch.manual_seed(3)
    system = system_of(tokenizer, source=source or {}, bias=True, **changes)
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    system.save(folder)
    return system.eval()


def text(folder: Path, lines: list[str] = NEW) -> Path:
    path = folder / "mic.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def more(folder: Path, kind: str = "unigram", like: str = "de", **changes: Any) -> tuple[System, System, Any]:
    """Return a system, the same with a language more, and the report."""
    old = made(folder / "old", kind, **changes)
    report = extend(folder / "old", folder / "new", language="mic", like=like, text=text(folder), pieces=40)
    return old, System.load(folder / "new"), report


def logits(system: System, source: list[int], target: list[int]) -> torch.Tensor:
    tokens = small.padded([source]), small.padded([target])
    with torch.no_grad():
        states = system.model.decode(tokens[1], system.model.encode(small.batch(source=tokens[0])))
        return system.model.project(states)


def check_logits(found: torch.Tensor, before: torch.Tensor) -> None:
    """Assert that logits of old symbols are the same bit for bit.

    All but the last, up to 15: what is over when a matrix is cut into blocks, a processor may sum in another order.
    """
    size = before.shape[-1]
    whole = size // 16 * 16
    assert torch.equal(found[..., :whole], before[..., :whole])
    torch.testing.assert_close(found[..., :size], before, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char"])
def test_old_lines_keep_their_ids_and_logits(kind: str, tmp_path: Path) -> None:
    old, new, _ = more(tmp_path, kind)
    size = old.output.tokenizer.size
    for line in [*OLD[:5], *NEW[:4], "towerest", "<mic> </s>"]:  # the new language's words too, in an old one
        row = small.row(1, line, line)
        before = [field(row, None).tolist() for field in (old.inputs["source"], old.output)]
        assert before == [field(row, None).tolist() for field in (new.inputs["source"], new.output)]
        check_logits(logits(new, *before), logits(old, *before))
        assert new.output.decoded(before[1]) == old.output.decoded(before[1])
    assert [new.output.tokenizer.symbol(id) for id in range(size)] == [*map(old.output.tokenizer.symbol, range(size))]


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char"])
def test_the_new_text_has_fewer_pieces_and_nothing_unknown(kind: str, tmp_path: Path) -> None:
    old, new, report = more(tmp_path, kind)
    plain, tokenizer = old.output.tokenizer, new.output.tokenizer
    before, after = [], []
    for line in NEW:
        row = small.row(1, "low", line, target_language="mic")
        ids = new.output(row, np.random.default_rng(0)).tolist()
        assert ids[0] == tokenizer.id("<mic>") and ids[-1] == tokenizer.eos and new.output.decoded(ids) == line
        after += ids[1:-1]
        before += plain.encode(line)
    assert plain.unk in before and tokenizer.unk not in after
    assert report.ids == (len(before), len(after)) and report.unknown == (before.count(plain.unk), 0)
    assert report.letters == len(LETTERS) and report.symbols == (plain.size, tokenizer.size)
    assert report.added == tokenizer.size - plain.size - 1
    if kind == "char":
        assert report.added == len(LETTERS) and len(after) > len(before)  # a run of unknown letters was one symbol
    else:
        assert len(after) < len(before) and any(tokenizer.symbol(id) in ("▁lowerest", "▁towerest") for id in after)


def viterbi(piece: str, scores: dict[str, float]) -> list[str]:
    """Return the division with the highest sum of scores; what has none is a letter by itself."""
    worst = min(scores.values()) - 10
    best: list[tuple[float, list[str]]] = [(0.0, [])]
    for end in range(1, len(piece) + 1):
        ways = []
        for start in range(end):
            part = piece[start:end]
            if part in scores or end - start == 1:
                ways.append((best[start][0] + scores.get(part, worst), [*best[start][1], part]))
        best.append(max(ways, key=lambda way: way[0]))
    return best[-1][1]


def merged(piece: str, scores: dict[str, float]) -> list[str]:
    """Merge the two neighbours whose piece has the highest score, until there are none."""
    parts = [*piece]
    while True:
        neighbours = enumerate(zip(parts, parts[1:], strict=False))
        pairs = [(scores[one + other], -at) for at, (one, other) in neighbours if one + other in scores]
        if not pairs:
            return parts
        at = -max(pairs)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


@pytest.mark.parametrize(("kind", "division"), [("unigram", viterbi), ("bpe", merged)])
def test_new_vectors_are_means(kind: str, division: Any, tmp_path: Path) -> None:
    old, new, _ = more(tmp_path, kind)
    plain, tokenizer = old.output.tokenizer, new.output.tokenizer
    proto = parsed(Path(plain.arguments["model"]).read_bytes())
    scores = {piece.piece: piece.score for piece in proto.pieces if piece.type == 1}
    numbers = {plain.symbol(id): id for id in range(plain.pieces)}
    tables = {name: value for name, value in new.state_dict().items() if len(value) == tokenizer.size}
    assert len(tables) == 2  # the vectors, which are tied, and the bias
    several = 0
    for name, table in tables.items():
        before = old.state_dict()[name]
        assert torch.equal(table[: plain.size], before)
        assert torch.equal(table[-1], before[plain.id("<de>")])  # the symbol begins as its relative's
        for id in range(plain.size, tokenizer.size - 1):
            ids = [numbers[part] for part in division(tokenizer.symbol(id), scores) if part in numbers]
            if {*tokenizer.symbol(id)} <= {*LETTERS, "▁"}:  # where all but a space is unknown, all vectors
                ids = [*range(plain.size)]
            total = torch.zeros_like(before[0])
            for part in ids:
                total += before[part]
            torch.testing.assert_close(table[id], total / len(ids))
            several += 1 < len({*ids}) < 9
    assert several >= 3


def test_languages_are_on_the_sides_of_the_relative(tmp_path: Path) -> None:
    _, new, report = more(tmp_path, like="en")
    assert (new.source_languages, new.target_languages) == (["en", "mic"], ["de"])
    assert new.origin[-1] == f"extended by mic like en, {report.added} pieces from mic.txt"
    assert isinstance(new.translate("lowerest", source_language="mic"), str)
    refuses(UsageError, "en, mic", new.translate, "low")


def test_lengths_are_those_of_the_language(tmp_path: Path) -> None:
    _, new, _ = more(tmp_path)
    lines = [(line, code) for line in [*NEW[:4], *OLD[:5]] for code in ("de", "mic", "de")]
    rows = [small.row(n, "low", line, target_language=code) for n, (line, code) in enumerate(lines)]
    rows.append(small.row("none", "low") | {"target_language": "mic"})
    expected = [*(len(new.output(row, None)) for row in rows[:-1]), -1]
    assert new.output.lengths(rows).tolist() == expected
    assert new.output.lengths(Manifest.write(tmp_path / "m.arrow", rows)).tolist() == expected
    assert expected[0] != expected[1]
    cherokee = Manifest.write(tmp_path / "c.arrow", [row for row in rows[:-1] if "Ꮷ" in row["target_text"]])
    by_code = {code: cherokee.select([n for n, row in enumerate(cherokee) if row["target_language"] == code])
               for code in ("mic", "de")}  # fmt: skip
    assert scoring.TestSet(new, by_code["mic"], ["bleu"]).rewritten() is None
    assert "cannot be written back" in str(scoring.TestSet(new, by_code["de"], ["bleu"]).rewritten())


def test_it_goes_on(tmp_path: Path) -> None:
    """A second language, and a trimmed model, before and after; workers get a copy."""
    _, new, _ = more(tmp_path)
    other = tmp_path / "other.txt"
    other.write_text("ლო towerest ლოწერ\nლო ᎣᏏᏲ\n" * 4, encoding="utf-8")
    extend(tmp_path / "new", tmp_path / "two", language="ka", like="mic", text=other, pieces=40)
    two = System.load(tmp_path / "two")
    assert two.target_languages == ["de", "mic", "ka"]
    first, second = new.output.tokenizer, two.output.tokenizer
    table = two.model.target_embedding.weight
    assert torch.equal(table[-1], table[first.id("<mic>")])
    for line in [*OLD[:5], *NEW[:4], "ლო"]:
        for code in ("en", "mic", None):
            assert second.for_language(code).encode(line) == first.for_language(code).encode(line)
    ids = second.for_language("ka").encode("ლო towerest ᎣᏏᏲ")
    assert second.unk not in ids and second.decode(ids) == "ლო towerest ᎣᏏᏲ"
    assert "▁towerest" in [second.symbol(id) for id in ids if id < first.size]  # pieces of the first serve the second
    copied = pickle.loads(pickle.dumps(two.output))
    row = small.row(1, "low", NEW[1], target_language="mic")
    assert copied(row, None).tolist() == two.output(row, None).tolist()

    rows = [small.row(n, OLD[0], line, target_language="mic") for n, line in enumerate(NEW)]
    Manifest.write(tmp_path / "m.arrow", rows)
    trim(tmp_path / "two", [str(tmp_path / "m.arrow")], tmp_path / "trimmed")
    trimmed = System.load(tmp_path / "trimmed")
    small_one = trimmed.output.tokenizer
    assert small_one.size < second.size and small_one.symbols == second.symbols
    for one in rows:
        pieces = [[*map(own.symbol, own.for_language("mic").encode(one["target_text"]))] for own in (small_one, second)]
        assert pieces[0] == pieces[1]
    extend(tmp_path / "trimmed", tmp_path / "three", language="tyv", like="de", text=text(tmp_path), pieces=40)
    three = System.load(tmp_path / "three").output.tokenizer
    assert three.unk not in three.for_language("tyv").encode(NEW[0])
    kept = [small_one.symbol(id) for id in range(small_one.size)]
    assert [three.symbol(id) for id in range(small_one.size)] == kept


def test_heads_and_normalizers(tmp_path: Path) -> None:
    tokenizer = small.tokenizer(OLD, ["en", "de"], kind="unigram", size=60, byte_fallback=False)
    head = {"ctc": CtcHead(width=12, vocabulary=tokenizer.size, blank=tokenizer.blank, tap=1)}
    old = made(tmp_path / "old", heads=head, source={"normalizers": [Lowercase()]})
    loud = text(tmp_path, [line.upper() for line in NEW])
    extend(tmp_path / "old", tmp_path / "new", language="mic", like="en", text=loud, pieces=40)
    new = System.load(tmp_path / "new")
    assert any(new.output.tokenizer.symbol(id) == "▁lowerest" for id in range(new.output.tokenizer.size))
    before, after = old.model.heads["ctc"], new.model.heads["ctc"]
    assert (after.blank, after.vocabulary) == (before.blank, new.output.tokenizer.size)
    assert torch.equal(after.projection.bias[: before.vocabulary], before.projection.bias)
    assert torch.equal(after.projection.weight[-1], before.projection.weight[tokenizer.id("<en>")])


def test_what_looks_like_a_symbol_is_text(tmp_path: Path) -> None:
    made(tmp_path / "old")
    lines = text(tmp_path, ["<mic> <de> <mask> <mic>", "<mic> <de> <mask> <unk>"] * 20)
    extend(tmp_path / "old", tmp_path / "new", language="mic", like="de", text=lines, pieces=60)
    tokenizer = System.load(tmp_path / "new").output.tokenizer
    special = {tokenizer.id(name) for name in tokenizer.symbols}
    ids = tokenizer.for_language("mic").encode("<mic> <de> <mask> <unk>")
    assert special.isdisjoint(ids) and tokenizer.decode(ids) == "<mic> <de> <mask> <unk>"


def test_a_mixture_of_two_distributions() -> None:
    both = mixed({"a": math.log(0.5), "b": math.log(0.25)}, {"b": math.log(0.75), "c": math.log(0.125)})
    assert both == pytest.approx({"a": math.log(0.25), "b": math.log(0.5), "c": math.log(0.0625)})


def test_new_merges_come_before_old_ones() -> None:
    old, new = {"ab": -1.0, "b": -7.0, "cd": -2.0}, {"cd": -1.0, "e": 0.0}
    assert ranked(old, new) == {"e": 0.0, "cd": -1.0, "ab": -2.0, "b": -3.0}


# -- what is refused --------------------------------------------------------------------------------------------------


def test_bad_input_is_refused(tmp_path: Path) -> None:
    made(tmp_path / "old")
    good, folder = text(tmp_path), tmp_path / "old"
    (tmp_path / "empty.txt").write_text("\n  \n\n", encoding="utf-8")
    (tmp_path / "latin.txt").write_bytes("ᎣᏏᏲ\n".encode() + b"caf\xe9\n")

    def said(error: type[Exception], match: str, **changes: Any) -> None:
        given = {"language": "mic", "like": "de", "text": good, "pieces": 40} | changes
        refuses(error, match, extend, given.pop("folder", folder), given.pop("out", tmp_path / "new"), **given)

    said(DataError, "old: has a symbol for 'en' already", language="en")
    said(DataError, "unknown language code 'xxxx'", language="xxxx")
    said(DataError, "old: has no symbol for 'fr', with which the new one could begin: it has en, de", like="fr")
    said(DataError, "empty.txt: has no text", text=tmp_path / "empty.txt")
    said(DataError, "latin.txt, line 2: not UTF-8 .byte 0xe9 at position 3.", text=tmp_path / "latin.txt")
    said(DataError, "none.txt", text=tmp_path / "none.txt")
    said(DataError, "mic.txt: a unigram tokenizer of 5 pieces has no room .* give a size above", pieces=5)
    said(UsageError, "old: is the model that is to be extended", out=folder)
    said(DataError, "none: not a model folder", folder=tmp_path / "none")
    said(UsageError, "pieces .* must be a number above 1", pieces=0)
    assert not (tmp_path / "new").exists()


def test_two_tokenizers_are_refused(tmp_path: Path) -> None:
    source, target = (small.tokenizer([line] * 9, ["en", "de"]) for line in OLD[:2])
    model = small.translator(target, embeddings={"source": small.embedding(source, width=16)})
    small.system(target, model, inputs={"source": small.text(source)}).save(tmp_path / "old")
    match = "old: reads and writes with different tokenizers"
    given = {"language": "mic", "like": "de", "text": text(tmp_path), "pieces": 40}
    refuses(UsageError, match, extend, tmp_path / "old", tmp_path / "new", **given)


def test_pieces_of_bytes_are_refused(tmp_path: Path) -> None:
    built = tokenizers.Tokenizer(tokenizers.models.BPE())
    built.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel()
    built.save(str(tmp_path / "tokenizer.json"))
    refuses(UsageError, "tokenizer.json: pieces of bytes", JsonPieces, tmp_path / "tokenizer.json", set(), [])


def test_only_what_keeps_ids_extends_a_tokenizer() -> None:
    one, other = small.tokenizer(OLD, ["en"]), small.tokenizer(OLD, ["de", "en"])
    shorter = small.tokenizer(OLD[:1], ["de", "en"])
    for first, second, match in ((one, other, "not those of <en>"), (other, one, "not those of <de> <en>"),
                                 (other, shorter, "not those of <pad> ")):  # fmt: skip
        refuses(UsageError, match, ExtendedTokenizer, tokenizer=first, extended=second, languages=["de"])
    refuses(UsageError, "must be a list", ExtendedTokenizer, tokenizer=one, extended=one, languages=[])


def test_the_command(tmp_path: Path) -> None:
    made(tmp_path / "old")
    words = ["extend", tmp_path / "old", "--language", "mic", "--like", "de", "--text", text(tmp_path)]
    words += ["--pieces", 40, "--out", tmp_path / "new"]
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == 0 and f"{tmp_path / 'new'}: " in done.output and "unknown 17.6% to 0.0%" in done.output
    again = CliRunner().invoke(app, [*map(str, words)])
    assert "something is there" in str(again.exception)
    assert CliRunner().invoke(app, [*map(str, words), "--overwrite"]).exit_code == 0
