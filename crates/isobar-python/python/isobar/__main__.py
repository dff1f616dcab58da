"""The ``isobar`` command: ``python -m isobar solve case.toml``."""

import signal
import sys

from isobar import _isobar


def main() -> int:
    """Run the command with the arguments of the process; return its exit status."""
    # The command handles Ctrl-C; Python's handler would raise KeyboardInterrupt after it.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _isobar.main(["isobar", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
