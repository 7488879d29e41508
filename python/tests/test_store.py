"""Stores written in Python: what they give, what they raise, and when they do not answer."""

from __future__ import annotations

import copy
import errno
import gc
import os
import resource
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nearfirst
import pytest
from nearfirst import _calls
from test_wait import PATIENCE_S, ended, interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nearfirst._nearfirst import Calls
    from typing_extensions import Buffer

LARGE = bytes(range(256)) * (80 << 10)


class Objects:
    """A store of a few objects: some raise what is in `trouble`, those in `held` do not answer."""

    def __init__(self, objects: dict[str, Any]) -> None:
        self.objects = {f"mine://box/{name}": content for name, content in objects.items()}
        self.trouble: dict[str, BaseException] = {}
        self.held: set[str] = set()
        self.asked = threading.Event()
        self.released = threading.Event()
        self.reads: list[tuple[int, int]] = []

    def _seen(self, name: str) -> None:
        if name in self.held:
            self.asked.set()
            self.released.wait(PATIENCE_S)
        if name in self.trouble:
            raise self.trouble[name]

    def list(self, folder: str, *, recursive: bool) -> Iterator[nearfirst.Entry]:
        self._seen(folder)
        for name in sorted(self.objects):
            if name.startswith(folder) and (recursive or "/" not in name[len(folder) :]):
                yield self.stat(name)

    def stat(self, name: str) -> nearfirst.Entry:
        if name not in self.objects:
            raise FileNotFoundError(name)
        return nearfirst.Entry(name, len(self.objects[name]), version="1", modified=2.5)

    def read(self, entry: nearfirst.Entry, start: int, end: int) -> Buffer:
        self._seen(entry.name)
        self.reads.append((start, end))
        part: Buffer = self.objects[entry.name][start:end]
        return part


def opened(store: Any, *specs: str, **options: Any) -> nearfirst.Set:
    specs = specs or ("mine://box/**",)
    return nearfirst.open(*specs, stores={"mine": store}, **options)


def test_objects_come_with_what_the_store_says_of_them() -> None:
    store = Objects({"a": b"text of a", "b/c": bytearray(b"c"), "b/d": memoryview(b"d"), "e": b""})
    members = {member.name: member for member in opened(store)}
    assert {name: member.read() for name, member in members.items()} == {
        "mine://box/a": b"text of a",
        "mine://box/b/c": b"c",
        "mine://box/b/d": b"d",
        "mine://box/e": b"",
    }
    member = members["mine://box/a"]
    assert (member.size, member.version, member.modified) == (9, "1", 2.5)
    assert isinstance(store, nearfirst.Store)


def test_patterns_and_names() -> None:
    store = Objects(dict.fromkeys(("a.txt", "b.txt", "x/a.txt", "x/y/a.txt", "x/y/b"), b""))
    for spec, expected in {
        "mine://box/*.txt": "a.txt b.txt",
        "mine://box/x/*": "x/a.txt",
        "mine://box/*/*/a.txt": "x/y/a.txt",
        "mine://box/**/a.txt": "a.txt x/a.txt x/y/a.txt",
        "mine://box/[b-z].txt": "b.txt",
        "mine://box/{b,x/y/b}*": "b.txt x/y/b",
        "mine://box/x/y/b": "x/y/b",
    }.items():
        found = sorted(name.removeprefix("mine://box/") for name in opened(store, spec).names())
        assert found == expected.split(), spec
    with pytest.raises(nearfirst.NotFound):
        list(opened(store, "mine://box/none*").names())
    with pytest.raises(nearfirst.NotFound):
        next(opened(store, "mine://box/none"))


def test_names_without_a_scheme_are_an_error() -> None:
    class Bare(Objects):
        def list(self, folder: str, *, recursive: bool) -> Iterator[nearfirst.Entry]:
            for entry in super().list(folder, recursive=recursive):
                yield nearfirst.Entry(entry.name.removeprefix("mine://"), entry.size)

    with pytest.raises(nearfirst.Refused, match=r"box/a: .* begin with mine://"):
        next(opened(Bare({"a": b""})))


