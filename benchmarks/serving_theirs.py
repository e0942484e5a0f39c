"""The simplest server of faster-whisper behind FastAPI, as people write it: benchmarks/serving.py starts it.

    python benchmarks/serving_theirs.py MODEL PRECISION PORT THREADS LANGUAGE BEAM

Its Python needs faster-whisper, FastAPI, uvicorn and python-multipart, and nothing of this project. Requests are handed
to the model by FastAPI's threads; the model takes one at a time.
"""

import sys

import uvicorn
from fastapi import FastAPI, UploadFile
from faster_whisper import WhisperModel


def main(folder: str, precision: str, port: str, threads: str, language: str, beam: str) -> None:
    """Answer requests until the process is ended."""
    model = WhisperModel(folder, device="cpu", compute_type=precision, cpu_threads=int(threads))
    options = {"language": language, "beam_size": int(beam), "without_timestamps": True}
    options |= {"temperature": 0.0, "condition_on_previous_text": False}
    app = FastAPI()

    @app.get("/ready")
    def ready() -> dict[str, str]:
        return {"status": "ready"}

    @app.post("/v1/audio/transcriptions")
    def transcriptions(file: UploadFile) -> dict[str, str]:
        segments, _ = model.transcribe(file.file, **options)
        return {"text": "".join(segment.text for segment in segments).strip()}

    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning", access_log=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
