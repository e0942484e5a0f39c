"""Whole numbers written as text, in files and options of anybody's."""


def whole_number(text: str) -> int | None:
    """Return the number that ASCII digits stand for; None for other text, and for more digits than 64 bits hold."""
    return int(text) if 0 < len(text) < 19 and text.isascii() and text.isdigit() else None
