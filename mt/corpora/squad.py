r"""Questions with answers that are spans of a text, in SQuAD's JSON: SQuAD, and tests in other languages.

SQuAD 1.1 (Rajpurkar et al. 2016, EMNLP), in English, by which the others' models are trained and chosen, too::

    {root}/squad/{train,dev}-v1.1.json

    {"data": [{"paragraphs": [{"context": "The old man fed ...", "qas": [
        {"id": "7", "question": "Who fed ...?", "answers": [{"text": "The old man", "answer_start": 0}]}]}]}]}

XQuAD (Artetxe et al. 2020, ACL), professional translations of a part of SQuAD's development set, as tests::

    {root}/xquad/xquad.{language}.json

MLQA (Lewis et al. 2020, ACL), development and tests, whose questions may be in another language than the texts::

    {root}/mlqa/MLQA_V1/{dev,test}/{dev,test}-context-{language}-question-{language}.json

TyDi QA's gold passages (Clark et al. 2020, TACL), as published or as XTREME divides them; there are no other tests than
its development set::

    {root}/tydiqa/tydiqa-goldp-v1.1-train.json
    {root}/tydiqa/tydiqa-goldp-v1.1-train/tydiqa.goldp.{language}.train.json
    {root}/tydiqa/tydiqa-goldp-v1.1-dev/{tydiqa-goldp-dev-english,tydiqa.goldp.en.dev}.json

The folder of a corpus may be the root itself. Rows have ``source_text``, ``question_text``, ``answer_text``, the number
of its first character in the text as ``answer_start``, and further answers as ``answer_text_1``, ...; ``question_text``
is in ``question_language``. An answer that does not stand at its place is looked for: the place may be counted in
bytes, or be a few characters away. One that is not found is an error in training; elsewhere it is still a reference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.mt.corpora.one_language import OneLanguage
from dragoman.shared.errors import DataError, one_line, shortened, shown
from dragoman.shared.machine.nesting import from_json
from dragoman.shared.preparing.held_out import DEV, TEST, TRAIN
from dragoman.shared.preparing.reader import SourceRow, is_training
from dragoman.shared.text import languages
from dragoman.shared.text.lines import Unusable, read_lines

#: Characters before and behind its place in which an answer is looked for.
NEAR = 20
BYTES, MOVED = "answers whose places were counted in bytes", "answers that stood beside their places"
LOST = "answers that do not stand in their texts"


class Squad(OneLanguage[Path]):
    """Reads SQuAD, and is the base class of the readers of others in its format."""

    name = "squad"

    def _found(self, root: Path) -> dict[str, Path]:
        return {split: path for split, path in self._files(root).items() if path.is_file()}

    def _files(self, root: Path) -> dict[str, Path]:
        """Return the files that there may be, by split."""
        if self.language != "en":
            return {}
        return {split: _below(root, "squad") / f"{split}-v1.1.json" for split in (TRAIN, DEV)}

    def inputs(self, split: str) -> list[Path]:
        """Return the file."""
        return [self._places[split]]

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the questions; one without a usable answer comes as what is wrong.

        Raises:
            DataError: if the file is not SQuAD's JSON.
        """
        path, passed = self._places[split], self._passed(split, anew=True)
        questions = _questions(path)
        further = max((len(_texts(question)) for _, question in questions), default=1)
        for number, (text, question) in enumerate(questions, 1):
            id = str(question.get("id") or "")
            if not self._is_own(path, id):
                passed["questions in other languages"] += 1
                continue
            try:
                answers, start = _answers(text, question, passed)
            except DataError as error:
                yield Unusable(str(error), path, id=id)
                continue
            if start is None:
                if is_training(split):
                    yield Unusable(f"answer {shortened(answers[0])!r} does not stand in its text", path, id=id)
                    continue
                passed[LOST] += 1
            row: dict[str, Any] = {"id": id, "source_text": text, "source_language": self.language}
            row |= {"question_text": question["question"], "question_language": self._question_language}
            row |= {"answer_text": answers[0], "answer_start": start}
            row |= {f"answer_text_{n}": answers[n] if n < len(answers) else None for n in range(1, further)}
            yield SourceRow(row, file=path, line=number)

    @property
    def _question_language(self) -> str:
        return self.language

    def _is_own(self, path: Path, id: str) -> bool:
        """Tell whether a question is in the reader's language."""
        return True


class Xquad(Squad):
    """Reads XQuAD as tests, and in English SQuAD."""

    name = "xquad"

    def _files(self, root: Path) -> dict[str, Path]:
        return super()._files(root) | {TEST: _below(root, "xquad") / f"xquad.{self.language}.json"}


