"""A cascade against its two parts by hand, over all pairs, and token by token; and its folder."""

from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman import BeamSearch, GreedySearch, Hypothesis, Recipe, Rules, System, UsageError
from dragoman.runs.running import run_recipe
from dragoman.runs.task import task_of
from dragoman.shared import described
from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.loader import collate
from dragoman.shared.nn.translator import Translator
from dragoman.shared.padded import Padded
from dragoman.st.cascade import BestOf, Cascade, Heard, Marginal, OneBest
from tests import small
from tests.test_nouns import WORDS, embedding

RULES = Rules(maximum_length_extra=5)
SEARCH = BeamSearch(beam=3, rules=RULES)


@pytest.fixture(autouse=True)
def rooms(monkeypatch):
    monkeypatch.setattr(described, "PACKAGES", (*described.PACKAGES, __name__))


@pytest.fixture(scope="module")
def tokenizers():
    """Two with files of one name."""
    return [small.tokenizer(WORDS * 9, kind=kind, size=size) for kind, size in (("char", 262), ("bpe", 272))]


def text_system(tokenizer, seed, column="target_text", **options):
    torch.manual_seed(seed)
    target = embedding(tokenizer)
    letters = [tokenizer.eos, *{id for word in WORDS for id in tokenizer.encode(word)}]
    with torch.no_grad():  # of other symbols, most are bytes that make no text
        target.tokens.weight[[id for id in range(tokenizer.size) if id not in letters]] = 0.0
        target.tokens.weight *= 4
    model = small.translator(tokenizer, target_embedding=target)
    with torch.no_grad():  # so that outputs differ with what is read
        for parameter in (*model.embeddings.parameters(), *model.decoder.layers[0].memory_attention.parameters()):
            parameter *= 4
    output = TextField(column=column, tokenizer=tokenizer)
    return small.system(tokenizer, model, output=output, **options).eval()


@pytest.fixture
def parts(tokenizers):
    """Return a "recogniser" (of text: what it reads makes no difference to a cascade) and a translator."""
    recogniser = text_system(tokenizers[0], 2, "source_text", output_name="transcript", target_languages=["en"])
    return recogniser, text_system(tokenizers[1], 7)


def five_best():
    return BeamSearch(beam=5, n_best=5, rules=RULES)


def test_a_cascade_is_its_parts_one_after_the_other(parts, tmp_path):
    recogniser, translator = parts
    heard = recogniser.translate(WORDS, search=SEARCH)
    written = translator.translate(heard, search=SEARCH)
    assert len({*heard}) > 2 and len({*written}) > 2
    cascade = Cascade(recogniser=recogniser, translator=translator, recogniser_search=SEARCH).eval()
    cascade.save(tmp_path / "model")
    for system in (cascade, System.load(tmp_path / "model")):
        for size in (1, 2, 16):
            found = system.hypotheses(WORDS[::-1], search=SEARCH, batch_size=size)[::-1]
            wanted = [{"transcript": z, "translation": y} for z, y in zip(heard, written, strict=True)]
            assert [h[0].texts for h in found] == wanted
    assert len({file.name for file in (tmp_path / "model").glob("tokenizer*.model")}) == 2
    assert cascade.for_task(writes="transcript") is recogniser
    assert cascade.for_task(reads=["source"], writes="translation") is cascade
    small.refuses(UsageError, "can write transcript or translation, not 'summary'", cascade.for_task, writes="summary")


def test_a_cascade_that_reads_another_input_keeps_its_mode_and_precision(parts):
    recogniser, translator = parts
    inputs = recogniser.inputs | {"other": recogniser.inputs["source"]}
    wider = type(recogniser)(**recogniser.arguments | {"inputs": inputs})
    cascade = Cascade(recogniser=wider, translator=translator).eval()
    cascade.autocast_dtype = torch.bfloat16
    other = cascade.for_task(reads=["other"])
    assert other is not cascade and other.reads == ["other"]
    assert not any(module.training for module in other.modules()) and other.autocast_dtype == torch.bfloat16


def test_a_run_of_a_cascade_ends_with_a_command_that_translates(parts):
    recogniser, translator = parts
    cascade = Cascade(recogniser=recogniser, translator=translator)
    assert task_of(cascade, Path("joined")).command == "dragoman translate joined news.txt"


class Mute(System):
    """Hears nothing in what begins with an "a"; otherwise its second guess is empty."""

    def translate_batch(self, batch, search, *, forced=None):
        texts = [self.output.tokenizer.decode(row.tolist()) for row in batch["source"].rows()]
        best = ["" if text.startswith("a") else text for text in texts]
        guesses = [[text, " ", text[::-1]] for text in best]
        return [[Hypothesis([], -0.1 * n, {"transcript": z}) for n, z in enumerate(some)] for some in guesses]


