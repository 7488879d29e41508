"""Files of a mount that does not answer: Ctrl-C is heard while they are waited for."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import nearfirst
import pytest
from test_wait import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONTENT = bytes(range(256)) * (128 << 10)
# A read of them that comes after they are yielded, which is when the first of them is near.
LATER = 64
# One that comes after the first 8 MiB are read.
MUCH_LATER = 160
# One that does not come.
NEVER = 1 << 20
# Functions that wait, or call what does.
WAITS = ("<lambda>", "calibrate", "open", "pick")


class Mount:
    """A folder with a file of which one read is not answered, and one of which it is late."""

    def __init__(self, program: str, folder: Path, read: int) -> None:
        self._counted, self._count = "reads", read
        source, self.folder = folder / "source", folder / "mount"
        source.mkdir()
        self.folder.mkdir()
        (source / "held").write_bytes(CONTENT)
        (source / "late").write_bytes(CONTENT)
        rules = ["--rule", f"held: stall={read}:forever", "--rule", f"late: stall={read}:3s"]
        command: list[str | Path] = [program, source, self.folder, *rules]
        self._server = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._server.stdout is not None
        self.works = self._server.stdout.readline().startswith(b"mounted")

    def hang(self) -> None:
        """Answers nothing more about the file, neither what it is."""
        self._counted, self._count = "metadata", self._counts()["metadata"] + 1
        (self.folder / ".slowfs/rules").write_text("held: hang=true")

    def _counts(self) -> dict[str, int]:
        total: dict[str, int] = json.loads((self.folder / ".slowfs/stats").read_bytes())["total"]
        return total

    def reads(self) -> list[tuple[int, int]]:
        """Where each read began, in the order of their coming, and where it ended."""
        log = json.loads((self.folder / ".slowfs/stats").read_bytes())["log"]
        return [(read["offset"], read["offset"] + read["length"]) for read in log]

    def is_asked(self) -> bool:
        return self._counts()[self._counted] >= self._count

    def close(self) -> None:
        with self._server:
            self._server.terminate()

    def interrupted(self, wait: Callable[[], object]) -> None:
        """Has Ctrl-C come while `wait` waits for the mount."""
        main = threading.main_thread().ident or 0
        heard = threading.Event()

        def press() -> None:
            while not self.is_asked() and not heard.wait(0.05):
                pass
            while sys._current_frames()[main].f_code.co_name not in WAITS:  # noqa: SLF001
                if heard.is_set():
                    return
            signal.pthread_kill(main, signal.SIGINT)
            # Who waits without hearing it is let go by an error.
            if not heard.wait(PATIENCE_S):
                self.close()

        presser = threading.Thread(target=press)
        presser.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                wait()
        finally:
            heard.set()
            presser.join()
        assert self.is_asked(), "it was heard while the mount did not answer"


@pytest.fixture
def mount(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mount]:
    """A mount that does not answer the first read, or one that is said."""
    program = shutil.which("slowfs", path=Path(__file__).parents[2] / "target/debug")
    read = getattr(request, "param", 1)
    mount = Mount(program, tmp_path, read) if program and os.access("/dev/fuse", os.W_OK) else None
    if mount is None or not mount.works:
        pytest.skip("there is no slowfs, or no FUSE")
    yield mount
    mount.close()


READS: dict[str, Callable[[nearfirst.Member], object]] = {
    "read": lambda member: member.read(),
    "readinto": lambda member: member.readinto(bytearray(10)),
    "buffer": lambda member: memoryview(member),  # noqa: PLW0108
}


@pytest.mark.parametrize("mount", [LATER], indirect=True)
@pytest.mark.parametrize("read", READS)
def test_ctrl_c_is_heard_while_a_file_is_read(mount: Mount, read: str) -> None:
    member = next(nearfirst.open(mount.folder / "held"))
    mount.interrupted(lambda: READS[read](member))


@pytest.mark.parametrize("mount", [LATER], indirect=True)
@pytest.mark.parametrize("read", READS)
def test_ctrl_c_is_heard_while_a_file_is_read_that_was_opened(mount: Mount, read: str) -> None:
    member = next(nearfirst.open(mount.folder / "held"))
    member.open().close()
    mount.interrupted(lambda: READS[read](member))


@pytest.mark.parametrize("mount", [LATER], indirect=True)
@pytest.mark.parametrize("read", READS)
def test_closing_a_member_ends_who_reads_its_file(mount: Mount, read: str) -> None:
    member = next(nearfirst.open(mount.folder / "held"))

    def reads() -> None:
        with pytest.raises(ValueError, match="the member is closed"):
            READS[read](member)

    reader = threading.Thread(target=reads)
    reader.start()
    while not mount.is_asked():
        reader.join(0.05)
    member.close()
    reader.join(PATIENCE_S)
    assert not reader.is_alive()


def test_a_file_that_was_opened_is_read_whole(mount: Mount) -> None:
    member = next(nearfirst.open(mount.folder / "late"))
    with member.open() as first:
        assert member.read(10) == CONTENT[:10]
        assert first.read() == CONTENT
    assert member.read() == CONTENT[10:]
    assert member.read() == b""
    with member.open() as again:
        assert again.read() == CONTENT


@pytest.mark.parametrize("mount", [MUCH_LATER], indirect=True)
def test_a_file_that_was_opened_is_opened_again_after_ctrl_c(mount: Mount) -> None:
    member = next(nearfirst.open(mount.folder / "late"))
    member.open().close()
    assert member.read(10) == CONTENT[:10]
    mount.interrupted(lambda: member.read())  # noqa: PLW0108
    with member.open() as again:
        assert again.read() == CONTENT
    assert member.read() == CONTENT[10:]


USES: dict[str, Callable[[Path], object]] = {
    "pick": lambda path: list(nearfirst.pick(path)),
    "pick of records": lambda path: list(nearfirst.pick(path, record=b"\n")),
    "calibrate": lambda path: nearfirst.calibrate(path, seconds=PATIENCE_S, save=False),
}


@pytest.mark.parametrize("use", USES)
def test_ctrl_c_is_heard_while_a_file_is_waited_for(mount: Mount, use: str) -> None:
    mount.interrupted(lambda: USES[use](mount.folder / "held"))


@pytest.mark.parametrize("what", ["size", "version", "modified"])
def test_ctrl_c_is_heard_while_a_file_is_asked_about(mount: Mount, what: str) -> None:
    mount.hang()
    entry = nearfirst.Entry(mount.folder / "held")
    mount.interrupted(lambda: getattr(entry, what))


def test_ctrl_c_is_heard_while_the_configuration_is_read(
    mount: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = mount.folder.parent / "source/nearfirst"
    folder.mkdir()
    (folder / "config.toml").symlink_to("../held")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(mount.folder))
    mount.hang()
    # By an engine of its own, which is made for these.
    mount.interrupted(lambda: nearfirst.open("x", jobs=3, attempts=3))


INTERRUPTED = """
import json, pathlib, signal, sys, threading, nearfirst
mount = pathlib.Path(sys.argv[1])
main = threading.main_thread().ident
def press():
    while not json.loads((mount / ".slowfs/stats").read_bytes())["total"]["reads"]:
        pass
    signal.pthread_kill(main, signal.SIGINT)
