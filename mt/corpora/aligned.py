r"""Two plain files, line n of one made of line n of the other, whatever they are called: titles, summaries, questions.

XGLUE's titles and questions (Liang et al. 2020, EMNLP), CNN/DailyMail as fairseq reads it, SQuAD's questions (Du et
al. 2017, ACL)::

    {root}/NTG/xglue.ntg.en.src.train   xglue.ntg.en.tgt.train   ...     en, de, es, fr, ru; training in English only
    {root}/QG/xglue.qg.en.src.train     xglue.qg.en.tgt.train    ...     en, de, es, fr, it, pt
    {root}/train.source                 train.target             val.source ...
    {root}/src-train.txt                tgt-train.txt            src-dev.txt ...

``source_file`` and ``target_file`` are their names below the root, with ``{split}`` in the place of what becomes the
split, and, where codes are in them, ``{source_language}`` and ``{target_language}``, such as
``NTG/xglue.ntg.{source_language}.src.{split}``. Several can be one split, or a split be called otherwise:
``splits=["train", "dev=val", "test"]``. Blank lines are rows too, and compressed files are read. Further
references of a test are read as ``prepare moses`` reads them.
"""

from __future__ import annotations

import glob
from pathlib import Path

from dragoman.mt.corpora.moses import Moses
from dragoman.mt.corpora.splits import chosen_splits
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.text import languages
from dragoman.shared.text.compressed import beside, plain_name, plain_or_packed

SPLIT = "{split}"


class Aligned(Moses):
    """Reads one direction, which may be from a language to itself."""

    name = "aligned"

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str,
        target_language: str,
        source_file: str,
        target_file: str,
        splits: list[str] | None = None,
    ) -> None:
        """Look for the file pairs.

        Args:
            root: the folder with the files.
            source_language: a code.
            target_language: a code, which may be the same.
            source_file: how the files of texts are called.
            target_file: how those of what is made of them are called.
            splits: each what stands for ``{split}``, or ``name=one+another+...`` under a new name; None means all.

        Raises:
            DataError: if there is no pair, or a split has none.
            UsageError: if a name has no ``{split}``, or not in its last part.
        """
        self.source_language, self.target_language = languages.check(source_language), languages.check(target_language)
        self.folder = f"{source_language}-{target_language}"
        self._names = []
        for option, name in (("source_file", source_file), ("target_file", target_file)):
            if name.count(SPLIT) != 1 or SPLIT not in Path(name).name:
                raise UsageError(f"{option} must have {SPLIT} in its last part, once: {name!r}")
            for side in ("source_language", "target_language"):
                name = name.replace(f"{{{side}}}", getattr(self, side))
            self._names.append(name)
        self._pairs = self._find(Path(root).absolute())
        if not self._pairs:
            raise DataError(f"{root}: no files {self._names[0]} and {self._names[1]} of the same split")
        self._splits = chosen_splits(splits, self._pairs, root=root)

    def _find(self, root: Path) -> dict[str, tuple[Path, Path]]:
        """Return the file pairs by their splits."""
        pairs: dict[str, tuple[Path, Path]] = {}
        alone = []
        before, after = Path(self._names[0]).name.split(SPLIT)
        for path in plain_or_packed((root / self._names[0]).parent, f"{glob.escape(before)}*{glob.escape(after)}"):
            split = plain_name(path).removeprefix(before).removesuffix(after)
            partner = beside(root / self._names[1].replace(SPLIT, split))
            if partner is None:
                alone.append(path)
            else:
                pairs[split] = path, partner
        self._pass_files("files without the other side", alone)
        return pairs
