"""Tasks of XTREME above an imported encoder, on miniatures of their corpora."""

import json

import pytest
import torch

from dragoman import Recipe, System
from dragoman.runs.running import run_recipe
from dragoman.shared.systems.reading_model import ReadingModel
from tests.recipes.test_waveform import QUICK
from tests.recipes.xlmr import save_masked_model
from tests.small import system, tokenizer, translator

PAIR = "id\tsentence1\tsentence2\tlabel\n" + "".join(f"{n}\tein Hund {n}\tdie Katze {n}\t{n % 2}\n" for n in range(9))
ANSWERS = [{"text": "schläft", "answer_start": 10}, {"text": "Hund", "answer_start": 4}]
TEXT = "Der Hund, schläft auf dem Sofa, und die Katze sitzt davor. " * 4
NAMES = "".join(f"{{0}}:der\tO\n{{0}}:Hund{n}\tB-PER\n{{0}}:hier\tO\n\n" for n in range(9))
TREES = "1\tder\tder\tDET\t_\t_\t2\tdet\t_\t_\n2\tHund\tHund\tNOUN\t_\t_\t0\troot\t_\t_\n\n" * 9
#: Where the questions of a task are, by split.
SQUAD = {"train": "squad/train-v1.1.json", "dev": "squad/dev-v1.1.json"}
ANSWERED = {
    "xquad": SQUAD | {"test": "xquad/xquad.{0}.json"},
    "mlqa": SQUAD
    | {split: f"mlqa/MLQA_V1/{split}/{split}-context-{{0}}-question-{{0}}.json" for split in ("dev", "test")},
    "tydiqa": {
        split: f"tydiqa/tydiqa-goldp-v1.1-{split}/tydiqa.goldp.{{0}}.{split}.json" for split in ("train", "dev")
    },
}
ANSWERED["tydiqa"]["test"] = ""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory, miniature):
    return save_masked_model(tmp_path_factory.mktemp("encoder"), miniature, layers=2, feedforward=64)


def write(folder, name, text):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def write_corpus(task, folder):
    for code in ("en", "de"):
        for split in ("train", "dev", "test"):
            if task in ANSWERED:
                path = ANSWERED[task][split].format(code)
                if path and (code == "en" or split == "test" or task != "xquad"):
                    questions = [{"id": f"{n}", "question": "Wer?", "answers": ANSWERS[n % 2 :]} for n in range(9)]
                    data = [{"paragraphs": [{"context": TEXT, "qas": questions}]}]
                    write(folder, path, json.dumps({"data": data}))
            elif task == "paws_x":
                names = {"train": "train" if code == "en" else "translated_train", "dev": "dev_2k", "test": "test_2k"}
                write(folder, f"x-final/{code}/{names[split]}.tsv", PAIR)
            elif task == "panx":
                write(folder, f"{code}/{split}", NAMES.format(code))
            elif task == "udpos":
                write(folder, f"UD/{code}_own-ud-{split}.conllu", TREES)
            elif split == "train":
                write(
                    folder,
                    f"XNLI-MT-1.0/multinli/multinli.train.{code}.tsv",
                    "premise\thypo\tlabel\n" + 9 * "A\tB\tneutral\n",
                )
            else:
                rows = "".join(f"{one}\tentailment\tEs {n}\tDas\t{n}\n" for one in ("en", "de") for n in range(3))
                write(
                    folder, f"XNLI-1.0/xnli.{split}.tsv", "language\tgold_label\tsentence1\tsentence2\tpairID\n" + rows
                )


