"""Simultaneous translation of speech: what is written while it is heard, when, and how late."""