def test_a_large_object_is_read_in_parts() -> None:
    store = Objects({"large": LARGE})
    (member,) = opened(store)
    assert member.read() == LARGE
    assert len(store.reads) > 1
    assert max(end - start for start, end in store.reads) <= 8 << 20


def test_an_object_of_unknown_size_is_asked_about() -> None:
    store = Objects({"a": b"text"})
    (member,) = nearfirst.open(nearfirst.list_of(["mine://box/a"]), stores={"mine": store})
    assert member.read() == b"text"


def test_a_size_that_the_store_lists_is_believed() -> None:
    class Plain(Objects):
        def list(self, folder: str, *, recursive: bool) -> Iterator[nearfirst.Entry]:
            for name in self.objects:
                if name.startswith(folder) and recursive:
                    yield nearfirst.Entry(name, len(self.objects[name]))

        def stat(self, name: str) -> nearfirst.Entry:
            raise AssertionError(name)

    store = Plain({"a": b"text of a", "b": b""})
    assert sorted(member.read() for member in opened(store)) == [b"", b"text of a"]


@pytest.mark.parametrize("size", [1 << 62, (1 << 63) - 30, (1 << 63) - 1, 1 << 63])
def test_an_object_that_memory_cannot_hold_is_named(size: int) -> None:
    class Absurd(Objects):
        def stat(self, name: str) -> nearfirst.Entry:
            return nearfirst.Entry(name, size)

    def member() -> nearfirst.Member:
        names = nearfirst.list_of(["mine://box/a"])
        (member,) = nearfirst.open(names, stores={"mine": Absurd({"a": b"text"})})
        return member

    said = f"^mine://box/a: there is no memory for {size} bytes$"
    with pytest.raises(MemoryError, match=said):
        member().read()
    with pytest.raises(MemoryError, match=said):
        memoryview(member())


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (FileNotFoundError(2, "gone"), nearfirst.NotFound),
        (PermissionError("no"), nearfirst.Denied),
        (nearfirst.Changed("a", "changed"), nearfirst.Changed),
        (nearfirst.Cold("a", "TAPE"), nearfirst.Cold),
        (NotImplementedError("no reading"), nearfirst.Unsupported),
        (ConnectionResetError("broken"), nearfirst.Interrupted),
        (TimeoutError("late"), nearfirst.Interrupted),
        (nearfirst.Stalled("a", "never"), nearfirst.Stalled),
        (nearfirst.Io("a", "full", errno.ENOSPC), nearfirst.Io),
        (nearfirst.Refused("a", "no query"), nearfirst.Refused),
        (ZeroDivisionError("of nothing"), nearfirst.Refused),
        (SystemExit(3), nearfirst.Refused),
    ],
)
def test_what_a_store_raises_is_the_error_of_its_member(
    raised: BaseException, expected: type[nearfirst.NearfirstError]
) -> None:
    store = Objects({"a": b"a", "b": b"b"})
    store.trouble["mine://box/a"] = raised
    found = {member.name: member.error for member in opened(store, errors="yield")}
    assert found["mine://box/b"] is None
    error = found["mine://box/a"]
    assert type(error) is expected
    if isinstance(raised, OSError) and isinstance(error, nearfirst.Io | nearfirst.Stalled):
        assert error.errno == raised.errno
    if expected is nearfirst.Refused:
        assert error.__cause__ is raised
        own = isinstance(raised, nearfirst.NearfirstError)
        assert ("no query" if own else type(raised).__name__) in str(error)


def test_a_part_is_tried_as_often_as_was_said() -> None:
    seen = []

    class Broken(Objects):
        def _seen(self, name: str) -> None:
            seen.append(name)
            super()._seen(name)

    store = Broken({"a": b"a"})
    store.trouble["mine://box/a"] = ConnectionResetError("broken")
    with pytest.raises(nearfirst.Interrupted):
        next(opened(store, attempts=2))
    assert seen.count("mine://box/a") == 2


