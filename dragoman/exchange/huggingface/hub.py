"""Models on the Hugging Face Hub: ours are pushed and pulled, those of others are fetched for ``dragoman import``.

Nothing that could be run is fetched. Of a model folder of ours come the files that its ``config.json`` names; of others
come, by their endings, weights, settings and tokenizers. What was fetched once is found again without network.
"""

from __future__ import annotations

import glob
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.exchange.card import CARD, write_card
from dragoman.exchange.huggingface.hf_reading import read_json
from dragoman.shared.described import assets_of
from dragoman.shared.errors import DataError, UsageError, one_line
from dragoman.shared.machine.files import replaced_folder
from dragoman.shared.systems.model_folder import CONFIG, WEIGHTS, check_place, model_folder
from dragoman.shared.systems.reading_model import ReadingModel

if TYPE_CHECKING:
    from huggingface_hub import HfApi

#: What ``dragoman import`` reads of others; with pickles only where there are no safetensors.
PLAIN = ("*.json", "*.txt", "*.model", "*.spm", "*.bpe", "*codes*", "*.yaml", "*.npz", "*.safetensors")
PICKLES = ("pytorch_model*.bin", "*.pt")
#: What a folder of ours may have besides: its card, and what Average noted (recipe, seed, updates).
NOTES = (CARD, "averaged.json")
#: Endings that no file of a model folder of ours has: code, and what may hold it.
REFUSED = (".py", ".pyc", ".so", ".sh", ".pkl", ".pt", ".bin")


def push(
    model: str | Path, name: str, *, private: bool = False, message: str | None = None, api: HfApi | None = None
) -> str:
    """Upload a model folder in one commit: its own files and its card, and nothing else that may lie there.

    Args:
        model: a model folder, or that of a run; without a README.md it is given one (see dragoman/exchange/card.py).
        name: ``owner/name``; made if there is none.
        private: whether only the owner may see it; by default as the owner's account says.
        message: of the commit.
        api: the Hub; by default that of the environment (HF_ENDPOINT, HF_TOKEN).

    Returns:
        The address of the commit.

    Raises:
        DataError: if the folder is not whole, or the Hub cannot be reached or does not allow it.
        UsageError: if the library for it is not installed.
    """
    api = api or _connect(name)
    from huggingface_hub import CommitOperationAdd

    folder = model_folder(model)
    ReadingModel.load(folder)  # nothing half is uploaded
    if not (folder / CARD).is_file():
        write_card(folder, name=name)
    names = [file for file in own_files(folder) or [] if (folder / file).is_file()]
    files = [CommitOperationAdd(file, str(folder / file)) for file in names]
    with _plain_errors(name):
        api.create_repo(name, private=private or None, exist_ok=True)
        if private and not api.model_info(name).private:
            raise DataError(f"{name}: exists already and is public: make it private on the Hub first")
        done = api.create_commit(name, files, commit_message=message or "Upload a model folder of dragoman")
    return str(done.commit_url)


def pull(name: str, out: str | Path, *, revision: str | None = None, api: HfApi | None = None) -> str:
    """Write a model folder of the Hub to a place of one's own, or the files of somebody else's model for import.

    Args:
        name: ``owner/name``.
        out: the folder; one with a model in it is replaced when the new one is complete.
        revision: branch, tag or commit; by default the newest.
        api: the Hub, as in :func:`push`.

    Returns:
        The commit.

    Raises:
        DataError: if it cannot be had, is not whole, or the place holds something else.
        UsageError: if the library for it is not installed.
    """
    check_place(Path(out))
    folder = fetch(name, revision=revision, api=api)
    wanted = own_files(folder)
    if wanted:
        ReadingModel.load(folder)  # whole, and ours
    with replaced_folder(Path(out)) as temporary:
        for path in folder.iterdir():
            if path.is_file() and _is_wanted(path.name, [*PLAIN, *PICKLES] if wanted is None else wanted):
                shutil.copyfile(path, temporary / path.name)
    return folder.name


