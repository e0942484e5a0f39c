"""Small tokenizers of transformers, trained on the spot."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import sentencepiece
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from dragoman.exchange.vocabularies.vocabulary import FIRST

transformers = pytest.importorskip("transformers")


def train(lines: list[str], path: Path, kind: str) -> str:
    """Train as the published models were: <unk>, <s>, </s> first, and no bytes."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for line in lines if line.strip()]),
        model_writer=model,
        model_type=kind,
        vocab_size=700,
        character_coverage=0.9995,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
    )
    path.write_bytes(model.getvalue())
    return str(path)


def unigram(model: str) -> list[tuple[str, float]]:
    library = sentencepiece.SentencePieceProcessor(model_file=model)
    pieces = [(library.id_to_piece(i), library.get_score(i)) for i in range(3, len(library))]
    return [*((name, 0.0) for name in FIRST), *pieces]


BERT = {"<s>": "[CLS]", "</s>": "[SEP]", "<pad>": "[PAD]", "<unk>": "[UNK]", "<mask>": "[MASK]"}
FAIRSEQ = {name: name for name in (*FIRST, "<mask>")}


def bert(lines: list[str], model: str) -> tuple[object, dict[str, str]]:
    learnt = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learnt.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    learnt.train_from_iterator(lines, trainers.WordPieceTrainer(vocab_size=900, special_tokens=[*BERT.values()]))
    return transformers.BertTokenizer(vocab=learnt.get_vocab(), do_lower_case=False), BERT


def roberta(lines: list[str], model: str) -> tuple[object, dict[str, str]]:
    learnt = Tokenizer(models.BPE())
    learnt.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    options = {"special_tokens": [*FAIRSEQ], "initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    learnt.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=900, **options))
    content = json.loads(learnt.to_str())["model"]
    return transformers.RobertaTokenizer(vocab=content["vocab"], merges=[tuple(m) for m in content["merges"]]), FAIRSEQ


def xlm_roberta(lines: list[str], model: str) -> tuple[object, dict[str, str]]:
    return transformers.XLMRobertaTokenizer(vocab=[*unigram(model), ("<mask>", 0.0)]), FAIRSEQ


def mbart50(lines: list[str], model: str) -> tuple[object, dict[str, str]]:
    codes = transformers.models.mbart50.tokenization_mbart50.FAIRSEQ_LANGUAGE_CODES
    vocabulary = [*unigram(model), *((code, 0.0) for code in codes), ("<mask>", 0.0)]
    theirs = transformers.MBart50Tokenizer(vocab=vocabulary, src_lang="de_DE", tgt_lang="fr_XX")
    return theirs, FAIRSEQ | {"<de>": "de_DE", "<fr>": "fr_XX"}


def mbart(lines: list[str], model: str) -> tuple[object, dict[str, str]]:
    codes = transformers.models.mbart.tokenization_mbart.FAIRSEQ_LANGUAGE_CODES
    vocabulary = [*unigram(model), *((code, 0.0) for code in codes), ("<mask>", 0.0)]
    return transformers.MBartTokenizer(vocab=vocabulary, src_lang="de_DE"), FAIRSEQ | {"<de>": "de_DE"}


def nllb(lines: list[str], model: str) -> tuple[object, dict[str, str]]:
    learnt = Tokenizer(models.BPE(unk_token="<unk>"))
    learnt.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    learnt.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=900, special_tokens=[*FIRST]))
    content = json.loads(learnt.to_str())["model"]
    learned = {"vocab": content["vocab"], "merges": [tuple(m) for m in content["merges"]]}
    theirs = transformers.NllbTokenizer(**learned, src_lang="deu_Latn", tgt_lang="fra_Latn")
    return theirs, FAIRSEQ | {"<de>": "deu_Latn", "<fr>": "fra_Latn"}
