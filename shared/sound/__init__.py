"""Recordings: how they are read, and where they are divided."""
