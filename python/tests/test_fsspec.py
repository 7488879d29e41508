"""File systems of fsspec: as stores, and `nearfirst` among them."""

from __future__ import annotations

import copy
import gc
import gzip
import io
import pickle
import threading
import tomllib
import zipfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import nearfirst
import pytest
from fsspec import AbstractFileSystem, Callback
from fsspec.core import OpenFile, OpenFiles
from fsspec.implementations.memory import MemoryFileSystem
from nearfirst.fsspec import NearfirstFileSystem

if TYPE_CHECKING:
    from conftest import Server


@pytest.fixture
def memory() -> Any:
    """A file system of fsspec with three files."""
    files = fsspec.filesystem("memory", skip_instance_cache=True)
    files.store.clear()
    files.pipe({"/a/x.txt": b"text of x", "/a/b/y.txt": b"text of y", "/a/z.bin": b""})
    return files


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("memory://a/*.txt", {"memory://a/x.txt": b"text of x"}),
        ("memory:///a/*.txt", {"memory:///a/x.txt": b"text of x"}),
        ("memory://a/x.txt", {"memory://a/x.txt": b"text of x"}),
        ("memory://a/**/y*", {"memory://a/b/y.txt": b"text of y"}),
        ("other://a/*", {"other://a/x.txt": b"text of x", "other://a/z.bin": b""}),
    ],
)
def test_a_file_system_is_a_store(memory: Any, spec: str, expected: dict[str, bytes]) -> None:
    members = list(nearfirst.open(spec, stores={"memory": memory, "other": memory}))
    assert {member.name: member.read() for member in members} == expected
    assert all(member.size == len(expected[member.name]) for member in members)
    assert all(member.modified is not None for member in members)


# That of blocks leaves its file to be closed by whoever collects it.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("cache", ["simplecache", "filecache", "blockcache"])
def test_a_cache_of_a_file_system_is_a_store(server: Server, tmp_path: Path, cache: str) -> None:
    fsspec.register_implementation("nearfirst", NearfirstFileSystem, clobber=True)
    server.ranges = True
    url = server.put("d/t.csv", b"a,b\n1,2\n")
    kept = {cache: {"cache_storage": str(tmp_path)}}
    with fsspec.open(f"nearfirst::{cache}::{url}", **kept) as file:
        assert file.read() == b"a,b\n1,2\n"
    files = fsspec.filesystem(cache, target_protocol="http", cache_storage=str(tmp_path))
    (member,) = nearfirst.open(url, stores={"http": files})
    assert (member.name, member.read()) == (url, b"a,b\n1,2\n")
    del file, files, member
    gc.collect()


# As above.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("cache", ["simplecache", "filecache", "blockcache"])
def test_a_cache_may_stand_before_it(server: Server, tmp_path: Path, cache: str) -> None:
    fsspec.register_implementation("nearfirst", NearfirstFileSystem, clobber=True)
    server.ranges = True
    content = bytes(range(256)) * 1000
    url = f"{cache}::nearfirst::{server.put('d/t.bin', content)}"
    kept = {cache: {"cache_storage": str(tmp_path)}}
    with fsspec.open(url, **kept) as file:
        file.seek(1000)
        assert file.read(100) == content[1000:1100]
        file.seek(0)
        assert file.read() == content
    server.objects["d/t.bin"] = bytes(len(content))
    with fsspec.open(url, **kept) as file:
        assert file.read() == content, "it is kept"
    del file
    gc.collect()


def test_slashes_in_a_row_are_of_the_name(memory: Any) -> None:
    memory.store.clear()
    memory.pipe({"/a/x.txt": b"one", "/a//x.txt": b"two", "/a///x.txt": b"three"})
    members = nearfirst.open("memory://a/**", stores={"memory": memory})
    assert {member.name: member.read() for member in members} == {
        "memory://a/x.txt": b"one",
        "memory://a//x.txt": b"two",
        "memory://a///x.txt": b"three",
    }


