"""Unsupervised translation: what back-translation on the fly puts into a batch, and what it leaves as it was."""

import pytest
import sacrebleu
import torch

from dragoman import DataError, GreedySearch, Hypothesis, Manifest, Recipe, Rules, System, UsageError
from dragoman.mt.unsupervised import OnTheFly, RoundTrip, TargetPieces
from dragoman.shared.batch import Batch
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.batches.stream import Budget, Stream
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.positions import LearnedPositions
from dragoman.shared.objectives import CrossEntropy
from dragoman.shared.training.scheduled import Scheduled
from dragoman.shared.training.update import prepared
from tests import small

TEXTS = ["abcd", "dc", "bbadc"]
INTO = {"back_de": "en", "back_en": "de"}


@pytest.fixture(scope="module")
def tokenizer():
    return small.tokenizer(TEXTS * 4, size=290)


@pytest.fixture
def system(tokenizer):
    model = small.translator(tokenizer, seed=1, embedded={"positions": None}, sizes={"dropout": 0.5})
    return small.system(tokenizer, model, source_languages=["de", "en"], target_languages=["de", "en"])


def objective(system, **changes):
    ratio = Rules(maximum_length_ratio=1.3, maximum_length_extra=5)
    tasks = {name: [CrossEntropy(prefix=f"{name}.")] for name in (*INTO, "restore")}
    return OnTheFly(**{"system": system, "tasks": tasks, "into": INTO, "search": GreedySearch(rules=ratio)} | changes)


def batch(system, stream="back_de", language="de"):
    field = system.inputs["source"]
    rows = [field({"id": "1", "source_text": text, "source_language": language}, None) for text in TEXTS]
    text = small.padded(rows, padding=field.padding)
    fields = {"source": text, "target": text}
    return Batch(fields, languages={"source": [language] * 3}, ids=["a", "b", "c"], stream=stream)


@pytest.mark.parametrize(("stream", "own", "other"), [("back_de", "de", "en"), ("back_en", "en", "de")])
def test_a_batch_is_translated_and_turned(system, tokenizer, stream, own, other):
    given = batch(system, stream, own)
    found = objective(system.eval()).prepare(given)
    symbols = {tokenizer.id(symbol) for symbol in tokenizer.symbols}
    for row, length in zip(found["source"].rows(), given["source"].lengths.tolist(), strict=True):
        first, *inner, last = row.tolist()
        assert (first, last) == (tokenizer.id(f"<{other}>"), tokenizer.eos) and not symbols & {*inner}
        assert len(inner) <= 1.3 * length + 5
    assert torch.equal(found["target"].values, given["target"].values)
    assert found.languages == {"source": [other] * 3, "target": [own] * 3}
    assert (found.ids, found.stream) == (given.ids, stream)


def test_what_was_written_becomes_the_source(system, tokenizer):
    """The translator is replaced by one that reverses its input, and says a tag and the end."""
    asked = []

    def reversed_text(batch, search):
        asked.append(batch)
        rows = [row.tolist()[1:-1] for row in batch["source"].rows()]
        return [[Hypothesis([*row[::-1], tokenizer.id("<de>"), tokenizer.eos], 0.0)] for row in rows]

    made = objective(system)
    object.__setattr__(system, "translate_batch", reversed_text)
    given = batch(system)
    found = made.prepare(given)
    assert [one.languages["target"] for one in asked] == [["en"] * 3]
    expected = [[tokenizer.id("<en>"), *row.tolist()[1:-1][::-1], tokenizer.eos] for row in given["source"].rows()]
    assert [row.tolist() for row in found["source"].rows()] == expected


def test_at_first_only_pieces_of_the_target_are_written(system, tokenizer, tmp_path):
    """English texts have a and b, German c and d; one in five has an x, and is too rare."""
    texts = [("en", "ab"), ("en", "ba"), ("en", "aab"), ("en", "b"), ("en", "xa"), ("de", "cd"), ("de", "dc")]
    rows = [{"id": str(n), "source_text": text, "source_language": code} for n, (code, text) in enumerate(texts)]
    manifest = str(Manifest.write(tmp_path / "texts.arrow", rows).path)
    pieces = {code: {p for one, text in texts if one == code for p in tokenizer.encode(text)} for code in ("en", "de")}
    pieces["en"] -= {*tokenizer.encode("x")} - {*tokenizer.encode("ab")}
    search = GreedySearch(rules=Rules(minimum_length=4, maximum_length_extra=9))
    made = objective(system.eval(), search=search, at_first=TargetPieces(texts=[manifest], updates=3, least=0.3))
    for update in (1, 3):
        made.at(update)
        for stream, own, other in (("back_de", "de", "en"), ("back_en", "en", "de")):
            found = made.prepare(batch(system, stream, own))["source"].rows()
            written = {token for row in found for token in row.tolist()[1:-1]}
            assert written and written <= pieces[other]
    made.at(4)
    free, plain = (one.prepare(batch(system))["source"] for one in (made, objective(system, search=search)))
    assert torch.equal(free.values, plain.values)
    Manifest.write(tmp_path / "none.arrow", [rows[0] | {"source_text": ""}])
    none = TargetPieces(texts=[str(tmp_path / "none.arrow")])
    small.refuses(DataError, r"none\.arrow: no text", none.ban, tokenizer)
    assert TargetPieces(texts=[]).updates == 1000


def test_other_streams_stay_as_they_are(system):
    given = batch(system, "restore")
    assert objective(system).prepare(given) is given


