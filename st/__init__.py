"""Speech methods of dragoman, one file each, and readers of speech corpora."""
