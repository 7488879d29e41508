"""What files cost, and the order in which they are read."""

from __future__ import annotations

import mmap
import os
import pickle
import socket
import subprocess
import sys
import threading
from html.parser import HTMLParser
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nearfirst
import pytest
from test_store import Objects

if TYPE_CHECKING:
    from conftest import Server


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lines"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(20_000)))
    return path


def test_sleds_cover_the_file(file: Path) -> None:
    end = 0
    for sled in nearfirst.sleds(file):
        assert sled.offset == end
        assert sled.place in ("near", "far", "unknown")
        end += sled.length
    assert end == file.stat().st_size


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_costs_are_pickled(file: Path, protocol: int) -> None:
    def kept(value: Any, fields: str) -> None:
        again = pickle.loads(pickle.dumps(value, protocol))  # noqa: S301 - our own
        assert type(again) is type(value)
        assert len({again, value}) == 1
        assert attrgetter(*fields.split())(again) == attrgetter(*fields.split())(value)

    for sled in nearfirst.sleds(file):
        kept(sled, "offset length device place latency latency_p90 bandwidth bandwidth_p90")
    kept(nearfirst.delivery_time(file), "p50 p90 unknown_bytes cold_bytes is_known")
    for device in nearfirst.devices():
        kept(device, "name latency latency_p90 bandwidth updated mounted_on")


def test_a_delivery_time_covers_what_is_known(file: Path) -> None:
    best, linear = nearfirst.delivery_time(file), nearfirst.delivery_time(file, plan="linear")
    assert 0 <= best.p50 <= linear.p50
    assert best.is_known == (best.unknown_bytes == 0)
    assert best.cold_bytes == 0


LARGE = """
import resource, sys, nearfirst
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
try:
    next(nearfirst.pick(sys.argv[1], size=8 << 30))
except nearfirst.Refused as error:
    print(error.reason)
"""