def test_it_leaves_no_gradient_no_draw_and_no_second_copy_of_the_model(system, tmp_path):
    made = objective(system).train()
    assert {name.split(".")[0] for name in made.state_dict()} == {"system"}
    state = torch.get_rng_state()
    found = prepared(made, batch(system), Workspace(output=tmp_path, device="cpu", phase="fit"))
    assert torch.equal(state, torch.get_rng_state())  # no dropout
    assert all(parameter.grad is None for parameter in made.parameters())
    made.train()(found).parts["back_de.cross_entropy"].sum.backward()
    assert system.model.encoder.layers[0].inner.weight.grad.abs().sum() > 0


def test_what_is_too_long_to_be_read_is_cut(system, tokenizer):
    made = objective(system)
    object.__setattr__(system, "translate_batch", lambda batch, search: [[Hypothesis([5] * 40, 0.0)]] * len(batch))
    assert {len(row) for row in made.prepare(batch(system))["source"].rows()} == {42}
    system.model.target_embedding.positions = LearnedPositions(width=16, length=20)
    assert {len(row) for row in made.prepare(batch(system))["source"].rows()} == {20}


def test_the_weight_of_restoring_falls_and_that_of_back_translation_stays():
    vocabulary = "!new:tests.recipes.test_recipes.Vocabulary {pieces: 100, tags: [de, en]}"
    with torch.device("meta"):
        fit = Recipe.load("almanac/unsupervised", {"tokenizer": vocabulary}).plan["fit"].build()
    scheduled = Scheduled(fit.objective, fit.scheduled)
    weights = {}
    for update in (1, 200, 400, 800, 1200):
        scheduled.at(update)
        weights[update] = {part.prefix: part.weight for part in fit.objective.parts}
    assert [found["restore."] for found in weights.values()] == pytest.approx([0.99775, 0.55, 0.1, 0.0505, 0.001])
    assert {found["back."] for found in weights.values()} == {1.0}


def test_what_cannot_be_is_refused(system):
    for into, message in (
        ({"back_de": "fr"}, "stream 'back_de' is to be translated into 'fr', .* only de and en"),
        ({"back_fr": "en"}, "no task for stream 'back_fr'"),
    ):
        small.refuses(UsageError, message, objective, system, into=into)
    sound = System(**system.arguments | {"inputs": {"speech": SpeechField()}})
    small.refuses(UsageError, "reads one text, not speech", objective, sound)
    others = small.tokenizer(["xyz"] * 9, size=280)
    two = System(**system.arguments | {"output": small.text(others, "target")})
    small.refuses(UsageError, "one tokenizer for what is read and what is written", objective, two)


class Tourist(System):
    """Writes English backwards, and German without its first letter."""

    def translate_batch(self, batch, search, *, forced=None):
        texts = [self.output.tokenizer.decode(row.tolist()) for row in batch["source"].rows()]
        written = zip(texts, batch.languages["target"], strict=True)
        return [[Hypothesis([], 0.0, {"translation": t[::-1] if code == "en" else t[1:]})] for t, code in written]


@pytest.mark.parametrize("world", [1, 2])
def test_a_round_trip_compares_texts_with_what_comes_home(system, tokenizer, tmp_path, world):
    texts = {"de": ["abcd dc ab cd", "dc ab bb ad c", "bbadc ab dc ab"], "en": ["a bb cc dd ab", "cd cd ab ba d"]}
    for code, lines in texts.items():
        rows = [{"id": str(n), "source_text": text, "source_language": code} for n, text in enumerate(lines)]
        rows = [row | {"target_text": "dd", "target_language": {"de": "en", "en": "de"}[code]} for row in rows]
        Manifest.write(tmp_path / f"{code}.arrow", rows)
    trained = small.objective(system.model, CrossEntropy())
    trained.system = Tourist(**system.arguments)
    paths, both = [str(tmp_path / f"{code}.arrow") for code in texts], {"budget": Budget(rows=2)}
    options = {"search": GreedySearch(), "metrics": ["bleu"], "metric": "bleu"}
    validation = RoundTrip(languages=["de", "en"], manifests=paths, **both, **options)
    stream = Stream(name="text", manifests=paths[:1], fields=small.texts(tokenizer), **both)
    places = [Workspace(output=tmp_path, device="cpu", workers=0, rank=rank, world=world) for rank in range(world)]
    shares = [validation.share(trained, stream, place) for place in places]
    found = validation.judge(shares, trained, places[0])
    home = {"de": [text[::-1][1:] for text in texts["de"]], "en": [text[1:][::-1] for text in texts["en"]]}
    expected = [sacrebleu.corpus_bleu(home[code], [texts[code]]).score for code in texts]
    assert expected[0] != expected[1]
    assert found.values["bleu"] == found.score == pytest.approx(sum(expected) / 2)


def test_a_round_trip_needs_two_languages_and_texts_in_them(system, tokenizer, tmp_path):
    options = {"manifests": ["x"], "budget": Budget(rows=2), "search": GreedySearch(), "metrics": ["bleu"]}
    for languages in (["de"], ["de", "de"], ["de", "en", "fr"]):
        small.refuses(UsageError, "is between two languages", RoundTrip, languages=languages, **options)
    alone = options | {"search": None, "metrics": []}
    small.refuses(UsageError, "needs a search", RoundTrip, languages=["de", "en"], **alone)
    row = {"id": "7", "source_text": "ab", "source_language": "fr", "target_text": "a", "target_language": "en"}
    french = Manifest.write(tmp_path / "fr.arrow", [row])
    trip = RoundTrip(languages=["de", "en"], **options)
    place = Workspace(output=tmp_path, device="cpu", workers=0)
    message = "row '7' is in fr; the round trip is of de and en"
    small.refuses(DataError, message, trip.translate, system, [french], place)
