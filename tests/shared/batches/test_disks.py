"""Disks that are full or read-only: the file is named, what was there stays, and what needs no writing works."""

import numpy as np
import pytest
import soundfile

from dragoman.commands.prepare_shard import prepare_shard
from dragoman.preparing.preparation import prepare
from dragoman.st.corpora.tsv import Tsv


@pytest.fixture
def own(tmp_path):
    """Forty rows; ten have no file, and their list is longer than the journal, the manifest longer still."""
    root = tmp_path / "own"
    root.mkdir()
    soundfile.write(root / "a.wav", np.zeros(16000), 16000)
    rows = [f"{number}{'y' * 900}\ta.wav\tOne." for number in range(30)]
    rows += [f"{number}{'x' * 300}\tnone.wav\tTwo." for number in range(10)]
    (root / "train.tsv").write_text("\n".join(["id\taudio\tsource_text", *rows]) + "\n")
    return Tsv(root=root, source_language="en")


def test_a_full_disk_in_prepare_names_the_file(own, tmp_path, file_size_limit):
    """Whichever file is the first that does not fit; once there is space, prepare goes on."""
    named = set()
    for size in range(0, 40_000, 500):
        try:
            with file_size_limit(size):
                prepare(own, tmp_path / "out", workers=1, skip_bad=True)
        except OSError as error:
            assert error.strerror == "File too large", error
            named.add(error.filename.removeprefix(f"{tmp_path}/out/"))
            assert not list((tmp_path / "out").glob("*.tmp"))
        else:
            break
    assert named == {".train.arrow.journal", "train.skipped.tsv", "train.arrow"}
    assert prepare(own, tmp_path / "out", workers=1, skip_bad=True)[0].rows == 30


def test_a_full_disk_in_a_share_of_prepare_names_the_journal(own, tmp_path, file_size_limit):
    with file_size_limit(50), pytest.raises(OSError, match=r"File too large: '.*/\.train\.arrow\.1-of-2\.part'"):
        prepare_shard(own, tmp_path / "out", shard=(1, 2), workers=1, skip_bad=True)


def test_what_is_prepared_needs_no_writing(own, tmp_path):
    """A folder in the place of each lock: like a read-only disk, it does not let anybody lock, not even root."""
    reports = prepare(own, tmp_path / "out", workers=1, skip_bad=True)
    for lock in (".prepare.lock", ".1-of-2.lock"):
        (tmp_path / "out" / lock).mkdir()
    shown = []
    assert prepare(own, tmp_path / "out", skip_bad=True, progress=lambda *rows: shown.append(rows)) == reports
    assert prepare_shard(own, tmp_path / "out", shard=(1, 2), skip_bad=True) == reports
    assert shown == [(40, 40)]
    with open(own.inputs("train")[0], "a") as file:
        file.write("more\ta.wav\tThree.\n")
    with pytest.raises(IsADirectoryError):
        prepare(own, tmp_path / "out", skip_bad=True)