def test_what_is_missing_and_what_is_a_folder(memory: Any) -> None:
    members = nearfirst.open(
        "memory://a/none", "memory://a/b", stores={"memory": memory}, errors="yield"
    )
    errors = {member.name: type(member.error) for member in members}
    assert errors == {
        "memory://a/none": nearfirst.NotFound,
        "memory://a/b": nearfirst.Refused,
    }


def overwrites(files: Any, contents: dict[str, bytes]) -> None:
    """Has files change while they are read: a small one before, a large one after a part."""
    read = files.cat_file

    def overwritten(path: str, **options: Any) -> Any:
        part = read(path, **options) if len(contents[path]) > 1 << 20 else None
        files.pipe(path, contents[path])
        return part or read(path, **options)

    files.cat_file = overwritten


def test_what_changes_while_it_is_read_is_an_error(memory: Any) -> None:
    info = memory.info
    memory.info = lambda path: {**info(path), "ETag": str(memory.store[path].getvalue()[-4:])}
    memory.pipe({"/large": b"old!" * (5 << 20), "/grows": b"text"})
    overwrites(memory, {"/large": b"new!" * (5 << 20), "/grows": b"text and more"})
    for name in ("memory://large", "memory://grows"):
        with pytest.raises(nearfirst.Changed, match=name):
            next(nearfirst.open(name, stores={"memory": memory})).read()


def test_where_times_tell_what_is_only_added_to_is_read_as_it_was_listed(memory: Any) -> None:
    old, grown = b"old!" * (5 << 20), b"old!" * (5 << 20) + b"more"
    memory.pipe({"/large": old, "/small": b"text", "/other": old})
    overwrites(memory, {"/large": grown, "/small": b"text and more", "/other": b"new!" * (5 << 20)})
    for name, content in {"memory://large": old, "memory://small": b"text"}.items():
        assert next(nearfirst.open(name, stores={"memory": memory})).read() == content
    with pytest.raises(nearfirst.Changed, match="other"):
        next(nearfirst.open("memory://other", stores={"memory": memory})).read()


