"""nearfirst reads what is near first, while it fetches the rest.

A set is told what will be read, brings it near from wherever it is, and yields
what is ready:

    >>> import nearfirst
    >>> with nearfirst.open("/etc/host*") as hosts:
    ...     for member in hosts:
    ...         print(member.name, len(member.read()))  # doctest: +SKIP
"""

from __future__ import annotations

from nearfirst._nearfirst import Entry, Member, Set, Spec
from nearfirst._open import glob, links, list_of, open, program, query  # noqa: A004
from nearfirst.errors import (
    Busy,
    Changed,
    Cold,
    Denied,
    Interrupted,
    Io,
    NearfirstError,
    NotFound,
    Refused,
    SpecError,
    Stalled,
    Unsupported,
)

__all__ = [
    "Busy",
    "Changed",
    "Cold",
    "Denied",
    "Entry",
    "Interrupted",
    "Io",
    "Member",
    "NearfirstError",
    "NotFound",
    "Refused",
    "Set",
    "Spec",
    "SpecError",
    "Stalled",
    "Unsupported",
    "glob",
    "links",
    "list_of",
    "open",
    "program",
    "query",
]