class Mlqa(Squad):
    """Reads MLQA's development sets and tests, and in English SQuAD for training."""

    name = "mlqa"

    def __init__(
        self, *, root: str | Path, language: str, question_language: str | None = None, splits: list[str] | None = None
    ) -> None:
        """Look for the files.

        Args:
            root: the corpus's folder.
            language: a code, that of the texts and answers.
            question_language: that of the questions; by default the same.
            splits: some of train, dev and test; None means all that are there.

        Raises:
            DataError: if nothing of the language is there, or a split is not.
        """
        self._asked = languages.check(question_language or language)
        super().__init__(root=root, language=language, splits=splits)
        self.folder = language if self._asked == language else f"{language}-{self._asked}"

    def _files(self, root: Path) -> dict[str, Path]:
        folder = _below(_below(root, "mlqa"), "MLQA_V1")
        names = {split: f"{split}-context-{self.language}-question-{self._asked}.json" for split in (DEV, TEST)}
        train = super()._files(root) if self._asked == self.language else {}
        return train | {split: folder / split / name for split, name in names.items()}

    @property
    def _question_language(self) -> str:
        return self._asked


class TydiQa(Squad):
    """Reads TyDi QA's gold passages."""

    name = "tydiqa"

    def _files(self, root: Path) -> dict[str, Path]:
        folder, whole = _below(root, "tydiqa"), "tydiqa-goldp-v1.1"
        divided = {
            split: folder / f"{whole}-{split}/tydiqa.goldp.{self.language}.{split}.json" for split in (TRAIN, DEV)
        }
        published = {TRAIN: folder / f"{whole}-train.json"}
        published[DEV] = folder / f"{whole}-dev" / f"tydiqa-goldp-dev-{self._spelled}.json"
        return {split: path if path.is_file() else published[split] for split, path in divided.items()}

    @property
    def _spelled(self) -> str:
        return languages.name(self.language).lower()

    def _is_own(self, path: Path, id: str) -> bool:
        """Tell it by the id, which begins with the language where a file has them all."""
        return path.name != "tydiqa-goldp-v1.1-train.json" or id.startswith(f"{self._spelled}-")


def _below(root: Path, name: str) -> Path:
    return root / name if (root / name).is_dir() else root


def _questions(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the questions of a file, each with its text.

    Raises:
        DataError: if it is not SQuAD's JSON.
    """
    try:
        content = from_json("\n".join(read_lines(path)))
        paragraphs = [each for article in content["data"] for each in article["paragraphs"]]
        found = [(each["context"], question) for each in paragraphs for question in each["qas"]]
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: not SQuAD's JSON ({type(error).__name__}: {one_line(error)})") from error
    for text, question in found:
        if not (isinstance(text, str) and isinstance(question, dict)):
            raise DataError(f"{path}: not SQuAD's JSON: a text or a question is {shown(question)}")
    return found


def _texts(question: dict[str, Any]) -> list[Any]:
    """Return the different answers of a question, as they are in the file."""
    given = question.get("answers")
    answers = given if isinstance(given, list) else []
    return list(dict.fromkeys(_text(answer) for answer in answers))


def _text(answer: Any) -> str:
    text = answer.get("text") if isinstance(answer, dict) else None
    return text if isinstance(text, str) else ""


def _answers(text: str, question: dict[str, Any], passed: Counter[str]) -> tuple[list[str], int | None]:
    """Return the different answers of a question, first one that stands in its text, and where; None for nowhere.

    Raises:
        DataError: if the question is no text, or an answer is missing or empty.
    """
    asked, answers = question.get("question"), _texts(question)
    if not isinstance(asked, str) or not asked.strip():
        raise DataError(f"the question is {shown(asked)}")
    if not answers or not all(map(str.strip, answers)):
        raise DataError(f"the answers are {shown(question.get('answers'))}, one of which is empty or no text")
    for answer in question["answers"]:
        start, how = _place(text, answer["text"], answer.get("answer_start"))
        if start is not None:
            passed.update([how] if how else [])
            return [answer["text"], *(other for other in answers if other != answer["text"])], start
    return answers, None


def _place(text: str, answer: str, start: Any) -> tuple[int | None, str]:
    """Return where an answer stands in a text, None for nowhere near, and how the place was found if it was wrong."""
    if type(start) is not int or start < 0:
        return None, ""
    if text.startswith(answer, start):
        return start, ""
    data, part = text.encode("utf-8", "surrogatepass"), answer.encode("utf-8", "surrogatepass")
    if data.startswith(part, start):
        return len(data[:start].decode("utf-8", "surrogatepass")), BYTES
    places = [place for place in range(max(start - NEAR, 0), start + NEAR + 1) if text.startswith(answer, place)]
    return min(places, key=lambda place: abs(place - start), default=None), MOVED
