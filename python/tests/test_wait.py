"""Waiting: others run meanwhile, Ctrl-C is heard, tasks wait without a thread."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import gc
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import nearfirst
import pytest
from nearfirst._nearfirst import Bell

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from conftest import Server

# It is yielded before its last byte is here; a single byte that is held is not.
LARGE = bytes(24 << 20)
# Longer than any machine needs; what takes so long has failed.
PATIENCE_S = 30


def interrupted(server: Server, wait: Callable[[], object], within: str = "<lambda>") -> None:
    """Has Ctrl-C come while `wait` waits for the server, in a function of this name."""
    main = threading.main_thread().ident or 0

    def press() -> None:
        server.asked.wait(PATIENCE_S)
        while sys._current_frames()[main].f_code.co_name != within:  # noqa: SLF001
            pass
        signal.pthread_kill(main, signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        wait()
    presser.join()


def test_ctrl_c_is_heard_while_a_member_is_waited_for(server: Server) -> None:
    members = nearfirst.open(server.put("held", b"a", hold=True))
    interrupted(server, lambda: next(members).read())
    server.released.set()


def test_ctrl_c_is_heard_among_ranks() -> None:
    asked, over = threading.Event(), threading.Event()

    def rank(_: nearfirst.Entry) -> float:
        asked.set()
        over.wait(0.01)
        return 1.0

    names = [f"/none/{number}" for number in range(100 * PATIENCE_S)]
    members = nearfirst.open(nearfirst.list_of(names), order="rank", rank=rank)
    waited = SimpleNamespace(asked=asked)
    interrupted(waited, lambda: next(members))  # type: ignore[arg-type]
    over.set()


LISTINGS: dict[str, Callable[[nearfirst.Set], object]] = {
    "for": lambda members: collections.deque(members, maxlen=0),
    "len": len,
    "in": lambda members: "c" in members,
    "names": lambda members: list(members.names()),
    "bool of none": lambda members: bool(members.filter(lambda _: False)),
    "less": lambda members: list((nearfirst.open("d") - members).names()),
}


@pytest.mark.parametrize("use", LISTINGS)
def test_ctrl_c_is_heard_while_a_list_is_waited_for(server: Server, use: str) -> None:
    names = f"{server.url('a')}\n{server.url('b')}\n".encode()
    members = nearfirst.open("@" + server.put("names", names, hold=True), errors="yield")
    interrupted(server, lambda: LISTINGS[use](members))
    server.released.set()
    assert len(members) == 2


class Filter:
    """Keeps all, once it may."""

    def __init__(self) -> None:
        self.called = threading.Event()
        self.released = threading.Event()

    def __call__(self, _: nearfirst.Entry) -> bool:
        self.called.set()
        return self.released.wait(PATIENCE_S)


@pytest.mark.parametrize("use", LISTINGS)
def test_ctrl_c_is_not_the_filter_s_and_loses_no_member(folder: Path, use: str) -> None:
    keep = Filter()
    members = nearfirst.open(f"{folder}/*.txt").filter(keep)
    main = threading.main_thread().ident or 0

    def press() -> None:
        keep.called.wait(PATIENCE_S)
        signal.pthread_kill(main, signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        LISTINGS[use](members)
    presser.join()
    keep.released.set()
    assert len(members) == 3
    assert len(list(members.names())) == 3


@pytest.mark.parametrize("use", ["for", "len", "in", "names"])
def test_who_lists_a_closed_set_waits_for_no_filter(folder: Path, use: str) -> None:
    keep, told = Filter(), threading.Event()
    members = nearfirst.open(f"{folder}/*.txt").filter(keep)

    def listed() -> None:
        with pytest.raises(ValueError, match="closed"):
            LISTINGS[use](members)
        told.set()

    lister = threading.Thread(target=listed)
    lister.start()
    assert keep.called.wait(PATIENCE_S)
    members.close()
    assert told.wait(PATIENCE_S / 2)
    keep.released.set()
    lister.join()


def test_what_a_filter_raises_is_told_while_it_goes_on(folder: Path) -> None:
    calls: list[str] = []
    told = threading.Event()

    def keep(entry: nearfirst.Entry) -> bool:
        calls.append(entry.name)
        if len(calls) == 1:
            raise ZeroDivisionError
        return told.wait(PATIENCE_S)

    members = nearfirst.open(f"{folder}/*.txt").filter(keep)
    with pytest.raises(ZeroDivisionError):
        len(members)
    assert len(calls) < 3
    told.set()
    assert len(members) == 2


def test_threads_share_names(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number}").touch()
    names = nearfirst.open(f"{tmp_path}/*").names()
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.extend(names)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(f"{tmp_path}/{number}" for number in range(300))


WHOLES: dict[str, Callable[[nearfirst.Member], object]] = {
    "path": lambda member: member.path(),
    "buffer": memoryview,
    "readinto": lambda member: all(iter(lambda: member.readinto(bytearray(1 << 20)), 0)),
    "chunks": lambda member: list(member.chunks()),
}


@pytest.mark.parametrize("use", WHOLES)
def test_ctrl_c_is_heard_while_a_whole_is_waited_for(server: Server, use: str) -> None:
    member = next(nearfirst.open(server.put("held", LARGE, hold=True)))
    interrupted(server, lambda: WHOLES[use](member))
    server.released.set()


READS = WHOLES | {"read": lambda member: member.read()}


@pytest.mark.parametrize("use", READS)
def test_closing_a_member_ends_who_reads_it(server: Server, use: str) -> None:
    member = next(nearfirst.open(server.put("held", LARGE, hold=True)))

    def read() -> None:
        with pytest.raises(ValueError, match="the member is closed"):
            READS[use](member)

    reader = threading.Thread(target=read)
    reader.start()
    assert server.asked.wait(PATIENCE_S)
    while sys._current_frames()[reader.ident or 0].f_code.co_name not in {"<lambda>", "read"}:  # noqa: SLF001
        pass
    member.close()
    reader.join(PATIENCE_S)
    assert not reader.is_alive()


def test_a_read_that_was_cancelled_ends_with_its_member(server: Server) -> None:
    async def main() -> None:
        async for member in nearfirst.open(server.put("held", LARGE, hold=True)):
            with member:
                await asyncio.wait_for(asyncio.to_thread(member.read), 0.01)

    late = threading.Timer(PATIENCE_S, server.released.set)
    late.start()
    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(main())
    assert not server.released.is_set()
    late.cancel()


def test_ctrl_c_is_heard_while_a_task_waits(server: Server) -> None:
    async def main() -> None:
        async for _ in nearfirst.open(server.put("held", b"a", hold=True)):
            pass

    def run() -> None:
        asyncio.run(main())

    # The handler of asyncio is there once its loop waits.
    interrupted(server, run, "select")
    server.released.set()


def test_nothing_is_lost_by_an_interrupted_read(server: Server) -> None:
    member = next(nearfirst.open(server.put("held", LARGE, hold=True)))
    interrupted(server, lambda: member.read())  # noqa: PLW0108
    server.released.set()
    assert member.read() == LARGE


def test_a_copy_that_was_broken_off_does_not_pass_for_the_whole(server: Server) -> None:
    member = next(nearfirst.open(server.put("held", LARGE, hold=True)))
    interrupted(server, lambda: member.open())  # noqa: PLW0108
    server.released.set()
    with pytest.raises(nearfirst.Interrupted):
        member.read()


def test_other_threads_run_and_close_what_is_waited_for(server: Server) -> None:
    members = nearfirst.open("@" + server.put("names", b"name", hold=True))

    def close() -> None:
        server.asked.wait(PATIENCE_S)
        members.close()

    closer = threading.Thread(target=close)
    closer.start()
    with pytest.raises(ValueError, match="closed"):
        next(members)
    closer.join()


def test_threads_share_a_set(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number}").write_text(str(number))
    members = nearfirst.open(f"{tmp_path}/*")
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.extend(member.read() for member in members))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(text) for text in found) == list(range(300))


def test_a_member_is_read_by_one_thread_at_a_time(server: Server) -> None:
    member = next(nearfirst.open(server.put("held", LARGE, hold=True)))
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(member.read()))
    reader.start()
    while True:
        try:
            read.append(member.read(1))
        except RuntimeError as error:
            assert "another thread" in str(error)  # noqa: PT017
            break
    server.released.set()
    reader.join()
    assert b"".join(sorted(read)) == LARGE


def test_other_tasks_run_while_one_waits(folder: Path, server: Server) -> None:
    name = server.put("a.txt", b"text of a")
    listed = server.put("names", f"{name}\n".encode(), hold=True)

    async def release() -> None:
        await asyncio.to_thread(server.asked.wait, PATIENCE_S)
        server.released.set()

    async def main() -> set[bytes]:
        releasing = asyncio.ensure_future(release())
        found = {
            member.read() async for member in nearfirst.open(f"{folder}/[bc].txt", f"@{listed}")
        }
        await releasing
        return found

    assert asyncio.run(main()) == {f"text of {name}".encode() for name in "abc"}


def test_a_task_that_waits_is_cancelled(server: Server) -> None:
    async def main() -> None:
        members = nearfirst.open("@" + server.put("names", b"name", hold=True))
        task = asyncio.ensure_future(anext(aiter(members)))
        await asyncio.to_thread(server.asked.wait, PATIENCE_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


class Gates:
    """A store whose objects come when their gates are opened."""

    def __init__(self, names: str) -> None:
        self.gates = {f"gated://box/{name}": threading.Event() for name in names}

    def list(self, folder: str, *, recursive: bool) -> list[nearfirst.Entry]:
        del folder, recursive
        return [self.stat(name) for name in self.gates]

    def stat(self, name: str) -> nearfirst.Entry:
        return nearfirst.Entry(name, 1)

    def read(self, entry: nearfirst.Entry, start: int, end: int) -> bytes:
        del start, end
        self.gates[entry.name].wait(PATIENCE_S)
        return entry.name[-1:].encode()

    def opened(self) -> nearfirst.Set:
        return nearfirst.open("gated://box/*", stores={"gated": self})


@pytest.fixture
def gates() -> Iterator[Gates]:
    gates = Gates("abcd")
    yield gates
    for gate in gates.gates.values():
        gate.set()


def rung(bell: Bell) -> list[int]:
    """Who is to be woken, once somebody is."""
    select.select([bell.fileno()], [], [], PATIENCE_S)
    return bell.rung()


def test_tasks_are_woken_in_turn_each_for_a_member_of_its_own(gates: Gates) -> None:
    members, bell = gates.opened(), Bell()
    line = [members._wait(bell) for _ in range(3)]  # noqa: SLF001
    assert [waiting.poll() for waiting in line] == [None] * 3
    for waiting, name in zip(line, "bca", strict=True):
        gates.gates[f"gated://box/{name}"].set()
        assert rung(bell) == [waiting.number]
        member = waiting.poll()
        assert member is not None
        assert member.read() == name.encode()


def test_what_a_task_was_woken_for_and_left_is_the_next_one_s(gates: Gates) -> None:
    members, bell = gates.opened(), Bell()
    first, second = members._wait(bell), members._wait(bell)  # noqa: SLF001
    assert (first.poll(), second.poll()) == (None, None)
    gates.gates["gated://box/c"].set()
    assert rung(bell) == [first.number]
    first.leave()
    assert rung(bell) == [second.number]
    member = second.poll()
    assert member is not None
    assert member.read() == b"c"


@pytest.mark.parametrize("is_shared", [True, False])
def test_tasks_share_a_set(gates: Gates, *, is_shared: bool) -> None:
    async def one(members: AsyncIterator[nearfirst.Member]) -> bytes:
        try:
            return (await anext(members)).read()
        except StopAsyncIteration:
            return b"-"

    async def main() -> list[bytes]:
        members = gates.opened()
        iterator = aiter(members)
        tasks = [
            asyncio.ensure_future(one(iterator if is_shared else aiter(members))) for _ in range(7)
        ]
        await asyncio.sleep(0)
        tasks.pop(0).cancel()
        for gate in gates.gates.values():
            gate.set()
        return await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE_S)

    assert sorted(asyncio.run(main())) == [b"-", b"-", b"a", b"b", b"c", b"d"]


def test_a_task_that_waits_is_told_that_its_set_is_closed(gates: Gates) -> None:
    async def main() -> None:
        members = gates.opened()
        task = asyncio.ensure_future(anext(aiter(members)))
        await asyncio.sleep(0)
        members.close()
        with pytest.raises(ValueError, match="closed"):
            await asyncio.wait_for(task, PATIENCE_S)

    asyncio.run(main())


def test_all_tasks_of_a_loop_wait_by_one_descriptor(gates: Gates) -> None:
    async def main() -> None:
        members = gates.opened()
        tasks = [asyncio.ensure_future(anext(aiter(members)))]
        await asyncio.sleep(0)
        before = descriptors()
        tasks += [asyncio.ensure_future(anext(aiter(members))) for _ in range(50)]
        await asyncio.sleep(0)
        assert descriptors() <= before
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    asyncio.run(main())


def test_who_lists_waits_no_longer_than_was_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        page = f"http://127.0.0.1:{silent.getsockname()[1]}/page.html"
        members = nearfirst.open(nearfirst.links(page, "a"), stall=0.25)
        with pytest.raises(nearfirst.Interrupted, match=r"not answered for 0\.25 s"):
            list(members.names())


def test_errors_of_tasks(folder: Path) -> None:
    async def main() -> list[Any]:
        members = nearfirst.open(folder / "none", folder / "a.txt", errors="yield")
        return [member.error async for member in members]

    errors = asyncio.run(main())
    assert sorted(type(error).__name__ for error in errors) == ["NoneType", "NotFound"]


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def threads() -> list[str]:
    """The names of the threads that are the library's: all of these have one of their own."""
    others = {Path("/proc/self/comm").read_text().strip(), "jemalloc_bg_thd"}
    mine = {thread.native_id for thread in threading.enumerate()}
    tasks = [task for task in Path("/proc/self/task").iterdir() if int(task.name) not in mine]
    found = []
    for task in tasks:
        with contextlib.suppress(OSError):
            found.append((task / "comm").read_text().strip())
    return [name for name in found if name not in others]


