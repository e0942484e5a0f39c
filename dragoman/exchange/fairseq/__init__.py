"""Checkpoints of fairseq become model folders."""
