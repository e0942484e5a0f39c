"""Data sets in Parquet files: rows as the columns say, sound read from the shards, FLEURS joined by sentence."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dragoman import DataError, Manifest, UsageError
from dragoman.preparing.preparation import prepare
from dragoman.shared.batches.manifest import COLUMNS
from dragoman.shared.sound.audio import read_audio
from dragoman.shared.text.lines import Unusable
from dragoman.st.corpora.fleurs import Fleurs
from dragoman.st.corpora.parquet import Parquet
from tests.small import refuses, sides
from tests.st.corpora.shards import sound, write_fleurs, write_shard


def write_mirror(root, config="fr_en"):
    """A mirror of CoVoST 2: two shards of training data, one of validation."""
    for split, shards in (("train", 2), ("validation", 1)):
        for number in range(shards):
            columns = {
                "client_id": ["anna", None, "ben"],
                "sentence": [f"{split} {number} phrase {n}" for n in range(3)],
                "translation": [f"{split} {number} sentence {n} " for n in range(3)],
                "audio": [sound(10 * number + n)[1] for n in range(3)],
            }
            write_shard(root / config / f"{split}-{number:05}-of-{shards:05}.parquet", columns)


def test_a_mirror_becomes_manifests_that_read_its_shards(tmp_path):
    write_mirror(tmp_path)
    options = {"config": "{source}_{target}", "speaker_column": "client_id"}
    reader = Parquet(root=tmp_path, source_language="fr", target_language="en", **options)
    assert (reader.splits(), reader.count("train"), reader.folder) == (["train", "dev"], 6, "fr-en")
    prepare(reader, tmp_path / "manifests", workers=1)
    manifest = Manifest.open(tmp_path / "manifests" / "fr-en" / "train.arrow")
    audio = f"{tmp_path}/fr_en/train-00001-of-00002.parquet#audio:1"
    texts = ("train 1 phrase 1", "fr", "train 1 sentence 1", "en")
    values = ("train-00001-of-00002-1", audio, 0.0, 0.3, *texts, None, None)
    assert manifest[4] == dict(zip(COLUMNS, values, strict=True))
    np.testing.assert_allclose(read_audio(manifest[4]["audio"]), sound(11)[0], atol=1e-4)
    assert manifest[0]["speaker"] == "anna"


def test_columns_are_options_and_a_missing_one_is_named(tmp_path):
    write_mirror(tmp_path, config="data")
    reader = Parquet(root=tmp_path, source_language="fr", config="data", source_column="translation", splits=["dev"])
    [first, *_] = reader.rows("dev")
    assert (first["source_text"], first["target_text"]) == ("validation 0 sentence 0", None)
    french = {"root": tmp_path, "source_language": "fr"}
    refuses(DataError, r"no Parquet file; folders there are data \(give one as --config\)", Parquet, **french)
    for wrong, message in (
        ({"source_column": "text"}, r"column 'text' is missing \(it has client_id, sentence, translation, audio\)"),
        ({"splits": ["test"]}, "no split 'test'; there are train, dev"),
    ):
        refuses(DataError, message, Parquet, **french, config="data", **wrong)


def test_a_row_without_sound_is_a_bad_row(tmp_path):
    write_shard(tmp_path / "train.parquet", {"audio": [sound(1)[1], None], "sentence": ["one", "two"]})
    message = r"train\.parquet, row 2: row train-1: .*#audio:1: no sound in this row"
    refuses(DataError, message, prepare, Parquet(root=tmp_path, source_language="en"), tmp_path / "out", workers=1)


def test_fleurs_is_joined_by_sentence_and_what_has_no_partner_is_counted(tmp_path):
    write_fleurs(tmp_path)
    reader = Fleurs(root=tmp_path, source_language="de", target_language="en")
    assert reader.splits() == ["train", "dev", "test"]
    rows = list(reader.rows("dev"))
    assert [row["id"] for row in rows] == ["1_1", "1_2", "3_1", "4_1", "5_1", "6_1"]
    assert [row["audio"].rpartition(":")[2] for row in rows] == ["0", "1", "3", "4", "5", "6"]
    assert sides(rows)[2] == ("de_de validation sentence 3.", "en_us validation sentence 3.")
    assert reader.passed_over("dev") == {"recordings of a sentence that is not in en": 1}
    prepare(reader, tmp_path / "manifests", workers=1)
    assert len(Manifest.open(tmp_path / "manifests" / "de-en" / "train.arrow")) == 6


def test_a_language_that_fleurs_does_not_have_is_named(tmp_path):
    write_fleurs(tmp_path)
    message = "no folder of 'fr'; it has de_de, en_us. FLEURS: hf download google/fleurs"
    refuses(DataError, message, Fleurs, root=tmp_path, source_language="fr")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["train-00000-of-00003", "train-00002-of-00003"], r"shard 1 of this split is missing \(there are 2\)"),
        (["train-00000-of-00001", "train-00000-of-00002"], "two downloads: train-00000-of-00001 and .*-of-00002"),
        (["train/0000", "train/0002"], r"shard 1 of this split is missing \(there are 2\)"),
    ],
)
def test_a_download_that_was_cut_short_is_refused(tmp_path, names, message):
    for name in names:
        write_shard(tmp_path / "data" / f"{name}.parquet", {"audio": [sound(1)[1]], "sentence": ["one"]})
    refuses(DataError, message, Parquet, root=tmp_path, source_language="en", config="data")


@pytest.mark.parametrize("texts", [[{"en": "one", "de": "eins"}], [["one"]], [1], [b"one"]])
def test_a_column_that_holds_no_text_is_refused(tmp_path, texts):
    write_shard(tmp_path / "train.parquet", {"audio": [sound(1)[1]], "sentence": ["one"], "translation": texts})
    with pytest.raises(DataError, match=r"train\.parquet: column 'translation' is .*, not text"):
        Parquet(root=tmp_path, source_language="en", target_language="de")


def test_numbers_can_be_ids_and_speakers(tmp_path):
    columns = {"audio": [sound(1)[1]], "sentence": ["one"], "number": [17], "voice": [3]}
    write_shard(tmp_path / "train.parquet", columns)
    reader = Parquet(root=tmp_path, source_language="en", id_column="number", speaker_column="voice")
    [row] = reader.rows("train")
    assert (row["id"], row["speaker"]) == ("17", "3")


@pytest.mark.parametrize("config", ["{lang}", "{", "{0}", "{source.x}"])
def test_other_names_in_braces_are_refused(tmp_path, config):
    message = "config is .*: only {source} and {target} stand in braces"
    refuses(UsageError, message, Parquet, root=tmp_path, source_language="en", config=config)


def test_a_damaged_page_of_texts_is_named(tmp_path):
    path = tmp_path / "train.parquet"
    texts = [f"number {n} of fifty" for n in range(50)]
    write_shard(path, {"audio": [sound(1)[1]] * 50, "sentence": texts}, "audio", 50)
    where = pq.ParquetFile(path).metadata.row_group(0).column(0)
    content = bytearray(path.read_bytes())
    first = where.dictionary_page_offset
    content[first : first + where.total_compressed_size] = b"\x55" * where.total_compressed_size
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"train\.parquet, row 1: this and the following rows cannot be read"):
        list(Parquet(root=tmp_path, source_language="en").rows("train"))


@pytest.mark.parametrize("side", ["de_de", "en_us"])
@pytest.mark.parametrize("column", ["id", "raw_transcription"])
@pytest.mark.parametrize("values", [None, [1.5] * 3, [b"x"] * 3, [[1]] * 3, [{"a": 1}] * 3, [True] * 3])
def test_columns_of_fleurs_that_are_missing_or_of_other_types_are_named(tmp_path, side, column, values):
    write_fleurs(tmp_path, splits=("train",), sentences=2)
    path = tmp_path / side / "train" / "0000.parquet"
    table = pq.read_table(path).drop_columns(column)
    pq.write_table(table if values is None else table.append_column(column, [values[: len(table)]]), path)
    with pytest.raises(DataError, match=rf"{side}/train/0000\.parquet: column '{column}' is"):
        Fleurs(root=tmp_path, source_language="de", target_language="en")


def test_recordings_without_an_id_do_not_share_a_translation(tmp_path):
    for name, ids in (("de_de", [None, None, 3]), ("en_us", [None, 3, 3])):
        texts = [f"{name} {number}" for number in range(3)]
        columns = {"id": pa.array(ids, pa.int32()), "raw_transcription": texts, "audio": [sound(1)[1]] * 3}
        write_shard(tmp_path / name / "train" / "0000.parquet", columns)
    reader = Fleurs(root=tmp_path, source_language="de", target_language="en")
    first, second, third = reader.rows("train")
    assert isinstance(first, Unusable) and isinstance(second, Unusable) and first.reason == "id is empty"
    assert third["target_text"] == "en_us 1"
    counted = ("rows of en without an id or a text", "other texts of a sentence in en")
    assert reader.passed_over("train") == dict.fromkeys(counted, 1)


def test_two_folders_of_one_split_are_refused_and_other_files_are_named(tmp_path):
    for name in ("dev", "validation"):
        write_shard(tmp_path / f"{name}.parquet", {"audio": [sound(1)[1]], "sentence": ["one"]})
    refuses(DataError, "both dev and validation would be split 'dev'", Parquet, root=tmp_path, source_language="en")
    (tmp_path / "dev").mkdir()
    (tmp_path / "validation.parquet").rename(tmp_path / "dev" / "part.parquet")
    reader = Parquet(root=tmp_path, source_language="en")
    assert reader.passed_over("dev") == {"Parquet files that are not read (part.parquet)": 1}
