"""Folders of transformers' encoders with heads, imported and exported again: the same ids, logits and answers."""

from __future__ import annotations

import json
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman import DataError, System, UsageError
from dragoman.exchange.huggingface.hf_export import export
from dragoman.exchange.importing import import_model
from dragoman.mt.understanding.heads import label_logits
from dragoman.mt.understanding.spans import windows_of
from dragoman.shared.batches.loader import collate
from tests.parity import tokenizers_of_others as others
from tests.parity.compared import Compared
from tests.parity.text_models import disturbed

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

SIZES = {"hidden_size": 18, "num_hidden_layers": 2, "num_attention_heads": 3, "initializer_range": 0.3}
SIZES |= {"intermediate_size": 22, "max_position_embeddings": 90}
BOTH_SIDES = {"d_model": 18, "max_position_embeddings": 90, "init_std": 0.3, "pad_token_id": 1, "scale_embedding": True}
BOTH_SIDES |= {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in (("layers", 2), ("ffn_dim", 22))}
BOTH_SIDES |= {"encoder_attention_heads": 3, "decoder_attention_heads": 2}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "Bert": (others.bert, SIZES | {"type_vocab_size": 2}),
    "XLMRoberta": (
        others.xlm_roberta,
        SIZES | {"type_vocab_size": 1, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
    ),
    "Bart": (others.roberta, BOTH_SIDES),
    "MBart": (others.mbart, BOTH_SIDES),
}
LABELS = ["yes", "no", "per haps"]
TASKS = {"SequenceClassification": "texts", "TokenClassification": "words", "QuestionAnswering": "spans"}