threading.Thread(target=press).start()
try:
    nearfirst.delivery_time("/dev/null")
except KeyboardInterrupt:
    print("interrupted")
while (mount / "state/devices.toml").exists():
    pass
nearfirst.delivery_time("/dev/null")
"""


def test_what_is_wrong_with_a_device_table_that_was_not_waited_for_is_said(mount: Mount) -> None:
    folder = mount.folder.parent / "source/state"
    folder.mkdir()
    (folder / "devices.toml").write_text("no table [")
    (mount.folder / ".slowfs/rules").write_text("devices.toml: stall=1:1s")
    command = [sys.executable, "-W", "always", "-c", INTERRUPTED, str(mount.folder)]
    environment = os.environ | {"NEARFIRST_STATE": str(mount.folder / "state")}
    output = subprocess.run(
        command, check=True, env=environment, capture_output=True, timeout=PATIENCE_S, text=True
    )
    assert output.stdout == "interrupted\n"
    assert output.stderr.count("set aside as ") == 1


def test_a_piece_that_was_not_waited_for_is_the_next(mount: Mount) -> None:
    pieces = nearfirst.pick(mount.folder / "late")
    mount.interrupted(lambda: next(pieces))
    parts = sorted((piece.offset, piece.data) for piece in pieces)
    assert b"".join(data for _, data in parts) == CONTENT


@pytest.mark.parametrize("mount", [NEVER], indirect=True)
def test_far_records_are_read_forwards(mount: Mount) -> None:
    assert sum(map(len, nearfirst.pick(mount.folder / "held", record=b"\n"))) == len(CONTENT)
    ahead = 0
    for start, end in mount.reads():
        # The kernel reads ahead, and not always in order.
        assert start - ahead < 512 << 10
        ahead = max(ahead, end)


@pytest.mark.parametrize("mount", [LATER], indirect=True)
def test_what_was_not_waited_for_is_read(mount: Mount) -> None:
    member = next(nearfirst.open(mount.folder / "late"))
    mount.interrupted(lambda: member.read())  # noqa: PLW0108
    assert member.read() == CONTENT
