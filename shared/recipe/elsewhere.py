"""Names of our keys in fairseq, ESPnet, SpeechBrain and Hugging Face, to suggest the key that was meant."""

from __future__ import annotations

from collections.abc import Collection

#: Key, or the path of an argument that a recipe need not give, and what others call it.
_NAMES = {
    "learning_rate": ["lr"],
    "schedule": ["lr_scheduler", "lr_scheduler_type", "scheduler"],
    "updates": [
        "max_update",
        "max_steps",
        "train_steps",
        "max_epoch",
        "num_train_epochs",
        "number_of_epochs",
        "epochs",
    ],
    "warmup": ["warmup_updates", "warmup_steps", "num_warmup_steps", "n_warmup_steps"],
    "batch_seconds": ["batch_size", "max_tokens", "batch_bins", "max_batch_length", "per_device_train_batch_size"],
    "batch_tokens": ["batch_size", "max_tokens", "batch_bins", "max_batch_length", "per_device_train_batch_size"],
    "grad_accumulation_factor": ["update_freq", "accum_grad", "update_cycle", "gradient_accumulation_steps"],
    "max_grad_norm": ["clip_norm", "grad_clip"],
    "optimizer": ["optim"],
    "optimizer.betas": ["adam_betas", "adam_beta1", "adam_beta2"],
    "optimizer.eps": ["adam_eps", "adam_epsilon"],
    "label_smoothing": ["smoothing", "lsm_weight", "label_smoothing_factor"],
    "objective": ["criterion", "loss_type"],
    "ctc_weight": ["mtlalpha", "mtl_alpha", "ctc_alpha"],
    "width": ["encoder_embed_dim", "d_model", "hidden_size", "output_size"],
    "feedforward": ["encoder_ffn_embed_dim", "d_ffn", "linear_units", "intermediate_size"],
    "heads": ["encoder_attention_heads", "attention_heads", "nhead", "num_attention_heads"],
    "encoder_layers": ["num_encoder_layers"],
    "decoder_layers": ["num_decoder_layers"],
    "pieces": ["vocab_size", "nbpe", "src_nbpe", "tgt_nbpe"],
    "speeds": ["speed_perturb", "speed_perturb_factor"],
    "spec_augment": ["specaug", "specaugment"],
    "mixture_alpha": ["multilang_sampling_alpha", "sampling_alpha"],
    "precision": ["fp16", "bf16", "use_amp", "auto_mix_prec"],
    "validate_every": ["validate_interval_updates", "save_interval_updates", "eval_steps", "save_steps"],
    "validation.patience": ["patience", "early_stopping_patience"],
    "average": ["num_epoch_checkpoints", "keep_nbest_models", "keep_last_epochs", "save_total_limit"],
    "beam": ["beam_size", "num_beams", "generation_num_beams"],
    "length_penalty": ["lenpen"],
    "rules.maximum_length_ratio": ["max_len_a", "maxlenratio"],
    "rules.maximum_length_extra": ["max_len_b"],
    "rules.minimum_length": ["min_len", "min_length"],
    "rules.bans": ["no_repeat_ngram_size"],
    "phases.evaluate.lm_weight": ["lm_weight"],
    "phases.evaluate.language_model": ["lm_path", "lm_file", "lm_train_config"],
    "phases.fit.initialise": [
        "finetune_from_model",
        "load_pretrained_encoder_from",
        "load_pretrained_decoder_from",
        "load_pretraining_from",
        "pretrain_model",
        "init_param",
        "model_name_or_path",
    ],
    "trackers": ["report_to", "wandb_project", "use_wandb"],
    "workers": ["num_workers", "dataloader_num_workers"],
    "output_folder": ["save_dir", "output_dir", "expdir", "model_dir"],
    "data_folder": ["data_dir"],
    "device": ["ngpu"],
}
#: What others have a key for, and is no key here.
_ADVICE = {
    "a recipe says it: `dragoman recipes` lists them": ["arch", "architecture", "task"],
    "the same command once more goes on where a run was stopped": ["restore_file", "resume", "resume_from_checkpoint"],
    "with TensorBoard installed, every run writes its files, into FIT_FOLDER/tensorboard": [
        "tensorboard_logdir",
        "use_tensorboard",
    ],
    "--n-best of `dragoman translate`": ["nbest"],
}


def keys_called(name: str, keys: Collection[str], objects: Collection[str]) -> list[str] | None:
    """Return the keys of a recipe that another toolkit calls ``name``; None if none of them has this name."""
    meant = [key for key, others in _NAMES.items() if name in others]
    if not meant:
        return None
    return [key for key in meant if key in keys or key.rpartition(".")[0] in objects]


def advice(name: str) -> str | None:
    """Return what to do in place of giving a key that another toolkit calls ``name``, if it is no key here."""
    return next((text for text, others in _ADVICE.items() if name in others), None)


def elsewhere(name: str) -> str:
    """Return a hint, for a message, at our keys for what another toolkit calls ``name``; "" if there are none."""
    meant = [key for key, others in _NAMES.items() if name in others]
    return f" (the key is {' or '.join(map(repr, meant))})" if meant else ""
