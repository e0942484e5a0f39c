"""Readers of speech corpora."""
