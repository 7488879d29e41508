"""The data set of PyTorch: shares, epochs, order, errors, and going on where one left off."""

from __future__ import annotations

import itertools
import logging
import multiprocessing
import pickle
import re
from pathlib import Path
from typing import Any

import nearfirst
import pytest

torch = pytest.importorskip("torch")

from nearfirst.torch import NearDataset  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

COUNT = 60


@pytest.fixture
def files(tmp_path: Path) -> str:
    """A pattern of many files that hold their numbers."""
    for number in range(COUNT):
        (tmp_path / f"{number:02}.txt").write_text(str(number))
    return f"{tmp_path}/*.txt"


def number(member: nearfirst.Member) -> int:
    return int(member.read())


def odd_only(member: nearfirst.Member) -> int:
    value = int(member.read())
    if value % 2 == 0:
        raise ValueError(f"{value} is even")
    return value


def first_odd(member: nearfirst.Member) -> int:
    return next(value for value in [int(member.read())] if value % 2)


def read(dataset: NearDataset[int], **options: Any) -> list[int]:
    loader = DataLoader(dataset, batch_size=None, **options)
    return [int(value) for value in loader]


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_workers_share_the_set(files: str, context: str) -> None:
    with nearfirst.open(files) as members:
        next(members).read()
        dataset = NearDataset(files, transform=number)
        found = read(dataset, num_workers=2, multiprocessing_context=context)
        assert sorted(found) == list(range(COUNT))
        assert len(list(members.names())) == COUNT


def test_without_workers(files: str) -> None:
    dataset = NearDataset(files, transform=number)
    assert sorted(read(dataset)) == list(range(COUNT))
    names = dict(NearDataset(files))
    assert {Path(name).name: content for name, content in names.items()} == {
        f"{number:02}.txt": str(number).encode() for number in range(COUNT)
    }


def test_batches_are_collated(files: str) -> None:
    loader = DataLoader(NearDataset(files, transform=number), batch_size=16, num_workers=2)
    batches = list(loader)
    assert all(isinstance(batch, torch.Tensor) for batch in batches)
    assert sorted(int(value) for batch in batches for value in batch) == list(range(COUNT))


def test_ranks_and_their_workers_share_the_set(files: str) -> None:
    found = []
    for rank in range(3):
        dataset = NearDataset(files, transform=number, rank=rank, world_size=3)
        share = read(dataset, num_workers=2)
        assert len(share) < COUNT
        found += share
    assert sorted(found) == list(range(COUNT))


def ranked(rank: int, world_size: int, meeting: str, files: str, queue: Any) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size
    )
    queue.put(read(NearDataset(files, transform=number), num_workers=1))
    torch.distributed.barrier()


