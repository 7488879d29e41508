"""Trains a small model on the JPEGs of a bucket, and prints how long it waited for them.

`torch_loop.py HOW BUCKET WORKERS STEPS`, run by the Python that bench/peers makes for PyTorch,
with `AWS_ENDPOINT_URL`, `AWS_REGION` and keys in the environment, and in `COMPUTES_ON` the number
of a processor that only the model is to have. HOW is a name of `DATASETS`, or `compute`: batches
are then made up, and there is nothing to wait for. The model takes STEPS steps with each batch;
with none the loop only waits. The time begins before the data set is made.
"""

# ruff: noqa: PLC0415 - only the library that runs is imported, within its time
from __future__ import annotations

import io
import json
import os
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ENDPOINT, REGION = os.environ.get("AWS_ENDPOINT_URL", ""), os.environ.get("AWS_REGION", "")
BATCH = 32
SIDE = 96
"""Pixels of a side of what the model is given."""
MADE_UP_BATCHES = 8


@dataclass
class Tally:
    """Where the time of a loop went."""

    seconds: float = 0.0
    waited_s: float = 0.0
    first_s: float = 0.0
    samples: int = 0
    loss: float = field(default=0.0)


def decoded(content: bytes) -> torch.Tensor:
    """The pixels of a JPEG, from 0 to 1."""
    with Image.open(io.BytesIO(content)) as image:
        small = image.convert("RGB").resize((SIDE, SIDE))
    pixels = torch.frombuffer(bytearray(small.tobytes()), dtype=torch.uint8)
    return pixels.view(SIDE, SIDE, 3).permute(2, 0, 1).float() / 255


def of_member(member: Any) -> torch.Tensor:  # noqa: ANN401 - its type is imported with it
    """A member of a set."""
    return decoded(member.read())


def of_reader(reader: Any) -> torch.Tensor:  # noqa: ANN401 - its type is imported with it
    """An object of the S3 connector."""
    return decoded(reader.read())


def _client() -> Any:  # noqa: ANN401 - its type is imported with it
    import boto3
    from botocore.config import Config

    signed = Config(signature_version="s3v4", s3={"addressing_style": "path"})
    return boto3.client("s3", endpoint_url=ENDPOINT, config=signed)


def _keys(bucket: str) -> list[str]:
    """Listed by boto3: what lists with threads of its own does not survive the fork of a worker."""
    pages = _client().get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [entry["Key"] for page in pages for entry in page["Contents"]]


def _urls(bucket: str) -> list[str]:
    return [f"s3://{bucket}/{key}" for key in _keys(bucket)]


def near(bucket: str, workers: int) -> Iterator[torch.Tensor]:
    """Our data set."""
    from nearfirst.torch import NearDataset

    dataset = NearDataset(f"s3://{bucket}/*.jpg", transform=of_member, shuffle=True)
    return iter(DataLoader(dataset, batch_size=BATCH, num_workers=workers))


def connector(bucket: str, workers: int) -> Iterator[torch.Tensor]:
    """The S3 connector for PyTorch, objects by key so that workers share them.

    Its own listing refuses the empty elements of versitygw's answer.
    """
    from s3torchconnector import S3ClientConfig, S3MapDataset

    config = S3ClientConfig(force_path_style=True)
    dataset = S3MapDataset.from_objects(
        _urls(bucket),
        region=REGION,
        endpoint=ENDPOINT,
        transform=of_reader,
        s3client_config=config,
    )
    return iter(DataLoader(dataset, batch_size=BATCH, num_workers=workers, shuffle=True))


class Listed(Dataset):  # type: ignore[type-arg, misc]
    """Objects by number, each read when asked for."""

    def __init__(self, urls: list[str]) -> None:
        self._urls = urls
        self._files: Any = None

    def __len__(self) -> int:
        return len(self._urls)

    def __getitem__(self, index: int) -> torch.Tensor:
        if self._files is None:
            import s3fs

            # In the worker: an event loop does not survive a fork.
            self._files = s3fs.S3FileSystem(endpoint_url=ENDPOINT)
        return decoded(self._files.cat_file(self._urls[index]))


def plain(bucket: str, workers: int) -> Iterator[torch.Tensor]:
    """A plain data set over s3fs."""
    dataset = Listed(_urls(bucket))
    return iter(DataLoader(dataset, batch_size=BATCH, num_workers=workers, shuffle=True))


def shards(bucket: str, workers: int) -> Iterator[torch.Tensor]:
    """WebDataset over shards that hold the same JPEGs, each read by a curl of its own."""
    import webdataset

    client = _client()
    keys = _keys(f"{bucket}-shards")
    urls = [
        client.generate_presigned_url("get_object", {"Bucket": f"{bucket}-shards", "Key": key})
        for key in keys
    ]
    piped = [f"pipe:curl -sf '{url}'" for url in urls]
    dataset = webdataset.WebDataset(
        piped, shardshuffle=len(piped), nodesplitter=webdataset.split_by_node
    )
    samples = dataset.shuffle(BATCH * 4).to_tuple("jpg").map_tuple(decoded).map(_only)
    return iter(DataLoader(samples, batch_size=BATCH, num_workers=workers))


def _only(sample: tuple[torch.Tensor]) -> torch.Tensor:
    return sample[0]


def made_up(_bucket: str, _workers: int) -> Iterator[torch.Tensor]:
    """Nothing to wait for."""
    batch = torch.rand(BATCH, 3, SIDE, SIDE)
    return iter([batch] * MADE_UP_BATCHES)


DATASETS: dict[str, Callable[[str, int], Iterator[torch.Tensor]]] = {
    "nearfirst": near,
    "connector": connector,
    "s3fs": plain,
    "webdataset": shards,
    "compute": made_up,
}


def _model() -> nn.Module:
    layers: list[nn.Module] = []
    for inside, outside in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(inside, outside, 3, stride=2), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 3))


def _compute_beside() -> None:
    """Takes this thread to a processor of its own, `COMPUTES_ON`, if there is one.

    As an accelerator leaves the processors to the workers, which are there by now.
    """
    if processor := os.environ.get("COMPUTES_ON"):
        os.sched_setaffinity(0, {int(processor)})


def trained(batches: Callable[[], Iterator[torch.Tensor]], steps: int) -> Tally:
    """The model learns the mean colour of what it sees."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tally = Tally()
    begin = time.perf_counter()
    coming = batches()
    _compute_beside()
    asked = begin
    while (batch := next(coming, None)) is not None:
        got = time.perf_counter()
        tally.waited_s += got - asked
        tally.first_s = tally.first_s or got - begin
        tally.samples += len(batch)
        wanted = batch.mean(dim=(2, 3))
        for _ in range(steps):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(batch), wanted)
            loss.backward()
            optimizer.step()
            tally.loss = float(loss)
        asked = time.perf_counter()
    tally.waited_s += time.perf_counter() - asked
    tally.seconds = time.perf_counter() - begin
    return tally


def main() -> None:
    """Trains, and prints."""
    how, bucket, workers, steps = sys.argv[1:]
    tally = trained(lambda: DATASETS[how](bucket, int(workers)), int(steps))
    sys.stdout.write(json.dumps(vars(tally)) + "\n")
    sys.stdout.flush()
    # What was measured is told; threads of other libraries may abort an interpreter that ends.
    os._exit(0)


if __name__ == "__main__":
    main()
