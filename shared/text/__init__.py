"""Languages and tokenizers, ours and those of others."""
