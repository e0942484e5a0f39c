"""Text methods, one file each, and readers of text corpora."""
