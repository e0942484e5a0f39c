"""Windows of texts and the places of answers, against loops over the pieces of one text."""

import numpy as np
import pytest

from dragoman import DataError, UsageError
from dragoman.mt.understanding.spans import AnswerField, WindowsField, windows_of
from dragoman.shared.batches.loader import collate
from tests.small import refuses, row, text, tokenizer

RNG = np.random.default_rng(1)
TEXTS = ["who fed the black cat", "the old man fed a black cat and two red dogs", "é e\u0301"]


@pytest.fixture(scope="module")
def own():
    return tokenizer(TEXTS, tags=["en"])


def asked(id="1", question="who", context="the old man fed a cat", answer="old man", **more):
    given = row(id, context, question_text=question, answer_text=answer, answer_start=context.find(answer))
    return given | more


def field_of(own, **changes):
    sizes = {"maximum": 16, "stride": 5, "longest_question": 4}
    return WindowsField(**{"tokenizer": own, "prefix": ["<s>"]} | sizes | changes)


def located(own, context):
    """Pieces and where they stand, without the spaces around them."""
    ids, places = own.located(context)
    trimmed = []
    for begin, end in places.tolist():
        while begin < end and context[begin].isspace():
            begin += 1
        while begin < end and context[end - 1].isspace():
            end -= 1
        trimmed.append([begin, end])
    return ids, trimmed


def looped(own, field, one):
    """The windows of a row, as lists of ids and of places, by one walk over its pieces."""
    question = own.encode(one["question_text"])[: field.longest_question]
    ids, places = located(own, one["source_text"])
    before = [own.bos, *question, own.eos]
    start, windows = 0, []
    while True:
        end = min(start + field.maximum - len(before) - 1, len(ids))
        nowhere = [[0, 0]] * len(before)
        windows.append(([*before, *ids[start:end], own.eos], [*nowhere, *places[start:end], [0, 0]]))
        if end == len(ids):
            return windows, start
        start += field.stride


@pytest.mark.parametrize("question", ["w", "who fed", ""])
@pytest.mark.parametrize("context", ["a cat", "the old man fed a cat", "the old man fed a black cat", "", "e\u0301 é"])
def test_a_text_is_read_in_windows(own, question, context):
    field = field_of(own)
    one = asked(question=question, context=context)
    found = field(one, RNG)
    windows, _ = looped(own, field, one)
    assert found[""].tolist() == [id for ids, _ in windows for id in ids]
    assert found["windows"].tolist() == [len(ids) for ids, _ in windows] and found["windows"].max() <= 16
    assert found["places"].tolist() == [place for _, places in windows for place in places]
    assert "".join(map(chr, found["characters"].tolist())) == context
    assert field.length(one) == len(found[""]) and field.lengths([one, row(2, "a")]).tolist() == [len(found[""]), -1]


def test_windows_become_rows_of_a_batch(own):
    field = field_of(own, types=True)
    rows = [asked("a", "who", "the old man fed a black cat"), asked("b", "w", "a cat"), asked("c", "", TEXTS[1])]
    batch = collate(rows, {"source": field}, RNG)
    windows = windows_of(batch, "source")
    expected = [window for one in rows for window in looped(own, field, one)[0]]
    assert len(windows) == len(expected) > 6
    for number, (ids, places) in enumerate(expected):
        assert windows["source"].rows()[number].tolist() == ids
        assert windows["source.places"].rows()[number].tolist() == places
        second = ids.index(own.eos) + 1
        assert windows["source.types"].rows()[number].tolist() == [0] * second + [1] * (len(ids) - second)
    counts = batch["source.windows"].lengths.tolist()
    assert windows.ids == [name for name, count in zip("abc", counts, strict=True) for _ in range(count)]
    assert windows.languages == {"source": ["en"] * len(expected)}


@pytest.mark.parametrize("answer", ["the", "old man", "cat", "fed a black cat", "the old man fed a black cat", "ck"])
def test_answers_are_found_in_every_window_that_has_all_of_them(own, answer):
    field = field_of(own)
    one = asked(context="the old man fed a black cat", answer=answer)
    spans = AnswerField(source=field)(one, RNG).tolist()
    windows, _ = looped(own, field, one)
    begin, end = one["answer_start"], one["answer_start"] + len(answer)
    pieces = sum(a < end and b > begin for a, b in located(own, one["source_text"])[1])
    assert len(spans) == len(windows)
    for (first, last), (ids, places) in zip(spans, windows, strict=True):
        inside = [n for n, (a, b) in enumerate(places) if a < end and b > begin]
        assert [first, last] == ([inside[0], inside[-1]] if len(inside) == pieces else [0, 0])
        if first:
            assert own.decode(ids[first : last + 1]).strip() == answer


def test_an_answer_is_what_was_written_not_what_is_read(own):
    one = asked(context="é \u00a0e\u0301 man", answer="e\u0301")
    field = field_of(own)
    [[first, last]] = AnswerField(source=field)(one, RNG).tolist()
    places = field(one, RNG)["places"]
    assert one["source_text"][places[first, 0] : places[last, 1]].strip() == "e\u0301" and first <= last


def test_bad_answers_are_named(own):
    answers = AnswerField(source=field_of(own))
    for one, message in (
        (asked(answer_start=5), r"row '1': answer 'old man' is not at character 5, where 'ld man ' stands"),
        (asked(answer_start=None), "is not at character None"),
        (asked(answer=""), "answer '' is not at character 0"),
        (asked(answer_start=-3), "answer 'old man' is not at character -3"),
    ):
        refuses(DataError, message, answers, one, RNG)
    nothing = AnswerField(source=field_of(text_of_nothing(own)))
    refuses(DataError, "answer ' ' has no pieces", nothing, asked(answer=" "), RNG)
    rows = [asked(), row(2, "a", question_text="b"), asked("3")]
    lengths = answers.lengths(rows)
    assert lengths[1] == -1 and all(lengths[n] >= len(answers(rows[n], RNG)) for n in (0, 2))
    assert answers.length(rows[0]) == lengths[0] and answers.side == "source" and not answers.in_language


def text_of_nothing(own):
    class Nothing:
        """Pieces without places."""

        def __getattr__(self, name):
            return getattr(own, name)

        def located(self, text):
            ids, places = own.located(text)
            return ids, places * 0

    return Nothing()


def test_windows_need_places_and_leave_nothing_out(own):
    class Silent:
        """A tokenizer that does not say where its pieces are."""

        def __getattr__(self, name):
            if name == "located":
                raise AttributeError(name)
            return getattr(own, name)

    refuses(UsageError, "a Silent does not say where in a text its pieces are", field_of, Silent())
    refuses(UsageError, "windows of 16 tokens, 12 of which may be", field_of, own, longest_question=9)
    field_of(own, longest_question=8)
    assert text(own).of_pieces and not AnswerField(source=field_of(own)).of_pieces
