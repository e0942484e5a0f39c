"""Speech methods, one file each, and readers of speech corpora."""
