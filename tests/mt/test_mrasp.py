"""Aligned substitution: shares and candidates against a loop over the lexicon's file, and what must not change."""

import re
from collections import Counter

import numpy as np
import pytest

from dragoman import DataError, Manifest, UsageError
from dragoman.mt.lexicon import Lexicon
from dragoman.mt.mrasp import AlignedSubstitution
from dragoman.mt.noise import NoisyText
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.rewriting import edited
from dragoman.shared.batches.stream import Budget, Stream
from tests import small

FILES = {"en-de": "the der\nthe die\ndog hund\nred rot\nhouse haus\n", "en-fr": "the le\ndog chien\nred rouge\n"}
TEXT = "The red dog saw the house. RED dog!"


@pytest.fixture
def lexicon(tmp_path):
    for name, content in FILES.items():
        (tmp_path / f"{name}.txt").write_text(content, encoding="utf-8")
    return Lexicon(files={name: str(tmp_path / f"{name}.txt") for name in FILES})


def substituted(change, seed=1, text=TEXT, language="en"):
    return edited(text, change(text, np.random.default_rng(seed), language=language, row={"id": "1"}))


def test_every_known_word_is_replaced_and_all_else_stays(lexicon):
    """A capital is that of a sentence or of the translation's own language; RED, inside, has none of its own."""
    change = AlignedSubstitution(lexicon=lexicon, targets=["fr"], share=1.0)
    assert (change.growth, AlignedSubstitution(lexicon=lexicon).share) == (1.5, 0.3)  # as published, section 3.1
    assert substituted(change) == "Le rouge chien saw le house. Rouge chien!"
    assert substituted(change, text="The RED Dog") == "Le rouge chien"
    assert substituted(AlignedSubstitution(lexicon=lexicon, share=0.0)) == TEXT
    assert substituted(change, text="Der rote Hund.", language="de") == "Der rote Hund."


def test_a_text_of_the_only_target_stays(tmp_path):
    (tmp_path / "en-de.txt").write_text(FILES["en-de"], encoding="utf-8")
    lexicon = Lexicon(files={"en-de": str(tmp_path / "en-de.txt")}, both_ways=True)
    change = AlignedSubstitution(lexicon=lexicon, targets=["de"], share=1.0)
    assert substituted(change, text="the hund", language="de") == "the hund"
    assert substituted(change, text="red hund") == "rot hund"


def test_a_text_has_words_of_one_language_and_of_all_if_it_is_said(lexicon):
    german, french = {"der", "die", "hund", "rot", "haus"}, {"le", "chien", "rouge"}
    for mixed in (False, True):
        change = AlignedSubstitution(lexicon=lexicon, share=1.0, mixed=mixed)
        found = [{*re.findall(r"\w+", substituted(change, seed).lower())} for seed in range(200)]
        languages = {(bool(german & words), bool(french & words)) for words in found}
        assert languages == ({(True, True), (True, False)} if mixed else {(True, False), (False, True)})


def test_languages_are_equally_likely_however_many_forms_a_word_has(lexicon):
    for mixed in (False, True):
        change = AlignedSubstitution(lexicon=lexicon, share=1.0, mixed=mixed)
        found = Counter(substituted(change, seed, "the") for seed in range(4000))
        assert {word: count / 4000 for word, count in found.items()} == pytest.approx(
            {"le": 0.5, "der": 0.25, "die": 0.25}, abs=0.03
        )


def test_shares_and_candidates_are_those_of_a_loop_over_the_files(lexicon):
    change = AlignedSubstitution(lexicon=lexicon, share=0.3, mixed=True)
    table = {}
    for name, content in FILES.items():
        for line in content.splitlines():
            word, translation = line.split()
            table.setdefault(word, []).append((name[3:], translation))
    draws, counts = 4000, Counter()
    for seed in range(draws):
        found = re.findall(r"\w+", substituted(change, seed).lower())
        counts.update(zip(re.findall(r"\w+", TEXT.lower()), found, strict=True))
    for word, times in Counter(re.findall(r"\w+", TEXT.lower())).items():
        candidates = table.get(word, [])
        forms = Counter(code for code, _ in candidates)  # a language first, then one of its words
        expected = {translation: 0.3 / len(forms) / forms[code] for code, translation in candidates}
        expected[word] = 0.7 if candidates else 1.0
        for other, share in expected.items():
            deviation = (share * (1 - share) / (draws * times)) ** 0.5
            assert abs(counts[word, other] / (draws * times) - share) <= 4 * deviation, (word, other)