def fetch(name: str, *, revision: str | None = None, api: HfApi | None = None) -> Path:
    """Return the folder of a model of the Hub in the library's cache; what is not there yet is downloaded.

    Args:
        name: ``owner/name``.
        revision: branch, tag or commit; by default the newest.
        api: the Hub, as in :func:`push`.

    Raises:
        DataError: if it cannot be had.
        UsageError: if the library for it is not installed.
    """
    api = api or _connect(name)

    def snapshot(patterns: Sequence[str], revision: str | None) -> Path:
        ignored = ["*/*", "*.py"]
        with _plain_errors(name):
            folder = api.snapshot_download(
                name, revision=revision, allow_patterns=list(patterns), ignore_patterns=ignored
            )
        return Path(folder)

    folder = snapshot([CONFIG], revision)
    commit = folder.name  # of all files, though somebody should push meanwhile
    files = own_files(folder)
    if files is not None:
        folder = snapshot([glob.escape(file) for file in files], commit)
        missing = [file for file in files if file not in NOTES and not (folder / file).is_file()]
        if missing:
            raise DataError(f"{name}: is a model folder, but lacks {', '.join(missing)}")
        return folder
    folder = snapshot(PLAIN, commit)
    if not any(folder.glob("*.safetensors")):
        folder = snapshot([*PLAIN, *PICKLES], commit)
    if not folder.is_dir() or not any(_is_wanted(path.name, [*PLAIN, *PICKLES]) for path in folder.iterdir()):
        raise DataError(f"{name}: holds no file that dragoman import reads ({', '.join([*PLAIN, *PICKLES])})")
    return folder


def own_files(folder: Path) -> list[str] | None:
    """Return the names of a model folder's files, or None if it is none of ours.

    Raises:
        DataError: if it names files that no model folder has.
    """
    path = folder / CONFIG
    content = read_json(path) if path.is_file() else None
    if not isinstance(content, dict) or not {"format", "system"} <= content.keys():
        return None
    names = assets_of(content["system"])
    wrong = [one for one in names if not isinstance(one, str) or Path(one).name != one or Path(one).suffix in REFUSED]
    if wrong:
        raise DataError(f"{path}: names {json.dumps(wrong[0])}, which is no file of a model folder")
    return [CONFIG, WEIGHTS, *NOTES, *names]


def _is_wanted(name: str, patterns: Sequence[str]) -> bool:
    return Path(name).suffix != ".py" and any(name == one or fnmatchcase(name, one) for one in patterns)


def _connect(name: str) -> HfApi:
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise UsageError(f"for {name}, huggingface_hub is needed: pip install 'dragoman[hf]'") from error
    return HfApi(library_name="dragoman")


@contextmanager
def _plain_errors(name: str) -> Iterator[None]:
    """Turn whatever the library raises, of the network, permissions or names, into one line."""
    try:
        yield
    except (DataError, UsageError):
        raise
    except Exception as error:
        raise DataError(f"{name}: {_explained(error)}") from error


def _explained(error: Exception) -> str:
    from huggingface_hub import errors

    log_in = "log in with 'hf auth login', or set HF_TOKEN"
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.GatedRepoError):
        return "its owner has to grant access first, on its page on the Hub"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"there is no such model on the Hub, or it is private and not yours: {log_in}"
    if isinstance(error, errors.RevisionNotFoundError):
        return "the model on the Hub has no such revision"
    if isinstance(error, errors.LocalEntryNotFoundError):
        return "never downloaded completely, and the Hub cannot be reached"
    if isinstance(error, errors.OfflineModeIsEnabled):
        return "the Hub must not be contacted: HF_HUB_OFFLINE is set"
    if status == 401:
        return f"the Hub does not know who asks: {log_in}"
    if status == 403:
        return "the Hub does not allow it: the token must have the right to write to this place"
    return f"the Hub refuses, or cannot be reached ({one_line(error)})"
