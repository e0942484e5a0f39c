"""The split states against a loop and torch's layers, what CTC reads off them, and refusals."""

import torch

from dragoman import CtcGreedySearch
from dragoman.mt.state_splitting import SplittingModel
from dragoman.shared.described import build, describe
from dragoman.shared.nn.heads import CtcHead
from dragoman.shared.nn.positions import SinusoidalPositions
from dragoman.shared.nn.translator import MEMORY
from dragoman.shared.objectives import Ctc
from dragoman.shared.systems.ctc_system import CtcSystem
from tests import small
from tests.small import refuses, torch_layer

WIDTH, VOCABULARY, BLANK, SPLITS = 16, 30, 3, 3
LENGTHS = {"source": [4, 6, 1], "target": [5, 9, 4]}


def writer(**changes):
    return small.encoder(1, activation="gelu", **{"memories": [MEMORY]} | changes)


def model(**changes):
    torch.manual_seed(1)
    parts = {
        "embeddings": {"source": small.embedding(VOCABULARY)},
        "encoder": small.encoder(1),
        "splits": SPLITS,
        "heads": {"ctc": CtcHead(tap="split", width=WIDTH, vocabulary=VOCABULARY, blank=BLANK)},
    }
    made = SplittingModel(**parts | changes)
    torch.nn.init.normal_(made.splitting.bias)
    return made.eval()


def split_by_hand(made, states):
    """Split the states (S, D) of one sentence: the b-th part of what is mapped is the state c k + b."""
    rows = [None] * (SPLITS * len(states))
    for c, state in enumerate(states):
        for b in range(SPLITS):
            part = slice(b * WIDTH, (b + 1) * WIDTH)
            rows[c * SPLITS + b] = made.splitting.weight[part] @ state + made.splitting.bias[part]
    return torch.stack(rows)


def test_states_are_split_in_their_order():
    made, rows = model(), small.drawn_batch(LENGTHS, VOCABULARY, 7)
    encoding = made.encode(rows)
    split = made.tap(encoding, "split")
    assert split.lengths.tolist() == [12, 18, 3]
    for number, states in enumerate(encoding.memories[MEMORY].rows()):
        torch.testing.assert_close(split.rows()[number], split_by_hand(made, states))


def test_the_writer_sees_all_split_states_of_a_sentence_and_the_encoders():
    positions = SinusoidalPositions(width=WIDTH)
    made, rows = model(writer=writer(), positions=positions), small.drawn_batch(LENGTHS, VOCABULARY, 7)
    split = made.tap(made.encode(rows), "split").rows()
    theirs = torch_layer(made.writer.layers[0], MEMORY).eval()
    for number in range(len(rows)):
        states = made.encode(small.alone(rows, number, "source")).memories[MEMORY].values
        x = split_by_hand(made, states[0]) + positions(SPLITS * states.shape[1], 0, like=states)
        expected = made.writer.norm(theirs(x[None], states))[0]
        torch.testing.assert_close(split[number], expected, atol=1e-5, rtol=1e-5)


def test_the_loss_is_that_of_torch_over_the_split_states():
    made, rows = model(writer=writer()), small.drawn_batch(LENGTHS, VOCABULARY, 7)
    terms = small.objective(made, Ctc(field="target"))(rows).parts
    total = 0.0
    for number in range(len(rows)):
        one = small.alone(rows, number)
        scores = made.heads["ctc"](made.tap(made.encode(one), "split").values).log_softmax(-1)
        labels = one["target"].values[:, 1:-1]
        sizes = torch.tensor([scores.shape[1]]), torch.tensor([labels.shape[1]])
        total += torch.nn.functional.ctc_loss(scores.transpose(0, 1), labels, *sizes, BLANK, reduction="sum")
    torch.testing.assert_close(terms["ctc"].sum, total)
    assert float(terms["ctc_infeasible"].sum) == 0  # two labels of the last sentence's have three states, not one


def test_a_system_reads_the_translation_off_the_split_states():
    tokenizer = small.tokenizer(["abc", "cab"])
    torch.manual_seed(1)
    head = CtcHead(tap="split", width=WIDTH, vocabulary=tokenizer.size, blank=tokenizer.blank)
    made = model(embeddings={"source": small.embedding(tokenizer)}, writer=writer(), heads={"ctc": head})
    a, b, _ = tokenizer.encode("ab")[-2:] + [tokenizer.blank]
    path = torch.tensor([a, a, _, a, b, b, _, _, b, _, _, a])  # of <en>, two pieces and </s>
    head.forward = lambda states: torch.nn.functional.one_hot(path[None], tokenizer.size) * 9.0
    hypothesis = small.system(tokenizer, made, cls=CtcSystem).hypotheses(["c"], search=CtcGreedySearch())[0][0]
    assert hypothesis.tokens == [a, a, b, b, a]
    assert hypothesis.texts == {"translation": "aabba"}


def test_a_model_is_built_again_from_its_description():
    made = model(writer=writer(), positions=SinusoidalPositions(width=WIDTH))
    again = build(describe(made))
    again.load_state_dict(made.state_dict())
    rows = small.drawn_batch(LENGTHS, VOCABULARY, 7)
    torch.testing.assert_close(
        *(one.tap(one.encode(rows), "split").values for one in (made, again.eval())), rtol=0, atol=0
    )


def test_other_writers_are_refused():
    refuses(ValueError, "width 16 and attend to 'source', but has 16 and attends", model, writer=small.encoder())
    refuses(ValueError, "but has 8 and attends", model, writer=writer(width=8))
    refuses(ValueError, "splits", model, splits=0)
