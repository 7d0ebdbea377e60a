"""`farm` and `python -m farm`."""

from farm import interrupt


def main() -> None:
    """Entry point."""
    interrupt.at_once()
    # not above: multiprocessing imports the file of the program into the exporter, which needs no command line
    from farm.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
