r"""Messages of programs in gettext's catalogues: ``.po``, which translators write, and ``.mo``, which programs read.

A file, or a folder with files at any depth; one that is called dev, valid or test, or lies in a folder of that name, is
that split, and all others together are train::

    {root}/de/LC_MESSAGES/menus.mo    {root}/po/de.po    {root}/menus.po      the last with "Language: de" in its header

The language of a catalogue is said by its header, by the folder above LC_MESSAGES or its name (``de``, ``pt_BR``), or
by its folder; a header and a name that differ are an error. Catalogues of other languages are passed over, and so is a
.mo beside the .po that it was made of. Messages are in English, unless ``--message-language`` says otherwise: source or
target is their language, and the catalogues are of the other one. Fuzzy, obsolete and untranslated messages are left
out and counted. The context (msgctxt) becomes the column ``context``; line breaks become spaces.

A message with a plural makes two rows: the singular with the form for 1, and the plural with the form for 5, both found
by the formula in the header. (The last form is not always the plural of many: in Latvian it is that of none, and in
Slovenian that of three and four.) Without a formula, the plural has the last form.

Menus mark a letter that a key reaches: _Save, &Save, ~Save, and 保存(_S) in Chinese and Japanese. ``--accelerator "_"``
takes the mark out of texts that have a single one before a character, unless it is in a name (%FILE_NAME), and such a
bracket whole; a doubled mark becomes one. By default texts stay as they are: snake_case would become snakecase.
"""

from __future__ import annotations

import gettext
import re
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from dragoman.mt.corpora.memories import Memories
from dragoman.shared.errors import DataError, UsageError, one_line, shortened
from dragoman.shared.preparing.held_out import LARGEST_SHARE
from dragoman.shared.preparing.reader import SourceRow
from dragoman.shared.ranges import Range
from dragoman.shared.text import languages
from dragoman.shared.text.lines import Unusable

#: Characters that mark a key.
MARKS = "_&~"
#: Counts for which the forms of a message with a plural are taken.
ONE, SEVERAL = 1, 5
#: The formula in a header that nobody has filled in.
UNSET = "EXPRESSION"
#: What is written with a mark and is none: %FILE_NAME, <wizard_name>, STYLE_NAME.
_NAME = r"[%$<{]\w+|[A-Z]{3,}_[A-Z]{2,}"
_STRING = re.compile(r'(?:msg(?:ctxt|id|id_plural|str(?:\[\d+\])?)\s*)?"(?:[^"\\]|\\.)*"')
_HEADER = re.compile(rb'^"?Language:[ \t]*([\w@.-]+)', re.MULTILINE)


class Message(NamedTuple):
    """A message and its translation.

    Attributes:
        key: the number of the entry in its catalogue, from 1, and ".plural" for a plural.
        context: that which msgctxt gives; "" for none.
        original: msgid, or msgid_plural.
        translation: of it.
        line: of the entry; in a .mo file, its number.
    """

    key: str
    context: str
    original: str
    translation: str
    line: int


class Gettext(Memories):
    """Reads one direction of catalogues."""

    name = "gettext"
    endings = (".po", ".mo")
    library = "polib"

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str,
        target_language: str,
        message_language: str = "en",
        accelerator: str = "",
        held_out: Annotated[float, Range(least=0, most=LARGEST_SHARE)] = 0.0,
    ) -> None:
        """Look for the catalogues.

        Args:
            root: a file, or a folder with files at any depth.
            source_language: a code; one without a region stands for all regions (pt for pt_BR), if no catalogue is of
                itself.
            target_language: likewise.
            message_language: that of the messages (msgid); source or target must be it.
            accelerator: the marks of keys that are taken out, some of "_&~".
            held_out: the share of the training data that becomes ``dev``, and as much ``test``, where there are no
                such files; 0 for none.

        Raises:
            DataError: if there is no catalogue of the language, or neither language is that of the messages.
            UsageError: if a mark is unknown, or polib is not installed.
        """
        if not set(accelerator) <= set(MARKS):
            raise UsageError(f"accelerator is {accelerator!r}, not some of {MARKS}")
        if message_language not in (source_language, target_language):
            raise DataError(
                f"messages are in {message_language}, which is neither {source_language} nor {target_language}"
            )
        self._turned = message_language != source_language
        self._code = source_language if self._turned else target_language
        self._marks = accelerator
        options = {"source_language": source_language, "target_language": target_language}
        super().__init__(root=root, held_out=held_out, **options)

    def _find(self) -> list[Path]:
        """Return the catalogues of the language that is not that of the messages."""
        found = super()._find()
        files = [path for path in found if path.suffix in self.endings]
        self._pass_files("catalogues that are not read: unpack them", {*found} - {*files})
        if not files:
            raise DataError(f"{found[0]}: a packed catalogue is not read: unpack it")
        made = {path for path in files if path.suffix == ".mo" and path.with_suffix(".po") in files}
        self._pass_files("catalogues that others were made into", made)
        by_language: dict[str, list[Path]] = {}
        for path in files:
            if path not in made:
                by_language.setdefault(self._language(path), []).append(path)
        code = languages.among(self._code, by_language)
        if code is None:
            there = ", ".join(sorted(filter(None, by_language))) or "none of a known language"
            raise DataError(f"{self._root}: no catalogue in {self._code}; there are {there}")
        others = [path for other, paths in by_language.items() if other != code for path in paths]
        self._pass_files("catalogues of other languages", others)
        return by_language[code]

    def _language(self, path: Path) -> str:
        """Return the code of a catalogue; "" if it is not known.

        Raises:
            DataError: if one of ours is said in the header, and another by the path, or the other way round.
        """
        folder = path.parent.parent.name if path.parent.name == "LC_MESSAGES" else path.stem
        found = _HEADER.search(path.read_bytes())
        said = _code(found[1].decode(errors="replace")) if found else ""
        named = _code(folder)
        if said and named and said.split("-")[0] != named.split("-")[0] and self._code in (said, named):
            raise DataError(f"{path}: its header says {said}, its path {named}: correct what is wrong")
        return max(said, named, key=len) or _code(path.parent.name)

    def _pairs(self, path: Path, passed: Counter[str], there: set[str]) -> Iterator[SourceRow | Unusable]:
        for message in messages(path, passed):
            if isinstance(message, Unusable):
                yield message
                continue
            texts = [without_marks(text, self._marks) for text in (message.original, message.translation)]
            texts = texts[::-1] if self._turned else texts
            yield self._row(path, message.key, texts, message.line, context=message.context or None)


