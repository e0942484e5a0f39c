"""Miniatures of data sets in Parquet files with the sound inside, as the Hub has them."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile


def sound(seed, seconds=0.3, rate=16000, kind="WAV"):
    """Return noise, and the bytes of a sound file that holds it."""
    noise = np.random.default_rng(seed).uniform(-0.5, 0.5, int(seconds * rate)).astype(np.float32)
    file = io.BytesIO()
    soundfile.write(file, noise, rate, format=kind, subtype="VORBIS" if kind == "OGG" else "PCM_16")
    return noise, file.getvalue()


def write_shard(path, columns, audio="audio", rows_per_group=2):
    """Write a shard whose column ``audio`` is a list of bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    named = enumerate(columns[audio])
    values = [value if value is None else {"bytes": value, "path": f"{n}.wav"} for n, value in named]
    table = {name: values for name, values in columns.items() if name != audio}
    pq.write_table(pa.table(table | {audio: pa.array(values, kind)}), path, row_group_size=rows_per_group)


def write_fleurs(root, languages=("de_de", "en_us"), splits=("train", "validation", "test"), sentences=6):
    """Write FLEURS: German has sentences 1 .. n, the first twice; English lacks sentence 2."""
    for number, config in enumerate(languages):
        for split in splits:
            ids = [1, 1, *range(2, sentences + 1)] if config == "de_de" else [1, *range(3, sentences + 1)]
            columns = {
                "id": ids,
                "raw_transcription": [f"{config} {split} sentence {id}." for id in ids],
                "transcription": [f"{config} {split} sentence {id}" for id in ids],
                "num_samples": [4800] * len(ids),
                "audio": [sound(100 * number + place)[1] for place in range(len(ids))],
            }
            write_shard(root / config / split / "0000.parquet", columns)
