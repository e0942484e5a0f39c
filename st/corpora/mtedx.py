"""mTEDx (Salesky et al. 2021, arXiv 2102.01757; OpenSLR 100): TEDx talks in eight languages, some translated.

`https://www.openslr.org/resources/100/mtedx_{pair}.tgz` unpacks to the layout of MuST-C, with these differences::

    {root}/es-en/data/{train,valid,test}/{txt,wav}/...      es-es holds the transcripts of all Spanish talks
    {root}/es-en/data/train/wav/abc.flac                    where the yaml says abc.wav

The split ``valid`` is called ``dev``. A pair of one language twice (``es-es``) is for recognition.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from dragoman.shared.preparing.reader import sound_file
from dragoman.st.corpora.mustc import MustC


class MTedx(MustC):
    """Reads one pair of mTEDx."""

    name = "mtedx"
    order = ("train", "dev", "test")
    obtained = "mTEDx: https://www.openslr.org/100/"
    folders: ClassVar[dict[str, str]] = {"dev": "valid"}

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str,
        target_language: str,
        splits: list[str] | None = None,
    ) -> None:
        """Look for the pair and its splits.

        Args:
            root: the folder that holds ``es-en``.
            source_language: of speech and transcript.
            target_language: of the translation; the source language again for transcripts only.
            splits: some of train, dev and test; None means all that are there.

        Raises:
            DataError: if the pair or a split is not there, or a code is unknown.
        """
        super().__init__(root=root, source_language=source_language, target_language=target_language, splits=splits)

    def audio(self, folder: Path, name: str) -> Path:
        """Return the sound file of a talk."""
        return sound_file(folder / Path(name).parent, Path(name).stem)
