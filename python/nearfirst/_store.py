"""What a store written in Python is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Buffer

    from nearfirst._nearfirst import Entry


@runtime_checkable
class Store(Protocol):
    """Where objects live that the library does not know itself.

    Given to `open(..., stores={"scheme": store})`. Names are URLs of the scheme,
    whole. Methods are called from several threads at a time, which are Python's
    own. What they raise becomes the error of the member: `FileNotFoundError`,
    `PermissionError` and the classes of `nearfirst.errors` as they are;
    `ConnectionError`, `TimeoutError` and `nearfirst.Interrupted` after further
    attempts; anything else as `nearfirst.Refused` with the exception as its
    cause. A call that does not return in time (`open(..., stall=)`) is left
    behind, with its thread.
    """

    def list(self, folder: str, *, recursive: bool) -> Iterable[Entry]:
        """Name the objects whose names begin with `folder`, which ends in a slash.

        Those with a further slash may be left out unless `recursive`. Of names of
        the scheme the library takes those that match what was asked for; any other
        name is an error.
        """

    def stat(self, name: str) -> Entry:
        """Say what is under a name: with its size, and a version if there is one."""

    def read(self, entry: Entry, start: int, end: int) -> Buffer:
        """Read the bytes of a range, which lies within the object.

        It has a 256th of the data that `open`'s budget holds at the most, or 64 KiB if that is
        more, and all ranges under way together have a quarter. What is given is copied.
        If that is fewer bytes, the rest is asked for.

        Raises:
            nearfirst.Changed: It is not the version any more that `entry` has.
        """
