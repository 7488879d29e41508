"""How a member's bytes are had: near and remote alike."""

from __future__ import annotations

import io
import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nearfirst
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Server

CONTENT = bytes(range(256)) * 2000


@pytest.fixture(params=["local", "url", "remote"])
def member(request: pytest.FixtureRequest, tmp_path: Path, server: Server) -> nearfirst.Member:
    """A member with CONTENT."""
    if request.param == "remote":
        return next(nearfirst.open(server.put("data.bin", CONTENT)))
    path = tmp_path / "data.bin"
    path.write_bytes(CONTENT)
    return next(nearfirst.open(path if request.param == "local" else f"file://{path}"))


def test_it_is_read_forwards(member: nearfirst.Member) -> None:
    assert member.size in (None, len(CONTENT))
    assert member.read(10) == CONTENT[:10]
    assert member.read(0) == b""
    buffer = bytearray(300_000)
    filled = member.readinto(buffer)
    assert 0 < filled <= len(buffer)
    assert buffer[:filled] == CONTENT[10 : 10 + filled]
    assert member.read() == CONTENT[10 + filled :]
    assert member.read() == b""
    assert member.readinto(buffer) == 0


def test_it_comes_in_chunks_without_a_copy(member: nearfirst.Member) -> None:
    start = member.read(10)
    views = list(member.chunks())
    assert all(view.readonly and view.nbytes for view in views)
    member.close()
    assert start + b"".join(views) == CONTENT


def test_chunks_of_what_failed_or_is_closed_raise(server: Server) -> None:
    url = server.url("none")
    (failed,) = nearfirst.open(url, errors="yield")
    with pytest.raises(nearfirst.NotFound) as caught:
        next(failed.chunks())
    assert caught.value.name == url
    member = next(nearfirst.open(server.put("some", CONTENT)))
    chunks = member.chunks()
    assert next(chunks).nbytes > 0
    member.close()
    with pytest.raises(ValueError, match="closed"):
        next(chunks)


def test_it_has_the_headers_of_its_server(server: Server, tmp_path: Path) -> None:
    member = next(nearfirst.open(server.put("page", b"text")))
    assert member.headers["content-type"] == "text/plain; charset=latin-1"
    assert member.headers["vary"] == "accept, cookie"
    member.read()
    member.close()
    assert member.headers["content-length"] == "4"
    (tmp_path / "file").write_bytes(b"text")
    assert next(nearfirst.open(tmp_path / "file")).headers == {}


def test_its_text_is_read_line_by_line(member: nearfirst.Member) -> None:
    with member.lines("latin-1", newline="\n") as lines:
        assert list(lines) == [line.decode("latin-1") for line in io.BytesIO(CONTENT)]
        assert not member.closed
    assert member.closed
    with pytest.raises(ValueError, match="closed"):
        next(member.lines())


