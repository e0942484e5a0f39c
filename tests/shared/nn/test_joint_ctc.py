"""Joint scores of a decoder and a CTC head against sums over all paths, and against torch's loss."""

from functools import partial
from itertools import groupby, product
from math import exp, log

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dragoman import BeamSearch, GreedySearch, Rules, UsageError
from dragoman.shared.batch import Batch
from dragoman.shared.generator import Encoding, normalised
from dragoman.shared.machine import memory
from dragoman.shared.nn.joint_ctc import CtcPrefixes, JointCtc
from dragoman.shared.padded import Padded
from tests.small import refuses

BLANK, A, B, END, TAG = range(5)
LENGTHS = (4, 2, 3)


@pytest.fixture
def scores():
    torch.manual_seed(2)
    return Padded(torch.randn(3, 4, 5).mul(2).log_softmax(-1), torch.tensor(LENGTHS))


def written(path):
    return [symbol for symbol, _ in groupby(path) if symbol != BLANK]


def paths(scores, row):
    """Return every output of a row with its probability, path by path."""
    probabilities = scores.values[row].double().exp()
    for path in product(range(5), repeat=LENGTHS[row]):
        yield written(path), float(torch.stack([probabilities[t, symbol] for t, symbol in enumerate(path)]).prod())


def begins(scores, row, prefix):
    return log(sum(p for output, p in paths(scores, row) if output[: len(prefix)] == prefix) or exp(-700))


def equals(scores, row, output):
    return log(sum(p for found, p in paths(scores, row) if found == output) or exp(-700))


@pytest.mark.parametrize("prefix", [[], [A], [A, B], [B, B], [A, A], [B, A, B], [TAG]])
def test_what_follows_a_prefix_is_a_sum_over_paths(scores, prefix):
    prefixes = CtcPrefixes.empty(scores, BLANK)
    for token in prefix:
        prefixes = prefixes.extended(torch.full((3,), token), BLANK)
    found = prefixes.following(END, BLANK)
    assert found[:, BLANK].tolist() == [float("-inf")] * 3
    for row in range(3):
        before = begins(scores, row, prefix)
        if before < -600:
            continue  # no path is long enough: below
        for token in (A, B, TAG):
            expected = begins(scores, row, [*prefix, token]) - before
            assert (
                found[row, token] == pytest.approx(expected, abs=1e-4) if expected > -600 else found[row, token] < -9e3
            )
        assert found[row, END] == pytest.approx(equals(scores, row, prefix) - before, abs=1e-4)


def test_an_output_longer_than_its_sound_is_lowest_and_no_nan(scores):
    prefixes = CtcPrefixes.empty(scores, BLANK)
    for _ in range(6):
        prefixes = prefixes.extended(torch.full((3,), A), BLANK)
        assert prefixes.following(END, BLANK)[:, 1:].isfinite().all()
    assert (prefixes.total == -1e4).all()


def added_up(scores, output):
    """Return the sum of the steps of an output with its end, (B,)."""
    total, prefixes = torch.zeros(len(scores)), CtcPrefixes.empty(scores, BLANK)
    for token in [*output, END]:
        total += prefixes.following(END, BLANK)[:, token]
        prefixes = prefixes.extended(torch.full((len(scores),), token), BLANK)
    return total


def test_steps_add_up_to_the_loss_of_an_output_under_autocast_too(scores):
    given = (torch.tensor([[A, B]] * 3), scores.lengths, torch.tensor([2] * 3), BLANK, "none")
    plain = added_up(scores, [A, B])
    torch.testing.assert_close(plain, -F.ctc_loss(scores.values.transpose(0, 1), *given))
    with torch.autocast("cpu", torch.bfloat16):
        assert added_up(scores, [A, B]).equal(plain)


def test_steps_add_up_where_single_precision_has_no_probability():
    scores = Padded(torch.full((1, 30, 5), -20.0), torch.tensor([30]))
    scores.values[..., BLANK], scores.values[..., A] = -1e-8, -120.0
    prefixes = CtcPrefixes.empty(scores, BLANK)
    after = prefixes.extended(torch.tensor([A]), BLANK)
    assert prefixes.following(END, BLANK)[0, A] == pytest.approx(float(after.total), rel=1e-4)


