"""``dragoman`` and ``python -m dragoman``."""

from __future__ import annotations

from dragoman.cli.main import main as run_command
from dragoman.shared.machine.stopping import end_if_stuck


def main() -> None:
    """Run the command in a process of its own."""
    end_if_stuck()
    run_command()


if __name__ == "__main__":
    main()
