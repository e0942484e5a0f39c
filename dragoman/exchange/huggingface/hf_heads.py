"""Encoders with a head in Hugging Face's layout, as systems that label texts or words, or find spans.

They are ``...ForSequenceClassification``, ``...ForTokenClassification`` and ``...ForQuestionAnswering`` of BERT,
RoBERTa and XLM-R. What they become is built by its name, as from a model folder: LabelHead and its like in
mt/understanding.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from dragoman.exchange.huggingface.hf_model import ENCODERS, MaskedEncoder
from dragoman.exchange.huggingface.hf_reading import Config
from dragoman.shared.batches.fields import TextField
from dragoman.shared.described import named
from dragoman.shared.errors import DataError, shown
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.systems.system import System

#: Our name of a head.
LABEL = "label"
TEXTS, WORDS, SPANS = "text-classification", "token-classification", "question-answering"
#: How classes of transformers end, by the Hub's name of the task.
CLASSES = {TEXTS: "ForSequenceClassification", WORDS: "ForTokenClassification", SPANS: "ForQuestionAnswering"}
#: How a class begins, by the model type.
BEGINNINGS = {"bert": "Bert", "roberta": "Roberta", "xlm-roberta": "XLMRoberta"}
#: What transformers calls labels without a name.
UNNAMED = "LABEL_{}"
#: Windows of texts with answers: their most tokens, the pieces between their beginnings, those of a question.
WINDOW, STRIDE, QUESTION = 384, 128, 64


def task_of_class(config: Config) -> str | None:
    """Return the Hub's name of the task that a model's class is for; None for a class without one of these heads."""
    if config.get("model_type") not in ENCODERS:
        return None
    name = str((config.get("architectures") or [""])[0])
    return next((task for task, ending in CLASSES.items() if name.endswith(ending)), None)


def head_names(task: str, kind: str) -> dict[str, str]:
    """Return what the parts of a head of a model type are called there."""
    if task == SPANS:
        return {"output": "qa_outputs"}
    if task == WORDS:
        return {"output": "classifier"}
    if kind == "bert":
        return {"dense": "bert.pooler.dense", "output": "classifier"}
    return {"dense": "classifier.dense", "output": "classifier.out_proj"}


class HeadedEncoder(MaskedEncoder):
    """An encoder with a head as its files describe it.

    Args:
        config: the model's settings.
        tensors: by name, as they stand in the file.
        padding: the tokenizer's symbol; see :class:`MaskedEncoder`.
        task: from :func:`task_of_class`.

    Raises:
        DataError: if the head does not say probabilities of labels, or the labels are not as many as its scores.
    """

    def __init__(self, config: Config, tensors: Mapping[str, Tensor], padding: int | None, *, task: str) -> None:
        super().__init__(config, tensors, padding)
        self.task = task
        self.names = head_names(task, config.need("model_type"))
        output = f"{self.names['output']}.weight"
        if output not in self.tensors:
            raise DataError(f"{config.path}: is to be a model with a head, but there is no {output}")
        rows = len(self.tensors[output])
        self.labels = [] if task == SPANS else _labels(config, rows)

    def build(self, taps: list[int] | None = None) -> EncoderModel:
        """Build the model, with fresh parameters; ``taps`` are the encoder's."""
        below = super().build(taps)
        width = self.config.need("hidden_size")
        dropout = self.config.get("classifier_dropout", self.config.get("hidden_dropout_prob", 0.0))
        kinds = {TEXTS: "LabelHead", WORDS: "WordLabelHead", SPANS: "SpanHead"}
        given = {"width": width} | ({"labels": len(self.labels), "dropout": float(dropout)} if self.labels else {})
        head: Any = named(kinds[self.task])(**given)
        embeddings = dict(below.embeddings.items())
        return EncoderModel(embeddings=embeddings, encoder=below.encoder, heads={LABEL: head})

    def counterparts(self, name: str) -> tuple[str, ...]:
        """Return the names there of the tensors that one of ours is made of."""
        part = re.fullmatch(rf"heads\.{LABEL}\.(\w+)\.(weight|bias)", name)
        return (f"{self.names[part[1]]}.{part[2]}",) if part else super().counterparts(name)

    def system(self, model: EncoderModel, source: TextField, languages: list[str]) -> System:
        """Return the system around the model, which reads a tokenizer's texts with their symbols."""
        kind = self.config.need("model_type")
        around: dict[str, Any] = {"prefix": source.prefix, "suffix": source.suffix, "tokenizer": source.tokenizer}
        pair = around | {"between": source.suffix if kind == "bert" else [*source.suffix, *source.suffix]}
        pair["types"] = kind == "bert" and self.config.need("type_vocab_size") > 1
        if self.task == SPANS:
            embedding: Any = model.embeddings["source"]
            most: int = min(WINDOW, embedding.positions.length)
            sizes = {"stride": min(STRIDE, most // 3), "longest_question": min(QUESTION, most // 3)}
            field: Any = named("WindowsField")(**pair, maximum=most, **sizes)
            return self._around(model, "AnsweringSystem", field, named("AnswerField")(source=field), languages)
        output = named("LabelField")(tokenizer=named("LabelTokenizer")(labels=self.labels))
        if self.task == WORDS:
            field = named("WordsField")(**around, column="source_text")
        else:
            field = named("PairField")(**pair, alone=True)
        return self._around(model, "LabellingSystem", field, output, languages)

    def _around(self, model: EncoderModel, name: str, field: Any, output: Any, languages: list[str]) -> System:
        kind: Any = named(name)
        return kind(model=model, inputs={"source": field}, output=output, source_languages=languages)


def _labels(config: Config, rows: int) -> list[str]:
    """Return the names of labels in their order, with "_" in place of white space.

    Raises:
        DataError: if they are not as many as scores, or the scores are no probabilities.
    """
    problem = config.get("problem_type", "single_label_classification")
    if rows < 2 or problem != "single_label_classification":
        raise DataError(f"{config.path}: {rows} scores ({problem}) have no counterpart here, only those of labels")
    names = config.get("id2label") or {str(number): UNNAMED.format(number) for number in range(rows)}
    wanted = [str(number) for number in range(rows)]
    if not isinstance(names, dict) or sorted(names) != sorted(wanted):
        raise DataError(f"{config.path}: id2label is {shown(names)}, but there are {rows} scores")
    return ["_".join(str(names[number]).split()) for number in wanted]
