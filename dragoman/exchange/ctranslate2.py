"""CTranslate2: a text translator or Whisper written for it, and translating with the former.

CTranslate2's Transformer is ours for the plain text translator: the same layers, the same joint projections of queries,
keys and values, the same beam search (fairseq's). It has no place for further memories, prompts, speech or layers of
another class; what needs them is refused by name.

A folder that :func:`export` has written holds CTranslate2's own files (``model.bin``, ``config.json``,
``shared_vocabulary.json``), which any program can use, and in ``dragoman/`` the tokenizer files and the description of
the system, by which :class:`CTranslate2System` does what ``System`` does.

Legend: B sentences, S source, T target, D model width.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from dragoman.exchange.huggingface.hf_like import export_like
from dragoman.exchange.huggingface.hf_reading import CONFIG, Config
from dragoman.exchange.huggingface.hf_writing import check_free
from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import TextField
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.generator import Hypothesis
from dragoman.shared.machine.extras import require
from dragoman.shared.machine.files import replaced_folder
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import OutputProjection, TiedProjection
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.transformer import Stack, plain_layer
from dragoman.shared.nn.translator import Translator
from dragoman.shared.search.beam import BeamSearch
from dragoman.shared.search.greedy import GreedySearch
from dragoman.shared.search.search import AnySearch
from dragoman.shared.systems.system import System
from dragoman.shared.text.tokenizer import Tokenizer

WEIGHTS, OURS = "model.bin", "dragoman"
#: What faster-whisper reads beside the weights, if it is there.
BESIDE_WHISPER = ("tokenizer.json", "preprocessor_config.json")
QUANTIZATIONS = ("float32", "float16", "bfloat16", "int16", "int8", "int8_float32", "int8_float16", "int8_bfloat16")

#: Special symbols by their names in CTranslate2's settings.
SPECIALS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}

#: Names of CTranslate2's activations, by the class of ours and its approximation.
ACTIVATIONS = {"ReLU": "RELU", "GELU": "GELU", "GELU tanh": "GELUTanh", "SiLU": "SWISH"}


def library() -> Any:
    """Import CTranslate2.

    Raises:
        UsageError: if it is not installed.
    """
    try:
        import ctranslate2
    except ImportError as error:
        raise UsageError("CTranslate2 is not installed: pip install 'dragoman[export]'") from error
    return ctranslate2


def export(model: str | Path, out: str | Path, *, quantization: str = "float32", positions: int = 2048) -> None:
    """Write a model folder for CTranslate2.

    Args:
        model: a model folder.
        out: where to write; an earlier export there is replaced once the new one is complete.
        quantization: how weights are stored: one of ``QUANTIZATIONS``.
        positions: S and T at most, if positions are computed (a table of them is stored).

    Raises:
        DataError: if the model cannot be read, or ``out`` holds something other than an export.
        UsageError: for a model that has no equal there, naming the part; or an unknown quantization.
    """
    out = _checked(Path(out), quantization)
    system = System.load(model)
    specification = specify(system, positions)
    specification.validate()
    specification.optimize(quantization=None if quantization == "float32" else quantization)
    with replaced_folder(out) as temporary:
        specification.save(str(temporary))
        (temporary / OURS).mkdir()
        system.save_description(temporary / OURS)


def export_whisper(model: str | Path, original: str | Path, out: str | Path, *, quantization: str = "float32") -> None:
    """Write a Whisper that was imported and trained on as faster-whisper reads it: by CTranslate2's own converter.

    Args:
        model: a model folder.
        original: the folder in Hugging Face's layout that it was imported from.
        out: see :func:`export`.
        quantization: see :func:`export`.

    Raises:
        DataError: if a folder cannot be read, or ``out`` holds something other than an export.
        UsageError: if the model is not the original's, or the original is no Whisper; an unknown quantization.
    """
    out = _checked(Path(out), quantization)
    if Config(Path(original) / CONFIG).need("model_type") != "whisper":
        raise UsageError(f"--like {original}: is no Whisper; CTranslate2 gets other models without --like")
    require("transformers", "hf", "CTranslate2's converter of Whisper")
    with tempfile.TemporaryDirectory() as scratch:
        theirs = Path(scratch) / "theirs"
        export_like(model, original, theirs)
        copied = [name for name in BESIDE_WHISPER if (theirs / name).is_file()]
        converter = library().converters.TransformersConverter(str(theirs), copy_files=copied)
        with replaced_folder(out) as temporary:
            weights = None if quantization == "float32" else quantization
            converter.convert(str(temporary), quantization=weights, force=True)


def _checked(out: Path, quantization: str) -> Path:
    if quantization not in QUANTIZATIONS:
        raise UsageError(f"quantization must be one of {', '.join(QUANTIZATIONS)}, not {quantization!r}")
    check_free(out, WEIGHTS, "a CTranslate2 model")
    return out


def specify(system: System, positions: int) -> Any:
    """Return CTranslate2's specification of a text translator, with its weights.

    Raises:
        UsageError: naming the part of the system that CTranslate2 has no place for; or if it is not installed.
    """
    model, inputs = system.model, list(system.inputs)
    if type(system) is not System or type(model) is not Translator or inputs != ["source"]:
        raise _refused(f"the system ({type(system).__name__} of a {type(model).__name__} that reads {inputs})")
    library()
    from ctranslate2.specs import transformer_spec

    source, target = model.embeddings["source"], model.target_embedding
    encoder = transformer_spec.TransformerEncoderSpec(**_shape(model.encoder, source))
    decoder = transformer_spec.TransformerDecoderSpec(**_shape(model.decoder, target))
    _fill_stack(encoder, model.encoder, source, positions)
    _fill_stack(decoder, model.decoder, target, positions)
    if not isinstance(model.projection, OutputProjection | TiedProjection):
        raise _refused(f"a {type(model.projection).__name__}")
    _fill_linear(decoder.projection, model.projection)
    specification = transformer_spec.TransformerSpec(encoder, decoder)
    tokenizer = system.output.tokenizer
    symbols = vocabulary(tokenizer)
    specification.register_source_vocabulary(vocabulary(cast(TextField, system.inputs["source"]).tokenizer))
    specification.register_target_vocabulary(symbols)
    for name, symbol in SPECIALS.items():
        if symbol in tokenizer.symbols:  # Marian's have no <s>
            setattr(specification.config, name, symbols[tokenizer.id(symbol)])
    # Ours begin with a language's tag: it is given as the first forced token, with no other before it.
    specification.config.decoder_start_token = None
    specification.config.add_source_bos = specification.config.add_source_eos = False
    specification.config.layer_norm_epsilon = cast(Layer, model.encoder.layers[0]).norm_epsilon
    return specification


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    """Return the symbol of each id; a piece that is written like an earlier symbol gets its id behind it."""
    symbols: list[str] = []
    seen: set[str] = set()
    for number in range(tokenizer.size):
        symbol = tokenizer.symbol(number)
        symbols.append(f"{symbol}#{number}" if symbol in seen else symbol)
        seen.add(symbols[-1])
    return symbols


def _refused(part: str) -> UsageError:
    return UsageError(f"CTranslate2 has no place for {part}: only plain text translators can be exported to it")


def _shape(stack: Stack, embedding: nn.Module) -> dict[str, Any]:
    """Check that CTranslate2 has an equal of a stack and its embedding, and return its constructor's arguments."""
    from ctranslate2.specs.common_spec import Activation

    layer = plain_layer(stack)
    if layer is None:
        raise _refused(f"a {type(stack).__name__} of {type(stack.layers[0]).__name__}s that are not the usual ones")
    if type(embedding) is not TextEmbedding:
        raise _refused(f"a {type(embedding).__name__} as embedding")
    if embedding.type_vector is not None:
        raise _refused("an embedding with a type vector")
    if layer.memory_attention and list(layer.memory_attention) != ["source"]:
        raise _refused(f"the memories {', '.join(layer.memory_attention)}")
    final_norm = isinstance(stack.norm, nn.LayerNorm)
    if final_norm and not layer.pre_norm:
        raise _refused("a final normalisation after post-norm layers")
    kind = type(layer.activation).__name__
    kind += " tanh" if getattr(layer.activation, "approximate", "none") == "tanh" else ""
    return {
        "num_layers": len(stack.layers),
        "num_heads": layer.self_attention.heads,
        "pre_norm": layer.pre_norm,
        "no_final_norm": not final_norm,
        "activation": getattr(Activation, ACTIVATIONS[kind]),
        "layernorm_embedding": isinstance(embedding.norm, nn.LayerNorm),
    }


