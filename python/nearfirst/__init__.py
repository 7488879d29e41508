"""nearfirst reads what is near first, while it fetches the rest.

A set is told what will be read, brings it near from wherever it is, and yields
what is ready:

    >>> import nearfirst
    >>> with nearfirst.open("/etc/host*") as hosts:
    ...     for member in hosts:
    ...         print(member.name, len(member.read()))  # doctest: +SKIP
"""

from __future__ import annotations

from nearfirst._nearfirst import (
    DeliveryTime,
    Device,
    Entry,
    Member,
    Piece,
    Pieces,
    Set,
    SetStats,
    Sled,
    Spec,
    __version__,
)
from nearfirst._open import glob, links, list_of, open, program, query  # noqa: A004
from nearfirst._sleds import Sleds, calibrate, delivery_time, devices, order, pick, sleds
from nearfirst._store import Store
from nearfirst.errors import (
    Busy,
    Changed,
    Cold,
    Denied,
    Interrupted,
    Io,
    IsFolder,
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
    "DeliveryTime",
    "Denied",
    "Device",
    "Entry",
    "Interrupted",
    "Io",
    "IsFolder",
    "Member",
    "NearfirstError",
    "NotFound",
    "Piece",
    "Pieces",
    "Refused",
    "Set",
    "SetStats",
    "Sled",
    "Sleds",
    "Spec",
    "SpecError",
    "Stalled",
    "Store",
    "Unsupported",
    "__version__",
    "calibrate",
    "delivery_time",
    "devices",
    "glob",
    "links",
    "list_of",
    "open",
    "order",
    "pick",
    "program",
    "query",
    "sleds",
]