def test_ranks_of_a_process_group_share_the_set(files: str, tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    queue = spawn.Queue()
    meeting = str(tmp_path / "meeting")
    ranks = [
        spawn.Process(target=ranked, args=(rank, 2, meeting, files, queue)) for rank in range(2)
    ]
    for process in ranks:
        process.start()
    found = [value for _ in ranks for value in queue.get(timeout=60)]
    for process in ranks:
        process.join()
    assert sorted(found) == list(range(COUNT))


def test_the_order_is_drawn_by_lot_in_each_epoch(files: str) -> None:
    dataset = NearDataset(files, transform=number, shuffle=True, seed=3)
    orders = []
    for epoch in range(3):
        dataset.set_epoch(epoch)
        orders.append(list(dataset))
    assert all(sorted(order) == list(range(COUNT)) for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    assert list(range(COUNT)) not in orders


def backwards(entry: nearfirst.Entry) -> float:
    return float(Path(entry.name).stem)


def test_the_order_is_of_a_priority(files: str) -> None:
    dataset = NearDataset(files, transform=number, priority=backwards, order="rank")
    assert read(dataset) == list(reversed(range(COUNT)))
    spawned = read(dataset, num_workers=1, multiprocessing_context="spawn")
    assert spawned == list(reversed(range(COUNT)))


@pytest.mark.parametrize("used", [0, 1, 25, COUNT - 1])
def test_it_goes_on_where_it_left_off(files: str, used: int) -> None:
    dataset = NearDataset(files, transform=number, shuffle=True)
    samples = iter(dataset)
    first = [next(samples) for _ in range(used)]
    state = pickle.loads(pickle.dumps(dataset.state_dict()))  # noqa: S301
    again = NearDataset(files, transform=number, shuffle=True)
    again.load_state_dict(state)
    # With other workers than before.
    rest = read(again, num_workers=2)
    assert sorted(first + rest) == list(range(COUNT))
    assert state["epoch"] == 0


def names(samples: Any, count: int) -> list[str]:
    return [name for name, _ in itertools.islice(samples, count)]


def test_a_loop_that_is_broken_off_takes_nothing_from_the_next(files: str) -> None:
    dataset = NearDataset(files)
    loader = DataLoader(dataset, batch_size=None)
    assert len(names(loader, 1)) == 1
    assert len(names(loader, 20)) == 20
    assert len(dataset.state_dict()["done"]) == 20 * 8
    assert len(names(loader, COUNT + 1)) == COUNT
    assert dataset.state_dict() == {"epoch": 1, "done": b""}


def test_what_was_loaded_does_not_come_until_its_epoch_ends(files: str) -> None:
    dataset = NearDataset(files)
    used = names(dataset, 40)
    dataset.load_state_dict(dataset.state_dict())
    for count in (1, 5):
        assert not set(names(dataset, count)) & set(used)
        assert len(dataset.state_dict()["done"]) == (40 + count) * 8
    assert sorted(used + names(dataset, COUNT)) == sorted(nearfirst.open(files).names())
    assert len(names(dataset, COUNT + 1)) == COUNT


def test_the_same_content_comes_once_or_not_at_all(files: str) -> None:
    for path in Path(files).parent.iterdir():
        path.write_text(str(int(path.stem) % 3))
    dataset = NearDataset(files, transform=number, duplicates="content")
    assert sorted(read(dataset)) == [0, 1, 2]
    with pytest.raises(ValueError, match="one process without workers"):
        read(dataset, num_workers=2)
    ranked = NearDataset(files, transform=number, duplicates="content", rank=0, world_size=2)
    with pytest.raises(ValueError, match="one process without workers"):
        iter(ranked)


def test_two_loops_of_one_epoch_end_it_once(files: str) -> None:
    dataset = NearDataset(files)
    loops = [iter(dataset), iter(dataset)]
    assert [len(names(loop, COUNT + 1)) for loop in loops] == [COUNT, COUNT]
    assert dataset.state_dict() == {"epoch": 1, "done": b""}


def test_persistent_workers_begin_anew(files: str) -> None:
    dataset = NearDataset(files)
    loader = DataLoader(dataset, batch_size=None, num_workers=2, persistent_workers=True)
    assert len(names(loader, 2)) == 2
    assert len(names(loader, COUNT + 1)) == COUNT


def test_a_loop_over_workers_notes_what_it_used(files: str) -> None:
    dataset = NearDataset(files)
    loader = DataLoader(dataset, batch_size=7, num_workers=2)
    used: list[str] = []
    for names, _ in loader:
        used += names
        dataset.mark(names)
        if len(used) > COUNT // 2:
            break
    again = NearDataset(files)
    again.load_state_dict(dataset.state_dict())
    rest = [name for name, _ in again]
    assert sorted(used + rest) == sorted(nearfirst.open(files).names())


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loop_that_marks_reads_whole_epochs(files: str, workers: int) -> None:
    dataset = NearDataset(files)
    for epoch in range(3):
        dataset.set_epoch(epoch)
        used: list[str] = []
        for batch, _ in DataLoader(dataset, batch_size=7, num_workers=workers):
            used += batch
            dataset.mark(batch)
        assert sorted(used) == sorted(nearfirst.open(files).names())


def test_an_epoch_ends_with_nothing_done(files: str) -> None:
    dataset = NearDataset(files, transform=number)
    for epoch in range(3):
        assert dataset.state_dict() == {"epoch": epoch, "done": b""}
        assert len(list(dataset)) == COUNT


def test_persistent_workers_go_through_epochs(files: str) -> None:
    loader = DataLoader(
        NearDataset(files, transform=number),
        batch_size=None,
        num_workers=2,
        persistent_workers=True,
    )
    for _ in range(3):
        assert sorted(loader) == list(range(COUNT))


def test_errors_are_raised_and_the_others_follow(files: str) -> None:
    samples = iter(NearDataset(files, transform=odd_only))
    found, raised = [], 0
    while True:
        try:
            found.append(next(samples))
        except ValueError:
            raised += 1
        except StopIteration:
            break
    assert (sorted(found), raised) == (list(range(1, COUNT, 2)), COUNT // 2)
    missing: NearDataset[Any] = NearDataset(nearfirst.list_of([files + "none"]))
    with pytest.raises(nearfirst.NotFound):
        next(iter(missing))
    with pytest.raises(Exception, match="NotFound"):
        list(DataLoader(NearDataset(nearfirst.list_of([files + "none"])), num_workers=1))


def test_a_transform_does_not_end_the_samples(files: str) -> None:
    skipping = NearDataset(files, transform=first_odd, errors="skip")
    assert sorted(read(skipping, num_workers=2)) == list(range(1, COUNT, 2))
    samples: list[Any] = list(NearDataset(files, transform=first_odd, errors="yield"))
    errors = [sample for sample in samples if isinstance(sample, Exception)]
    assert (len(samples), len(errors)) == (COUNT, COUNT // 2)
    with pytest.raises(RuntimeError, match="transform raised StopIteration") as raised:
        list(NearDataset(files, transform=first_odd))
    assert isinstance(raised.value.__cause__, StopIteration)


def test_errors_are_skipped_and_logged(files: str, caplog: pytest.LogCaptureFixture) -> None:
    specs: list[Any] = [files, nearfirst.list_of([files + "none"])]
    dataset = NearDataset(*specs, transform=odd_only, errors="skip")
    with caplog.at_level(logging.WARNING):
        assert sorted(dataset) == list(range(1, COUNT, 2))
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == COUNT // 2 + 1
    assert any("none: No such file" in message for message in messages)
    assert any("4 is even" in message for message in messages)


def test_errors_are_yielded_from_workers(files: str) -> None:
    specs: list[Any] = [files, nearfirst.list_of([files + "none"])]
    dataset = NearDataset(*specs, transform=odd_only, errors="yield")
    samples: list[Any] = list(DataLoader(dataset, batch_size=None, num_workers=2))
    errors = [sample for sample in samples if isinstance(sample, Exception)]
    assert len(samples) == COUNT + 1
    assert len(errors) == COUNT // 2 + 1
    assert sum(isinstance(error, nearfirst.NotFound) for error in errors) == 1


@pytest.mark.parametrize("errors", ["yield", "skip"])
def test_what_is_wrong_with_a_listing_is_told_once(
    files: str, errors: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    nothing = files.replace("*", "none*")
    dataset = NearDataset(files, nothing, transform=number, errors=errors)
    # Spawned: what a fork logs is caught by the handlers of these tests.
    loader = DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="spawn")
    samples: list[Any] = list(loader)
    told = [sample for sample in samples if isinstance(sample, nearfirst.NotFound)]
    assert len(samples) == COUNT + len(told)
    assert [error.name for error in told] == ([nothing] if errors == "yield" else [])
    # In the log, what each worker met alone, by its number.
    logged = capfd.readouterr().err
    assert logged.count("another worker tells") == 1
    assert logged.count("skipped") == (errors == "skip")
    assert len(set(re.findall(r"worker \d of 2", logged))) == 1 + (errors == "skip")


def test_an_error_of_a_worker_is_of_its_class(files: str) -> None:
    dataset: NearDataset[Any] = NearDataset(nearfirst.list_of([files + "none"]))
    with pytest.raises(nearfirst.NotFound, match=r"worker process 0[\s\S]*none: No such file"):
        list(DataLoader(dataset, num_workers=1))


def test_the_example_of_the_documentation_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
    (example,) = re.findall(
        r"^```python\n(from nearfirst.torch.*?)^```", docs, re.DOTALL | re.MULTILINE
    )
    monkeypatch.chdir(tmp_path)
    Path("logs").mkdir()
    for size in (1, 10, 100):
        Path(f"logs/{size}.txt").write_bytes(bytes(size))
    found: dict[str, Any] = {}
    exec(compile(example, "python.md", "exec"), found)  # noqa: S102
    # As long as three names: whoever loads it is given nothing once more.
    assert (found["state"]["epoch"], len(found["state"]["done"])) == (0, 3 * 8)
    sums = [int(each) for each in re.findall(r"tensor\((\d+)\)", capsys.readouterr().out)]
    assert sum(sums) == 111


@pytest.mark.parametrize(
    ("options", "error", "why"),
    [
        ({"errors": "ignore"}, ValueError, "errors"),
        ({"rank": 0}, ValueError, "together"),
        ({"rank": 2, "world_size": 2}, ValueError, "rank is from 0 to 1"),
        ({"rank": 0, "world_size": 0}, ValueError, "at least 1"),
        ({"rank": backwards, "world_size": 2}, TypeError, "priority"),
        ({"rank": backwards}, TypeError, "priority"),
        ({"priority": 1}, TypeError, "function"),
        ({"shuffle": True, "order": "name"}, TypeError, "shuffle"),
        ({"shuffle": True, "priority": backwards}, TypeError, "shuffle"),
        ({"bugdet": 1 << 20}, TypeError, "bugdet"),
    ],
)
def test_bad_arguments(options: dict[str, Any], error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        NearDataset("x", **options)


def test_one_name_is_not_several(files: str) -> None:
    for name in ("a.txt", b"a.txt", Path("a.txt")):
        with pytest.raises(TypeError, match="several names"):
            NearDataset(files).mark(name)  # type: ignore[arg-type]