def test_edits_come_in_a_random_order_so_that_a_cut_favours_none(lexicon):
    change = AlignedSubstitution(lexicon=lexicon, share=1.0, mixed=True)
    first = Counter(change(TEXT, np.random.default_rng(seed), language="en", row={})[0][0] for seed in range(1400))
    assert len(first) == 7 and all(abs(count - 200) < 60 for count in first.values())


@pytest.fixture(scope="module")
def tokenizer():
    return small.tokenizer([TEXT + " chien rouge Haus"] * 3, ["en", "de"])


def stream_of(folder, texts, field, **budget):
    path = Manifest.write(folder / "train.arrow", texts).path
    return Stream(name="text", manifests=[str(path)], fields={"source": field}, budget=Budget(**budget))


def test_a_row_is_the_same_whatever_the_number_of_workers(lexicon, tokenizer, tmp_path):
    rows = [small.row(n, TEXT) for n in range(20)]
    noisy = NoisyText(field=small.text(tokenizer), rewriting=AlignedSubstitution(lexicon=lexicon, growth=1.2))
    stream = stream_of(tmp_path, rows, noisy, rows=4)

    def texts(workers, epoch):
        batches = Loader(streams=[stream], seed=1, workers=workers).epoch(epoch)
        rows = (pair for batch in batches for pair in zip(batch.ids, batch["source"].rows(), strict=True))
        return {id: tokenizer.decode(ids.tolist()) for id, ids in rows}

    assert texts(0, 0) == texts(2, 0) != texts(0, 1)
    assert len(set(texts(0, 0).values())) > 5
    limit = noisy.length(rows[0])
    assert all(len(tokenizer.encode(text)) + 2 <= limit for text in texts(0, 0).values())


def test_what_does_not_fit_is_refused(lexicon):
    for wrong, message in (
        ({"targets": ["it", "de", "tr"]}, "the lexicon translates into de, fr, not into it, tr"),
        ({"share": 1.5}, r"share must be between 0 and 1, not 1\.5"),
    ):
        small.refuses(UsageError, message, AlignedSubstitution, lexicon=lexicon, **wrong)
    change = AlignedSubstitution(lexicon=lexicon)
    small.refuses(DataError, "row '1' does not say its language", substituted, change, language=None)


def test_a_language_without_a_tag_is_named(lexicon, tokenizer, tmp_path):
    noisy = NoisyText(field=small.text(tokenizer), rewriting=AlignedSubstitution(lexicon=lexicon))
    stream = stream_of(tmp_path, [small.row(7, "chien") | {"source_language": "fr"}], noisy, rows=4)
    message = r"train\.arrow: row '7': field 'source': the tokenizer has no symbol '<fr>'"
    small.refuses(DataError, message, list, Loader(streams=[stream], seed=1).epoch(0))


def test_a_share_of_nothing_is_the_control_that_reads_the_same_batches(lexicon, tokenizer, tmp_path):
    """Without any rewriting, no room is left for longer sources, and an update reads more sentences."""
    rows, field = [small.row(n, TEXT[: 12 + n]) for n in range(20)], small.text(tokenizer)

    def batches(rewriting):
        stream = stream_of(tmp_path, rows, NoisyText(field=field, rewriting=rewriting), tokens=180)
        found = [*Loader(streams=[stream], seed=1).epoch(0)]
        texts = {id: ids.tolist() for batch in found for id, ids in zip(batch.ids, batch["source"].rows(), strict=True)}
        return [batch.ids for batch in found], texts

    plain = {row["id"]: field(row, None).tolist() for row in rows}
    changed, texts = batches(AlignedSubstitution(lexicon=lexicon, share=1.0))
    assert texts != plain
    assert batches(AlignedSubstitution(lexicon=lexicon, share=0.0)) == (changed, plain)
    assert len(batches(None)[0]) < len(changed)
