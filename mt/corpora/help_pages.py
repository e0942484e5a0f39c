"""Pages of LibreOffice's help, as its packages have them: HTML whose paragraphs have ids."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from dragoman.shared.errors import DataError
from dragoman.shared.text.lines import read_lines

#: What paragraphs are; those of the footer have no text of the page.
_BLOCKS = ".//*[self::p or self::h1 or self::h2 or self::h3 or self::h4 or self::h5 or self::h6][@id]"
_SWITCHES = ("switch", "switchinline")


def read_page(path: Path) -> dict[str, tuple[str, int]]:
    """Return the texts of a page by their ids, each with its line, in order; nothing for a page that is not there.

    What has an id for the n-th time is ``<id>:<n>``: parts that pages share stand on some of them repeatedly, and in
    every language as often (Debian's packages of 7.4).

    Raises:
        DataError: if the page is not UTF-8, or has no text.
    """
    from lxml import html
    from lxml.etree import ParserError

    if not path.is_file():
        return {}
    content = "\n".join(read_lines(path)).encode()
    try:
        page = html.document_fromstring(content, parser=html.HTMLParser(encoding="utf-8"))
    except ParserError as error:
        raise DataError(f"{path}: no page of HTML: {error}") from error
    areas = page.xpath("//*[@id='DisplayArea']")
    if not areas:
        raise DataError(f"{path}: no element with the id DisplayArea, in which a page of the help has its text")
    for element in areas[0].xpath(".//*[@hidden]"):
        if not _is_default(element):
            element.drop_tree()
    for line_break in areas[0].iter("br"):
        line_break.tail = f" {line_break.tail or ''}"
    texts: dict[str, tuple[str, int]] = {}
    times: Counter[str] = Counter()
    for block in areas[0].xpath(_BLOCKS):
        key = block.get("id")
        times[key] += 1
        text = " ".join(block.text_content().split())
        if text:
            texts[key if times[key] == 1 else f"{key}:{times[key]}"] = text, block.sourceline
    return texts


def _is_default(element: Any) -> bool:
    """Tell whether a hidden element is the wording to read: for no program in particular, or else the first."""
    switch = element.getparent()
    if switch.get("class") not in _SWITCHES:
        return False
    wordings = [one for one in switch if one.get("hidden") is not None]
    defaults = [one for one in wordings if one.get("id", "").startswith("default")]
    return element is (defaults or wordings)[0]