@pytest.mark.recipes
@pytest.mark.parametrize("task", ["xnli", "paws_x", "panx", "udpos", *ANSWERED])
def test_a_task_is_learned_in_one_language_and_tested_in_others(task, encoder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_corpus(task, tmp_path / "corpus")
    keys = QUICK | {"encoder_folder": str(encoder), "data_folder": "corpus", "test_languages": ["en", "de"]}
    if task in ANSWERED:
        keys |= {"window": 60, "stride": 20, "longest_question": 16, "warmup": 0}
    recipe = Recipe.load(f"xtreme/{task}", keys | {"updates": 2, "validate_every": 1})
    output = run_recipe(recipe, command="a test").output
    rows = [json.loads(line) for line in (output / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    metrics = {"entity_f1", "accuracy"} if task == "panx" else {"accuracy"}
    if task in ANSWERED:
        metrics = {f"{name}{'_local' * (task == 'mlqa')}" for name in ("exact_match", "answer_f1")}
    split = "dev" if task == "tydiqa" else "test"
    assert {row["split"]: {*row["scores"]} for row in rows} == {f"en/{split}": metrics, f"de/{split}": metrics}
    learned = System.load(output / "average" / "model")
    imported = ReadingModel.load(encoder).model.encoder.state_dict()
    for name, value in learned.model.encoder.state_dict().items():  # two updates of 2e-5 at most
        torch.testing.assert_close(value, imported[name], atol=1e-4, rtol=0)
    if task in ("panx", "udpos"):
        assert len(learned.translate("der Hund hier", source_language="de").split()) == 3
    if task in ANSWERED:
        assert learned.translate(f"Wer schläft?\t{TEXT}", source_language="de") in TEXT
    if task in ("xnli", "paws_x"):
        assert learned.translate("ein Hund\tdie Katze", source_language="de") in learned.output.tokenizer.labels


@pytest.mark.recipes
def test_an_encoder_decoder_reads_on_both_sides(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_corpus("xnli", tmp_path / "corpus")
    torch.manual_seed(7)
    translating = system(tokenizer(["Es", "Das", "A", "B"]), translator(tokenizer(["Es", "Das", "A", "B"])))
    translating.save(tmp_path / "translator")
    keys = QUICK | {"encoder_folder": "translator", "data_folder": "corpus", "test_languages": ["en", "de"]}
    keys |= {"updates": 2, "validate_every": 1, "arm": "both_sides"}
    output = run_recipe(Recipe.load("xtreme/xnli", keys), command="a test").output
    learned = System.load(output / "average" / "model").model
    assert learned.heads["label"].pooling == "last"
    for part in ("encoder", "decoder"):
        before = getattr(translating.model, part).state_dict()
        for name, value in getattr(learned, part).state_dict().items():
            torch.testing.assert_close(value, before[name], atol=1e-4, rtol=0)


@pytest.mark.recipes
def test_sentences_are_found_and_mined(encoder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, texts in {"deu": ["ein Hund", "die Katze"], "eng": ["a dog", "the cat"]}.items():
        write(tmp_path, f"tatoeba/tatoeba.deu-eng.{name}", "\n".join(texts) + "\n")
    for split in ("sample", "training"):
        for code, texts in {"de": ["ein Hund", "die Katze"], "en": ["ein Hund", "so"]}.items():
            lines = "".join(f"{code}-{n}\t{text}\n" for n, text in enumerate(texts))
            write(tmp_path, f"bucc/de-en/de-en.{split}.{code}", lines)
        write(tmp_path, f"bucc/de-en/de-en.{split}.gold", "de-0\ten-0\n")
    keys = QUICK | {"encoder_folder": str(encoder), "layer": 1}
    for task, languages in {"tatoeba": {"source_languages": ["de"]}, "bucc": {"languages": ["de"]}}.items():
        recipe = Recipe.load(f"xtreme/{task}", keys | languages | {"data_folder": task})
        output = run_recipe(recipe, command="a test").output
        [row] = [json.loads(line) for line in (output / "results.jsonl").read_text(encoding="utf-8").splitlines()]
        assert row["split"] == "de-en/test" and "tap 1" in str(row["signatures"])
        assert row["scores"] == ({"mining_f1": 100.0} if task == "bucc" else {"retrieval": row["scores"]["retrieval"]})
