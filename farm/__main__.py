"""`farm` and `python -m farm`."""

import sys

from farm import interrupt


def main() -> None:
    """Entry point."""
    interrupt.at_once()
    # multiprocessing runs the file of a script again in every worker, but not a `python -m farm`
    sys.modules["__main__"].__spec__ = __spec__
    from farm.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