@pytest.fixture(scope="module")
def pieces(lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> str:
    return others.train(lines, tmp_path_factory.mktemp("pieces") / "sentencepiece.bpe.model", "unigram")


def saved(kind: str, task: str, lines: list[str], pieces: str, folder: Path, **changes: Any) -> Any:
    """Save a random model of transformers with a tokenizer; return it."""
    made, own = KINDS[kind]
    tokenizer, _ = made(lines, pieces)
    labels = {} if task == "QuestionAnswering" else {"id2label": dict(enumerate(LABELS))}
    config = getattr(transformers, f"{kind}Config")(vocab_size=len(tokenizer), **own | labels | changes)
    torch.manual_seed(3)
    model = disturbed(getattr(transformers, f"{kind}For{task}")(config))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model


def sentences(lines: list[str]) -> list[str]:
    return [" ".join(line.split()[:9]) for line in lines[:-20:60] if len(line.split()) > 2][:16]


def rows_of(texts: list[str], task: str) -> list[dict[str, Any]]:
    rows = [{"id": str(n), "source_text": text, "source_language": "de"} for n, text in enumerate(texts)]
    if task == "QuestionAnswering":
        return [row | {"question_text": texts[-n][:30]} for n, row in enumerate(rows)]
    seconds = enumerate(rows) if task == "SequenceClassification" else ()
    return (
        rows
        if task == "TokenClassification"
        else [row | {"second_text": texts[-n] if n % 2 else None} for n, row in seconds]
    )


def logits_of(system: System, rows: list[dict[str, Any]]) -> list[torch.Tensor]:
    """Our logits of each row: (C,), of words (W, C), of windows (L, 2)."""
    found = []
    for row in rows:
        batch = collate([row], system.inputs, None)
        with torch.no_grad():
            if "source.windows" in batch:
                windows = windows_of(batch, "source")
                assert len(windows) == 1
                found.append(system.model.heads["label"](system.model.encode(windows).memories["source"])[0])
            else:
                found.append(label_logits(system.model, batch, system.model.encode(batch), "label", "source")[0])
    return found


def theirs_of(model: Any, tokenizer: Any, rows: list[dict[str, Any]], task: str) -> list[torch.Tensor]:
    """Transformers' logits of each row, from their own tokenizer."""
    found = []
    for row in rows:
        text = row["source_text"]
        if task == "TokenClassification":
            inputs = tokenizer(text.split(), is_split_into_words=True, return_tensors="pt")
            numbers = inputs.word_ids()
            firsts = [n for n, word in enumerate(numbers) if word is not None and numbers.index(word) == n]
        elif task == "QuestionAnswering":
            inputs = tokenizer(row["question_text"], text, return_tensors="pt")
        else:
            inputs = tokenizer(*(each for each in (text, row["second_text"]) if each is not None), return_tensors="pt")
        with torch.no_grad():
            output = model(**inputs)
        if task == "QuestionAnswering":
            found.append(torch.stack([output.start_logits[0], output.end_logits[0]], dim=-1))
        else:
            found.append(output.logits[0][firsts] if task == "TokenClassification" else output.logits[0])
    return found


@pytest.mark.parametrize(
    ("kind", "task"),
    [pair for pair in product(KINDS, TASKS) if pair[1] != "TokenClassification" or not pair[0].endswith("Bart")],
)
def test_both_ways(kind: str, task: str, lines: list[str], pieces: str, tmp_path: Path, compared: Compared) -> None:
    compared.named("transformers", f"{kind} (head of {TASKS[task]}, imported and exported)")
    theirs = saved(kind, task, lines, pieces, tmp_path / "theirs")
    report = import_model(tmp_path / "theirs", tmp_path / "ours", source_languages=["de"])
    assert not report.missing and not report.unexpected
    system = System.load(tmp_path / "ours", "cpu")
    system.eval()
    rows = rows_of(sentences(lines), task)
    assert len(rows) == 16
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    expected = theirs_of(theirs, tokenizer, rows, task)
    for one, other in zip(logits_of(system, rows), expected, strict=True):
        compared.close("logits", one, other)
    if task != "QuestionAnswering":
        assert system.output.tokenizer.labels == ["yes", "no", "per_haps"]
        line = rows[1]["source_text"] + ("\t" + rows[1]["second_text"] if task == "SequenceClassification" else "")
        wanted = [LABELS[n].replace(" ", "_") for n in expected[1].argmax(-1).flatten().tolist()]
        assert system.translate(line).split() == wanted
    else:
        answer = system.translate(f"{rows[1]['question_text']}\t{rows[1]['source_text']}")
        assert answer and answer in rows[1]["source_text"]

    [note] = export(tmp_path / "ours", tmp_path / "again")
    assert note == f"{kind}For{task} ({theirs.config.model_type})"
    again = getattr(transformers, f"AutoModelFor{task}").from_pretrained(tmp_path / "again").eval()
    assert type(again) is type(theirs)
    ours = theirs.state_dict()
    for name, value in again.state_dict().items():
        compared.same("tensors", value.tolist(), ours[name].tolist())
    rewritten = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    for one, other in zip(theirs_of(again, rewritten, rows, task), expected, strict=True):
        compared.close("logits", one, other)
    import_model(tmp_path / "again", tmp_path / "third", source_languages=["de"])
    third = System.load(tmp_path / "third", "cpu").eval()
    for one, other in zip(logits_of(third, rows), expected, strict=True):
        compared.close("logits", one, other)


def test_what_has_no_counterpart_is_refused(lines: list[str], pieces: str, tmp_path: Path) -> None:
    def refused(message: str, **changes: Any) -> None:
        folder = tmp_path / str(len([*tmp_path.iterdir()]))
        saved("Bert", "SequenceClassification", lines, pieces, folder, **changes)
        with pytest.raises(DataError, match=message):
            import_model(folder, tmp_path / "ours", source_languages=["en"])

    refused(r"3 scores \(multi_label_classification\)", problem_type="multi_label_classification")
    refused(r"1 scores \(", id2label={0: "a"})
    saved("Bart", "QuestionAnswering", lines, pieces, tmp_path / "begins", decoder_start_token_id=0)
    with pytest.raises(DataError, match="decoder_start_token_id 0 is not the last symbol"):
        import_model(tmp_path / "begins", tmp_path / "ours", source_languages=["en"])
    folder = tmp_path / "more"
    saved("Bert", "TokenClassification", lines, pieces, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"id2label": {"0": "a", "1": "b"}}))
    with pytest.raises(DataError, match="id2label is .*, but there are 3 scores"):
        import_model(folder, tmp_path / "ours", source_languages=["en"])
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["BertForQuestionAnswering"]}))
    with pytest.raises(DataError, match=r"there is no qa_outputs\.weight"):
        import_model(folder, tmp_path / "ours", source_languages=["en"])


@pytest.mark.parametrize(
    ("kind", "path", "value", "said"),
    [
        ("Bert", "model.heads.label.pooling", "mean", "a head without a dense layer, or of another state"),
        ("Bert", "model.embeddings.source.scaled", True, "an embedding without a norm, or with scaled vectors"),
        ("Bert", "model.encoder.layer.norm_epsilon", 0.1, "norms of two kinds"),
        ("Bart", "model.heads.label.pooling", "first", "or of another state than that of the text's </s>"),
        ("Bart", "model.heads.label.pooling", "before_last", "or of another state than that of the text's </s>"),
        ("MBart", "model.heads.label.pooling", "last", "or of another state than that of the text's </s>"),
        ("MBart", "model.encoder.layer.norm_epsilon", 0.1, "norms with an epsilon of 0.1"),
        ("Bart", "inputs.source.types", True, "types of texts"),
    ],
)
def test_what_no_class_computes_is_refused(
    kind: str, path: str, value: Any, said: str, lines: list[str], pieces: str, tmp_path: Path
) -> None:
    saved(kind, "SequenceClassification", lines, pieces, tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours", source_languages=["de"])
    config = json.loads((tmp_path / "ours/config.json").read_text())
    node = config["system"]["arguments"]
    *way, last = path.split(".")
    for part in way:
        node = node[part]
        node = node.get("arguments", node)
    node[last] = value
    (tmp_path / "ours/config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match=said):
        export(tmp_path / "ours", tmp_path / "again")
    shutil.rmtree(tmp_path / "ours")
