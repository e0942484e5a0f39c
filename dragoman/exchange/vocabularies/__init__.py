"""Vocabularies and tokenizers of checkpoints that others trained."""