def test_the_device_of_a_store_shows_no_password() -> None:
    for login in ("me:secret", "me:sec/ret"):
        store = Objects({})
        name = f"mine://{login}@box/a"
        store.objects[name] = b"a"
        sleds = nearfirst.sleds(name, stores={"mine": store})
        assert [sled.device for sled in sleds] == ["mine://me@box"]


@pytest.mark.parametrize(
    "raised",
    [
        nearfirst.Denied("a", "no key"),
        nearfirst.Cold("a", "TAPE"),
    ],
)
def test_what_one_store_raises_another_may_pass_on(raised: nearfirst.NearfirstError) -> None:
    reasons = [raised.reason]
    for _ in range(2):
        store = Objects({"a": b"a"})
        store.trouble["mine://box/a"] = raised
        (member,) = opened(store, errors="yield")
        error = member.error
        assert error is not None
        assert type(error) is type(raised)
        reasons.append(error.reason)
        raised = error
    own, first, second = reasons
    assert first.count(own) == 1
    assert first == second


def test_a_busy_server_says_when_to_come_again_in_every_process() -> None:
    busy = nearfirst.Busy("a", "too many", retry_after=1.5)
    again = copy.copy(busy)
    assert (again.args, vars(again)) == (busy.args, vars(busy))
    assert again.retry_after == 1.5


@pytest.mark.parametrize("limited", ["no room", "no folder"])
def test_why_no_copy_can_be_made_is_said_each_time(
    limited: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (member,) = opened(Objects({"large": LARGE}))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limited == "no room":
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
        said = f"no copy can be made in {tmp_path}: File too large"
        expected: tuple[type[Exception], str, int | None] = (nearfirst.Io, said, errno.EFBIG)
    else:
        monkeypatch.setenv("TMPDIR", "/nowhere")
        said = "no copy can be made in /nowhere: No such file"
        expected = (nearfirst.Refused, said, None)
    try:
        for _ in range(2):
            with pytest.raises(expected[0], match=expected[1]) as raised:
                member.path()
            assert getattr(raised.value, "errno", None) == expected[2]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_no_descriptor_for_a_copy_is_said_as_no_room_for_one_is() -> None:
    (member,) = opened(Objects({"small": b"small"}))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        with pytest.raises(nearfirst.Refused, match="in memory: Too many open files"):
            member.open()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    with member.open() as file:
        assert file.read() == b"small"


def test_nothing_is_lost_where_a_path_finds_no_descriptor() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    raised = 0
    # All of one engine: one that ends closes descriptors when it likes.
    members = list(opened(Objects({f"{room}": b"small" for room in range(12)})))
    for room, member in enumerate(members):
        free = os.open(os.devnull, os.O_RDONLY)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + room, limits[1]))
        try:
            member.path()
        except nearfirst.Refused:
            raised += 1
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert member.read() == b"small"
    # No file could be made; one could be, but not opened once more.
    assert raised >= 2


def test_a_copy_lies_where_what_spills_does(tmp_path: Path) -> None:
    (member,) = opened(Objects({"large": LARGE}), spill=tmp_path)
    path = Path(member.path())
    assert path.is_relative_to(tmp_path)
    assert path.read_bytes() == LARGE
    (member,) = opened(Objects({"large": LARGE}), spill=tmp_path)
    with member.open() as file:
        copy = Path(f"/proc/self/fd/{file.fileno()}").readlink()
    assert copy.is_relative_to(tmp_path)


