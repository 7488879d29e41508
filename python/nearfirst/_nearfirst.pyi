"""What the library gives to Python."""

import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NoReturn, Self, TypedDict, final, type_check_only

from typing_extensions import Buffer

from nearfirst._fsspec_store import FsspecStore
from nearfirst._sleds import Sleds
from nearfirst._store import Store
from nearfirst.errors import NearfirstError

__all__ = [
    "Bell",
    "Call",
    "Calls",
    "Chunks",
    "DeliveryTime",
    "Device",
    "Entry",
    "Keys",
    "Member",
    "Names",
    "Piece",
    "Pieces",
    "Set",
    "SetStats",
    "Sled",
    "Spec",
    "Waiting",
    "__version__",
    "calibrate",
    "delivery_time",
    "devices",
    "open",
    "pick",
    "redacted",
    "sleds",
]

__version__: str

@type_check_only
class Asked(TypedDict):
    storage: dict[str, str]
    stores: list[tuple[str, object]]
    stall: float | None

@final
class Entry:
    """What listing told of an object: what rank and filter functions are given, and stores give.

    Of a file of this machine listing tells only the name. Its size, version and time, and
    whether it is cold, are asked of the system when they are read, which takes as long as its
    mount takes. Entries are equal that were told the same.
    """

    def __new__(
        cls,
        name: str | bytes | os.PathLike[str],
        size: int | None = None,
        *,
        version: str | None = None,
        modified: float | None = None,
        is_cold: bool = False,
    ) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __getnewargs_ex__(self) -> tuple[tuple[str, int | None], dict[str, object]]: ...
    @property
    def name(self) -> str:
        """Its name: a path as it was given, or a URL."""

    @property
    def url(self) -> str:
        """Its URL; `file://` of a path."""

    @property
    def size(self) -> int | None:
        """Bytes; not known of an object that was only named, or a file that is not there."""

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
    def headers(self) -> dict[str, str]:
        """The headers that it came with, by their names in lower case; none of a file."""

    @property
    def cost(self) -> Sleds:
        """What reading it anew would cost, from where its parts are now.

        `Unsupported` if its server does not tell its size.
        """

    @property
    def error(self) -> NearfirstError | None:
        """What kept it away, as far as that is known."""

    def read(self, size: int | None = None, /) -> bytes:
        """Read the next `size` bytes, or all that were not read yet."""

    def readinto(self, buffer: Buffer, /) -> int:
        """Read as many of the next bytes as are here and have room; 0 at the end."""

    def readline(self, size: int | None = None, /) -> bytes:
        """Read up to the end of a line, and no more than `size` bytes; nothing at the end."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> bytes: ...
    def chunks(self) -> Chunks:
        """Iterate over what was not read yet as it comes, without a copy: views of some KiB or MiB.

        A view keeps its bytes in memory, beside the budget, until it is let go.
        """

    def open(self) -> BufferedReader:
        """Open the whole as a file that can seek; each call has its own position."""

    def path(self) -> str:
        """Name a file with the whole, under the member's own file name.

        That of a remote member is a copy, which goes when the member does.
        """

    def lines(
        self, encoding: str = "utf-8", errors: str | None = None, newline: str | None = None
    ) -> TextIOWrapper:
        """Its text as a stream that has its lines as they come; closing it closes the member.

        The arguments are those of Python's `open`.
        """

    @property
    def closed(self) -> bool:
        """Whether it was closed."""

    @staticmethod
    def readable() -> bool:
        """Yes, as an `io.BufferedReader` over it asks."""

    @staticmethod
    def writable() -> bool:
        """No."""

    @staticmethod
    def seekable() -> bool:
        """No: `open` gives a file that is."""

    @staticmethod
    def isatty() -> bool:
        """No."""

    def tell(self) -> int:
        """Tell how many bytes were read."""

    @staticmethod
    def seek(offset: int, whence: int = 0, /) -> NoReturn:
        """Raise `io.UnsupportedOperation`: it is read forwards."""

    @staticmethod
    def truncate(size: int | None = None, /) -> NoReturn:
        """Raise `io.UnsupportedOperation`: nothing is written to it."""

    @staticmethod
    def flush() -> None:
        """Do nothing: nothing is written to it."""

    def close(self) -> None:
        """Let go of its data, and end a read that is under way: its thread raises `ValueError`."""

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
class Chunks:
    """What is left of a member, as read-only views of its bytes where they lie."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> memoryview: ...

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
    def __anext__(self) -> Coroutine[Any, Any, Member]: ...
    def __len__(self) -> int:
        """How many members there are; waits for the listing to end.

        Where there is none, what could not be listed is raised, unless errors are yielded.
        """

    def __bool__(self) -> bool:
        """Whether there is a member; waits for the first name.

        Where there is none, what could not be listed is raised, unless errors are yielded.
        """

    def __contains__(self, name: str | bytes | os.PathLike[str] | os.PathLike[bytes], /) -> bool:
        """Whether a name is a member; waits for the listing to meet it, or to end.

        Where it is not met, what could not be listed is raised, unless errors are yielded.
        """

    def __and__(self, other: Set, /) -> Set:
        """What is in both: a new set."""

    def __or__(self, other: Set, /) -> Set:
        """What is in either, both opened with the same stores and options of these: a new set."""

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
        """How many names are known so far, what could not be listed among them."""

    @property
    def stats(self) -> SetStats:
        """What was fetched, and what is on its way."""

    @property
    def order_taken(self) -> list[str]:
        """The names yielded, as `open(order=...)` takes them; a closed set tells them, too."""

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
    def __aenter__(self) -> Coroutine[Any, Any, Self]: ...
    def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> Coroutine[Any, Any, None]: ...
    def _wait(self, bell: Bell) -> Waiting: ...
    def _progress(self) -> tuple[int, int, bool]: ...
    def _devices(self) -> list[tuple[str, int, float]]: ...
    def _repr_html_(self) -> str: ...

