"""What the library gives to Python."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from io import BufferedReader
from types import TracebackType
from typing import Self, final

from typing_extensions import Buffer

__all__ = ["Bell", "Entry", "Member", "Names", "Set", "Spec", "open"]

@final
class Entry:
    """What listing told of an object: what rank and filter functions are given."""

    @property
    def name(self) -> str:
        """Its name: a path as it was given, or a URL."""

    @property
    def url(self) -> str:
        """Its URL; `file://` of a path."""

    @property
    def size(self) -> int | None:
        """Bytes; not known of what was only named."""

    @property
    def version(self) -> str | None:
        """What tells this content from a later one under the same name."""

    @property
    def modified(self) -> float | None:
        """When its content last changed, in seconds since 1970."""

    @property
    def is_cold(self) -> bool:
        """Whether it must be recalled before it can be read."""

@final
class Member:
    """One object of a set, delivered once, its data near.

    It is read forwards, and what was read is let go. For the whole as a buffer
    (`memoryview(member)`, `numpy.frombuffer(member)`), a file or a path, ask
    before reading.
    """

    @property
    def name(self) -> str:
        """Its name: a path as it was given, or a URL."""

    @property
    def url(self) -> str:
        """Its URL; `file://` of a path."""

    @property
    def size(self) -> int | None:
        """Bytes, if its server told."""

    @property
    def version(self) -> str | None:
        """What tells this content from a later one under the same name."""

    @property
    def modified(self) -> float | None:
        """When its content last changed, in seconds since 1970, if listing told."""

    @property
    def error(self) -> Exception | None:
        """What kept it away, as far as that is known."""

    def read(self, size: int | None = None, /) -> bytes:
        """Read the next `size` bytes, or all that were not read yet."""

    def readinto(self, buffer: Buffer, /) -> int:
        """Read as many of the next bytes as are here and have room; 0 at the end."""

    def open(self) -> BufferedReader:
        """Open the whole as a file that can seek; each call has its own position."""

    def path(self) -> str:
        """Name a file with the whole, under the member's own file name.

        That of a remote member is a copy, which goes when the member does.
        """

    def close(self) -> None:
        """Let go of its data."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Set:
    """An open dynamic set: unordered, immutable, without duplicates.

    Every member satisfied its spec at some time in the set's life; once a
    member, always a member; it is current, but not necessarily complete. Each
    member is yielded once, to one of the threads that iterate. Nothing is
    fetched before the first is asked for.
    """

    def __iter__(self) -> Iterator[Member]: ...
    def __next__(self) -> Member: ...
    def __aiter__(self) -> AsyncIterator[Member]: ...
    def __len__(self) -> int:
        """How many members there are; waits for the listing to end."""

    def __bool__(self) -> bool:
        """Whether there is a member; waits for the first name."""

    def __contains__(self, name: str | bytes | os.PathLike[str], /) -> bool:
        """Whether a name is a member; waits for the listing to meet it, or to end."""

    def __and__(self, other: Set, /) -> Set:
        """What is in both: a new set."""

    def __or__(self, other: Set, /) -> Set:
        """What is in either: a new set."""

    def __sub__(self, other: Set, /) -> Set:
        """What is in this and not in the other, which is listed whole first: a new set."""

    def __rand__(self, value: Set, /) -> Set: ...
    def __ror__(self, value: Set, /) -> Set: ...
    def __rsub__(self, value: Set, /) -> Set: ...
    def filter(self, keep: Callable[[Entry], object]) -> Set:
        """Take the members of which `keep` is true: a new set."""

    def names(self) -> Names:
        """List the names as they become known, from the first; nothing is fetched."""

    def rewind(self) -> Set:
        """Evaluate the same specs anew: a new set, from the beginning."""

    @property
    def known(self) -> int:
        """How many names are known so far."""

    @property
    def order_taken(self) -> list[str]:
        """The names yielded so far, as `open(order=...)` takes them."""

    @property
    def closed(self) -> bool:
        """Whether it was closed."""

    def close(self) -> None:
        """Cancel what is on its way; members that were handed out stay."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...
    def _poll(self, bell: Bell) -> Member | None: ...

@final
class Names:
    """The names of a set, as they become known."""

    def __iter__(self) -> Iterator[str]: ...
    def __next__(self) -> str: ...

@final
class Spec:
    """Which objects are wanted; made by `glob`, `query`, `links`, `program` and `list_of`."""

    @staticmethod
    def parse(text: bytes) -> Spec: ...
    @staticmethod
    def glob(pattern: bytes) -> Spec: ...
    @staticmethod
    def query(prefix: bytes, text: str, suffix: bytes) -> Spec: ...
    @staticmethod
    def program(folder: str, words: list[bytes], suffix: bytes) -> Spec: ...
    @staticmethod
    def list(names: list[bytes]) -> Spec: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Bell:
    """A descriptor that is readable once something has happened."""

    def __new__(cls) -> Self: ...
    def fileno(self) -> int: ...
    def clear(self) -> None: ...

def open(  # noqa: A001
    specs: list[Spec],
    rank: Callable[[Entry], float] | None,
    order: str,
    replay: list[bytes] | None,
    budget: int | None,
    jobs: int | None,
    spill_bytes: int | None,
    spill_folder: str | None,
    allow_programs: bool,
    storage: dict[str, str],
    yields_errors: bool,
) -> Set: ...
