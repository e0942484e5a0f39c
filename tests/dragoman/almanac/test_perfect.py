import os
import subprocess
import sys

import pytest
import sacrebleu

from dragoman.almanac.perfect import main, perfect_scores
from dragoman.shared.errors import DataError
from tests.conftest import IMPORT_PATH
from tests.small import refuses

SAID = {
    "": ["the cat is on the mat now", "we saw two dogs in the park"],
    ".1": ["on the mat there is a cat now", "in the park we saw two dogs"],
    ".2": ["now there is a cat on the mat", "two dogs were in the park"],
}


@pytest.fixture
def file(tmp_path):
    for ending, lines in SAID.items():
        (tmp_path / f"test.en{ending}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path / "test.en"


def test_all_references_give_100_and_one_gives_what_two_speakers_share(file):
    one, several = perfect_scores(file)
    assert several == pytest.approx(100)
    drawn = [
        sacrebleu.corpus_bleu([a, b], [SAID[""]]).score for a in list(zip(*SAID.values(), strict=True))[0]
        for b in list(zip(*SAID.values(), strict=True))[1]
    ]  # fmt: skip
    assert min(abs(score - one) for score in drawn) < 1e-9 and min(drawn) < 60


def test_chinese_is_scored_by_characters(tmp_path):
    for ending, line in (("", "公园里有两匹马。"), (".1", "我在公园里看见了两匹马。"), (".2", "两匹马住在公园里。")):
        (tmp_path / f"test.zh{ending}").write_text(f"{line}\n", encoding="utf-8")
    one, several = perfect_scores(tmp_path / "test.zh")
    said = ("公园里有两匹马。", "我在公园里看见了两匹马。", "两匹马住在公园里。")
    by_characters = [sacrebleu.corpus_bleu([one], [[said[0]]], tokenize="zh").score for one in said]
    assert several == pytest.approx(100)
    assert one in by_characters and min(by_characters) > 20


def test_it_is_printed_for_every_test(file, capsys):
    for ending in ("", ".1"):
        for name in ("dev.en", "tst-HE.en"):
            (file.parent / f"{name}{ending}").write_text("a b c d\n", encoding="utf-8")
    main(str(file.parent))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines[1:]] == ["test.en", "tst-HE.en"]
    assert all(line.endswith("\t100.0") for line in lines[1:])


def test_a_test_with_one_reference_is_refused(tmp_path):
    (tmp_path / "test.en").write_text("a\n", encoding="utf-8")
    refuses(DataError, r"test\.en\.1", perfect_scores, tmp_path / "test.en")
    refuses(DataError, "no tests", main, str(tmp_path))


def test_the_command_names_a_folder_without_tests(tmp_path):
    command = [sys.executable, "-m", "dragoman.almanac.perfect", str(tmp_path)]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": IMPORT_PATH}, capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == f"error: {tmp_path}: no tests with further references (test.de.1)\n"