def ended(before: int) -> None:
    """Waits until what the library began has ended: for that, not for a time."""
    gc.collect()
    waited = threading.Event()
    for _ in range(PATIENCE_S * 20):
        if not threads() and descriptors() <= before:
            return
        waited.wait(0.05)
    assert threads() == []
    assert descriptors() <= before


def use(folder: Path, server: Server) -> None:
    members = nearfirst.open(f"{folder}/*.txt", server.put("data", LARGE))
    first = next(members)
    first.open().close()
    Path(first.path())
    for member in members:
        with member.open() as file:
            file.read()

    async def main() -> None:
        async for member in members.rewind():
            member.read()

    asyncio.run(main())


def test_no_thread_and_no_descriptor_is_left(folder: Path, server: Server) -> None:
    use(folder, server)
    ended(1 << 20)
    before = descriptors()
    use(folder, server)
    ended(before)


def test_a_closed_set_leaves_nothing_though_its_names_are_kept(folder: Path) -> None:
    ended(1 << 20)
    before = descriptors()
    with nearfirst.open(f"{folder}/*.txt") as members:
        names = members.names()
        assert next(names)
    ended(before)
    with pytest.raises(ValueError, match="closed"):
        next(names)


class Reader:
    """Holds a set whose functions hold it."""

    def __init__(self, folder: Path) -> None:
        opened = nearfirst.open(f"{folder}/*.txt", rank=self.rank)
        self.members = opened.filter(lambda entry: self.rank(entry) > 0)
        self.names = self.members.names()

    def rank(self, entry: nearfirst.Entry) -> float:
        assert self
        return len(entry.name)