def _code(name: str) -> str:
    """Return the code that a folder, a file or a header is named by, "" if it is none: menus is no language."""
    is_code = re.fullmatch(r"[A-Za-z]{2,3}([_@.-]\w+)*", name)
    return (languages.called(name) or "") if is_code else ""


def messages(path: Path, passed: Counter[str]) -> Iterator[Message | Unusable]:
    """Go through the finished messages of a catalogue, spaces collapsed, and count what is passed over.

    Raises:
        DataError: if the file is broken, or the formula of its plurals is.
    """
    catalogue = _read(path)
    form = _formula(path, catalogue.metadata.get("Plural-Forms", ""))
    for number, entry in enumerate(catalogue, 1):
        line = getattr(entry, "linenum", number)  # in a .mo file messages have none
        forms = entry.msgstr_plural or {0: entry.msgstr}
        if entry.obsolete:
            passed["obsolete messages"] += 1
        elif path.suffix == ".po" and entry.fuzzy:
            passed["fuzzy messages"] += 1
        elif not all(text.strip() for text in forms.values()):
            passed["untranslated messages"] += 1
        elif not entry.msgid_plural:
            yield _message(f"{number}", entry, entry.msgid, entry.msgstr, line)
        else:
            for key, original, count in (
                (f"{number}", entry.msgid, ONE),
                (f"{number}.plural", entry.msgid_plural, SEVERAL),
            ):
                index = form(count) if form else max(forms) * (count != ONE)
                if index in forms:
                    yield _message(key, entry, original, forms[index], line)
                else:
                    yield Unusable(f"form {index}, for {count}, is not there: {entry.msgid[:60]!r}", path, line)


def _message(key: str, entry: Any, original: str, translation: str, line: int) -> Message:
    return Message(key, entry.msgctxt or "", " ".join(original.split()), " ".join(translation.split()), line)


def _read(path: Path) -> Any:
    import polib

    if path.suffix == ".po":
        _check_strings(path, polib.detect_encoding(str(path), True))
    try:
        if path.suffix == ".po":
            return polib.pofile(str(path))
        with open(path, "rb") as file:
            gettext.GNUTranslations(file)  # notices that a file was cut off, which polib does not
        return polib.mofile(str(path))
    except (OSError, ValueError, struct.error, LookupError) as error:
        reason = shortened(one_line(error).replace(f"{path} ", ""), 200)
        raise DataError(f"{path}: {reason}") from error


def _check_strings(path: Path, encoding: str) -> None:
    """Refuse a string without an end, of which polib would take the last character for one."""
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        try:
            text = line.decode(encoding).strip().removeprefix("#~").strip()
        except UnicodeDecodeError as error:
            wrong = f"byte 0x{line[error.start]:02x} at position {error.start}"
            raise DataError(f"{path}, line {number}: not {encoding} ({wrong})") from error
        if text.startswith(("msg", '"')) and not _STRING.fullmatch(text):
            raise DataError(f"{path}, line {number}: no string in quotes that has an end: {text[:60]!r}")


def _formula(path: Path, header: str) -> Any:
    """Return the function from a count to the number of its form; None if there is no formula."""
    found = re.search(r"plural\s*=\s*([^;]+)", header.replace("nplurals", ""))
    formula = found[1].strip() if found else ""
    try:
        return gettext.c2py(formula) if formula not in ("", UNSET) else None
    except ValueError as error:
        raise DataError(f"{path}: Plural-Forms in its header is {header!r}: {one_line(error)}") from error


def without_marks(text: str, marks: str) -> str:
    """Return a text without the marks of keys (see the top of this file)."""
    for mark in map(re.escape, marks):
        text = re.sub(rf"\s*[(（]\s*{mark}\w\s*[)）]", "", text)
        parts = re.compile(rf"(?P<name>{_NAME})|(?P<double>{mark}{mark})|(?P<single>{mark})")
        found = [part for part in parts.finditer(text) if part["single"]]
        alone = len(found) == 1 and re.match(r"[^\s)）\]'\"]", text[found[0].end() :])
        if alone:
            text = text[: found[0].start()] + text[found[0].end() :]
        text = parts.sub(lambda part: part[0][bool(part["double"]) :], text)
    return text
