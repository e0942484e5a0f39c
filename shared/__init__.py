"""The common ground of dragoman's text and speech translation; imports neither ``mt`` nor ``st``."""