MIXINGS = {"one best": OneBest(), "best of": BestOf(hypotheses=3), "marginal": Marginal(hypotheses=3)}


@pytest.mark.parametrize("mixing", MIXINGS.values(), ids=MIXINGS)
def test_an_empty_transcript_has_an_empty_translation(parts, mixing, monkeypatch):
    recogniser, translator = parts
    shown = []
    real = Translator.encode

    def encode(self, batch, field=None):
        shown.append(batch["source"].lengths.min())
        return real(self, batch, field)

    monkeypatch.setattr(Translator, "encode", encode)
    mute = Mute(**recogniser.arguments)
    search = BeamSearch(beam=3, n_best=3)
    cascade = Cascade(recogniser=mute, translator=translator, recogniser_search=search, mixing=mixing).eval()
    found = [h[0] for h in cascade.hypotheses(WORDS, search=SEARCH)]
    for word, hypothesis in zip(WORDS, found, strict=True):
        if word.startswith("a"):
            assert hypothesis.texts == {"transcript": "", "translation": ""}
        else:
            assert hypothesis.texts["transcript"] in (word, word[::-1]) and hypothesis.texts["translation"]
    assert min(shown) > translator.inputs["source"].overhead
    only = cascade.hypotheses(["abc", "aabb"], search=SEARCH)
    assert [h[0].texts["translation"] for h in only] == ["", ""]


SILENCE = {"transcript": "", "translation": ""}


def spoken(recogniser, word, number):
    """Return the best transcripts but for empty ones; none, if the very best is empty."""
    heard = recogniser.hypotheses([word], search=five_best())[0][:number]
    return [h for h in heard if h.texts["transcript"].strip()] if heard[0].texts["transcript"].strip() else []


def test_a_transcript_of_which_normalizers_leave_nothing_loses(monkeypatch):
    """Its translation is empty, unread and has no score, which would be better than all others."""
    said, other = Hypothesis([5], -1.0), Hypothesis([6], -1.5)
    answers = [[said, other], [Hypothesis([], 0.0)]]
    monkeypatch.setattr("dragoman.st.cascade.translated", lambda translator, rows, search: iter(answers))
    heard = Heard(rows=[{"source_text": "one"}, {"source_text": "(Applause)"}], scores=[-0.2, -0.3])
    [pairs] = BestOf(hypotheses=2).translate(None, [heard], None)
    assert [(number, h.tokens, h.score) for number, h in pairs] == [(0, [5], -1.2), (0, [6], -1.7)]
    answers[:] = [[Hypothesis([], 0.0)]]
    [pairs] = BestOf(hypotheses=2).translate(None, [Heard(rows=heard.rows[1:], scores=[-0.3])], None)
    assert [h.tokens for _, h in pairs] == [[]]


def test_the_best_pair_is_the_best_of_all_pairs(parts):
    recogniser, translator = parts
    for weight in (0.0, 1.0, 30.0):
        options = {"recogniser_search": five_best(), "mixing": BestOf(hypotheses=4, weight=weight)}
        cascade = Cascade(recogniser=recogniser, translator=translator, **options).eval()
        found = cascade.hypotheses(WORDS, search=SEARCH)
        for word, hypotheses in zip(WORDS, found, strict=True):
            pairs = []
            heard = spoken(recogniser, word, 4)
            for z in heard:
                [[y]] = translator.hypotheses([z.texts["transcript"]], search=SEARCH)
                if y.tokens or len(heard) == 1:  # else a translation of nothing
                    pairs.append((y.score + weight * z.score, z.texts | y.texts))
            score, texts = max(pairs, key=lambda pair: pair[0], default=(0.0, SILENCE))
            assert hypotheses[0].texts == texts
            assert hypotheses[0].score == pytest.approx(score, rel=1e-5)


@torch.no_grad()
def log_mean(translator, transcripts, log_weights, prefix):
    """Return the log-probabilities (V,) of the next token, each transcript encoded by itself."""
    tokens = Padded(torch.tensor([prefix]), torch.tensor([len(prefix)]))
    scores = []
    for text in transcripts:
        row = {"id": text, "source_text": text, "source_language": "en", "target_language": "de"}
        encoding = translator.model.encode(collate([row], translator.inputs, np.random.default_rng(0)))
        scores.append(translator.model.log_probabilities(tokens, encoding)[0, -1].double())
    return (torch.stack(scores).exp() * log_weights.double().exp()[:, None]).sum(0).log()