def test_a_row_without_sound_has_an_empty_output():
    """Whatever its padding holds."""
    scores = Padded(torch.full((2, 3, 5), float("nan")), torch.tensor([0, 3]))
    scores.values[1] = torch.randn(3, 5).log_softmax(-1)
    assert added_up(scores, [])[0] == 0
    assert added_up(scores, [A])[0] == added_up(scores, [A, B])[0] == -1e4
    assert added_up(scores, [A, B]).isfinite().all()


class Head(nn.Module):
    blank, tap = BLANK, 0

    def forward(self, states):
        return states


class Model(nn.Module):
    """A decoder that looks at the last token only, and a head whose logits are its input."""

    longest_output = None

    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"ctc": Head()})
        self.table = nn.Parameter(torch.randn(5, 5))

    def encode(self, batch):
        return Encoding({"source": batch["source"]}, {"tap.0": batch["source"]})

    def tap(self, encoding, name):
        return encoding.extras[f"tap.{name}"]

    def start(self, encoding, prefix):
        return Nothing()

    def step(self, tokens, state):
        return self.table[tokens].clone(), state


class Nothing:
    def fork(self, beams):
        return self

    def reorder(self, index):
        return self


def batch_of(scores, rows):
    values = scores.select(torch.tensor(rows))
    longest = int(values.lengths.max())
    fields = {"source": Padded(values.values[:, :longest], values.lengths)}
    return Batch(fields=fields, ids=[f"row {row}" for row in rows], languages={})


def joint_score(model, scores, row, tokens, start, weight):
    """Return the score of an output (with its end) by the equation."""
    table, ctc = normalised(model.table.detach().clone()), tokens[:-1]
    decoder = sum(float(table[one, two]) for one, two in zip([start, *tokens[:-1]], tokens, strict=True))
    return (1 - weight) * decoder + weight * equals(scores, row, ctc)


@pytest.mark.parametrize("start", [[END], [END, TAG]])
@pytest.mark.parametrize("weight", [0.3, 0.9])
def test_a_search_finds_the_best_output_of_both(scores, start, weight):
    """Of all outputs of up to four tokens, for every row of one batch; a tag at the start is no token of the head."""
    torch.manual_seed(3)
    model = Model()
    model.table.data[TAG, TAG] = -50.0
    joint = JointCtc(model=model, weight=weight, end=END, passed=start)
    rules = Rules(maximum_length_extra=4, minimum_length=0, start_symbols=len(start))
    search = BeamSearch(beam=40, length_penalty=0.0, rules=rules)
    prefix = Padded(torch.tensor([start] * 3), torch.full((3,), len(start)))
    found = search.search(joint, batch_of(scores, [0, 1, 2]), prefix=prefix, end=END, padding=BLANK)
    for row in range(3):
        free = [[*some, END] for length in range(5) for some in product((A, B, TAG), repeat=length)]
        outputs = [output for output in free if TAG not in start or output[0] != TAG]
        ranked = sorted((joint_score(model, scores, row, out, start[-1], weight), out) for out in outputs)
        assert found[row][0].tokens == ranked[-1][1]
        assert found[row][0].score == pytest.approx(ranked[-1][0], abs=1e-4)


def test_the_head_judges_the_first_of_two_texts(scores):
    """END stands between them, and TAG begins and ends the output."""
    torch.manual_seed(6)
    model = Model()
    model.table.data[[TAG, A, END, B], [A, END, B, TAG]] += 4.0
    joint = JointCtc(model=model, weight=0.2, end=END, passed=[TAG])
    search = BeamSearch(beam=40, length_penalty=0.0, rules=Rules(maximum_length_extra=3, minimum_length=0))
    prefix = Padded(torch.full((3, 1), TAG), torch.ones(3, dtype=torch.int64))
    found = search.search(joint, batch_of(scores, [0, 1, 2]), prefix=prefix, end=TAG, padding=BLANK)
    table = normalised(model.table.detach().clone())
    with_both = 0
    for row in range(3):
        ranked = []
        for tokens in (some for length in range(4) for some in product((A, B, END), repeat=length)):
            decoder = sum(float(table[one, two]) for one, two in zip((TAG, *tokens), (*tokens, TAG), strict=True))
            head = 0.0
            if END in tokens:
                head = equals(scores, row, list(tokens[: tokens.index(END)]))
            elif tokens:
                head = begins(scores, row, [*tokens, TAG])
            ranked.append((0.8 * decoder + 0.2 * head, [*tokens, TAG]))
        score, output = max(ranked)
        assert found[row][0].tokens == output and found[row][0].score == pytest.approx(score, abs=1e-4)
        with_both += END in output[:-2]
    assert with_both, "no best output has two texts"


