"""The ``isobar`` command: ``python -m isobar solve case.toml``."""

import sys

from isobar import _isobar


def main() -> int:
    """Run the command with the arguments of the process; return its exit status."""
    return _isobar.main(["isobar", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