def test_what_listing_raises_is_raised_and_what_was_listed_comes() -> None:
    class Broken(Objects):
        def list(self, folder: str, *, recursive: bool) -> Iterator[nearfirst.Entry]:
            yield from super().list(folder, recursive=recursive)
            raise ZeroDivisionError

    members = opened(Broken({"a": b"a"}), errors="yield")
    found = {member.name: member.error for member in members}
    assert found.pop("mine://box/a") is None
    (error,) = found.values()
    assert isinstance(error, nearfirst.Refused)
    assert "ZeroDivisionError" in str(error)
    with pytest.raises(nearfirst.Refused) as raised:
        list(opened(Broken({"a": b"a"})).names())
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_what_listing_raised_is_the_cause_however_it_is_told() -> None:
    class Broken(Objects):
        def list(self, folder: str, *, recursive: bool) -> Iterator[nearfirst.Entry]:
            del folder, recursive
            raise ZeroDivisionError

    def causes(members: Iterator[object]) -> list[type[BaseException | None]]:
        found: list[type[BaseException | None]] = []
        while True:
            try:
                if next(members, None) is None:
                    return found
            except nearfirst.Refused as error:
                found.append(type(error.__cause__))

    store = Broken({})
    broken, other = opened(store, "mine://box/*"), opened(store, "mine://box/a*")
    for members in (broken, broken.filter(lambda _: True), broken | other, broken - other):
        assert set(causes(members.names())) == {ZeroDivisionError}
        assert set(causes(members)) == {ZeroDivisionError}
    (failed,) = opened(Broken({}), "mine://box/*", errors="yield")
    assert failed.error is not None
    assert isinstance(failed.error.__cause__, ZeroDivisionError)


def test_a_union_is_of_sets_that_are_read_alike() -> None:
    left, right = opened(Objects({"a": b"a"})), opened(Objects({"b": b"b"}))
    with pytest.raises(ValueError, match="same stores"):
        left | right
    assert list((left - right).names()) == ["mine://box/a"]


@pytest.mark.parametrize("wrong", ["text", None, 3, b"too long for it", b""])
def test_a_store_that_gives_what_it_should_not(wrong: Any) -> None:
    store: Any = Objects({"a": b"text"})
    store.read = lambda *_: wrong
    (member,) = opened(store, errors="yield")
    with pytest.raises(nearfirst.NearfirstError):
        member.read()


@pytest.mark.parametrize("method", ["list", "stat"])
def test_a_store_that_names_what_is_no_entry(method: str) -> None:
    store: Any = Objects({"a": b"text"})
    setattr(store, method, lambda *_, **__: ["mine://box/a"])
    with pytest.raises(nearfirst.Refused, match=r"nearfirst\.Entry"):
        list(opened(store, "mine://box/*", "mine://box/a").names())


def test_a_store_that_does_not_answer_is_left_behind() -> None:
    store = Objects({"a": b"a", "b": b"b"})
    store.held.add("mine://box/a")
    found = {member.name: member.error for member in opened(store, stall=0.2, errors="yield")}
    assert isinstance(found["mine://box/a"], nearfirst.Stalled)
    assert found["mine://box/b"] is None
    store.held.add("mine://box/")
    with pytest.raises(nearfirst.Stalled, match="not answered"):
        list(opened(store, "mine://box/*", stall=0.2).names())
    store.released.set()


def test_ctrl_c_is_heard_while_a_store_does_not_answer() -> None:
    store: Any = Objects({"a": b"a"})
    store.held.add("mine://box/a")
    members = opened(store)
    interrupted(store, lambda: next(members).read())
    store.held.add("mine://box/")
    store.asked.clear()
    names = opened(store, "mine://box/*")
    interrupted(store, lambda: len(names))
    store.released.set()
    assert len(names) == 1


def test_threads_are_started_once_they_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Objects(
        {**{f"some/{number}": b"1" for number in range(200)}, "slow": b"2", "other": b"3"}
    )
    members = opened(store, "mine://box/some/*")
    started = _calls.start

    def start(_: Calls) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_calls, "start", start)
    assert [member.read() for member in members] == [b"1"] * 200
    monkeypatch.setattr(_calls, "start", started)
    store.held.add("mine://box/slow")
    slow = opened(store, "mine://box/slow")
    waiting = threading.Thread(target=lambda: next(slow))
    waiting.start()
    store.asked.wait(PATIENCE_S)
    assert next(opened(store, "mine://box/other")).read() == b"3"
    assert waiting.is_alive(), "another thread answered"
    store.released.set()
    waiting.join()
    members.close()