class Keeping(MemoryFileSystem):  # type: ignore[misc]
    """Keeps listings, and tells of a file what it keeps of its folder, as that of FTP does."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.kept: dict[str, Any] = {}

    def ls(self, path: str, **options: Any) -> Any:
        path = self._strip_protocol(path)
        if path not in self.kept:
            self.kept[path] = super().ls(path, **options)
        return self.kept[path]

    def info(self, path: str, **_options: Any) -> Any:
        path = self._strip_protocol(path)
        return next(info for info in self.ls(self._parent(path)) if info["name"] == path)

    def invalidate_cache(self, path: str) -> None:
        self.kept.pop(path, None)


def test_it_is_not_told_what_is_kept_of_a_folder() -> None:
    files: Any = Keeping(skip_instance_cache=True)
    files.store.clear()
    files.pipe("/box/large", b"old!" * (5 << 20))
    overwrites(files, {"/box/large": b"new!" * (5 << 20)})
    with pytest.raises(nearfirst.Changed, match="large"):
        next(nearfirst.open("mine://box/*", stores={"mine": files})).read()


class Walked(MemoryFileSystem):  # type: ignore[misc]
    """Lists folder by folder; some may not be listed, some take their time."""

    find = AbstractFileSystem.find

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.listed: list[str] = []
        self.denied: set[str] = set()
        self.held: dict[str, threading.Event] = {}

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:  # noqa: FBT001, FBT002
        self.listed.append(path)
        if path in self.denied:
            raise PermissionError(path)
        if path in self.held:
            self.held[path].wait(60)
        return super().ls(path, detail=detail, **options)


@pytest.fixture
def walked() -> Any:
    """Some folders."""
    files = Walked(skip_instance_cache=True)
    files.store.clear()
    files.pipe({f"/b/{name}/x.txt": b"" for name in ("2023", "2024-1", "2024-2", "2024-2/c")})
    return files


def test_folders_are_listed_one_after_the_other(walked: Any) -> None:
    walked.held["/b/2024-1"] = threading.Event()
    names = nearfirst.open("memory://b/**/x.txt", stores={"memory": walked}).names()
    assert next(names) == "memory://b/2023/x.txt"
    walked.held["/b/2024-1"].set()
    assert list(names) == [f"memory://b/2024-{name}/x.txt" for name in ("1", "2", "2/c")]
    assert "/b/2024-2/c" in walked.listed


def test_no_folder_is_listed_in_vain(walked: Any) -> None:
    names = nearfirst.open("memory://b/2024-1*/x.txt", stores={"memory": walked}).names()
    assert list(names) == ["memory://b/2024-1/x.txt"]
    assert walked.listed == ["/b", "/b/2024-1"]


def test_a_folder_that_may_not_be_listed_does_not_end_the_others(walked: Any) -> None:
    walked.denied.add("/b/2024-1")
    members = nearfirst.open("memory://b/**", stores={"memory": walked}, errors="yield")
    errors = [type(member.error) for member in members]
    assert sorted(map(str, errors)) == sorted(map(str, [nearfirst.Denied, *[type(None)] * 3]))
    missing = nearfirst.open("memory://none/**", stores={"memory": walked})
    assert (len(missing), bool(missing)) == (0, False)


def test_a_listing_may_take_longer_than_a_read(walked: Any) -> None:
    walked.held = {"/b": threading.Event()}
    timer = threading.Timer(0.5, walked.held["/b"].set)
    timer.start()
    assert len(nearfirst.open("memory://b/**", stores={"memory": walked}, stall=0.1)) == 4
    timer.join()


def test_who_lists_by_a_prefix_is_told_it() -> None:
    asked = []

    class Listing(MemoryFileSystem):  # type: ignore[misc]
        def find(self, path: str, prefix: str = "", **options: Any) -> Any:
            asked.append((path, prefix))
            return super().find(path, **options)

    files = Listing(skip_instance_cache=True)
    files.store.clear()
    files.pipe({f"/b/{name}/x.txt": b"" for name in ("2023", "2024-1", "2024-2")})
    names = nearfirst.open("memory://b/2024-*/x.txt", stores={"memory": files}).names()
    assert list(names) == ["memory://b/2024-1/x.txt", "memory://b/2024-2/x.txt"]
    assert asked == [("/b", "2024-")]


def test_it_is_asked_once_a_range_whether_a_file_changed(memory: Any) -> None:
    memory.pipe("/large", bytes(20 << 20))
    asked: Counter[str] = Counter()

    def counted(name: str) -> None:
        call = getattr(memory, name)

        def counts(*args: Any, **options: Any) -> Any:
            asked[name] += 1
            return call(*args, **options)

        setattr(memory, name, counts)

    counted("cat_file")
    counted("info")
    assert len(next(nearfirst.open("memory://large", stores={"memory": memory})).read()) == 20 << 20
    assert 1 < asked["info"] < asked["cat_file"] / 4


def test_an_archive_is_a_store(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x.txt", "text of x")
        archive.writestr("b/y.txt", "text of y")
    files = fsspec.filesystem("zip", fo=str(tmp_path / "a.zip"))
    members = nearfirst.open("zip:///**/*.txt", stores={"zip": files})
    assert sorted(member.read() for member in members) == [b"text of x", b"text of y"]
    fsspec.register_implementation("nearfirst", NearfirstFileSystem, clobber=True)
    for chain in ("nearfirst::zip://*.txt", "nearfirst://zip://*.txt"):
        with fsspec.open_files(f"{chain}::file://{tmp_path}/a.zip") as found:
            assert [file.read() for file in found] == [b"text of x"]
    near, path = fsspec.url_to_fs(f"nearfirst://zip://b/y.txt::file://{tmp_path}/a.zip")
    assert pickle.loads(pickle.dumps(near)).cat(path) == b"text of y"  # noqa: S301


def test_local_files_as_fsspec_has_them(folder: Path) -> None:
    files = fsspec.filesystem("file")
    members = nearfirst.open(f"file://{folder}/*.txt", stores={"file": files})
    found = {member.name: member.read() for member in members}
    assert found == {f"file://{folder}/{n}.txt": f"text of {n}".encode() for n in "abc"}


@pytest.fixture
def near(memory: Any) -> Any:
    """The same files, brought near."""
    return NearfirstFileSystem(fs=memory, skip_instance_cache=True)


def test_it_is_registered_as_the_package_says(memory: Any) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    name = project["project"]["entry-points"]["fsspec.specs"]["nearfirst"]
    fsspec.register_implementation("nearfirst", name.replace(":", "."), clobber=True)
    for url in ("nearfirst::memory://a/x.txt", "nearfirst://memory://a/x.txt"):
        with fsspec.open(url) as file:
            assert file.read() == b"text of x"
    found = fsspec.open_files("nearfirst::memory://a/**/*.txt")
    with found as files:
        assert sorted(file.read() for file in files) == [b"text of x", b"text of y"]
    assert memory


def test_cat_reads_many_and_one(near: Any) -> None:
    assert near.cat("/a/x.txt") == b"text of x"
    assert near.cat("memory://a/x.txt") == b"text of x"
    assert near.cat("/a/*.txt") == {"/a/x.txt": b"text of x"}
    assert near.cat("/a", recursive=True) == {
        "/a/b/y.txt": b"text of y",
        "/a/x.txt": b"text of x",
        "/a/z.bin": b"",
    }
    with pytest.raises(FileNotFoundError):
        near.cat(["/a/x.txt", "/a/none"])
    assert near.cat(["/a/x.txt", "/a/none"], on_error="omit") == {"/a/x.txt": b"text of x"}
    returned = near.cat(["/a/none", "/a/x.txt"], on_error="return")
    assert isinstance(returned["/a/none"], FileNotFoundError)


def test_cat_reads_a_part_of_each(near: Any, memory: Any) -> None:
    paths = ["/a/x.txt", "/a/b/y.txt"]
    for part in ({"start": 2, "end": 4}, {"start": 8}, {"end": -5}, {"start": -1, "end": None}):
        assert near.cat(paths, **part) == memory.cat(paths, **part)
        assert near.cat("/a/*.txt", **part) == memory.cat("/a/*.txt", **part)
        assert near.cat("/a/x.txt", **part) == memory.cat("/a/x.txt", **part)
    paths.append("/a/none")
    with pytest.raises(FileNotFoundError):
        near.cat(paths, start=2)
    assert near.cat(paths, on_error="omit", start=8) == {"/a/x.txt": b"x", "/a/b/y.txt": b"y"}
    returned = near.cat(paths, on_error="return", start=8)
    assert isinstance(returned["/a/none"], FileNotFoundError)
    memory.cat_file = lambda *_, **options: options
    assert near.cat(["/a/x.txt"], version="1") == {"/a/x.txt": {"version": "1"}}


def test_cat_of_a_folder_that_is_missing(near: Any, memory: Any) -> None:
    memory.mkdir("/empty")
    assert near.cat("/empty", recursive=True) == {}
    for path in ("/none", ["/none"], ["/a/b", "/none"]):
        with pytest.raises(FileNotFoundError):
            near.cat(path, recursive=True)
    returned = near.cat(["/a/b", "/none"], recursive=True, on_error="return")
    assert returned["/a/b/y.txt"] == b"text of y"
    assert isinstance(returned["/none"], FileNotFoundError)


def test_a_folder_is_no_file(near: Any) -> None:
    for read in (near.open, near.head, near.tail, lambda path: near.cat([path])):
        with pytest.raises(IsADirectoryError):
            read("/a/b")
    with pytest.raises(IsADirectoryError):
        near.cat("/a/*")
    assert isinstance(near.cat("/a/*", on_error="return")["/a/b"], IsADirectoryError)
    with OpenFiles([OpenFile(near, "/a/b")], fs=near) as (file,), pytest.raises(IsADirectoryError):
        file.read()


def test_what_it_says_of_files(near: Any, memory: Any) -> None:
    assert near.ls("/a", detail=False) == memory.ls("/a", detail=False)
    assert near.find("memory://a") == memory.find("/a")
    assert near.glob("/a/**/*.txt") == memory.glob("/a/**/*.txt")
    assert near.info("/a/x.txt")["size"] == 9
    assert near.exists("/a/x.txt")
    assert not near.exists("/a/none")
    assert near.modified("/a/x.txt") == memory.modified("/a/x.txt")
    assert near.ukey("/a/x.txt") == memory.ukey("/a/x.txt")


def test_a_file_is_read_anywhere(near: Any, memory: Any) -> None:
    content = bytes(range(256)) * (80 << 10)
    memory.pipe("/large", content)
    with near.open("/large") as file:
        assert file.read(10) == content[:10]
        assert file.tell() == 10
        assert file.read(1 << 20) == content[10 : 10 + (1 << 20)]
        assert file.seek(-5, 2) == len(content) - 5
        assert file.read() == content[-5:]
        assert file.seek(100) == 100
        assert file.read(50) == content[100:150]
    with near.open("/large") as file:
        assert file.read() == content
        assert file.read() == b""
        with pytest.raises(ValueError, match="negative"):
            file.seek(-1)
    with pytest.raises(FileNotFoundError):
        near.open("/none")


def test_what_a_file_says_of_itself(near: Any, memory: Any) -> None:
    opened = near.open("/a/x.txt")
    with opened, OpenFiles([OpenFile(near, "/a/x.txt")], fs=near) as (together,):
        for file in (opened, together):
            assert (file.fs, file.path, file.mode, file.size) == (near, "/a/x.txt", "rb", 9)
            assert file.blocksize > 0
            assert file.read() == b"text of x"
    for block in ((0, 3, b" "), (3, 4, b" "), (5, None, None), (5, 100, b"x")):
        assert near.read_block("/a/x.txt", *block) == memory.read_block("/a/x.txt", *block)


def test_open_files_are_pickled(near: Any) -> None:
    with near.open("/a/x.txt") as file:
        assert file.read(5) == b"text "
        again = pickle.loads(pickle.dumps(file))  # noqa: S301
        with again, copy.copy(file) as copied:
            assert (again.path, again.tell(), again.size) == ("/a/x.txt", 5, 9)
            assert again.read() == copied.read() == b"of x"
        assert file.read() == b"of x"
    with pytest.raises(ValueError, match="closed"):
        pickle.dumps(file)


def test_its_urls_are_opened(near: Any) -> None:
    fsspec.register_implementation("nearfirst", NearfirstFileSystem, clobber=True)
    for name in ("/a/x.txt", "memory://a/x.txt", "nearfirst://memory:///a/x.txt"):
        assert near.unstrip_protocol(name) == "nearfirst://memory:///a/x.txt"
    with fsspec.open(OpenFile(near, "/a/x.txt").full_name) as file:
        assert file.read() == b"text of x"


def test_it_does_not_write(near: Any, memory: Any, tmp_path: Path) -> None:
    for write in (near.touch, near.mkdir, near.makedirs, near.makedir, near.mkdirs, near.rmdir):
        with pytest.raises(NotImplementedError, match="reads"):
            write("/new")
    for move in (near.mv, near.cp):
        with pytest.raises(NotImplementedError, match="reads"):
            move("/a/x.txt", "/new")
    with pytest.raises(NotImplementedError, match="reads"):
        near.rm("/a/x.txt")
    assert memory.exists("/a/x.txt")
    with pytest.raises(NotImplementedError, match="reads"):
        near.makedirs("/new", exist_ok=True)
    assert not memory.exists("/new")
    near.get("/a", f"{tmp_path}/a", recursive=True)
    assert (tmp_path / "a/b/y.txt").read_bytes() == b"text of y"


@pytest.mark.parametrize(
    "copies",
    [
        ("/a", "to", {"recursive": True}),
        ("/a/", "to/", {"recursive": True}),
        ("/a", "there", {"recursive": True, "maxdepth": 1}),
        ("memory://a/x.txt", "to.txt", {}),
        ("/a/x.txt", "there/", {}),
        ("/a/*", "there", {}),
        (["/a/x.txt", "/a/b/y.txt"], "there", {}),
        (["memory://a/x.txt", "/a/z.bin"], ["new/1", "2"], {}),
        (["/a/x.txt", "/a/x.txt"], ["1", "2"], {}),
    ],
)
def test_files_are_copied_to_where_others_copy_them(
    near: Any, memory: Any, tmp_path: Path, copies: Any
) -> None:
    path, target, options = copies

    def copied(files: Any, folder: Path) -> dict[str, bytes | None]:
        (folder / "there").mkdir(parents=True)
        one = isinstance(target, str)
        to = f"{folder}/{target}" if one else [f"{folder}/{each}" for each in target]
        files.get(path, to, **options)
        found = {str(each.relative_to(folder)): each for each in folder.rglob("*")}
        return {name: each.read_bytes() if each.is_file() else None for name, each in found.items()}

    found = copied(near, tmp_path / "near")
    assert found == copied(memory, tmp_path / "plain")
    assert len(found) > 1


def test_many_files_are_copied_side_by_side(memory: Any, tmp_path: Path) -> None:
    memory.pipe({f"/many/{number}": b"%d" % number for number in range(16)})
    begun, some_have, read = [], threading.Event(), memory.cat_file

    def slow(path: str, **options: Any) -> Any:
        begun.append(path)
        if len(begun) >= 4:
            some_have.set()
        assert some_have.wait(60)
        return read(path, **options)

    memory.cat_file = slow
    near = NearfirstFileSystem(fs=memory, skip_instance_cache=True)
    done = Callback()
    near.get("/many/*", f"{tmp_path}/to/", callback=done)
    assert sorted(int(path.read_text()) for path in (tmp_path / "to").iterdir()) == list(range(16))
    assert (done.size, done.value) == (16, 16)


def test_a_copy_of_what_is_missing_is_none(near: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        near.get(["/a/none"], [f"{tmp_path}/none"])
    assert list(tmp_path.iterdir()) == []
    into = io.BytesIO()
    near.get(["/a/x.txt"], [into])
    assert into.getvalue() == b"text of x"


def test_files_that_are_opened_together(near: Any, memory: Any) -> None:
    memory.pipe({f"/many/{number:02}.txt": f"{number}\n".encode() for number in range(30)})
    memory.pipe("/many/zipped.txt.gz", gzip.compress(b"zipped\n"))
    paths = [*memory.find("/many"), "/many/03.txt"]
    opened = [OpenFile(near, path, "rt", "infer") for path in paths]
    with OpenFiles(opened, mode="rt", fs=near) as files:
        backwards = [file.read() for file in reversed(files)]
    expected = [f"{number}\n" for number in range(30)]
    assert backwards == [*expected, "zipped\n", "3\n"][::-1]


def test_it_is_pickled_with_what_it_wraps() -> None:
    near = NearfirstFileSystem(target_protocol="memory", jobs=3)
    again = pickle.loads(pickle.dumps(near))  # noqa: S301
    assert again.fs == near.fs
    with pytest.raises(ValueError, match="nearfirst://s3"):
        NearfirstFileSystem(skip_instance_cache=True)
