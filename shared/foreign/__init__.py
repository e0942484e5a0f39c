"""Tokenizers that others trained, with the ids that their checkpoints know."""