@final
class Names:
    """The names of a set, as they become known; threads may share them."""

    def __iter__(self) -> Iterator[str]: ...
    def __next__(self) -> str: ...

@final
class Spec:
    """Which objects are wanted; made by `glob`, `query`, `links`, `program` and `list_of`."""

    @staticmethod
    def _parse(text: bytes) -> Spec: ...
    @staticmethod
    def _glob(pattern: bytes) -> Spec: ...
    @staticmethod
    def _query(prefix: bytes, text: str, suffix: bytes) -> Spec: ...
    @staticmethod
    def _program(folder: str, words: list[bytes], suffix: bytes) -> Spec: ...
    @staticmethod
    def _unpickled_query(prefix: bytes, text: str, suffix: bytes) -> Spec: ...
    @staticmethod
    def _unpickled_program(folder: bytes, words: list[bytes], suffix: bytes) -> Spec: ...
    @staticmethod
    def _list(names: list[bytes]) -> Spec: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Sled:
    """A byte range of a file with one estimate."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    @staticmethod
    def _unpickled(
        offset: int,
        length: int,
        device: str,
        place: str,
        cost: tuple[float | None, float | None, float | None, float | None],
    ) -> Sled: ...
    @property
    def offset(self) -> int:
        """First byte."""

    @property
    def length(self) -> int:
        """Bytes; never 0."""

    @property
    def device(self) -> str:
        """Where it would be fetched from: `memory`, `disk:vda`, `nfs:host:/export`."""

    @property
    def place(self) -> Literal["near", "far", "unknown", "cold"]:
        """How far away it is."""

    @property
    def latency(self) -> float | None:
        """Seconds to the first byte, in the median; `None` where nobody knows."""

    @property
    def latency_p90(self) -> float | None:
        """Seconds to the first byte that nine in ten do not exceed."""

    @property
    def bandwidth(self) -> float | None:
        """Bytes per second once flowing, in the median; `None` where that is not known."""

    @property
    def bandwidth_p90(self) -> float | None:
        """Bytes per second that nine in ten reach."""

    def _repr_html_(self) -> str: ...

@final
class DeliveryTime:
    """Estimated time to read a whole file."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    @staticmethod
    def _unpickled(p50: float, p90: float, unknown_bytes: int, cold_bytes: int) -> DeliveryTime: ...
    @property
    def p50(self) -> float:
        """Seconds for the part whose cost is known, in the median."""

    @property
    def p90(self) -> float:
        """Seconds for the part whose cost is known that nine in ten do not exceed."""

    @property
    def unknown_bytes(self) -> int:
        """Bytes whose cost nobody knows; they come on top."""

    @property
    def cold_bytes(self) -> int:
        """Bytes that must be recalled first."""

    @property
    def is_known(self) -> bool:
        """Whether the times cover all of the file."""

@final
class Keys:
    """What reading many objects costs, as numbers that sort as the costs do."""

    def __new__(cls, asked: Asked) -> Self: ...
    @staticmethod
    def is_path(name: bytes) -> bool:
        """Whether a name is a file's of this machine, and not a URL."""

    @staticmethod
    def of_path(name: bytes) -> int:
        """That of a file; 0 if it is wholly in memory."""

    def of_urls(self, names: list[bytes]) -> list[tuple[int, NearfirstError | None]]:
        """Those of objects, each with why it cannot be asked about."""

