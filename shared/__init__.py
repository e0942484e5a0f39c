"""What dragoman's text and speech translation have in common; imports neither ``mt`` nor ``st``."""
