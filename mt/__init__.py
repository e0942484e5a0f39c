"""Text methods of dragoman, one file each, and readers of text corpora."""
