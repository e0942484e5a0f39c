"""Recipes of titles, summaries and questions from a translator, on miniatures of their corpora."""

import hashlib
import json

import pytest

from dragoman import Manifest, Recipe, System
from dragoman.mt.corpora.stories import XSUM_LIST
from dragoman.runs.running import run_recipe
from tests import small
from tests.recipes.test_waveform import QUICK

ARTICLE = "the dog runs and the cat sleeps and the dog eats and the mouse laughs"
CHINESE = "狗跑猫睡狗吃老鼠笑"
TEXTS = {code: f"{ARTICLE} {code}" for code in ("en", "de", "fr", "es", "it", "pt", "ru")} | {"zh": CHINESE}
LANGUAGES = {"xglue/ntg": ["en", "de", "ru"], "xglue/qg": ["en", "de", "pt"]}


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    """A translator of all languages that knows nothing, which marks the language of its texts."""
    tokenizer = small.tokenizer([*TEXTS.values(), "0123456789.,?!"], tags=[*TEXTS])
    system = small.system(tokenizer, source_languages=[*TEXTS], target_languages=[*TEXTS])
    system.save(tmp_path_factory.mktemp("translator") / "model")
    return tmp_path_factory.getbasetemp() / "translator0" / "model"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def numbered(text, rows=9):
    return "".join(f"{text} {n}\n" for n in range(rows))


def write_corpus(task, folder):
    """Write nine rows of each split."""
    corpus, _, name = task.partition("/")
    for split in ("train", "dev", "test"):
        if corpus == "xglue":
            for code in LANGUAGES[task] if split != "train" else ["en"]:
                for side, text in (("src", TEXTS[code]), ("tgt", "the dog")):
                    write(folder / name.upper() / f"xglue.{name}.{code}.{side}.{split}", numbered(text))
        elif corpus == "ncls":
            source = name[:2]
            block = (
                "<doc id={0}>\n<Article>\n{1} {0}\n</Article>\n<EN-REF1>\nthe dog {0}\n</EN-REF1>\n<ZH-REF1>\n狗{0}\n"
            )
            block += "</ZH-REF1>\n</doc>\n"
            names = {"en": "EN2ZHSUM", "zh": "ZH2ENSUM"}
            stem = f"{names[source]}_{'valid' if split == 'dev' else split}.txt"
            write(folder / stem, "".join(block.format(n, TEXTS[source]) for n in range(9)))
        elif corpus == "cnndm":
            addresses = [f"http://{split}/{n}" for n in range(9)]
            write(folder / f"all_{'val' if split == 'dev' else split}.txt", "\n".join(addresses))
            for address in addresses:
                story = folder / "cnn" / "stories" / f"{hashlib.sha1(address.encode()).hexdigest()}.story"
                write(story, f"{ARTICLE}\n\n@highlight\n\nthe dog")
        else:
            for n in range(9):
                page = f"[SN]FIRST-SENTENCE[SN]\nthe dog\n[SN]RESTBODY[SN]\n{ARTICLE}\n"
                write(folder / "bbc-summary-data" / f"{split}{n}.summary", page)
    if corpus == "xsum":
        lists = {
            {"dev": "validation"}.get(one, one): [f"{one}{n}" for n in range(9)] for one in ("train", "dev", "test")
        }
        write(folder / XSUM_LIST, json.dumps(lists))
    if corpus == "ncls":
        for code in ("en", "zh"):
            write(folder / "pairs" / f"train.{code}", numbered(TEXTS[code], 12))


def run(task, translator, folder, **overrides):
    """Run two updates of a recipe; return the run's folder."""
    write_corpus(task, folder / "corpus")
    keys = QUICK | {"model_folder": str(translator), "data_folder": "corpus", "beam": 2, "updates": 2, "warmup": 1}
    keys |= {"validate_every": 1, "grad_accumulation_factor": 1, "source_pieces": 20, "rules.maximum_length_extra": 12}
    keys |= {"rules.minimum_length": 5}
    if task in LANGUAGES:
        codes = LANGUAGES[task]
        keys |= {"source_languages": codes, "test_pairs": [[code, code] for code in codes]}
    return run_recipe(Recipe.load(task, keys | overrides), command="a test").output


@pytest.mark.recipes
@pytest.mark.parametrize(
    "task", ["xglue/ntg", "xglue/qg", "ncls/en-zh", "ncls/zh-en", "cnndm/bart", "cnndm/mass", "xsum/bart"]
)
def test_a_translator_learns_to_write_of_texts(task, translator, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output = run(task, translator, tmp_path)
    rows = [json.loads(line) for line in (output / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    metrics = {"bleu_lc", "rougeL"} if task in LANGUAGES else {"rouge1", "rouge2", "rougeL"}
    metrics |= {"rougeLsum"} if task.startswith("cnndm") else set()
    pairs = [f"{code}-{code}" for code in LANGUAGES.get(task, ["en"])] if "ncls" not in task else [task[-5:]]
    assert {row["split"]: {*row["scores"]} - {"off_target"} for row in rows} == {
        f"{pair}/test": metrics for pair in pairs
    }
    system = System.load(output / "average" / "model")
    assert system.inputs["source"].maximum_pieces == 20
    assert system.translate(TEXTS[pairs[0][:2]], source_language=pairs[0][:2], target_language=pairs[0][3:]) is not None


@pytest.mark.recipes
@pytest.mark.parametrize("arm", ["summaries", "translations"])
def test_other_tasks_are_learned_beside_summaries_in_another_language(arm, translator, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output = run("ncls/en-zh", translator, tmp_path, arm=arm)
    log = (output / "log.txt").read_text(encoding="utf-8")
    if arm == "summaries":
        assert "18 rows" in log and len(Manifest.open(tmp_path / "manifests/ncls/en-en/train.arrow")) == 9
    else:
        assert "stream 'translated': 12 rows" in log
    rows = [json.loads(line) for line in (output / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["split"] for row in rows] == ["en-zh/test"]
