"""A process that hangs is named, and the run ends; nobody is named who is merely slow, or alone."""

import pytest

from dragoman import UsageError
from dragoman.runs.hanging import CHECKS, Observer, Sign, _patience
from tests.small import refuses


def found(*ranks, checks=CHECKS + 1):
    """Return what an observer says at its last check; a rank is (beats at each check, update, doing)."""
    observer, said = Observer(), {}
    for check in range(checks):
        signs = [Sign(check * beats, update, doing, "host", 1) for beats, update, doing in ranks]
        said = observer.hanging(signs)
    return said


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ([(True, 5, "waits"), (True, 5, "reads"), (True, 5, "waits")], {1: "still reads"}),
        ([(True, 5, "computes"), (True, 5, "waits")], {0: "still computes"}),
        ([(True, 5, "computes"), (False, 5, "computes")], {1: "does not answer"}),  # the first is inside a joint call
        ([(True, 5, "waits"), (True, 5, "")], {}),  # saves, or validates
        ([(True, 5, "waits"), (False, 5, "")], {1: "does not answer"}),
        ([(True, 5, ""), (False, 5, "")], {}),
        ([(True, 5, "computes"), (True, 5, "computes")], {}),  # slow, but both
        ([(True, 5, "waits"), (True, 5, "waits")], {}),
    ],
)
def test_who_hangs(ranks, said):
    assert found(*ranks) == said
    assert found(*ranks, checks=CHECKS) == {}


def test_who_comes_on_does_not_hang():
    observer = Observer()
    for check in range(5 * CHECKS):
        signs = [Sign(check, check // CHECKS, doing, "host", 1) for doing in ("waits", "reads")]
        assert observer.hanging(signs) == {}
    # The observer itself stood still: the others have said much in between, and so has nobody been silent.
    assert observer.hanging([Sign(10**6, 5, doing, "host", 1) for doing in ("waits", "reads")]) == {}


@pytest.mark.parametrize("given", ["-1", "a minute", "nan", "inf"])
def test_a_wrong_patience_is_told(monkeypatch, given):
    monkeypatch.setenv("DRAGOMAN_HANG_SECONDS", given)
    refuses(UsageError, f"^DRAGOMAN_HANG_SECONDS must be a number of seconds, or 0, not '{given}'$", _patience)