def _fill_stack(specification: Any, stack: Stack, embedding: Any, positions: int) -> None:
    tokens = specification.embeddings[0] if isinstance(specification.embeddings, list) else specification.embeddings
    tokens.weight = _array(embedding.weight)
    specification.scale_embeddings = embedding.scale != 1.0
    if embedding.positions is not None:
        longest = getattr(embedding.positions, "length", positions)
        specification.position_encodings.encodings = _array(embedding.positions(longest, like=embedding.weight))
    else:
        specification.position_encodings.encodings = _array(embedding.weight.new_zeros(positions, stack.width))
    if isinstance(embedding.norm, nn.LayerNorm):
        _fill_norm(specification.layernorm_embedding, embedding.norm)
    if isinstance(stack.norm, nn.LayerNorm):
        _fill_norm(specification.layer_norm, stack.norm)
    for to, layer in zip(specification.layer, cast(Sequence[Any], stack.layers), strict=True):
        _fill_linear(to.self_attention.linear[0], layer.self_attention.queries_keys_values)
        _fill_linear(to.self_attention.linear[1], layer.self_attention.output)
        _fill_norm(to.self_attention.layer_norm, layer.self_attention_norm)
        for attention in layer.memory_attention.values():
            _fill_linear(to.attention.linear[0], attention.queries)
            _fill_linear(to.attention.linear[1], attention.keys_values)
            _fill_linear(to.attention.linear[2], attention.output)
            _fill_norm(to.attention.layer_norm, layer.memory_attention_norm)
        _fill_linear(to.ffn.linear_0, layer.inner)
        _fill_linear(to.ffn.linear_1, layer.outer)
        _fill_norm(to.ffn.layer_norm, layer.feedforward_norm)