def test_its_text_is_decoded_as_that_of_files(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes("zwölf\r\n".encode() + b"\xff")

    def text(**how: Any) -> list[str]:
        return list(next(nearfirst.open(tmp_path / "text")).lines(**how))

    assert text(errors="replace") == ["zwölf\n", "\ufffd"]
    assert text(encoding="latin-1", newline="") == ["zwÃ¶lf\r\n", "ÿ"]
    with pytest.raises(UnicodeDecodeError):
        text()
    member = next(nearfirst.open(tmp_path / "text"))
    for wrong in ({"encoding": "none"}, {"newline": "x"}):
        with pytest.raises((LookupError, ValueError)):
            member.lines(**wrong)
    assert list(member.lines("latin-1")) == ["zwÃ¶lf\n", "ÿ"]


def test_it_is_a_raw_stream(member: nearfirst.Member) -> None:
    assert (member.readable(), member.writable(), member.seekable()) == (True, False, False)
    assert member.tell() == 0
    member.read(10)
    assert member.tell() == 10
    forbidden: list[Callable[[], Any]] = [lambda: member.seek(0), member.truncate]
    for call in forbidden:
        with pytest.raises(io.UnsupportedOperation):
            call()
    buffered = io.BufferedReader(member)
    assert list(buffered) == list(io.BytesIO(CONTENT[10:]))
    assert member.tell() == buffered.tell() == len(CONTENT)
    buffered.close()
    with pytest.raises(ValueError, match="closed"):
        member.tell()


def test_its_lines_are_those_of_a_file(member: nearfirst.Member) -> None:
    file = io.BytesIO(CONTENT)
    for size in (0, 3, 100, None, -1, 300):
        assert member.readline(size) == file.readline(size)
        assert member.tell() == file.tell()
    assert next(member) == next(file)
    assert member.read(5) == file.read(5)
    assert list(member) == list(file)
    assert (member.readline(), member.readline(7), member.isatty()) == (b"", b"", False)
    member.close()
    with pytest.raises(ValueError, match="closed"):
        member.readline()


def test_lines_come_before_the_whole_is_here(server: Server) -> None:
    content = b"a line\n" * (4 << 20)
    member = next(nearfirst.open(server.put("bytes", content, hold=True)))
    assert [next(member) for _ in range(1000)] == [b"a line\n"] * 1000
    member.close()
    lines = next(nearfirst.open(server.put("lines", content, hold=True))).lines()
    assert [next(lines) for _ in range(1000)] == ["a line\n"] * 1000
    server.released.set()
    assert sum(1 for _ in lines) == (4 << 20) - 1000


def test_what_was_read_is_let_go(member: nearfirst.Member) -> None:
    member.read(1)
    uses: list[Callable[[], Any]] = [member.open, lambda: memoryview(member)]
    for use in uses:
        with pytest.raises(ValueError, match="let go"):
            use()


def test_it_is_a_buffer(member: nearfirst.Member) -> None:
    view = memoryview(member)
    assert view.readonly
    assert view == CONTENT
    with memoryview(member) as again:
        assert again == view
    assert member.read(3) == CONTENT[:3]
    member.close()
    assert view == CONTENT


def test_it_is_a_file(member: nearfirst.Member) -> None:
    with member.open() as file, member.open() as other:
        assert isinstance(file, io.BufferedReader)
        assert file.seekable()
        assert file.seek(-10, io.SEEK_END) == len(CONTENT) - 10
        assert file.read() == CONTENT[-10:]
        assert other.read() == CONTENT
    assert member.read() == CONTENT


def test_it_is_one_file_whatever_else_it_was(member: nearfirst.Member) -> None:
    with member.open() as file:
        assert memoryview(member) == CONTENT
        with member.open() as again:
            assert os.path.sameopenfile(file.fileno(), again.fileno())
            assert again.read() == CONTENT
    assert member.read() == CONTENT
    assert member.read() == b""


def test_it_has_a_path_with_its_own_file_name(member: nearfirst.Member) -> None:
    path = Path(member.path())
    assert path.name == "data.bin"
    assert path.read_bytes() == CONTENT
    assert member.path() == str(path)
    with member.open() as file:
        assert os.path.samestat(path.stat(), os.fstat(file.fileno()))
    assert member.read() == CONTENT
    is_a_copy = member.url.startswith("http")
    member.close()
    assert path.exists() != is_a_copy
    assert path.parent.exists() != is_a_copy


def test_a_copy_is_called_what_a_url_of_the_web_stands_for(server: Server) -> None:
    member = next(nearfirst.open(server.put("My%20Paper.txt", b"text")))
    assert Path(member.path()).name == "My Paper.txt"
    member = next(nearfirst.open(server.put("x" * 300 + ".fits", b"text")))
    assert Path(member.path()).name == "x" * 250 + ".fits"


def test_a_copy_is_its_users_alone_whatever_the_umask(server: Server) -> None:
    member = next(nearfirst.open(server.put("secret", b"text")))
    umask = os.umask(0)
    try:
        path = Path(member.path())
    finally:
        os.umask(umask)
    modes = [stat.S_IMODE(at.stat().st_mode) for at in (path, path.parent)]
    assert modes == [0o600, 0o700]


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert next(nearfirst.open(tmp_path / "empty")).read() == b""
    assert memoryview(next(nearfirst.open(tmp_path / "empty"))).nbytes == 0


def test_a_file_that_is_made_as_it_is_read() -> None:
    made = Path("/proc/version")
    assert next(nearfirst.open(made)).read() == made.read_bytes()
    assert bytes(memoryview(next(nearfirst.open(made)))) == made.read_bytes()


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_large_one_is_read_whole(tmp_path: Path, server: Server, *, is_remote: bool) -> None:
    content = CONTENT * 40
    (tmp_path / "large").write_bytes(content)
    large: Any = server.put("large", content) if is_remote else tmp_path / "large"
    assert next(nearfirst.open(large)).read() == content
    assert memoryview(next(nearfirst.open(large))) == content
    member = next(nearfirst.open(large))
    assert member.read(3 << 20) == content[: 3 << 20]
    assert member.read(-1) == content[3 << 20 :]


PEAK = """
import sys, nearfirst
from pathlib import Path

def peak():
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x)
    return int(line.split()[1]) << 10

with nearfirst.open(sys.argv[1], budget=4 << 20) as large:
    member = next(large)
    before = peak()
    whole = memoryview(member) if "{}" == "buffer" else member.read()
    print(len(whole), peak() - before)
"""


@pytest.mark.parametrize("use", ["read", "buffer"])
def test_a_large_one_is_in_memory_once(server: Server, use: str) -> None:
    url = server.put("large", bytes(64 << 20))
    command = [sys.executable, "-c", PEAK.replace("{}", use), url]
    told = subprocess.run(command, capture_output=True, check=True)
    size, peak = map(int, told.stdout.split())
    assert size == 64 << 20
    assert peak < 96 << 20


def test_a_closed_member_says_so(member: nearfirst.Member) -> None:
    with member:
        pass
    uses: list[Callable[[], Any]] = [member.read, member.open, member.path]
    for use in uses:
        with pytest.raises(ValueError, match="closed"):
            use()
    member.close()


def test_buffers_that_cannot_be_filled(member: nearfirst.Member) -> None:
    bad: list[Any] = [b"constant", "text", memoryview(bytearray(8))[::2]]
    for buffer in bad:
        with pytest.raises((TypeError, BufferError)):
            member.readinto(buffer)
    assert member.read() == CONTENT


def test_errors_pass_between_processes(tmp_path: Path) -> None:
    (failed,) = nearfirst.open(tmp_path / "none", errors="yield")
    error = pickle.loads(pickle.dumps(failed.error))  # noqa: S301
    assert isinstance(error, nearfirst.NotFound)
    assert str(error) == str(failed.error)
    assert error.errno == 2


def test_what_a_server_lacks_is_not_found(server: Server) -> None:
    with pytest.raises(nearfirst.NotFound):
        next(nearfirst.open(server.url("none")))
