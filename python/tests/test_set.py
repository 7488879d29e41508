"""What sets are, over local files."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import errno
import gc
import os
import pickle
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nearfirst
import pytest

if TYPE_CHECKING:
    from conftest import Server


def names(members: nearfirst.Set) -> list[str]:
    return sorted(Path(name).name for name in members.names())


def test_each_member_comes_once_with_its_bytes(folder: Path) -> None:
    members = nearfirst.open(f"{folder}/*.txt", f"{folder}/a*")
    found = [(member.name, member.read()) for member in members]
    assert sorted(found) == [(f"{folder}/{n}.txt", f"text of {n}".encode()) for n in "abc"]
    assert next(iter(members), None) is None


def test_a_set_says_what_is_in_it_without_fetching(folder: Path) -> None:
    members = nearfirst.open(f"{folder}/*.txt")
    assert len(members) == 3
    assert members.known == 3
    assert f"{folder}/a.txt" in members
    assert folder / "b.txt" in members
    assert "elsewhere" not in members
    assert names(members) == ["a.txt", "b.txt", "c.txt"]
    assert members.order_taken == []
    assert members


def test_a_set_says_what_it_is_at(folder: Path) -> None:
    with nearfirst.open(f"{folder}/*.txt", budget=1 << 20) as members:
        assert members.stats.names == members.stats.requests == 0
        assert [len(member.read()) for member in members] == [9, 9, 9]
        found = members.stats
        assert (found.names, found.in_flight, found.held_bytes) == (3, 0, 0)
        assert found.held_bytes_max <= 1 << 20
        assert found == members.stats
        assert repr(found).startswith("<nearfirst.SetStats 3 names, ")
    with pytest.raises(AttributeError):
        found.names = 4  # type: ignore[misc]
    with pytest.raises(ValueError, match="closed"):
        _ = members.stats


def test_an_empty_pattern_is_false_and_not_found(tmp_path: Path) -> None:
    members = nearfirst.open(f"{tmp_path}/*.none")
    assert not members
    assert len(members) == 0
    assert "elsewhere" not in members
    with pytest.raises(nearfirst.NotFound, match=r"\*\.none"):
        next(members)


def test_what_has_no_name_is_said_to_have_none() -> None:
    with pytest.raises(nearfirst.NotFound) as raised:
        next(nearfirst.open(""))
    assert str(raised.value) == "'': No such file or directory"


class Locked:
    """A store of which one folder may not be listed."""

    def list(self, folder: str, *, recursive: bool) -> list[nearfirst.Entry]:
        del recursive
        if "open" not in folder:
            raise PermissionError(folder)
        return [self.stat(f"{folder}a")]

    def stat(self, name: str) -> nearfirst.Entry:
        return nearfirst.Entry(name, 1)

    def read(self, entry: nearfirst.Entry, start: int, end: int) -> bytes:
        return entry.name.encode()[start:end]


def test_what_could_not_be_listed_is_not_nothing() -> None:
    def opened(*folders: str, errors: Any = "raise") -> nearfirst.Set:
        specs = [f"locked://{folder}/*" for folder in folders]
        return nearfirst.open(*specs, stores={"locked": Locked()}, errors=errors)

    locked, either = opened("shut"), opened("shut", "open")
    for use in (len, bool, list, lambda members: "locked://shut/a" in members):
        with pytest.raises(nearfirst.Denied, match="shut"):
            use(locked)
        with pytest.raises(nearfirst.Denied, match="shut"):
            use(locked.filter(bool))
    with pytest.raises(nearfirst.Denied, match="shut"):
        assert "locked://shut/a" in either
    assert "locked://open/a" in either
    assert len(either) == 1
    assert either
    told = opened("shut", errors="yield")
    assert (len(told), bool(told), "locked://shut/a" in told) == (0, False, False)


def test_sets_of_sets(folder: Path) -> None:
    left, right = nearfirst.open(f"{folder}/[ab].txt"), nearfirst.open(f"{folder}/[bc].txt")
    assert names(left & right) == ["b.txt"]
    assert names(left | right) == ["a.txt", "b.txt", "c.txt"]
    assert names(left - right) == ["a.txt"]
    assert names((left | right).filter(lambda entry: entry.name.endswith("c.txt"))) == ["c.txt"]
    assert sorted(member.read() for member in left - right) == [b"text of a"]


def test_the_sets_that_a_set_is_made_of_may_go(folder: Path) -> None:
    made = nearfirst.open(f"{folder}/a*", budget=1 << 20) | nearfirst.open(f"{folder}/b*", jobs=2)
    gc.collect()
    assert len(made) == 2


def test_a_rewound_set_begins_anew(folder: Path) -> None:
    members = nearfirst.open(f"{folder}/*.txt")
    assert len([member.name for member in members]) == 3
    (folder / "d.txt").touch()
    assert len(members) == 3
    assert len([member.name for member in members.rewind()]) == 4
    made = nearfirst.open(f"{folder}/*.txt") & nearfirst.open(f"{folder}/[ae]*")
    assert names(made) == ["a.txt"]
    (folder / "e.txt").touch()
    assert names(made.rewind()) == ["a.txt", "e.txt"]


def test_orders(folder: Path) -> None:
    spec = f"{folder}/*.txt"

    def taken(**options: Any) -> str:
        return "".join(Path(member.name).stem for member in nearfirst.open(spec, **options))

    assert taken(order="name") == "abc"
    assert taken(order="rank", rank=lambda entry: ord(Path(entry.name).stem)) == "cba"
    # As a rank by the time of the last change has it.
    assert taken(order="rank", rank=lambda entry: 1.7e9 + ord(Path(entry.name).stem)) == "cba"
    assert taken(order=[folder / "b.txt"])[0] == "b"
    assert sorted(taken()) == ["a", "b", "c"]


def test_the_same_content_comes_once_on_request(folder: Path) -> None:
    (folder / "again.txt").write_text("text of b")
    members = nearfirst.open(f"{folder}/*.txt", duplicates="content")
    assert sorted(member.read() for member in members) == [b"text of a", b"text of b", b"text of c"]
    assert len(list(nearfirst.open(f"{folder}/*.txt", duplicates="name"))) == 4


def test_a_function_learns_the_size_and_age_of_files(folder: Path) -> None:
    (folder / "long.txt").write_text("longer than the others")
    os.utime(folder / "b.txt", (1, 1))
    members = nearfirst.open(f"{folder}/*.txt")
    assert names(members.filter(lambda entry: (entry.size or 0) > 9)) == ["long.txt"]
    assert names(members.filter(lambda entry: entry.modified == 1)) == ["b.txt"]
    os.utime(folder / "b.txt", (-1.5, -1.5))
    assert names(members.filter(lambda entry: entry.modified == -1.5)) == ["b.txt"]
    assert names(members.filter(lambda entry: entry.version)) == names(members)
    missing = nearfirst.open(folder / "none").filter(lambda entry: entry.size is None)
    assert names(missing) == ["none"]


def test_a_path_is_a_name_and_text_is_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "[a].txt").write_text("odd")
    (tmp_path / "a.txt").write_text("even")
    assert names(nearfirst.open(tmp_path / "[a].txt")) == ["[a].txt"]
    assert names(nearfirst.open(f"{tmp_path}/[a].txt")) == ["a.txt"]
    assert names(nearfirst.open(nearfirst.list_of([tmp_path / "[a].txt"]))) == ["[a].txt"]


@pytest.mark.parametrize(
    "spec",
    [
        nearfirst.glob("a/{b,c}/*.txt"),
        nearfirst.query("staff.db", "select name from files", ".txt"),
        nearfirst.query("{a,b}.db", "\n  (select 'a\\b')", "\\*"),
        nearfirst.links("https://host/page", '[href$=".pdf"]'),
        nearfirst.glob(b"~/\\[a]/[b-d]*\xff"),
        nearfirst.Spec._parse(b"{a,b}.db\\select name from files\\.txt"),  # noqa: SLF001
        nearfirst.Spec._parse(b"{/a,/b}/%find . -name 'x y'%*"),  # noqa: SLF001
        nearfirst.Spec._parse(b"@-"),  # noqa: SLF001
        nearfirst.Spec._parse(b"-"),  # noqa: SLF001
        nearfirst.program("find", b"\xff", folder="/{a}", suffix="/*"),
        nearfirst.program("find", "a b", "-name", "*.c", folder="/src"),
        nearfirst.list_of(["a*", b"\xff", "s3://b/k"]),
    ],
)
def test_a_spec_passes_between_processes(spec: nearfirst.Spec) -> None:
    again = pickle.loads(pickle.dumps(spec))  # noqa: S301
    assert again == spec
    assert {again: 1}[spec] == 1


def test_names_in_specs_are_text_bytes_or_paths() -> None:
    links = nearfirst.links("/a/page", "a")
    assert links == nearfirst.links(b"/a/page", "a") == nearfirst.links(Path("/a/page"), "a")
    query = nearfirst.query("a.db", "select n", "/b")
    assert query == nearfirst.query(b"a.db", "select n", b"/b")
    assert nearfirst.program("ls", suffix="/b") == nearfirst.program("ls", suffix=Path("/b"))


def test_names_need_not_be_utf_8(tmp_path: Path) -> None:
    (tmp_path / "\udcff.bin").write_bytes(b"x")
    members = nearfirst.open(bytes(tmp_path) + b"/*.bin")
    (member,) = members
    assert Path(member.name) == tmp_path / "\udcff.bin"
    assert member.url.endswith("/%FF.bin")
    assert tmp_path / "\udcff.bin" in members


@pytest.mark.parametrize("name", ["my data", "a%20b", "ä?#", "[x]{y}*", "a:b@c"])
def test_the_url_of_a_file_is_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    (member,) = nearfirst.open(nearfirst.list_of([name]))
    assert member.url == f"file://{tmp_path / name}"
    (again,) = nearfirst.open(nearfirst.list_of([member.url]))
    assert (again.url, again.read()) == (member.url, b"x")


def test_programs_run_only_where_allowed(folder: Path) -> None:
    printed = nearfirst.program("echo", folder / "a.txt", folder=folder)
    with pytest.raises(nearfirst.NearfirstError, match="program"):
        next(nearfirst.open(printed))
    (member,) = nearfirst.open(printed, allow_programs=True)
    assert member.read() == b"text of a"


def test_an_error_is_raised_and_the_others_follow(folder: Path) -> None:
    members = nearfirst.open(folder / "a.txt", folder / "none", order="listed")
    assert next(members).read() == b"text of a"
    with pytest.raises(FileNotFoundError) as raised:
        next(members)
    assert raised.value.filename == str(folder / "none")
    assert isinstance(raised.value, nearfirst.NotFound)
    with pytest.raises(StopIteration):
        next(members)


def test_no_error_shows_a_password() -> None:
    url = "webdav://me:secret@127.0.0.1:1/x"
    (member,) = nearfirst.open(url, errors="yield")
    with pytest.raises(nearfirst.SpecError) as no_end:
        nearfirst.open("postgres://me:secret@h/db\\select name from t")
    missing = nearfirst.NotFound(url, "gone")
    for error in (member.error, no_end.value, missing, copy.copy(missing)):
        assert isinstance(error, nearfirst.NearfirstError)
        assert "secret" in error.name
        for shown in (str(error), repr(error), str(getattr(error, "filename", "me@"))):
            assert "me@" in shown or shown == repr(error)
            assert "secret" not in shown
    odd = "\ud800 \udcff: no URL"
    assert str(nearfirst.Io(odd)) == odd


def test_errors_are_what_python_calls_them(folder: Path) -> None:
    with pytest.raises(ConnectionError) as refused:
        next(nearfirst.open("http://127.0.0.1:1/x"))
    with pytest.raises(IsADirectoryError) as is_folder:
        next(nearfirst.open(folder))
    errors: dict[type, OSError] = {
        nearfirst.Interrupted: refused.value,
        nearfirst.IsFolder: is_folder.value,
    }
    for kind, error in errors.items():
        assert type(error) is kind
        again = pickle.loads(pickle.dumps(error))  # noqa: S301
        assert (str(again), again.errno) == (str(error), error.errno)
    assert refused.value.errno == errno.ECONNRESET
    busy = nearfirst.Busy("s3://b/k", "busy", retry_after=1.5)
    for noted in (busy, refused.value, nearfirst.SpecError("x", "no spec")):
        noted.add_note("of the third try")
        kept = dict(vars(noted))
        vars(noted)["lock"] = threading.Lock()
        for same in (copy.copy(noted), pickle.loads(pickle.dumps(noted))):  # noqa: S301
            assert (str(same), vars(same)) == (str(noted), kept)
    assert isinstance(is_folder.value, nearfirst.Io)
    assert is_folder.value.errno == errno.EISDIR


def test_an_error_can_be_yielded(folder: Path) -> None:
    members = nearfirst.open(folder / "a.txt", folder / "none", errors="yield")
    errors = {Path(member.name).name: member.error for member in members}
    assert errors["a.txt"] is None
    assert isinstance(errors["none"], nearfirst.NotFound)
    (failed,) = nearfirst.open(folder / "none", errors="yield")
    for use in (failed.read, failed.open, failed.path, lambda: memoryview(failed)):
        with pytest.raises(nearfirst.NotFound):
            use()


def test_what_a_function_raises_is_raised_to_who_waits(folder: Path) -> None:
    members = nearfirst.open(f"{folder}/*.txt")
    with pytest.raises(ZeroDivisionError):
        len(members.filter(lambda _: 1 / 0))
    ranked = nearfirst.open(f"{folder}/*.txt", rank=lambda _: 1 / 0)
    found: list[str] = []
    with pytest.raises(ZeroDivisionError):
        found.extend(member.name for member in ranked)
    while len(found) < 3:
        with contextlib.suppress(ZeroDivisionError):
            found.extend(member.name for member in ranked)
    wrong: Any = lambda _: "high"  # noqa: E731
    with pytest.raises(TypeError):
        list(nearfirst.open(f"{folder}/*.txt", rank=wrong))


def test_what_a_function_raised_does_not_keep_who_holds_the_set(folder: Path) -> None:
    class Holder:
        def __init__(self) -> None:
            self.members = nearfirst.open(f"{folder}/*.txt", rank=self.rank)

        def rank(self, _: nearfirst.Entry) -> float:
            raises.release()
            raise ZeroDivisionError

    async def asked(members: nearfirst.Set) -> None:
        waiting = asyncio.ensure_future(anext(aiter(members)))
        await asyncio.sleep(0)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError, ZeroDivisionError):
            await waiting

    # Of some is told what was raised, before they are broken off.
    raises, holders = threading.Semaphore(0), [Holder() for _ in range(20)]
    for holder in holders:
        asyncio.run(asked(holder.members))
        assert raises.acquire(timeout=60)
    kept = [weakref.ref(holder) for holder in holders]
    del holder, holders
    for _ in range(600):
        gc.collect()
        kept = [holder for holder in kept if holder() is not None]
        if not kept:
            return
        # A call may be about to end.
        time.sleep(0.01)
    pytest.fail(f"{len(kept)} are kept")


def test_a_task_enters_a_set_and_takes_one_member(folder: Path) -> None:
    async def main() -> None:
        async with nearfirst.open(f"{folder}/*.txt") as members:
            # A coroutine: a task takes it as it is.
            first = asyncio.create_task(anext(members))
            found = [await first, *[member async for member in members]]
            with pytest.raises(StopAsyncIteration):
                await anext(members)
        assert sorted(member.name[-5:] for member in found) == ["a.txt", "b.txt", "c.txt"]
        assert members.closed
        with pytest.raises(ValueError, match="closed"):
            async with members:
                pass

    asyncio.run(main())


def test_a_list_of_names_is_told_how_it_is_passed() -> None:
    with pytest.raises(TypeError, match="not list; of several names pass each, or list_of them"):
        nearfirst.open(["a", "b"])  # type: ignore[arg-type]


@pytest.mark.parametrize("end", [StopIteration, StopAsyncIteration])
def test_a_function_does_not_end_the_members(folder: Path, end: type[Exception]) -> None:
    def ends(_: nearfirst.Entry) -> float:
        raise end

    async def taken(members: nearfirst.Set) -> list[str]:
        return [member.name async for member in members]

    for members in (
        nearfirst.open(f"{folder}/*.txt", rank=ends),
        nearfirst.open(f"{folder}/*.txt").filter(ends),
    ):
        with pytest.raises(RuntimeError, match=end.__name__) as raised:
            [member.name for member in members]
        assert isinstance(raised.value.__cause__, end)
        with pytest.raises(RuntimeError, match=end.__name__):
            asyncio.run(taken(members.rewind()))


def test_a_function_that_uses_its_set_is_told_off(folder: Path) -> None:
    members = nearfirst.open(f"{folder}/*.txt")
    with pytest.raises(RuntimeError, match="must not use sets"):
        len(members.filter(lambda _: len(members)))


ENDS = """
import sys, threading, time, nearfirst
began = threading.Event()
def keep(entry):
    began.set()
    for _ in range(200):
        time.sleep(0.001)
    print("returned", flush=True)
    return True
