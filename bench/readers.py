"""Reads every object of a bucket with one of the Python libraries, and prints what it took.

`readers.py LIBRARY BUCKET`, run by the Python that bench/peers installs them for, with
`AWS_ENDPOINT_URL`, `AWS_REGION` and keys in the environment. The time begins when the library is
imported, and listing the bucket is part of it; each object counts when all of its bytes are here.
"""

# ruff: noqa: PLC0415 - only the library that runs is imported, within its time
from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

THREADS = 64
ENDPOINT, REGION = os.environ["AWS_ENDPOINT_URL"], os.environ["AWS_REGION"]


class Tally:
    """Members and bytes, and when the first was whole."""

    def __init__(self) -> None:
        self._begin_s = time.perf_counter()
        self._begin_cpu_s = _cpu_s()
        self._first_s: float | None = None
        self._members = 0
        self._bytes = 0

    def member(self, size: int) -> None:
        """One more is whole."""
        if self._first_s is None:
            self._first_s = time.perf_counter() - self._begin_s
        self._members += 1
        self._bytes += size

    def as_json(self) -> dict[str, Any]:
        """As the example `measured` of the crate `set` prints it."""
        return {
            "seconds": time.perf_counter() - self._begin_s,
            "first_s": self._first_s,
            "members": self._members,
            "bytes": self._bytes,
            "cpu_s": _cpu_s() - self._begin_cpu_s,
            "peak_bytes": _peak_bytes(),
        }


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _peak_bytes() -> int:
    # Not ru_maxrss, in which the memory of who started the process counts too.
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x)
    return int(line.split()[1]) * 1024


def boto3_loop(bucket: str) -> Tally:
    """One object after the other."""
    import boto3

    tally = Tally()
    client = boto3.client("s3", endpoint_url=ENDPOINT)
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for entry in page["Contents"]:
            body = client.get_object(Bucket=bucket, Key=entry["Key"])["Body"]
            tally.member(len(body.read()))
    return tally


def _obstore(bucket: str) -> Any:  # noqa: ANN401 - its type is imported with it
    from obstore.store import S3Store

    return S3Store(
        bucket,
        endpoint=ENDPOINT,
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )


def obstore_tasks(tasks: int) -> Callable[[str], Tally]:
    """As many objects at a time as there are tasks, in the order they complete."""

    def read(bucket: str) -> Tally:
        import obstore

        tally = Tally()
        store = _obstore(bucket)

        async def one(free: asyncio.Semaphore, key: str) -> int:
            async with free:
                answer = await obstore.get_async(store, key)
                return len(await answer.bytes_async())

        async def every() -> None:
            free = asyncio.Semaphore(tasks)
            keys = [entry["path"] for page in obstore.list(store) for entry in page]
            for done in asyncio.as_completed([one(free, key) for key in keys]):
                tally.member(await done)

        asyncio.run(every())
        return tally

    return read


def s3fs_cat(bucket: str) -> Tally:
    """All at once into one dictionary."""
    import s3fs

    tally = Tally()
    files = s3fs.S3FileSystem(endpoint_url=ENDPOINT)
    for content in files.cat(files.ls(bucket)).values():
        tally.member(len(content))
    return tally


def smart_open_loop(bucket: str) -> Tally:
    """One object after the other, each opened as a file."""
    import boto3
    import smart_open

    tally = Tally()
    client = boto3.client("s3", endpoint_url=ENDPOINT)
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for entry in page["Contents"]:
            url = f"s3://{bucket}/{entry['Key']}"
            with smart_open.open(url, "rb", transport_params={"client": client}) as file:
                tally.member(len(file.read()))
    return tally


def torch_connector(bucket: str) -> Tally:
    """One object after the other, each in parallel parts, as S3IterableDataset reads them.

    Listed by obstore: the connector's own listing refuses the empty elements of versitygw's answer.
    """
    import obstore
    from s3torchconnectorclient._mountpoint_s3_client import MountpointS3Client

    tally = Tally()
    client = MountpointS3Client(region=REGION, endpoint=ENDPOINT, force_path_style=True)
    for page in obstore.list(_obstore(bucket)):
        for entry in page:
            # The connector's reader keeps the parts until the object is whole.
            parts = list(client.get_object(bucket, entry["path"]))
            tally.member(sum(map(len, parts)))
    return tally


def threads(bucket: str) -> Tally:
    """As many objects at a time as there are threads, in the order they complete."""
    import concurrent.futures

    import boto3
    import botocore.config

    tally = Tally()
    config = botocore.config.Config(max_pool_connections=THREADS)
    client = boto3.client("s3", endpoint_url=ENDPOINT, config=config)

    def one(key: str) -> int:
        return len(client.get_object(Bucket=bucket, Key=key)["Body"].read())

    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    keys = [entry["Key"] for page in pages for entry in page["Contents"]]
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        for done in concurrent.futures.as_completed([pool.submit(one, key) for key in keys]):
            tally.member(done.result())
    return tally


def near(bucket: str) -> Tally:
    """A set of ours."""
    import nearfirst

    tally = Tally()
    for member in nearfirst.open(f"s3://{bucket}/**"):
        tally.member(len(member.read()))
    return tally


def near_chunks(bucket: str) -> Tally:
    """A set of ours, whose members' bytes are not copied."""
    import nearfirst

    tally = Tally()
    for member in nearfirst.open(f"s3://{bucket}/**"):
        tally.member(sum(view.nbytes for view in member.chunks()))
    return tally


def near_tasks(bucket: str) -> Tally:
    """A set of ours, in an event loop."""
    import nearfirst

    tally = Tally()

    async def every() -> None:
        async for member in nearfirst.open(f"s3://{bucket}/**"):
            tally.member(len(await asyncio.to_thread(member.read)))

    asyncio.run(every())
    return tally


READERS: dict[str, Callable[[str], Tally]] = {
    "boto3": boto3_loop,
    "boto3, threads": threads,
    "nearfirst.py": near,
    "nearfirst.py, chunks": near_chunks,
    "nearfirst.py, async": near_tasks,
    "obstore-16": obstore_tasks(16),
    "obstore-64": obstore_tasks(64),
    "obstore-256": obstore_tasks(256),
    "s3fs": s3fs_cat,
    "smart_open": smart_open_loop,
    "torch": torch_connector,
}


def main() -> None:
    """Reads, and prints."""
    library, bucket = sys.argv[1:]
    sys.stdout.write(json.dumps(READERS[library](bucket).as_json()) + "\n")
    sys.stdout.flush()
    # What was measured is told; obstore's threads now and then abort an interpreter that ends.
    os._exit(0)


if __name__ == "__main__":
    main()
