"""The command line: `python -m nearfirst` is the command `nearfirst`."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import NoReturn

_NO_COMMAND = 127


def main() -> NoReturn:
    """Become the command; end if there is none."""
    # Where this package is installed, where its user has programs, beside an `--target`.
    folders = [
        sysconfig.get_path("scripts"),
        str(Path(sys.executable).parent),
        sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")),
        str(Path(__file__).parent.parent / "bin"),
        os.environ.get("PATH", os.defpath),
    ]
    command = shutil.which("nearfirst", path=os.pathsep.join(folders))
    if command is None:
        sys.stderr.write(
            "nearfirst: the command is neither beside this Python nor in PATH; "
            "`pip install` and `make install` in the sources of nearfirst bring it\n"
        )
        sys.exit(_NO_COMMAND)
    os.execv(command, ["nearfirst", *sys.argv[1:]])  # noqa: S606


if __name__ == "__main__":
    main()
