"""Translators that the library transformers computes, behind the interface of this project's searches."""
