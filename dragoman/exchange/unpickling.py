"""Reading pickled checkpoints of others: tensors and plain data come out, and nothing in the file is ever executed.

torch's own restricted unpickler does the reading. What a training toolkit leaves in its checkpoints beside tensors
(argparse's Namespace, omegaconf's containers, classes of fairseq) is replaced by stand-ins, which keep what they are
given and do nothing. Whatever else a file names is refused before it is read.
"""

from __future__ import annotations

import pickle
import pickletools
import re
import zipfile
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING  # from Python 2's names, as every unpickler has them
from pathlib import Path
from typing import IO, Any

import torch

from dragoman.shared.errors import DataError

#: What stand-ins replace. Nothing is imported, whatever stands here; the list is short so that strange files stand out.
STAND_INS = re.compile(
    r"argparse\.Namespace|omegaconf\.[\w.]+|fairseq\.[\w.]+|typing\.(Any|Dict|List|Optional|Tuple|Union)"
    r"|numpy\.(dtype|ndarray|float64|int64)|numpy\._?core\.multiarray\.(scalar|_reconstruct)|_codecs\.encode"
    r"|builtins\.(bool|bytes|dict|float|int|list|object|str|tuple)"
    r"|collections\.defaultdict|pathlib\.(Posix|Pure|PurePosix)?Path"
)
#: What torch's unpickler knows by itself, and checks.
TENSORS = re.compile(
    r"torch\.(\w+Storage|Size|device|float\d+|int\d+|bool|bfloat16)|torch\._utils\._rebuild_(tensor(_v2)?|parameter)"
    r"|torch\.storage\._load_from_bytes|torch\._tensor\._rebuild_from_type_v2|torch\.nn\.parameter\.Parameter"
    r"|torch\.Tensor|collections\.(OrderedDict|Counter)|builtins\.set"
)


class StandIn:
    """Stands where a file wants an object of another package; it keeps what it is given.

    Attributes:
        given: the positional arguments that the object was to be built with.
        state: what it was to be restored from.
    """

    given: tuple[Any, ...] = ()
    state: Any = None

    def __new__(cls, *given: Any) -> StandIn:
        """Keep the arguments; none is called or looked into."""
        made = super().__new__(cls)
        made.given = given
        return made

    def __setstate__(self, state: Any) -> None:
        self.state = state


def ordinary(*given: Any) -> dict[Any, Any]:
    """Stand for defaultdict, whose default nobody needs any more."""
    return {}


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a file that ``torch.save`` wrote: tensors, and all else as plain data.

    Raises:
        DataError: if it cannot be read, is not such a file, holds no dictionary, or names something that no checkpoint
            needs; naming the file and what.
    """
    try:
        wanted = globals_of(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, zipfile.BadZipFile, KeyError, IndexError) as error:
        raise DataError(f"{path}: not a checkpoint file of torch ({error})") from error
    strange = sorted(name for name in wanted if not (STAND_INS.fullmatch(name) or TENSORS.fullmatch(name)))
    if strange:
        raise DataError(f"{path}: refused, because it asks for {', '.join(strange)}, which no checkpoint needs")
    replaced = sorted(name for name in wanted if STAND_INS.fullmatch(name))
    stand_ins = [(ordinary if name == "collections.defaultdict" else StandIn, name) for name in replaced]
    try:
        with torch.serialization.safe_globals(stand_ins):  # type: ignore[arg-type]
            # Mapped, the optimiser's state of a file of several GB is never read.
            mapped = zipfile.is_zipfile(path)
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"{path}: not a readable checkpoint ({' '.join(str(error).split())[:300]})") from error
    content = plain(content)
    if not isinstance(content, dict):
        raise DataError(f"{path}: holds a {type(content).__name__}, not a checkpoint's dictionary")
    return content


def plain(value: Any) -> Any:
    """Replace stand-ins by the plain data that they hold: settings by dictionaries, nodes by their values."""
    if isinstance(value, StandIn):
        if isinstance(value.state, dict):
            for content in ("_content", "_val"):  # omegaconf's containers and nodes
                if content in value.state:
                    return plain(value.state[content])
            return plain(value.state)
        return plain(value.given[0]) if value.given else None
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def globals_of(path: Path) -> set[str]:
    """Return the names, ``module.name``, that the pickles of a checkpoint ask for; nothing is built.

    Raises:
        ValueError: if it holds no pickle.
    """
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(".pkl")]
            if not names:
                raise ValueError("an archive without data.pkl")
            pairs = set()
            for name in names:
                with archive.open(name) as file:
                    pairs |= _globals(file)
            return pairs
    with open(path, "rb") as file:  # before torch 1.6: magic number, protocol, system, content, keys of storages
        return set().union(*(_globals(file) for _ in range(5)))


def _globals(file: IO[bytes]) -> set[str]:
    """Read one pickle, up to its end; a name that is put together on the stack cannot be told and counts as "?"."""
    names = set()
    for opcode, argument, _ in pickletools.genops(file):
        if opcode.name in ("GLOBAL", "INST"):
            module, _, name = str(argument).partition(" ")
            module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
            names.add(f"{module}.{name}")
        elif opcode.name in ("STACK_GLOBAL", "EXT1", "EXT2", "EXT4"):
            names.add("?")
    return names
