"""From corpora to rows: what readers have in common, and what is looked at in rows and sound."""
