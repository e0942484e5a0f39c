"""Models with a head in Hugging Face's layout, as systems that label texts or words, or find spans.

They are ``...ForSequenceClassification``, ``...ForTokenClassification`` and ``...ForQuestionAnswering`` of BERT,
RoBERTa and XLM-R, and those of BART and mBART, which have none for words. What they become is built by its name, as
from a model folder: LabelHead and its like in mt/understanding.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from dragoman.exchange.huggingface.hf_model import ENCODERS, EncoderDecoder, MaskedEncoder
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
BEGINNINGS = {"bert": "Bert", "roberta": "Roberta", "xlm-roberta": "XLMRoberta", "bart": "Bart", "mbart": "MBart"}
#: What transformers calls labels without a name.
UNNAMED = "LABEL_{}"
#: Windows of texts with answers: their most tokens, the pieces between their beginnings, those of a question.
WINDOW, STRIDE, QUESTION = 384, 128, 64


def task_of_class(config: Config) -> str | None:
    """Return the Hub's name of the task that a model's class is for; None for a class without one of these heads."""
    if config.get("model_type") not in BEGINNINGS:
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
    if kind not in ENCODERS:
        return {"dense": "classification_head.dense", "output": "classification_head.out_proj"}
    return {"dense": "classifier.dense", "output": "classifier.out_proj"}


class Headed:
    """A head as its files describe it, and the system around it.

    Args:
        config: the model's settings.
        tensors: by name, as they stand in the file.
        task: from :func:`task_of_class`.

    Raises:
        DataError: if the head does not say probabilities of labels, or the labels are not as many as its scores.
    """

    def __init__(self, config: Config, tensors: Mapping[str, Tensor], task: str) -> None:
        self.config = config
        self.kind = config.need("model_type")
        self.task = task
        self.names = head_names(task, self.kind)
        output = f"{self.names['output']}.weight"
        if output not in tensors:
            raise DataError(f"{config.path}: is to be a model with a head, but there is no {output}")
        self.labels = [] if task == SPANS else _labels(config, len(tensors[output]))

    def build(self, width: int, **given: Any) -> dict[str, nn.Module]:
        """Build the head by its name, with fresh parameters; ``given`` are further arguments of one of labels."""
        kinds = {TEXTS: "LabelHead", WORDS: "WordLabelHead", SPANS: "SpanHead"}
        head: Any = named(kinds[self.task])
        return {LABEL: head(width=width, **({"labels": len(self.labels)} | given if self.labels else {}))}

    def counterparts(self, name: str) -> tuple[str, ...]:
        """Return the name there of a tensor of the head here; none for other tensors."""
        part = re.fullmatch(rf"heads\.{LABEL}\.(\w+)\.(weight|bias)", name)
        return (f"{self.names[part[1]]}.{part[2]}",) if part else ()

    def system(self, model: Any, source: TextField, languages: list[str], *, between: list[str], types: bool) -> System:
        """Return the system around the model, which reads a tokenizer's texts with their symbols.

        Args:
            model: with the head.
            source: a text by itself.
            languages: the codes of its languages.
            between: symbols between two texts.
            types: tell the second of two texts from the first.
        """
        around: dict[str, Any] = {"prefix": source.prefix, "suffix": source.suffix, "tokenizer": source.tokenizer}
        pair = around | {"between": between, "types": types}
        if self.task == SPANS:
            most: int = min(WINDOW, model.embeddings["source"].positions.length)
            sizes = {"stride": min(STRIDE, most // 3), "longest_question": min(QUESTION, most // 3)}
            field: Any = named("WindowsField")(**pair, maximum=most, **sizes)
            return self._around(model, "AnsweringSystem", field, named("AnswerField")(source=field), languages)
        output = named("LabelField")(tokenizer=named("LabelTokenizer")(labels=self.labels))
        if self.task == WORDS:
            field = named("WordsField")(**around, column="source_text")
        else:
            field = named("PairField")(**pair, alone=True)
        return self._around(model, "LabellingSystem", field, output, languages)

    def _around(self, model: Any, name: str, field: Any, output: Any, languages: list[str]) -> System:
        kind: Any = named(name)
        return kind(model=model, inputs={"source": field}, output=output, source_languages=languages)


class HeadedEncoder(MaskedEncoder):
    """An encoder with a head as its files describe it.

    Args:
        config: the model's settings.
        tensors: by name, as they stand in the file.
        padding: the tokenizer's symbol; see :class:`MaskedEncoder`.
        task: from :func:`task_of_class`.

    Raises:
        DataError: as :class:`Headed`.
    """

    def __init__(self, config: Config, tensors: Mapping[str, Tensor], padding: int | None, *, task: str) -> None:
        super().__init__(config, tensors, padding)
        self.headed = Headed(config, self.tensors, task)

    def build(self, taps: list[int] | None = None) -> EncoderModel:
        """Build the model, with fresh parameters; ``taps`` are the encoder's."""
        below = super().build(taps)
        dropout = self.config.get("classifier_dropout", self.config.get("hidden_dropout_prob", 0.0))
        heads = self.headed.build(self.config.need("hidden_size"), dropout=float(dropout))
        return EncoderModel(embeddings=dict(below.embeddings.items()), encoder=below.encoder, heads=heads)

    def counterparts(self, name: str) -> tuple[str, ...]:
        """Return the names there of the tensors that one of ours is made of."""
        return self.headed.counterparts(name) or super().counterparts(name)

    def system(self, model: nn.Module, source: TextField, languages: list[str]) -> System:
        """Return the system around the model, which reads a tokenizer's texts with their symbols."""
        bert = self.headed.kind == "bert"
        types = bert and self.config.need("type_vocab_size") > 1
        between = source.suffix if bert else [*source.suffix, *source.suffix]
        return self.headed.system(model, source, languages, between=between, types=types)


