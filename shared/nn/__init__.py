"""Neural networks: parts that know tensors and lengths, but no corpus and no file."""