@final
class SetStats:
    """What a set is at; all but `names` is of all sets that share what their options allow."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def names(self) -> int:
        """Names that are known so far, what could not be listed among them."""

    @property
    def in_flight(self) -> int:
        """Requests for data that are in flight."""

    @property
    def requests(self) -> int:
        """Requests for data that were made."""

    @property
    def retries(self) -> int:
        """Requests that were made again, since the one before failed."""

    @property
    def hedges(self) -> int:
        """Requests that were made beside one that was late."""

    @property
    def refusals(self) -> int:
        """Requests that a server turned away, since it was busy."""

    @property
    def stalls(self) -> int:
        """Requests that brought nothing for too long."""

    @property
    def held_bytes(self) -> int:
        """Bytes that were fetched and not read, and the room that is kept for what may come."""

    @property
    def held_bytes_max(self) -> int:
        """The most that these were."""

    @property
    def spilled_bytes(self) -> int:
        """Bytes that lie on disk because the budget was full."""

    @property
    def spilled_bytes_total(self) -> int:
        """Bytes that were put there so far."""

@final
class Device:
    """Anything with one latency and one bandwidth."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    @staticmethod
    def _unpickled(
        measured: tuple[str, float | None, float | None, float | None, int | None],
        mounted_on: list[Path],
    ) -> Device: ...
    @property
    def name(self) -> str:
        """As sleds name it."""

    @property
    def latency(self) -> float | None:
        """Seconds to the first byte, in the median; `None` where nobody knows."""

    @property
    def latency_p90(self) -> float | None:
        """Seconds to the first byte that nine in ten do not exceed."""

    @property
    def bandwidth(self) -> float | None:
        """Bytes per second of a read of 4 MiB, in the median."""

    @property
    def updated(self) -> int | None:
        """When it was last measured, in seconds since 1970."""

    @property
    def mounted_on(self) -> list[Path]:
        """Where it is mounted."""

@final
class Piece:
    """A piece of a file, and its bytes."""

    @property
    def offset(self) -> int:
        """First byte."""

    @property
    def place(self) -> Literal["near", "far", "unknown", "cold"]:
        """Where it was when it was picked."""

    @property
    def device(self) -> str:
        """Where it would be fetched from."""

    @property
    def data(self) -> bytes:
        """Its bytes."""

    def __bytes__(self) -> bytes: ...
    def __len__(self) -> int: ...

@final
class Pieces:
    """The pieces of a file, each byte once."""

    def __iter__(self) -> Iterator[Piece]: ...
    def __next__(self) -> Piece: ...
    def refresh(self) -> None:
        """Ask again where the rest of the file is.

        What arrived in memory meanwhile comes early, what left is put back. This is done
        of itself, too, now and then.

        Raises:
            NearfirstError: It cannot be asked about: it is picked on by the last answer.
        """

    @property
    def closed(self) -> bool:
        """Whether it was closed."""

    def close(self) -> None:
        """Let go of the file: what is asked for from then on is a `ValueError`."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

@final
class Calls:
    """The calls of a store written in Python, for the threads that answer them."""

    def take(self) -> Call | None: ...
    def not_started(self) -> None: ...

@final
class Call:
    """One call of a store written in Python."""

    @property
    def store(self) -> Store | FsspecStore: ...
    @property
    def starts_another(self) -> bool: ...
    @property
    def name(self) -> str: ...
    @property
    def is_listing(self) -> bool: ...
    @property
    def prefix(self) -> str | None: ...
    @property
    def recursive(self) -> bool: ...
    @property
    def listing(self) -> Iterator[Entry | None] | None: ...
    @property
    def part(self) -> tuple[Entry, int, int] | None:
        """What `read` is called with."""
    @property
    def is_last(self) -> bool: ...
    def answer(self, given: object) -> None: ...
    def fail(self, error: BaseException) -> None: ...

@final
class Bell:
    """A descriptor that is readable once some who wait in one event loop are to be woken."""

    def __new__(cls) -> Self: ...
    def fileno(self) -> int: ...
    def rung(self) -> list[int]: ...

@final
class Waiting:
    """One who waits for the next member of a set, until it leaves."""

    @property
    def number(self) -> int:
        """Whom the bell names when it is worth to poll again."""

    def poll(self) -> Member | None: ...
    def leave(self) -> None: ...

def open(  # noqa: A001
    specs: list[Spec],
    rank: Callable[[Entry], float] | None,
    order: str,
    replay: list[bytes] | None,
    duplicates: str,
    budget: int | None,
    jobs: int | None,
    spill_bytes: int | None,
    spill_folder: str | None,
    allow_programs: bool,
    allow_private_links: bool,
    storage: dict[str, str],
    yields_errors: bool,
    stores: list[tuple[str, object]],
    stall: float | None,
    attempts: int | None,
    recall_wait: float | None,
) -> Set: ...
def redacted(name: bytes) -> bytes: ...
def sleds(name: bytes, asked: Asked) -> list[Sled]: ...
def delivery_time(name: bytes, plan: str, asked: Asked) -> DeliveryTime: ...
def devices() -> list[Device]: ...
def calibrate(paths: list[str], seconds: float, save: bool) -> list[Device]: ...
def pick(name: bytes, piece_bytes: int, record: bytes | None, plan: str) -> Pieces: ...