def test_a_piece_that_memory_has_no_room_for_is_an_error(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.touch()
    os.truncate(large, 8 << 30)
    command = [sys.executable, "-c", LARGE, str(large)]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    assert b"no memory" in told.stdout


BROKEN = """
import sys, warnings, nearfirst
for _ in range(2):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        nearfirst.delivery_time(sys.argv[1])
    print(*(f"{warning.filename}: {warning.message}" for warning in told))
"""


def test_a_broken_device_table_is_a_warning_once(file: Path) -> None:
    state = Path(os.environ["NEARFIRST_STATE"])
    state.mkdir()
    (state / "devices.toml").write_text("no table [")
    command = [sys.executable, "-c", BROKEN, str(file)]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    first, second, _ = told.split("\n")
    assert first.startswith(f"<string>: {state}/devices.toml: ")
    assert "set aside as " in first
    assert second == ""


def test_each_byte_is_picked_once(file: Path) -> None:
    pieces = {piece.offset: piece.data for piece in nearfirst.pick(file, size=4096)}
    assert all(len(data) <= 4096 for data in pieces.values())
    assert b"".join(pieces[offset] for offset in sorted(pieces)) == file.read_bytes()


def test_records_are_not_cut(file: Path) -> None:
    pieces = {piece.offset: bytes(piece) for piece in nearfirst.pick(file, size=999, record=b"\n")}
    assert all(data.startswith(b"line ") and data.endswith(b"\n") for data in pieces.values())
    assert b"".join(pieces[offset] for offset in sorted(pieces)) == file.read_bytes()


@pytest.mark.parametrize("record", [None, b"\n"])
def test_a_piece_that_cannot_be_read_is_tried_again(file: Path, record: bytes | None) -> None:
    content = file.read_bytes()
    pieces = nearfirst.pick(file, size=4096, record=record)
    read = [next(pieces)]
    os.truncate(file, 0)
    for _ in range(2):
        with pytest.raises(nearfirst.Changed):
            next(pieces)
    file.write_bytes(content)
    read += pieces
    assert b"".join(map(bytes, sorted(read, key=attrgetter("offset")))) == content


def test_pieces_let_go_of_their_file(file: Path) -> None:
    def descriptors() -> int:
        return sum(f.is_symlink() and f.resolve() == file for f in Path("/proc/self/fd").iterdir())

    with nearfirst.pick(file, size=4096) as pieces:
        next(pieces)
        assert descriptors() == 1
    assert pieces.closed
    assert descriptors() == 0
    pieces.close()
    for ask in (lambda: next(pieces), pieces.refresh, pieces.__enter__):
        with pytest.raises(ValueError, match="closed"):
            ask()


def test_a_file_lies_where_it_does_by_its_url_too(file: Path) -> None:
    url = f"file://{file}"
    assert nearfirst.sleds(url) == nearfirst.sleds(file)
    assert nearfirst.delivery_time(url) == nearfirst.delivery_time(file)


MIB = 1 << 20


def load(path: Path, first: int, count: int) -> mmap.mmap:
    """Have these MiB of a file in memory, and no others, as long as what is returned is kept."""
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(file.fileno(), count * MIB, first * MIB)
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        view = mmap.mmap(file.fileno(), count * MIB, flags, mmap.PROT_READ, offset=first * MIB)
    assert sum(view[:: mmap.PAGESIZE]) == 0
    return view


def lies_in_memory(path: Path) -> bool:
    """Whether the file system of a file is one that keeps all in memory (tmpfs)."""
    device = path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return any(mount[2] == number and mount[mount.index("-") + 1] == "tmpfs" for mount in mounts)


def drive_out(path: Path) -> None:
    """Take a file out of memory; a page that somebody is at for a moment goes the next time."""
    waited = threading.Event()
    with path.open("rb") as file:
        os.fsync(file.fileno())
        for _ in range(600):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            if all(sled.place == "far" for sled in nearfirst.sleds(path)):
                return
            waited.wait(0.1)
    pytest.fail(f"{path} stays in memory")


def test_what_a_file_url_names_is_picked(file: Path) -> None:
    pieces = nearfirst.pick(f"file://{file}")
    assert sum(len(piece.data) for piece in pieces) == file.stat().st_size


def test_what_arrives_is_picked_early(tmp_path: Path) -> None:
    path = tmp_path / "arriving"
    path.write_bytes(bytes(16 * MIB))
    if lies_in_memory(path):
        pytest.skip("temporary files lie in memory here")
    drive_out(path)
    kept = [load(path, 8, 8)]
    pieces = nearfirst.pick(path, size=MIB)
    places = [next(pieces).offset // MIB]
    kept.append(load(path, 3, 1))
    places.append(next(pieces).offset // MIB)
    pieces.refresh()
    places += [next(pieces).offset // MIB for _ in range(7)]
    assert places == [8, 9, 3, 10, 11, 12, 13, 14, 15]
    # Nothing near is left, and more than a 32nd has been taken since: it asks of itself.
    kept.append(load(path, 6, 1))
    assert next(pieces).offset == 6 * MIB
    assert sorted(piece.offset // MIB for piece in pieces) == [0, 1, 2, 4, 5, 7]


def test_what_is_near_comes_first(tmp_path: Path) -> None:
    far, near = tmp_path / "far", tmp_path / "near"
    for path in (far, near):
        path.write_bytes(bytes(1 << 20))
    in_memory = lies_in_memory(far)
    if not in_memory:
        drive_out(far)
    kept = load(near, 0, 1)
    names = [str(far), str(tmp_path / "none"), str(near)]
    ordered = list(nearfirst.order(names))
    assert sorted(ordered) == sorted(names)
    first, second = (far, near) if in_memory else (near, far)
    assert ordered == [str(first), str(second), str(tmp_path / "none")]
    kept.close()


def test_each_name_is_asked_about_once(server: Server) -> None:
    names = [server.put(name, bytes(1000)) for name in ("a", "b")]
    assert sorted(nearfirst.order(names)) == names
    assert sorted(server.requests) == ["a", "b"]


def test_objects_are_ordered_as_their_store_tells(file: Path) -> None:
    store = Objects({f"{size}": bytes(size) for size in (3000, 10, 200)} | {"empty": b""})
    names = [f"mine://box/{name}" for name in ("none", "3000", "10", "empty", "200")]
    # What a server takes is known, or else sizes stand for it.
    ordered = [
        name.removeprefix("mine://box/")
        for name in nearfirst.order([*names, str(file)], stores={"mine": store})
        if name != str(file)
    ]
    assert ordered == ["empty", "10", "200", "3000", "none"]
    with pytest.raises(ValueError, match="did you mean endpoint"):
        list(nearfirst.order(names, storage_options={"endpont": "http://host"}))


def test_objects_are_asked_about_side_by_side() -> None:
    at_once = threading.Barrier(8)

    class Slow(Objects):
        def stat(self, name: str) -> nearfirst.Entry:
            at_once.wait(60)
            return super().stat(name)

    store = Slow({f"{number}": b"x" for number in range(16)})
    assert sorted(nearfirst.order(store.objects, stores={"mine": store})) == sorted(store.objects)


def test_what_keeps_all_objects_from_being_asked_about_is_raised(file: Path) -> None:
    class Locked(Objects):
        def stat(self, name: str) -> nearfirst.Entry:
            if name.endswith("locked"):
                raise PermissionError(name)
            return super().stat(name)

    stores: Any = {"mine": Locked({"a": b"a"})}
    locked = "mine://box/locked"
    with pytest.raises(nearfirst.Denied):
        list(nearfirst.order([str(file), locked], stores=stores))
    assert list(nearfirst.order([locked, "mine://box/a"], stores=stores))[-1] == locked
    missing = ["mine://box/none", "mine://box/nothing"]
    assert list(nearfirst.order(missing, stores=stores)) == missing


@pytest.mark.parametrize("name", ["file", b"file"])
def test_one_name_is_no_several(name: Any) -> None:
    with pytest.raises(TypeError, match="several names"):
        list(nearfirst.order(name))


def test_memory_is_a_device() -> None:
    devices = {device.name: device for device in nearfirst.devices()}
    assert devices["memory"].latency is not None
    assert devices["memory"].mounted_on is not None


def test_what_cannot_be_asked_about(tmp_path: Path) -> None:
    with pytest.raises(nearfirst.NotFound):
        nearfirst.sleds(tmp_path / "none")
    with pytest.raises(nearfirst.Unsupported):
        nearfirst.delivery_time("nobodys://host/object")
    with pytest.raises(nearfirst.Unsupported):
        nearfirst.pick("https://host/object")
    with pytest.raises(nearfirst.NearfirstError):
        nearfirst.pick(tmp_path)
    with pytest.raises(nearfirst.Refused, match="makes it as it is read"):
        nearfirst.pick("/proc/version")


def test_an_object_of_a_server_has_sleds() -> None:
    store = Objects({"a": bytes(1000), "empty": b""})
    stores: Any = {"mine": store}
    (sled,) = nearfirst.sleds("mine://box/a", stores=stores)
    assert (sled.offset, sled.length, sled.place) == (0, 1000, "far")
    assert sled.device == "mine://box"
    assert nearfirst.sleds("mine://box/empty", stores=stores) == []
    time = nearfirst.delivery_time("mine://box/a", stores=stores)
    # Known once something was read from it.
    assert time.unknown_bytes == (1000 if sled.latency is None else 0)
    with pytest.raises(nearfirst.NotFound):
        nearfirst.sleds("mine://box/none", stores=stores)


class Untold(Objects):
    """Does not tell how long some are."""

    def stat(self, name: str) -> nearfirst.Entry:
        entry = super().stat(name)
        return nearfirst.Entry(name) if name.endswith("untold") else entry


def test_what_has_no_size_has_no_cost_that_is_known() -> None:
    stores: Any = {"mine": Untold({"told": bytes(1000), "untold": bytes(1000)})}
    told, untold = "mine://box/told", "mine://box/untold"
    for ask in (nearfirst.sleds, nearfirst.delivery_time):
        with pytest.raises(nearfirst.Unsupported, match="does not tell its size"):
            ask(untold, stores=stores)
    assert list(nearfirst.order([untold, told], stores=stores)) == [told, untold]
    assert list(nearfirst.order([untold], stores=stores)) == [untold]


class Flaky(Objects):
    """Is out of reach when it is asked for the first time."""

    asks = 0

    def stat(self, name: str) -> nearfirst.Entry:
        self.asks += 1
        if self.asks == 1:
            raise ConnectionResetError(name)
        return super().stat(name)


def test_an_object_is_asked_about_again_while_errors_pass() -> None:
    store = Flaky({"a": bytes(1000)})
    (sled,) = nearfirst.sleds("mine://box/a", stores={"mine": store})
    assert (sled.length, store.asks) == (1000, 2)


def test_a_server_that_does_not_answer_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/a"
        for ask in (nearfirst.sleds, nearfirst.delivery_time):
            with pytest.raises(nearfirst.Interrupted, match=r"no answer for 0\.5 s"):
                ask(url, stall=0.5)
        with pytest.raises(nearfirst.Interrupted, match=r"no answer for 0\.5 s"):
            list(nearfirst.order([url], stall=0.5))
    with pytest.raises(ValueError, match="stall"):
        nearfirst.sleds("a", stall=0)


TEACHES = """
import os, sys, nearfirst
members = nearfirst.open(sys.argv[1])
assert len(next(members).read()) == 1 << 20
if sys.argv[2] == "closed":
    members.close()
    os._exit(0)
"""


@pytest.mark.parametrize("how", ["ended", "closed", "nowhere"])
def test_what_reads_taught_is_written_down(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    url = server.put("large", bytes(1 << 20))
    state = tmp_path / "state" if how != "nowhere" else Path("/proc/none")
    monkeypatch.setenv("NEARFIRST_STATE", str(state))
    command = [sys.executable, "-c", TEACHES, url, how]
    told = subprocess.run(command, check=True, stderr=subprocess.PIPE)
    assert told.stderr == b""
    if how != "nowhere":
        assert url.split("/")[2] in (state / "devices.toml").read_text()


def test_a_member_has_a_cost(file: Path) -> None:
    members = nearfirst.open(
        str(file), "mine://box/a", stores={"mine": Objects({"a": bytes(1000)})}
    )
    for member in members:
        assert sum(sled.length for sled in member.cost) == member.size
        assert isinstance(member.cost, nearfirst.Sleds)
        member.close()
        with pytest.raises(ValueError, match="closed"):
            assert member.cost


def test_devices_are_measured(tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(bytes(1 << 20))
    measured = {device.name for device in nearfirst.calibrate(file, seconds=0.01)}
    # Memory is known now: it is not measured again unasked.
    (again,) = nearfirst.calibrate(bytes(file), seconds=0.01, save=False)
    assert again.name in measured
    assert again.updated is not None
    small = tmp_path / "small"
    small.write_bytes(bytes(1 << 16))
    with pytest.raises(nearfirst.Refused, match="name a larger file, or a folder"):
        nearfirst.calibrate(small, seconds=0.01, save=False)
    with pytest.raises(nearfirst.NotFound):
        nearfirst.calibrate(f"{file}.none")
    for seconds in (-1, 0, float("nan")):
        with pytest.raises(ValueError, match=f"seconds is at least 1e-09 .* not {seconds}"):
            nearfirst.calibrate(file, seconds=seconds)


CALIBRATES = """
import sys, nearfirst
assert nearfirst.calibrate(sys.argv[1], seconds=0.01, save=sys.argv[2] == "saved")
"""


@pytest.mark.parametrize("how", ["saved", "forgotten"])
def test_what_was_measured_is_written_down_if_it_is_to_be(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    file, state = tmp_path / "large", tmp_path / "state"
    file.write_bytes(bytes(1 << 20))
    monkeypatch.setenv("NEARFIRST_STATE", str(state))
    subprocess.run([sys.executable, "-c", CALIBRATES, file, how], check=True)
    assert (state / "devices.toml").exists() == (how == "saved")


class Page(HTMLParser):
    """What of a page is seen: parts of bars by title and share, and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.parts: list[tuple[str, int]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        assert self.open == [], "every tag is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        found = dict(attrs)
        title, style = found.get("title"), found.get("style") or ""
        if title is not None:
            self.parts.append((title, int(style.removeprefix("flex:").split()[0])))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + " "


def test_a_notebook_shows_sleds(file: Path) -> None:
    sleds = nearfirst.sleds(file)
    page = Page(sleds._repr_html_())
    assert [share for _, share in page.parts] == [sled.length for sled in sleds]
    assert sleds[0].device in page.text
    (part,) = Page(sleds[0]._repr_html_()).parts
    assert part[0].startswith(f"{sleds[0].place} on ")
    many = nearfirst.Sleds(sleds[:1] * 100)
    assert "and 80 more" in Page(many._repr_html_()).text
    assert Page(nearfirst.Sleds()._repr_html_()).text.strip() == "no bytes"


def test_a_notebook_shows_a_set(folder: Path) -> None:
    spec = nearfirst.list_of([folder / "a.txt", folder / "b.txt", folder / "<none>"])
    with nearfirst.open(spec, order="listed", errors="yield") as members:
        assert "0 members" in Page(members._repr_html_()).text
        next(members)
        assert len(members) == 3
        assert Page(members._repr_html_()).parts == [("1 members", 1), ("2 not yet", 2)]
        list(members)
        page = Page(members._repr_html_())
        assert page.parts == [("2 members", 2), ("1 errors", 1)]
        assert "all of 3 names" in page.text
        assert repr(members) == "<nearfirst.Set 2 members and 1 errors yielded, all of 3>"
    assert "closed" in Page(members._repr_html_()).text


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"plan": "worst"}, ValueError),
        ({"record": b"\r\n"}, ValueError),
        ({"record": "\n"}, TypeError),
        ({"size": 0}, ValueError),
    ],
)
def test_bad_picks(file: Path, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(options))):
        nearfirst.pick(file, **options)
