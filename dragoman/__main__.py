"""``dragoman`` and ``python -m dragoman``."""

from __future__ import annotations

import sys

from dragoman.packages import check_packages


def main() -> None:
    """Run the command, if the packages that it needs are this project's own."""
    try:
        check_packages()
    except ImportError as error:
        print(f"dragoman: error: {error}", file=sys.stderr)
        sys.exit(2)
    from shared.cli import main

    main()


if __name__ == "__main__":
    main()