def test_a_row_is_searched_alike_alone_and_in_a_batch(scores):
    torch.manual_seed(4)
    joint = JointCtc(model=Model(), weight=0.5, end=END, passed=[END])
    for search in (BeamSearch(beam=3), GreedySearch()):

        def run(rows, search=search):
            prefix = Padded(torch.full((len(rows), 1), END), torch.ones(len(rows), dtype=torch.int64))
            return search.search(joint, batch_of(scores, rows), prefix=prefix, end=END, padding=BLANK)

        together = run([0, 1, 2])
        for row in range(3):
            alone = run([row])[0][0]
            assert alone.tokens == together[row][0].tokens
            assert alone.score == pytest.approx(together[row][0].score, abs=1e-5)


def test_what_cannot_be_searched_is_refused(scores, monkeypatch):
    joint, silent = partial(JointCtc, end=END, passed=[]), Model()
    for weight in (0.0, 1.0, -0.5, float("nan")):
        said = f"JointCtc: weight must be (a finite number )?above 0 and below 1, not {weight}"
        refuses(ValueError, said, joint, model=Model(), weight=weight)
    refuses(ValueError, "no head 'other'", joint, model=Model(), weight=0.5, head="other")
    silent.encode = lambda batch: Encoding({"source": batch["source"]})
    said = "reads states that the model has not made"
    refuses(UsageError, said, joint(model=silent, weight=0.5).encode, {"source": None})
    monkeypatch.setattr(memory, "available_memory", lambda device: 479)
    said = "joint search over 3x4x5 scores of a CTC head: needs about 480"
    refuses(UsageError, said, joint(model=Model(), weight=0.5).encode, batch_of(scores, [0, 1, 2]))


class Whole(Model):
    def log_probabilities(self, prefix, encoding):
        return self.table.log_softmax(-1)[prefix.values]


def test_scores_of_whole_outputs_are_those_of_steps(scores):
    torch.manual_seed(5)
    joint = JointCtc(model=Whole(), weight=0.4, end=END, passed=[END, TAG])
    encoding = joint.encode(batch_of(scores, [0, 1, 2]))
    prefix = Padded(
        torch.tensor([[END, TAG, A, B, END], [END, A, A, END, B], [END, TAG, TAG, A, A]]), torch.full((3,), 5)
    )
    found = joint.log_probabilities(prefix, encoding)
    state = joint.start(encoding, None)
    for place in range(5):
        step, state = joint.step(prefix.values[:, place], state)
        torch.testing.assert_close(found[:, place], step)
        assert joint.scores(step) is step


def test_tags_at_the_beginning_cost_the_head_nothing(scores):
    """Where nothing is written yet, the head gives a tag the logarithm of 1, and later what its paths say."""
    torch.manual_seed(5)
    model = Model()
    joint = JointCtc(model=model, weight=0.4, end=END, passed=[END, TAG])
    encoding = joint.encode(batch_of(scores, [0]))
    table = normalised(model.table.detach().clone())
    first, state = joint.step(torch.tensor([END]), joint.start(encoding, None))
    assert float(first[0, TAG]) == pytest.approx(0.6 * float(table[END, TAG]), abs=1e-4)
    assert float(first[0, A]) == pytest.approx(0.6 * float(table[END, A]) + 0.4 * begins(scores, 0, [A]), abs=1e-4)
    second, _ = joint.step(torch.tensor([A]), state)
    wanted = 0.6 * float(table[A, TAG]) + 0.4 * (begins(scores, 0, [A, TAG]) - begins(scores, 0, [A]))
    assert float(second[0, TAG]) == pytest.approx(wanted, abs=1e-4)


def test_symbols_may_have_any_numbers(scores):
    """With the blank as the last symbol, and A as the first, nothing else changes."""
    order = torch.tensor([A, B, END, TAG, BLANK])
    other = Padded(scores.values[..., order], scores.lengths)
    one, two = CtcPrefixes.empty(scores, BLANK), CtcPrefixes.empty(other, 4)
    for token in (A, A, B, A):
        torch.testing.assert_close(two.following(2, 4), one.following(END, BLANK)[:, order])
        one = one.extended(torch.full((3,), token), BLANK)
        two = two.extended(torch.full((3,), order.tolist().index(token)), 4)
    torch.testing.assert_close(two.following(2, 4), one.following(END, BLANK)[:, order])