def test_a_set_that_its_own_function_holds_is_garbage(folder: Path) -> None:
    reader = Reader(folder)
    assert len(list(reader.names)) == 3
    assert next(reader.members).read()
    del reader
    ended(1 << 20)


FORK = """
import gc, os, sys, nearfirst
members = nearfirst.open(sys.argv[1])
first = next(members)
child = os.fork()
if child == 0:
    for use in (lambda: next(members), lambda: len(members), first.read, members.rewind):
        try:
            use()
        except RuntimeError as error:
            assert "fork" in str(error), error
        else:
            os._exit(1)
    assert "fork" in repr(members), repr(members)
    members.close()
    try:
        members.order_taken
    except RuntimeError:
        pass
    else:
        os._exit(3)
    del members, first
    gc.collect()
    anew = sorted(member.read() for member in nearfirst.open(sys.argv[1]))
    os._exit(0 if anew == [b"text of a", b"text of b", b"text of c"] else 2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert len([first.read(), *(member.read() for member in members)]) == 3
"""


def test_a_fork_is_told_and_opens_its_own(folder: Path) -> None:
    command = [sys.executable, "-c", FORK, f"{folder}/*.txt"]
    subprocess.run(command, check=True, timeout=PATIENCE_S)


INTERPRETERS = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
refused = '''
try:
    import nearfirst
except ImportError as error:
    # Python itself keeps it out of those that are isolated.
    told = "main interpreter", "does not support loading in subinterpreters"
    assert any(text in str(error) for text in told), error
else:
    raise AssertionError
'''
def another():
    number = interpreters.create()
    assert interpreters.run_string(number, refused) is None
    interpreters.destroy(number)
another()
import nearfirst
another()
members = nearfirst.open(sys.argv[1], rank=lambda entry: 1).filter(lambda entry: True)
assert len(list(members)) == 3
"""


def test_another_interpreter_is_refused_and_takes_nothing_with_it(folder: Path) -> None:
    command = [sys.executable, "-c", INTERPRETERS, f"{folder}/*.txt"]
    subprocess.run(command, check=True, timeout=PATIENCE_S)


def test_python_ends_while_a_set_is_waited_for(server: Server) -> None:
    url = server.put("held", b"a", hold=True)
    code = (
        "import sys, threading, nearfirst\n"
        "members = nearfirst.open(*sys.argv[1:], rank=lambda entry: 1.0)\n"
        "threading.Thread(target=lambda: next(members).read(), daemon=True).start()\n"
        "while not members.known: pass\n"
    )
    subprocess.run([sys.executable, "-c", code, url], check=True, timeout=PATIENCE_S)