def _fill_linear(specification: Any, module: Any) -> None:
    specification.weight = _array(module.weight)
    if module.bias is not None:
        specification.bias = _array(module.bias)


def _fill_norm(specification: Any, module: Any) -> None:
    specification.gamma, specification.beta = _array(module.weight), _array(module.bias)


def _array(values: Tensor) -> Any:
    return values.detach().float().contiguous().numpy()


class CTranslate2System(System):
    """A text translator whose model CTranslate2 runs; everything around the model is ``System``'s.

    Made by :meth:`open`. Searches are CTranslate2's, which follow the same rules as ours but for these:

    - What may not come (the end symbol at the start; bans and minimum lengths, which are refused for it) is taken out
      before the softmax, and the rest sums to 1 again. Scores are higher by the logarithm of that, over the length.
    - An output that reaches its longest length is cut there; ours is made to end, with the end symbol's probability.
    - Of several hypotheses that end in the last step all compete; here only as many as the beam has left to find, so
      that the tails of n-best lists can differ.
    """

    _engine: Any
    _source_symbols: list[str]
    _symbols: list[str]
    _ids: dict[str, int]
    _longest: int

    @staticmethod
    def open(folder: str | Path, device: str | torch.device = "cpu", compute_type: str = "default") -> System:
        """Open what :func:`export` has written, or a model folder, which is exported in float32 on the spot.

        Args:
            folder: of either kind.
            device: "cpu" or "cuda".
            compute_type: CTranslate2's; "default" computes in the type in which the weights are stored.

        Raises:
            DataError: if the folder holds neither.
            UsageError: for a model that CTranslate2 has no place for, or a device that it does not know.
        """
        engine, folder = library(), Path(folder)
        if not (folder / WEIGHTS).is_file():
            with tempfile.TemporaryDirectory() as temporary:
                export(folder, Path(temporary) / "model")
                return CTranslate2System.open(Path(temporary) / "model", device, compute_type)
        if not (folder / OURS).is_dir():
            raise DataError(f"{folder}: was not written by 'dragoman export' (it has no folder {OURS})")
        with torch.device("meta"):
            system = System.from_description(folder / OURS)
        opened = CTranslate2System(**(system.arguments | {"model": nn.Identity()}))
        place = torch.device(device)
        try:
            opened._engine = engine.Translator(
                str(folder),
                device=place.type,
                device_index=place.index or 0,
                compute_type=compute_type,
                intra_threads=torch.get_num_threads(),
            )
        except (RuntimeError, ValueError) as error:
            raise DataError(f"{folder}: CTranslate2 cannot load it ({error})") from error
        opened._longest = getattr(system.model, "longest_output", None) or sys.maxsize
        opened._source_symbols = vocabulary(cast(TextField, opened.inputs["source"]).tokenizer)
        opened._symbols = vocabulary(opened.output.tokenizer)
        opened._ids = {symbol: number for number, symbol in enumerate(opened._symbols)}
        return opened.eval()

    @property
    def device(self) -> torch.device:
        """The device of batches: CTranslate2 takes them from the CPU, wherever it computes."""
        return torch.device("cpu")

    def save_description(self, folder: Path) -> None:
        """Refuse: the model is CTranslate2's, in the folder that it was opened from.

        Raises:
            UsageError: always.
        """
        raise UsageError("a system that CTranslate2 runs cannot be saved: copy the folder that it was opened from")

    def files(self) -> dict[str, str]:
        """Refuse likewise: nothing is compared with them.

        Raises:
            UsageError: always.
        """
        raise UsageError("a system that CTranslate2 runs has no files of its own: ask the model folder it was made of")

    def translate_batch(
        self, batch: Batch, search: AnySearch, *, forced: Sequence[Sequence[int]] | None = None
    ) -> list[list[Hypothesis]]:
        """Translate a batch; the best hypothesis of each row comes first.

        Raises:
            UsageError: for a search that CTranslate2 has no equal of; if beginnings are forced.
        """
        if forced is not None:
            raise UsageError("the beginning of an output cannot be forced on CTranslate2: use the native engine")
        end = self.output.end(batch.languages[self.output.side])
        options = _options(search) | {"end_token": self._symbols[end]}
        self.check_memory(batch, search)
        rules = cast(BeamSearch | GreedySearch, search).rules
        starts = self.prefix(batch.languages[self.output.side])
        sources = [[self._source_symbols[number] for number in row.tolist()] for row in batch["source"].rows()]
        prefixes = [[self._symbols[number] for number in row.tolist()] for row in starts.rows()]
        # The longest output is one number a call there: sentences with another longest output are another call.
        rows: dict[int, list[int]] = defaultdict(list)
        for row, source in enumerate(sources):
            proportional = int(min(rules.ratio * len(source), rules.maximum))
            limit = min(max(proportional + rules.extra, rules.minimum), rules.maximum)
            limit = min(limit, self._longest - rules.start_symbols)
            rows[max(limit, len(prefixes[row]) - rules.start_symbols)].append(row)
        hypotheses: list[list[Hypothesis]] = [[] for _ in sources]
        for limit, members in rows.items():
            chosen = [sources[row] for row in members], [prefixes[row] for row in members]
            for row, result in zip(members, self._translate(*chosen, limit, options), strict=True):
                hypotheses[row] = [
                    self._hypothesis([*tokens[:limit], options["end_token"]], score, cut=len(tokens) >= limit)
                    for tokens, score in zip(result.hypotheses, result.scores, strict=True)
                ]
        return hypotheses

    def _translate(
        self, sources: list[list[str]], prefixes: list[list[str]], limit: int, options: dict[str, Any]
    ) -> list[Any]:
        """Translate sentences whose outputs may have ``limit`` tokens before the end symbol; return the results."""
        padding = self._symbols[self.output.tokenizer.pad]
        common = options | {"max_decoding_length": min(limit + 1, self._longest), "return_scores": True}
        try:
            results = self._engine.translate_batch(sources, target_prefix=prefixes, **common)
            for row, result in enumerate(results):
                # Looked for afterwards: to forbid it at every step would change the scores of everything a little.
                if any(padding in tokens for tokens in result.hypotheses):
                    results[row] = self._engine.translate_batch(
                        [sources[row]], target_prefix=[prefixes[row]], suppress_sequences=[[padding]], **common
                    )[0]
        except (RuntimeError, ValueError) as error:
            raise DataError(
                f"CTranslate2 cannot translate a sentence of {max(map(len, sources))} tokens ({error})"
            ) from error
        return list(results)

    def _hypothesis(self, symbols: list[str], score: float, cut: bool) -> Hypothesis:
        tokens = [self._ids[symbol] for symbol in symbols]
        return Hypothesis(tokens, score, self.texts_of(tokens), cut)


def _options(search: AnySearch) -> dict[str, Any]:
    """Return CTranslate2's options for a search.

    Raises:
        UsageError: if it has none.
    """
    if not isinstance(search, BeamSearch | GreedySearch):
        raise UsageError(f"CTranslate2 has no equal of {type(search).__name__}: use the native engine")
    if search.rules.bans or search.rules.minimum > 1:
        raise UsageError("CTranslate2 gives other outputs under bans and minimum lengths: use the native engine")
    options: dict[str, Any] = {"beam_size": 1}
    if isinstance(search, BeamSearch):
        options = {"beam_size": search.beam, "num_hypotheses": search.n_best, "length_penalty": search.length_penalty}
    return options | {"min_decoding_length": search.rules.minimum}
