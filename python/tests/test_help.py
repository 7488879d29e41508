"""What `help` says of the module is what its stubs say."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import nearfirst
from nearfirst import _nearfirst

STUBS = Path(nearfirst.__file__).with_name("_nearfirst.pyi")


def test_help_tells_what_the_stubs_tell() -> None:
    compared = 0
    for kind in ast.parse(STUBS.read_text()).body:
        if not isinstance(kind, ast.ClassDef) or not hasattr(nearfirst, kind.name):
            continue
        built = getattr(_nearfirst, kind.name)
        assert inspect.getdoc(built) == ast.get_docstring(kind), kind.name
        for part in kind.body:
            if isinstance(part, ast.FunctionDef) and not part.name.startswith("__"):
                said = ast.get_docstring(part)
                compared += said is not None
                if said is not None:
                    assert inspect.getdoc(getattr(built, part.name)) == said, part.name
    assert compared > 40, "the stubs were read"
