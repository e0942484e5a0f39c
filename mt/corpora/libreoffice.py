r"""The help of LibreOffice in some thirty languages, and the words of its menus: docs/help_corpus.md has the commands.

Layout of unpacked packages ``libreoffice-help-en-us``, ``libreoffice-help-de`` ..., and with ``--catalogues true`` also
``libreoffice-l10n-de`` ... (the root may also be any folder between ``usr`` and ``help``)::

    {root}/usr/share/libreoffice/help/{en-US,de,pt-BR,...}/text/**/*.html
    {root}/usr/lib/libreoffice/program/resource/{de,pt_BR,...}/LC_MESSAGES/*.mo

    <p id="par_id3149805" class="paragraph">Ends the <span class="emph">current line</span>.</p>

Paragraphs and headings with an id are joined by page and id, which are the same in all languages, in every direction. A
page is a ``document``, and its paragraphs stand in order. Of wordings for several systems or programs the default is
read, or else the first. Paragraphs that are the same as in English are no translations, on either side; they are
counted. English is needed for that, whatever the languages are.

``dev`` and ``test`` are whole pages, chosen by a hash of their name, so the same in all languages. No row of ``train``
has a text of them on either side, nor an English original, in whatever case and spaces; repeated pairs of ``train`` are
left out. With ``--catalogues true`` the messages of the program are a further split, ``train_catalogues``, of which the
same is true; the marks of keys (_Save, ~Save) are taken out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from dragoman.mt.corpora.gettext import messages, without_marks
from dragoman.mt.corpora.help_pages import HelpPages, folder_of, page_path, read_page
from dragoman.shared.machine.extras import require
from dragoman.shared.preparing.held_out import DEV, TEST, TRAIN, folded
from dragoman.shared.preparing.line_pairs import pair_row
from dragoman.shared.preparing.reader import Reader, SourceRow, is_training
from dragoman.shared.preparing.split_files import chosen_splits
from dragoman.shared.text import languages
from dragoman.shared.text.lines import Unusable

CATALOGUES = "train_catalogues"
#: Marks of keys in the catalogues.
MARKS = "_~"


class LibreOffice(Reader):
    """Reads one direction of the help."""

    name = "libreoffice"

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str,
        target_language: str,
        splits: list[str] | None = None,
        catalogues: bool = False,
    ) -> None:
        """Look for the pages.

        Args:
            root: the folder into which the packages were unpacked.
            source_language: a code; en is en-US.
            target_language: likewise.
            splits: some of those that there are; None means all.
            catalogues: read the program's own messages too.

        Raises:
            DataError: if a language or the English of it is not there, or is that of another one.
            UsageError: if the libraries that read them are not installed.
        """
        for library in ("lxml", "polib")[: 1 + catalogues]:
            require(library, "memories", f"the reader {self.name}")
        self._codes = languages.check_pair(source_language, target_language)
        self.folder = f"{source_language}-{target_language}"
        self._help = HelpPages(Path(root).absolute())
        self._english = self._help.english
        self._folders = [folder_of(code, self._help.folder) for code in self._codes]
        self._all_folders = list(dict.fromkeys([self._english, *self._folders]))
        self._catalogues = [
            folder_of(code, self._help.folder.parent.parent.parent / "lib/libreoffice/program/resource")
            for code, folder in zip(self._codes, self._folders, strict=True)
            if catalogues and folder != self._english
        ]
        self._splits = chosen_splits(root, [TRAIN, *([CATALOGUES] if catalogues else []), DEV, TEST], splits)

    def inputs(self, split: str) -> list[Path]:
        """Return the pages, for training also those that it must not have, and the catalogues."""
        names = self._help.pages[split] if split in (DEV, TEST) else self._help.held_out
        names = names + (self._help.pages[TRAIN] if split == TRAIN else [])
        pages = [path for folder in self._all_folders for name in names if (path := page_path(folder, name)).is_file()]
        return pages + [path for folder in self._catalogues for path in _messages_in(folder)] * (split == CATALOGUES)

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the paragraphs that are translated.

        Raises:
            DataError: if a page is broken.
        """
        passed = self._passed(split, anew=True)
        training, seen = is_training(split), set()
        found = self._messages(passed) if split == CATALOGUES else self._paragraphs(split, passed)
        for original, row in found:
            if isinstance(row, Unusable):
                yield row
                continue
            texts = (row["source_text"], row["target_text"])
            if any(text == original for text, side in zip(texts, self._folders, strict=True) if side != self._english):
                passed["texts that are the English itself"] += 1
            elif training and any(folded(text) in self._held_out for text in (original, *texts)):
                passed["texts of dev or test"] += 1
            elif training and texts in seen:
                passed["repeated pairs"] += 1
            else:
                seen.add(texts)
                yield row

    @cached_property
    def _held_out(self) -> set[str]:
        """The texts of the pages of dev and test in English and both languages, translated or not."""
        pages = (read_page(page_path(folder, name)) for folder in self._all_folders for name in self._help.held_out)
        return {folded(text) for page in pages for text, _ in page.values()}

    def _paragraphs(self, split: str, passed: Counter[str]) -> Iterator[tuple[str, SourceRow]]:
        """Go through the paragraphs that are there in both languages, each behind its English original."""
        for name in self._help.pages[split]:
            pages = {folder: read_page(page_path(folder, name)) for folder in self._all_folders}
            for key, (original, _) in pages[self._english].items():
                source, target = (pages[folder].get(key) for folder in self._folders)
                if source is None or target is None:
                    passed["paragraphs that are not in both languages"] += 1
                    continue
                row = pair_row(f"{name}#{key}", (source[0], target[0]), self._codes, document=name)
                yield original, SourceRow(row, file=page_path(self._folders[0], name), line=source[1])

    def _messages(self, passed: Counter[str]) -> Iterator[tuple[str, SourceRow | Unusable]]:
        """Go through the messages that both languages have, each behind its English original."""
        first, *others = self._catalogues
        for path in _messages_in(first):
            translations: list[dict[tuple[str, str], str]] = []
            for folder in others:
                other = folder / "LC_MESSAGES" / path.name
                read = messages(other, passed) if other.is_file() else iter(())
                translations.append({one[1:3]: one.translation for one in read if not isinstance(one, Unusable)})
            for message in messages(path, passed):
                if isinstance(message, Unusable):
                    yield "", message
                    continue
                foreign = [message.translation, *(there.get(message[1:3], "") for there in translations)]
                texts = [message.original if folder == self._english else foreign.pop(0) for folder in self._folders]
                if not all(texts):
                    passed["messages that are not in both languages"] += 1
                    continue
                original, *texts = (without_marks(text, MARKS) for text in (message.original, *texts))
                row = pair_row(f"{path.stem}#{message.key}", texts, self._codes, context=message.context or None)
                yield original, SourceRow(row, file=path, line=message.line)


def _messages_in(folder: Path) -> list[Path]:
    return sorted((folder / "LC_MESSAGES").glob("*.mo"))
