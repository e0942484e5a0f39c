"""Decoder-only language models of the library transformers that translate as they are told to in a prompt."""
