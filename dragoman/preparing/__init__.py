"""Preparing corpora: every row checked, counted and written to manifests, by a command or as a phase."""

from dragoman.preparing.manifests import Prepare

__all__ = ["Prepare"]
