"""Pages of LibreOffice's help, as its packages have them: HTML whose paragraphs have ids."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.shared.errors import DataError
from dragoman.shared.preparing.held_out import DEV, TEST, TRAIN, hashed
from dragoman.shared.text import languages
from dragoman.shared.text.lines import read_lines

#: What paragraphs are; those of the footer have no text of the page.
_BLOCKS = ".//*[self::p or self::h1 or self::h2 or self::h3 or self::h4 or self::h5 or self::h6][@id]"
_SWITCHES = ("switch", "switchinline")
ENGLISH = "en-US"
#: Pages are in so many parts by their hashes; two of them, with about a thousand paragraphs each, are held out.
PARTS, HELD_OUT = 60, {58: DEV, 8: TEST}
_HELP = ("usr/share/libreoffice/help", "share/libreoffice/help", "libreoffice/help", "help", "")


class HelpPages:
    """The pages of unpacked packages.

    Args:
        root: the folder into which they were unpacked.

    Attributes:
        folder: with a folder for each language.
        english: that of English.
        pages: their names by split, in order: ``swriter/guide/page``.

    Raises:
        DataError: if the English package is not there.
    """

    def __init__(self, root: Path) -> None:
        helps = (root / name for name in _HELP)
        found = next((path for path in helps if (path / ENGLISH / "text").is_dir()), None)
        if found is None:
            raise DataError(f"{root}: no {_HELP[0]}/{ENGLISH}/text in it (of the package libreoffice-help-en-us)")
        self.folder = found
        self.english = found / ENGLISH
        self.pages: dict[str, list[str]] = {split: [] for split in (TRAIN, DEV, TEST)}
        files = sorted((self.english / "text").rglob("*.html"))
        for name in (path.relative_to(self.english / "text").with_suffix("").as_posix() for path in files):
            self.pages[split_of(name)].append(name)

    @property
    def held_out(self) -> list[str]:
        """The names of the pages of dev and test."""
        return self.pages[DEV] + self.pages[TEST]


def split_of(page: str) -> str:
    """Return the split of a page: a function of its name."""
    return HELD_OUT.get(hashed(page) % PARTS, TRAIN)


def folder_of(code: str, where: Path) -> Path:
    """Return the folder of a language among those of a package.

    Raises:
        DataError: if there is none, or a link to that of another language.
    """
    folders = {path.name: path for path in sorted(where.glob("*")) if path.is_dir() and path.name != "media"}
    name = ENGLISH if code == "en" else languages.among(code, folders)
    if name not in folders:
        raise DataError(f"{where}: nothing in {code}; there are {', '.join(folders) or 'no languages'}")
    if folders[name].is_symlink():
        other = folders[name].readlink().name
        raise DataError(f"{folders[name]}: a link to {other}: the package has no text in {code}")
    return folders[name]


def page_path(folder: Path, page: str) -> Path:
    """Return the file of a page in the folder of a language."""
    return folder / "text" / f"{page}.html"


class Block(NamedTuple):
    """A text of a page.

    Attributes:
        key: its id.
        text: in a line.
        line: of the file.
        heading: whether it is one.
    """

    key: str
    text: str
    line: int
    heading: bool


def read_page(path: Path) -> dict[str, tuple[str, int]]:
    """Return the texts of a page by their ids, each with its line, in order; errors are those of :func:`blocks`."""
    return {block.key: (block.text, block.line) for block in blocks(path)}


def blocks(path: Path) -> list[Block]:
    """Return the texts of a page in order; nothing for a page that is not there.

    What has an id for the n-th time is ``<id>:<n>``: parts that pages share stand on some of them repeatedly, and in
    every language as often (Debian's packages of 7.4).

    Raises:
        DataError: if the page is not UTF-8, or has no text.
    """
    from lxml import html
    from lxml.etree import ParserError

    if not path.is_file():
        return []
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
    found = []
    times: Counter[str] = Counter()
    for block in areas[0].xpath(_BLOCKS):
        key = block.get("id")
        times[key] += 1
        text = " ".join(block.text_content().split())
        if text:
            key = key if times[key] == 1 else f"{key}:{times[key]}"
            found.append(Block(key, text, block.sourceline, block.tag.startswith("h")))
    return found


def _is_default(element: Any) -> bool:
    """Tell whether a hidden element is the wording to read: for no program in particular, or else the first."""
    switch = element.getparent()
    if switch.get("class") not in _SWITCHES:
        return False
    wordings = [one for one in switch if one.get("hidden") is not None]
    defaults = [one for one in wordings if one.get("id", "").startswith("default")]
    return element is (defaults or wordings)[0]
