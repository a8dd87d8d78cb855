"""The ``tenon`` command: ``python -m tenon``."""
import os
import signal
import sys

from . import _native
from ._compile import find_cc


def main() -> None:
    """Run the command on the words of the command line, as a program in C would."""
    for which in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(which, signal.SIG_DFL)
    cc = find_cc()
    if cc:
        os.environ["CC"] = cc
    sys.exit(_native.command(sys.argv))


if __name__ == "__main__":
    main()
