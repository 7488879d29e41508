"""The command line: `python -m nearfirst` is the command `nearfirst`."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

_NO_COMMAND = 127


def main() -> NoReturn:
    """Become the command; end if there is none."""
    beside = Path(sys.executable).parent
    search = os.pathsep.join([str(beside), os.environ.get("PATH", os.defpath)])
    command = shutil.which("nearfirst", path=search)
    if command is None:
        sys.stderr.write(
            "nearfirst: the command is neither beside this Python nor in PATH; "
            "the Python package does not bring it, `make install` does\n"
        )
        sys.exit(_NO_COMMAND)
    os.execv(command, ["nearfirst", *sys.argv[1:]])  # noqa: S606


if __name__ == "__main__":
    main()
