"""Languages and tokenizers."""