def test_a_set_is_closed_while_its_store_does_not_answer() -> None:
    store = Objects({"a": b"a"})
    store.held.add("mine://box/a")
    members = opened(store)

    def close() -> None:
        store.asked.wait(PATIENCE_S)
        members.close()

    closer = threading.Thread(target=close)
    closer.start()
    with pytest.raises(ValueError, match="closed"):
        next(members)
    closer.join()
    store.released.set()
    served()


def served() -> None:
    """Waits until no thread serves a store any more."""
    gc.collect()
    waited = threading.Event()
    for _ in range(PATIENCE_S * 20):
        if all(thread.name != "nearfirst-store" for thread in threading.enumerate()):
            return
        waited.wait(0.05)
    assert [thread.name for thread in threading.enumerate()] == []


def test_a_store_that_holds_its_own_set_is_garbage() -> None:
    store = Objects({"a": b"a"})
    store.set = opened(store)  # type: ignore[attr-defined]
    member = next(store.set)  # type: ignore[attr-defined]
    gone = weakref.ref(store)
    del store
    gc.collect()
    assert member.read() == b"a"
    del member
    gc.collect()
    assert gone() is None
    served()
    ended(1 << 20)


def test_many_reads_at_a_time() -> None:
    at_once = threading.Barrier(8)

    class Slow(Objects):
        def read(self, entry: nearfirst.Entry, start: int, end: int) -> Buffer:
            at_once.wait(PATIENCE_S)
            return super().read(entry, start, end)

    store = Slow({f"{number:02}": b"x" for number in range(16)})
    assert sum(len(member.read()) for member in opened(store, jobs=8)) == 16


MEMORY = """
import sys
import nearfirst
BUDGET = 16 << 20
class Store:
    size = 1
    def list(self, folder, *, recursive):
        return []
    def stat(self, name):
        return nearfirst.Entry(name, self.size)
    def read(self, entry, start, end):
        return b"x" * (end - start)
def read(count):
    names = nearfirst.list_of(f"mine://box/{number}" for number in range(count))
    for member in nearfirst.open(names, stores={"mine": store}, budget=BUDGET):
        for _ in iter(lambda: member.read(1 << 20), b""):
            pass
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))
store = Store()
read(2000)
before = peak()
store.size = int(sys.argv[1])
read((256 << 20) // store.size)
print((peak() - before) / BUDGET)
"""


@pytest.mark.parametrize("size", [1 << 20, 32 << 20])
def test_what_a_store_gives_is_within_the_budget(size: int) -> None:
    command = [sys.executable, "-c", MEMORY, str(size)]
    told = subprocess.run(command, check=True, timeout=PATIENCE_S * 4, stdout=subprocess.PIPE)
    # With what Python's allocator keeps beside what is in use.
    assert float(told.stdout) < 1


def test_a_store_is_asked_for_a_part_of_the_budget_at_a_time() -> None:
    asked, lock = [0], threading.Lock()
    most = 0

    class Counting(Objects):
        def read(self, entry: nearfirst.Entry, start: int, end: int) -> Buffer:
            nonlocal most
            with lock:
                asked[0] += end - start
                most = max(most, asked[0])
            part = super().read(entry, start, end)
            with lock:
                asked[0] -= end - start
            return part

    store = Counting({f"{number}": LARGE for number in range(6)})
    assert sum(len(member.read()) for member in opened(store, budget=8 << 20)) == 6 * len(LARGE)
    assert max(end - start for start, end in store.reads) <= 64 << 10
    assert most <= (8 << 20) // 4


def test_no_request_waits_for_others_before_its_store_is_asked() -> None:
    held, lock = 0, threading.Lock()

    class Holding(Objects):
        def read(self, entry: nearfirst.Entry, start: int, end: int) -> Buffer:
            nonlocal held
            with lock:
                held += 1
            self.released.wait(PATIENCE_S)
            return super().read(entry, start, end)

    store = Holding({f"{number:02}": bytes(1 << 20) for number in range(40)})
    members = opened(store, budget=18 << 20)
    reader = threading.Thread(target=lambda: [member.read() for member in members])
    reader.start()
    waited = threading.Event()
    for _ in range(PATIENCE_S * 20):
        in_flight = sum(requests for _, requests, _ in members._devices())  # noqa: SLF001
        if held == in_flight >= 8:
            break
        waited.wait(0.05)
    asked = held
    store.released.set()
    reader.join()
    assert asked == in_flight >= 8


