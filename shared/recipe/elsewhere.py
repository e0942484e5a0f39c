"""Names of our keys in fairseq, ESPnet, SpeechBrain and Hugging Face, to suggest the key that was meant."""

from __future__ import annotations

from collections.abc import Collection

_NAMES = {
    "learning_rate": ["lr"],
    "updates": ["max_update", "max_steps", "max_epoch", "num_train_epochs", "number_of_epochs", "epochs"],
    "warmup": ["warmup_updates", "warmup_steps", "num_warmup_steps", "n_warmup_steps"],
    "batch_seconds": ["batch_size", "max_tokens", "batch_bins", "max_batch_length", "per_device_train_batch_size"],
    "batch_tokens": ["batch_size", "max_tokens", "batch_bins", "max_batch_length", "per_device_train_batch_size"],
    "grad_accumulation_factor": ["update_freq", "accum_grad", "gradient_accumulation_steps"],
    "max_grad_norm": ["clip_norm", "grad_clip"],
    "smoothing": ["label_smoothing", "lsm_weight", "label_smoothing_factor"],
    "width": ["encoder_embed_dim", "d_model", "hidden_size", "output_size"],
    "feedforward": ["encoder_ffn_embed_dim", "d_ffn", "linear_units", "intermediate_size"],
    "heads": ["encoder_attention_heads", "attention_heads", "nhead", "num_attention_heads"],
    "encoder_layers": ["num_encoder_layers"],
    "decoder_layers": ["num_decoder_layers"],
    "pieces": ["vocab_size", "nbpe"],
    "mixture_alpha": ["multilang_sampling_alpha", "sampling_alpha"],
    "precision": ["fp16", "bf16", "use_amp", "auto_mix_prec"],
    "validate_every": ["validate_interval_updates", "save_interval_updates", "eval_steps", "save_steps"],
    "average": ["num_epoch_checkpoints", "keep_nbest_models", "keep_last_epochs", "save_total_limit"],
    "workers": ["num_workers", "dataloader_num_workers"],
    "output_folder": ["save_dir", "output_dir"],
    "data_folder": ["data_dir"],
    "device": ["ngpu"],
}


def keys_called(name: str, keys: Collection[str]) -> list[str]:
    """Return the top-level keys of a recipe that another toolkit calls ``name``.

    Args:
        name: with underscores.
        keys: the recipe's.

    """
    return [key for key, others in _NAMES.items() if name in others and key in keys]
