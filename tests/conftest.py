"""Settings for every test: few threads, and no network."""

import io
import logging
import os
import resource
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Before torch or numpy are imported: the tests' small matrices are slower on many threads than on one.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

# No test asks for the time: other work on the machine must not fail it.
settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")
settings.register_profile("quick", settings.get_profile("any speed"), max_examples=20)  # make test

HERE = {"127.0.0.1", "::1", "localhost", "0.0.0.0", "", socket.gethostname()}

#: PYTHONPATH of the processes that tests start: this clone, and what else this process was given.
IMPORT_PATH = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]))

#: The device of the tests marked "gpu". With "cpu" their code runs where there is no GPU, as `make gpu` can ask.
GPU_TEST_DEVICE = os.environ.get("DRAGOMAN_TEST_DEVICE", "cuda")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many tests run side by side: one more than processors, since many wait for a process or a deadline."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return own + 1


@pytest.fixture(autouse=True)
def _own_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test begin without packages that recipes of earlier tests have registered; recipes reach the tests."""
    monkeypatch.setattr("dragoman.shared.described._here", {})
    from dragoman.shared.recipe import reach

    monkeypatch.setattr(reach, "OPEN", (*reach.OPEN, "tests"))


@pytest.fixture(autouse=True)
def _no_request_to_stop() -> None:
    """Forget that a test asked this process to stop: a server in the next one would take it for its own end."""
    stopping = sys.modules.get("dragoman.shared.machine.stopping")
    if stopping is not None:
        stopping.noticed.clear()


@pytest.fixture(autouse=True)
def _log_of_its_own() -> None:
    """Take back what commands of earlier tests did: they send the log to the terminal, past ``caplog``."""
    log = logging.getLogger("dragoman")
    log.handlers.clear()
    log.propagate = True


@pytest.fixture(autouse=True)
def _no_module_that_imports_when_looked_at() -> Iterator[None]:
    """Take away SpeechBrain's redirections: hypothesis looks at every module, and one of them imports a missing k2."""
    yield
    if "speechbrain" in sys.modules:
        from speechbrain.utils.importutils import DeprecatedModuleRedirect

        for name, module in list(sys.modules.items()):
            if isinstance(module, DeprecatedModuleRedirect):
                del sys.modules[name]


@pytest.fixture
def training_curve() -> None:
    """Let a fast test draw ``training.png``."""


@pytest.fixture(autouse=True)
def _no_training_curve(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no ``training.png`` in fast tests that do not look at it: a picture takes longer than a tiny training."""
    history = sys.modules.get("dragoman.shared.training.history")
    looks_at_it = "training_curve" in request.fixturenames or {"slow", "recipes", "resume", "parity", "gpu"} & {
        mark.name for mark in request.node.iter_markers()
    }
    if history is not None and not looks_at_it:
        monkeypatch.setattr(history.History, "plot", lambda self: None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked "gpu" where there is no GPU."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and (reason := _no_gpu()):
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=reason))


def _no_gpu() -> str:
    """Return why the tests marked "gpu" cannot run; "" if they can."""
    if GPU_TEST_DEVICE == "cpu":
        return ""
    import torch

    return "" if torch.cuda.is_available() else f"torch {torch.__version__} finds no GPU with CUDA on this machine"


@pytest.fixture(autouse=True, scope="session")
def _tokenizers_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let all workers of pytest-xdist share the tokenizers that tests/small.py trains."""
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    os.environ["DRAGOMAN_TEST_TOKENIZERS"] = str(folder / "tokenizers")


@pytest.fixture(autouse=True, scope="session")
def no_network() -> Iterator[None]:
    """Refuse connections to other machines; processes of one machine may talk to each other."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in HERE:  # type: ignore[index]
            raise RuntimeError(f"a test tried to reach {address!r}: tests need no network")
        connect(self, address)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Leave it to the system when files reach the disk: tests end processes, not machines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def dragoman(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command in this process; return exit code, output and messages, with warnings as a user sees them."""
    from dragoman.cli.main import main

    def run(*arguments: object, text: str = "", data: bytes | None = None) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dragoman", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode() if data is None else data)))
        with monkeypatch.context() as patch, pytest.raises(SystemExit) as end:
            patch.setattr(logging.getLogger(), "handlers", [])  # pytest's: without any, main's last resort is asked
            patch.setattr(logging, "lastResort", None)  # put back
            main()
        return int(end.value.code or 0), *capfd.readouterr()

    return run


@pytest.fixture
def file_size_limit() -> Callable[[int], AbstractContextManager[None]]:
    """Let writing beyond some bytes of a file fail, as on a full disk (the system's limit, not a patched function)."""

    @contextmanager
    def limited(size: int) -> Iterator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limited


@pytest.fixture
def count_checks(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list]:
    """Return a function that returns a list of all segments that are looked at from then on (in this process)."""
    from dragoman.preparing import preparation

    def count() -> list:
        looked, original = [], preparation.check_segments
        noted = lambda segments, **how: looked.extend(segments) or original(segments, **how)  # noqa: E731
        monkeypatch.setattr(preparation, "check_segments", noted)
        return looked

    return count