def test_stores_are_the_same_in_any_order() -> None:
    one, other = Objects({"a": b"a"}), Objects({"b": b"b"})
    both = {"mine": one, "yours": other}
    left = nearfirst.open("mine://box/a", stores=both)
    right = nearfirst.open("mine://box/a", stores=dict(reversed(both.items())))
    assert [member.read() for member in left | right] == [b"a"]


def test_a_store_that_reads_with_a_set() -> None:
    inner = Objects({"a": b"text of a"})

    class Outer(Objects):
        def read(self, entry: nearfirst.Entry, start: int, end: int) -> Buffer:
            (member,) = opened(inner, entry.name)
            return member.read()[start:end]

    (member,) = opened(Outer({"a": b"123456789"}))
    assert member.read() == b"text of a"


ENDS = """
import sys, threading, time, nearfirst
asked = threading.Event()
class Store:
    def list(self, folder, *, recursive): return []
    def stat(self, name): return nearfirst.Entry(name, 4)
    def read(self, entry, start, end):
        asked.set()
        time.sleep(float(sys.argv[1]))
        return b"text"
members = nearfirst.open("mine://a", stores={"mine": Store()})
threading.Thread(target=lambda: next(members), daemon=True).start()
asked.wait()
"""


@pytest.mark.parametrize("seconds", ["0.001", "1000"])
def test_python_ends_while_a_store_is_asked(seconds: str) -> None:
    subprocess.run([sys.executable, "-c", ENDS, seconds], check=True, timeout=PATIENCE_S)


@pytest.mark.parametrize("store", [3, Objects, object(), {"a": b""}])
def test_what_is_no_store(store: Any) -> None:
    with pytest.raises(TypeError, match="list, stat and read"):
        opened(store)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"stores": {"a b": Objects({})}}, ValueError),
        ({"stores": 3}, TypeError),
        ({"stall": -1}, ValueError),
        ({"stall": float("nan")}, ValueError),
        ({"stall": 0}, ValueError),
        ({"stall": 1e-10}, ValueError),
        ({"stall": float("inf")}, ValueError),
        ({"stall": True}, TypeError),
        ({"stall": "5"}, TypeError),
        ({"attempts": 0}, ValueError),
        ({"attempts": 2.5}, TypeError),
    ],
)
def test_bad_options(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        nearfirst.open("mine://a", **options)


def test_entries_are_made() -> None:
    entry = nearfirst.Entry("mine://a/b", 3, version="v", modified=1.5, is_cold=True)
    assert (entry.name, entry.size, entry.version) == ("mine://a/b", 3, "v")
    assert (entry.modified, entry.is_cold) == (1.5, True)
    assert nearfirst.Entry("a", modified=-1.5).modified == -1.5
    nan, far = float("nan"), 1e30
    for wrong in ({"size": -1}, {"modified": nan}, {"modified": -far}, {"version": 3}):
        options: Any = wrong
        with pytest.raises((OverflowError, TypeError, ValueError)):
            nearfirst.Entry("a", **options)


FORK = """
import os, nearfirst
class Store:
    def list(self, folder, *, recursive): return [self.stat(f"mine://{n}") for n in "abc"]
    def stat(self, name): return nearfirst.Entry(name, 9)
    def read(self, entry, start, end): return entry.name.encode()[start:end].ljust(end - start)
store = Store()
members = nearfirst.open("mine://*", "mine://a", stores={"mine": store})
first = next(members).read()
child = os.fork()
if child == 0:
    anew = nearfirst.open("mine://a", "mine://b", stores={"mine": store})
    os._exit(0 if sorted(member.read() for member in anew) == [b"mine://a ", b"mine://b "] else 2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_a_fork_asks_the_same_store() -> None:
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=PATIENCE_S)