SEARCHES = {"greedy": GreedySearch(rules=RULES), "beam": BeamSearch(beam=4, n_best=4, rules=RULES)}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_the_marginal_is_the_mean_over_transcripts_at_every_token(parts, search):
    recogniser, translator = parts
    temperature = 0.3
    options = {"recogniser_search": five_best(), "mixing": Marginal(hypotheses=3, temperature=temperature)}
    cascade = Cascade(recogniser=recogniser, translator=translator, **options).eval()
    found = cascade.hypotheses(WORDS, search=search)
    tokenizer = translator.output.tokenizer
    for word, hypotheses in zip(WORDS, found, strict=True):
        heard = spoken(recogniser, word, 3)
        if not heard:
            assert hypotheses[0].texts == SILENCE
            continue
        weights = torch.tensor([h.score / temperature for h in heard]).log_softmax(0)
        texts = [h.texts["transcript"] for h in heard]
        for hypothesis in hypotheses:
            prefix, total = [tokenizer.id("<de>")], 0.0
            for place, token in enumerate(hypothesis.tokens):
                scores = log_mean(translator, texts, weights, prefix)
                if isinstance(search, GreedySearch) and place < 5:
                    scores[tokenizer.pad] = -torch.inf
                    scores[tokenizer.eos] = -torch.inf if place == 0 else scores[tokenizer.eos]
                    assert token == int(scores.argmax())
                total += float(scores[token])
                prefix.append(token)
            assert hypothesis.score == pytest.approx(total / len(hypothesis.tokens), abs=1e-4)
        assert hypotheses[0].texts["transcript"] == texts[0]
    assert len({round(h[0].score, 3) for h in found}) > 2
    best = Cascade(recogniser=recogniser, translator=translator, recogniser_search=five_best()).eval()
    alone = [h[0].score for h in best.hypotheses(WORDS, search=search)]
    assert max(abs(one - h[0].score) for one, h in zip(alone, found, strict=True)) > 0.01  # the other transcripts count


def test_what_is_restored_is_what_is_translated(parts, tokenizers):
    recogniser, translator = parts
    restorer = text_system(tokenizers[0], 3, "source_text", output_name="transcript", target_languages=["en"])
    cascade = Cascade(recogniser=recogniser, translator=translator, restorer=restorer, recogniser_search=SEARCH).eval()
    heard = recogniser.translate(WORDS, search=SEARCH)
    restored = [r.strip() or z for r, z in zip(restorer.translate(heard), heard, strict=True)]
    assert restored != heard
    found = [h[0].texts for h in cascade.hypotheses(WORDS, search=SEARCH)]
    assert [texts["transcript"] for texts in found] == heard
    assert [texts["translation"] for texts in found] == translator.translate(restored, search=SEARCH)


def test_parts_that_do_not_fit_are_refused(parts, tokenizers):
    recogniser, translator = parts
    german = text_system(tokenizers[1], 2, source_languages=["de"])
    for options, message in (
        ({"recogniser": translator}, "the recogniser writes translation, in the target language"),
        ({"translator": recogniser}, "both write 'transcript'"),
        ({"translator": german}, "the recogniser writes en, the translator reads de"),
        ({"restorer": translator}, "the restorer writes translation"),
        ({"mixing": BestOf(hypotheses=2)}, "BestOf needs 2 hypotheses of the recogniser, whose search finds 1"),
    ):
        small.refuses(UsageError, message, Cascade, **{"recogniser": recogniser, "translator": translator} | options)
    for kind in (BestOf, Marginal):
        small.refuses(UsageError, "hypotheses must be at least 1, not 0", kind, hypotheses=0)
    small.refuses(UsageError, "temperature must be above 0", Marginal, hypotheses=2, temperature=0.0)
    cascade = Cascade(recogniser=recogniser, translator=translator)
    small.refuses(UsageError, "cannot be forced", cascade.translate_batch, Batch({}), SEARCH, forced=[])


def test_a_recipe_joins_two_folders_without_data_and_without_training(parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, system in zip(("recogniser", "translator"), parts, strict=True):
        system.save(tmp_path / name)
    keys = {"recogniser_folder": "recogniser", "translator_folder": "translator", "results_folder": "results"}
    keys |= {"noprogressbar": True, "device": "cpu"}
    recipe = Recipe.load("own/cascade", keys | {"phases.prepare": None, "phases.evaluate": None})
    joined = System.load(run_recipe(recipe, command="a test").output / "assemble" / "model")
    assert joined.translate(WORDS) == parts[1].translate(parts[0].translate(WORDS))
    assert joined.origin == ["all parameters from recogniser", "all parameters from translator"]