class HeadedBothSides(EncoderDecoder):
    """An encoder and a decoder of one text, with a head, as their files describe them.

    There the decoder begins with a symbol of the settings (BART) or with the text's last one (mBART), as ours always
    does; a text's vector is the state at its last ``</s>``.

    Args:
        config: the model's settings.
        tensors: by name, as they stand in the file.
        source: a text by itself.
        task: from :func:`task_of_class`.

    Raises:
        DataError: as :class:`Headed`; for a text that does not end with the symbol with which the decoder begins, or
            has its ``</s>`` before the last two symbols.
    """

    def __init__(self, config: Config, tensors: Mapping[str, Tensor], source: TextField, *, task: str) -> None:
        super().__init__(config, tensors)
        self.headed = Headed(config, self.tensors, task)
        suffix = source.suffix[-2:]
        if "</s>" not in suffix:
            raise DataError(f"{config.path}: a text that ends with {suffix} has no state of </s> for the head")
        self.pooling = "last" if suffix[-1] == "</s>" else "before_last"
        if self.headed.kind == "bart" and (self.pooling != "last" or self._start() != source.tokenizer.eos):
            raise DataError(f"{config.path}: decoder_start_token_id {self._start()} is not the last symbol of a text")

    def build(self) -> Any:
        """Build the model, with fresh parameters."""
        below = super().build()
        dropout = float(self.config.get("classifier_dropout", 0.0))
        given = {"dropout": dropout, "pooling": self.pooling}
        kind: Any = named("BothSides")
        return kind(
            embeddings=dict(below.embeddings.items()),
            encoder=below.encoder,
            target_embedding=below.target_embedding,
            decoder=below.decoder,
            heads=self.headed.build(self.config.need("d_model"), **given),
        )

    def counterparts(self, name: str) -> tuple[str, ...]:
        """Return the names there of the tensors that one of ours is made of."""
        return self.headed.counterparts(name) or super().counterparts(name)

    def system(self, model: nn.Module, source: TextField, languages: list[str]) -> System:
        """Return the system around the model, which reads a tokenizer's texts with their symbols."""
        between = [*source.suffix, *source.suffix] if self.headed.kind == "bart" else []
        return self.headed.system(model, source, languages, between=between, types=False)

    def _start(self) -> int:
        return int(self.config.get("decoder_start_token_id", self.config.get("eos_token_id", 2)))


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
