"""Words by their frequency in training, by hand; the phase that reads tables of outputs."""

import pytest

from dragoman import DataError, UsageError
from dragoman.mt.word_accuracy import by_frequency, frequencies
from tests.small import refuses

TRAIN = ["a a a a b", "a b c.", "A c"]
HYPOTHESES = ["a b b x", "c A"]
REFERENCES = ["a b c x", "c, c d"]


def test_words_are_counted_in_their_buckets():
    counts = frequencies(TRAIN, "en")
    assert counts == {"a": 5, "b": 2, "c": 2, "A": 1}
    rare, middle, frequent = by_frequency(HYPOTHESES, REFERENCES, counts, "en", edges=(2, 5))
    assert (rare.matches, rare.written, rare.wanted) == (1, 2, 2)  # x is right; A was written, d wanted
    assert (middle.matches, middle.written, middle.wanted) == (2, 3, 4)  # one b of two; one c of three
    assert (frequent.matches, frequent.written, frequent.wanted) == (1, 1, 1)
    assert [bucket.name for bucket in (rare, middle, frequent)] == ["0-1", "2-4", "5+"]
    precision, recall = 2 / 3, 2 / 4
    assert middle.f_measure == pytest.approx(100 * 2 * precision * recall / (precision + recall))


def test_words_never_seen_have_a_bucket_of_their_own():
    never, once, more = by_frequency(["a b c"], ["a b c"], {"a": 2, "b": 1}, "en", edges=(1, 2))
    assert [(bucket.name, bucket.matches) for bucket in (never, once, more)] == [("0", 1), ("1", 1), ("2+", 1)]
    assert [bucket.name for bucket in by_frequency([], [], {}, "en")] == ["0-99", "100-999", "1000+"]
    assert by_frequency([], [], {}, "en")[0].f_measure == by_frequency([""], [""], {}, "en")[0].f_measure == 0.0
    refuses(DataError, "1 hypotheses, but 2 references", by_frequency, ["a"], ["a", "b"], {}, "en")
    for edges in ((5, 2), (0, 2), (2, 2)):
        said = rf"^edges must rise and be above 0, not \[{edges[0]}, {edges[1]}\]$"
        refuses(UsageError, said, by_frequency, [], [], {}, "en", edges=edges)


def test_words_of_a_lexicon_are_counted_whole():
    assert frequencies(["红色的狗"], "zh", {"红色的"}) == {"红色的": 1, "狗": 1}
    assert frequencies(["红"], "zh") == {"红": 1}
