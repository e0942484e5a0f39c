"""Settings of other people's models: what no network can have is refused by file, name and value, before one is built.

Files have more settings than are read here, and of many kinds; only those that are known are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import yaml

from dragoman.shared.errors import DataError, check_number, one_line, shown
from dragoman.shared.machine.nesting import yaml_problem

_SIZES = """
conv_channels conv_depthwise_kernel_size conv_pos conv_pos_groups d_ff d_kv d_model decoder_attention_heads
decoder_ffn_dim decoder_layers encoder_attention_heads encoder_ffn_dim encoder_layers feature_projection_input_dim
hidden_size input_feat_per_channel intermediate_size latent_groups mask_channel_length mask_feature_length mask_length
mask_time_length num_attention_heads num_codevector_groups num_conv_pos_embedding_groups num_conv_pos_embeddings
num_decoder_layers num_heads num_hidden_layers num_layers num_mel_bins relative_attention_num_buckets type_vocab_size
"""
_LONG_SIZES = """
decoder_vocab_size max_position_embeddings max_source_positions max_target_positions relative_attention_max_distance
src_vocab_size tgt_vocab_size vocab_size
"""
_FROM_ZERO = "left_max_position_embeddings mask_time_min_masks pad_token_id right_max_position_embeddings"
_DROPOUTS = """
activation_dropout attention_dropout attention_probs_dropout_prob decoder_layerdrop dropout dropout_features
dropout_input dropout_rate encoder_layerdrop feat_proj_dropout feat_quantizer_dropout final_dropout hidden_dropout
hidden_dropout_prob layerdrop relu_dropout
"""
_SHARES = "feature_grad_mult mask_channel_prob mask_feature_prob mask_prob mask_time_prob"
_EPSILONS = "layer_norm_eps layer_norm_epsilon"
_LISTS = "conv_dim conv_kernel conv_kernel_sizes conv_stride"
_FLAGS = """
add_prefix_space apply_spec_augment conv_bias do_ceptral_normalize do_lower_case do_normalize do_stable_layer_norm
do_upper_case is_multilingual legacy_behaviour normalize_means normalize_vars scale_decoder_outputs scale_embedding
separate_vocabs strip_accents tie_word_embeddings tokenize_chinese_chars
"""
_WORDS = """
activation_function feat_extract_norm feed_forward_proj hidden_act language_codes model_type source_lang target_lang
tokenizer_class word_delimiter_token
"""
#: A width, and what it is divided into.
_DIVIDED = (
    ("d_model", "encoder_attention_heads"),
    ("d_model", "decoder_attention_heads"),
    ("hidden_size", "num_attention_heads"),
    ("hidden_size", "num_conv_pos_embedding_groups"),
)
_MOST_CONVOLUTIONS = 100


def _whole(name: str, value: Any, *, least: int = 1, most: int = 10**6) -> None:
    if type(value) is not int or not least <= value <= most:
        raise DataError(f"{name} must be a whole number from {least} to {most:,}, not {shown(value)}")


def _list(name: str, value: Any) -> None:
    if not isinstance(value, list) or not 0 < len(value) <= _MOST_CONVOLUTIONS:
        raise DataError(f"{name} must be a list of 1 to {_MOST_CONVOLUTIONS} numbers, not {shown(value)}")
    for place, number in enumerate(value):
        _whole(f"{name}[{place}]", number)


def _flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise DataError(f"{name} must be true or false, not {shown(value)}")


def _word(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise DataError(f"{name} must be a name, not {shown(value)}")


_below_one = partial(check_number, least=0, most=1 - 1e-6, error=DataError)
_share = partial(check_number, least=0, most=1, error=DataError)
_positive = partial(check_number, above=0, most=10**4, error=DataError)
_KINDS: tuple[tuple[str, Callable[..., Any]], ...] = (
    (_SIZES, _whole),
    (_LONG_SIZES, partial(_whole, most=10**9)),
    (_FROM_ZERO, partial(_whole, least=0, most=10**9)),
    (_DROPOUTS, _below_one),
    (_SHARES, _share),
    (_EPSILONS, partial(check_number, above=0, most=1, error=DataError)),
    ("chunk_length", _positive),
    (_LISTS, _list),
    (_FLAGS, _flag),
    (_WORDS, _word),
)
_CHECKS: dict[str, Callable[..., Any]] = {name: check for names, check in _KINDS for name in names.split()}
#: Those of fairseq's checkpoints, whose sizes are read from tensors.
FAIRSEQ = [
    *_DROPOUTS.split(), *_SHARES.split(), "conv_pos", "conv_pos_groups", "decoder_attention_heads",
    "encoder_attention_heads", "latent_groups", "mask_channel_length", "mask_length",
]  # fmt: skip


class ForeignSettings:
    """Settings by name; None counts as not set.

    Attributes:
        path: of their file, for messages.
        values: as they stand there.
    """

    path: str | Path
    values: dict[str, Any]
    #: Between name and value in messages.
    sign: ClassVar[str] = " = "

    def get(self, name: str, default: Any = None) -> Any:
        """Return a setting."""
        value = self.values.get(name)
        return default if value is None else value

    def refuse(self, elsewhere: Mapping[str, tuple[Any, ...]], *, told: bool = False) -> None:
        """Refuse settings that change what is computed in ways that there is no place for here.

        Args:
            elsewhere: by setting, the values that change nothing, the first of them where it is not set.
            told: the message names that one.

        Raises:
            DataError: naming file, setting and value.
        """
        for name, harmless in elsewhere.items():
            if (value := self.get(name, harmless[0])) not in harmless:
                only = f", only {harmless[0]!r}" if told else ""
                raise DataError(f"{self.path}: {name}{self.sign}{shown(value)} has no counterpart here{only}")


def check_settings(values: Mapping[str, Any], path: str | Path, names: Iterable[str] = tuple(_CHECKS)) -> None:
    """Refuse settings that no network can have; None counts as not set.

    Args:
        values: the settings.
        path: of their file.
        names: of those to look at.

    Raises:
        DataError: naming the file, the setting and its value.
    """
    for name in names:
        value = values.get(name)
        if value is not None:
            _CHECKS[name](f"{path}: {name}", value)
    for width, parts in _DIVIDED:
        if {width, parts} <= {*names} and values.get(width) and values.get(parts) and values[width] % values[parts]:
            raise DataError(f"{path}: {width} {values[width]} cannot be divided by {parts} {values[parts]}")


def read_yaml(path: Path, missing: str) -> dict[str, Any]:
    """Read settings in YAML; nothing in the file is run.

    Args:
        path: of the file.
        missing: what to say if it is not there.

    Raises:
        DataError: naming the file, if it cannot be read or is not a dictionary.
    """
    try:
        text = path.read_text(encoding="utf-8")
        problem = yaml_problem(text)
        values = None if problem else yaml.safe_load(text)
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file: {missing}") from error
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise DataError(f"{path}: cannot be read as YAML ({one_line(error)[:300]})") from error
    if problem:
        raise DataError(f"{path}, line {problem[0]}: {problem[1]}")
    if not isinstance(values, dict):
        raise DataError(f"{path}: does not hold settings")
    return values
