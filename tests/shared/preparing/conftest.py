"""What several tests of preparing count."""

import pytest

from dragoman.shared.preparing import preparation


@pytest.fixture
def count_checks(monkeypatch):
    """Return a function that returns a list of all segments that are looked at from then on (in this process)."""

    def count():
        looked, original = [], preparation.check_segments
        noted = lambda segments, **how: looked.extend(segments) or original(segments, **how)  # noqa: E731
        monkeypatch.setattr(preparation, "check_segments", noted)
        return looked

    return count