members = nearfirst.open(sys.argv[1]).filter(keep)
threading.Thread(target=members.__len__, daemon=True).start()
began.wait()
"""


def test_python_ends_after_a_function_that_is_under_way(folder: Path) -> None:
    command = [sys.executable, "-c", ENDS, f"{folder}/a.txt"]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    assert told.stdout == b"returned\n"


def test_names_that_have_ended_stay_ended(folder: Path) -> None:
    known = nearfirst.open(f"{folder}/*.txt").names()
    assert len(list(known)) == 3
    assert list(known) == list(known) == []


def test_a_closed_set_says_so(folder: Path) -> None:
    with nearfirst.open(f"{folder}/*.txt") as members:
        member = next(members)
    assert members.closed
    assert member.read().startswith(b"text of")
    assert members.order_taken == [member.name]
    for use in (lambda: next(members), lambda: len(members), members.names, members.rewind):
        with pytest.raises(ValueError, match="closed"):
            use()
    with pytest.raises(ValueError, match="closed"), members:
        pytest.fail("it is entered")
    members.close()


@pytest.mark.parametrize(
    ("specs", "options", "error"),
    [
        ([1], {}, TypeError),
        ([None], {}, TypeError),
        ([["a"]], {}, TypeError),
        (["x\\select 1"], {}, nearfirst.SpecError),
        (["logs/{a"], {}, nearfirst.SpecError),
        (["logs/{1..9}{1..99999}"], {}, nearfirst.SpecError),
        (["x"], {"order": "best"}, ValueError),
        (["x"], {"order": b"name"}, TypeError),
        (["x"], {"order": 7}, TypeError),
        (["x"], {"duplicates": "size"}, ValueError),
        (["x"], {"errors": "ignore"}, ValueError),
        (["x"], {"budget": "1G"}, TypeError),
        (["x"], {"budget": -1}, ValueError),
        (["x"], {"budget": 1 << 70}, OverflowError),
        (["x"], {"jobs": 0}, ValueError),
        (["x"], {"jobs": 1 << 32}, OverflowError),
        (["x"], {"jobs": True}, TypeError),
        (["x"], {"order": "rank"}, ValueError),
        (["x"], {"rank": 3}, TypeError),
        (["x"], {"storage_options": 3}, TypeError),
        (["x"], {"storage_options": {3: "x"}}, TypeError),
        (["x"], {"storage_options": {"endpoint": b"http://host"}}, TypeError),
        (["x"], {"storage_options": {"client": {"region": "x"}}}, TypeError),
        (["x"], {"storage_options": {"endpont": "http://host"}}, ValueError),
        (["x"], {"storage_options": {"client_kwargs": {"endpont_url": "x"}}}, ValueError),
        (["x"], {"storage_options": {"client_kwargs": 3}}, TypeError),
        (["x"], {"allow_programs": "no"}, TypeError),
        (["x"], {"allow_programs": 1}, TypeError),
        (["x"], {"allow_private_links": 1}, TypeError),
        (["x"], {"what": 1}, TypeError),
    ],
)
def test_bad_arguments(specs: list[Any], options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        nearfirst.open(*specs, **options)


def test_an_unknown_storage_option_is_told_with_the_nearest() -> None:
    for ask in (nearfirst.open, nearfirst.sleds, nearfirst.delivery_time):
        with pytest.raises(ValueError, match=r"endpont: .* did you mean endpoint"):
            ask("x", storage_options={"endpont": "http://host"})
        with pytest.raises(ValueError, match="section 6 of the guide has them all"):
            ask("x", storage_options={"cache_regions": True})


def test_storage_options_that_say_nothing_are_passed_over(folder: Path) -> None:
    empty: dict[str, Any] = {"config_kwargs": {}, "s3_additional_kwargs": {}, "client_options": {}}
    unsaid = {"version_aware": False, "cache_regions": False, "session": None}
    of_fsspec = {"skip_instance_cache": True, "default_block_size": 5 << 20, "asynchronous": False}
    (member,) = nearfirst.open(
        f"{folder}/a.txt", storage_options=empty | unsaid | of_fsspec | {"client_kwargs": {}}
    )
    assert member.read() == b"text of a"


def test_the_list_of_a_server_names_files_where_that_is_allowed(
    folder: Path, server: Server
) -> None:
    spec = "@" + server.put("list", f"{folder}/a.txt\n".encode())
    with pytest.raises(nearfirst.Refused, match="unless private links are allowed"):
        next(nearfirst.open(spec))
    allowed = nearfirst.open(spec, allow_private_links=True)
    assert next(allowed).read() == b"text of a"
    with pytest.raises(ValueError, match="allow_private_links"):
        nearfirst.open(spec) | allowed


def test_entries_are_pickled(folder: Path) -> None:
    entry = nearfirst.Entry("s3://b/k", 7, version="v", modified=1.7e9 + 1 / 3, is_cold=True)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(entry, protocol))  # noqa: S301 - our own
        assert (again.name, again.size, again.version) == ("s3://b/k", 7, "v")
        assert (again.modified, again.is_cold) == (entry.modified, True)
        assert len({again, entry}) == 1
    assert entry != nearfirst.Entry("s3://b/k", 8)
    file = nearfirst.Entry(folder / "a.txt")
    file = pickle.loads(pickle.dumps(file))  # noqa: S301 - our own
    assert (file.name, file.size) == (f"{folder}/a.txt", 9)


def test_sets_and_members_are_referred_to_weakly(folder: Path) -> None:
    members = nearfirst.open(folder / "a.txt")
    member = next(members)
    references: list[weakref.ref[object]] = [weakref.ref(members), weakref.ref(member)]
    assert [reference() for reference in references] == [members, member]
    del members, member
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_a_set_is_filtered_and_joined_as_often_as_one_likes(folder: Path) -> None:
    members = nearfirst.open(f"{folder}/*.txt")
    for _ in range(100):
        members = (members & members) | members.filter(bool)
    assert len(members) == 3


STUB = """
import sys, nearfirst
entry = nearfirst.Entry(sys.argv[1])
print(entry.is_cold, entry.size, nearfirst.Entry(sys.argv[1], 7).is_cold)
print([*nearfirst.open(sys.argv[1]).filter(lambda entry: not entry.is_cold).names()])
"""


def test_a_file_that_is_offline_is_cold(tmp_path: Path) -> None:
    stub = tmp_path / "stub"
    stub.touch()
    os.truncate(stub, 1 << 20)
    (state := Path(os.environ["NEARFIRST_STATE"])).mkdir()
    names = [device.name for device in nearfirst.devices() if device.name != "memory"]
    stubs = [f'[device."{name}"]\nhas_stubs = true\n' for name in names]
    (state / "devices.toml").write_text("version = 1\n" + "".join(stubs))
    command = [sys.executable, "-c", STUB, str(stub)]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    assert told.stdout == b"True 1048576 True\n[]\n"


def test_what_spill_takes_is_said() -> None:
    with pytest.raises(TypeError, match="a whole number or a path, not bytes"):
        nearfirst.open("x", spill=b"/tmp")  # type: ignore[arg-type]
    for name in ("/none", __file__):
        with pytest.raises(ValueError, match=f"spill is no folder .* '{name}'"):
            nearfirst.open("x", spill=name)


class BytesPath:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> bytes:
        return bytes(self.path)


def test_a_path_may_be_of_bytes(folder: Path) -> None:
    members = nearfirst.open(BytesPath(folder / "a.txt"))
    assert BytesPath(folder / "a.txt") in members


def test_bad_operands(folder: Path) -> None:
    members: Any = nearfirst.open(f"{folder}/*.txt")
    with pytest.raises(TypeError):
        members & {"a"}
    with pytest.raises(TypeError):
        members.filter("a")
    with pytest.raises(TypeError):
        3 in members  # noqa: B015


ERRORS = """
import sys, nearfirst
def held():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
missing = [f"{sys.argv[1]}/{number}" for number in range(100_000)]
left = set(missing)
begin = 0
for member in nearfirst.open(nearfirst.list_of(missing), errors="yield"):
    assert type(member.error) is nearfirst.NotFound
    left.remove(member.name)
    if len(left) == 80_000:
        begin = held()
assert not left
print(held() - begin)
"""


def test_many_errors_are_all_yielded_and_none_is_kept(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ERRORS, str(tmp_path)]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    assert int(told.stdout) < 16 << 10
