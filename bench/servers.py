"""Servers that a run reads from, on this machine. `close` ends each."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_ACCESS_KEY = "nearfirst-bench"
_SECRET_KEY = "nearfirst-secret"  # noqa: S105 - lets nobody in but this run
_REGION = "us-east-1"
_ANSWERS_WITHIN_S = 20
_LOOK_EVERY_S = 0.01
_NOISE_BYTES = 4 << 20


class ObjectServer:
    """An S3 server over a folder: versitygw."""

    def __init__(self, program: Path, at: Path) -> None:
        self._root = at / "buckets"
        self._root.mkdir()
        self.address = f"127.0.0.1:{_free_port()}"
        self.endpoint = f"http://{self.address}"
        keys = {"ROOT_ACCESS_KEY": _ACCESS_KEY, "ROOT_SECRET_KEY": _SECRET_KEY}
        options = ["--region", _REGION, "--quiet", "--keep-alive", "--port", self.address]
        self._server = subprocess.Popen(
            [program, *options, "posix", self._root],
            env=os.environ | keys,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_for(self.address)
        except OSError:
            self.close()
            raise

    def fill(self, bucket: str, count: int, size: int, rng: random.Random) -> None:
        """Makes a bucket of objects that all differ."""
        folder = self._root / bucket
        folder.mkdir()
        noise = rng.randbytes(min(size, _NOISE_BYTES))
        noise = noise * (size // len(noise))
        for number in range(count):
            path = folder / f"object{number:05}"
            head = f"{number:016}".encode()
            path.write_bytes(head + noise[len(head) :])
            # Where the server keeps the ETag of what was put through it.
            os.setxattr(path, "user.etag", f'"{number:032x}"'.encode())

    def put(self, bucket: str, objects: Mapping[str, bytes]) -> None:
        """Makes a bucket of these objects."""
        folder = self._root / bucket
        folder.mkdir()
        for number, (key, content) in enumerate(objects.items()):
            path = folder / key
            path.write_bytes(content)
            os.setxattr(path, "user.etag", f'"{number:032x}"'.encode())

    def files(self, bucket: str) -> list[Path]:
        """Where the objects are kept."""
        return sorted((self._root / bucket).iterdir())

    def env(self, endpoint: str) -> dict[str, str]:
        """By which clients find it, at `endpoint`, and are let in."""
        return {
            "AWS_ACCESS_KEY_ID": _ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET_KEY,
            "AWS_REGION": _REGION,
            "AWS_DEFAULT_REGION": _REGION,
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ENDPOINT": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
            "S3_ENDPOINT_URL": endpoint,
            "RCLONE_S3_ENDPOINT": endpoint,
        }

    def close(self) -> None:
        """Ends it."""
        _end(self._server)


class DelayProxy:
    """Stands in front of a server and holds its answers back."""

    def __init__(self, program: Path, upstream: str, delays: Sequence[int]) -> None:
        self._server = subprocess.Popen(
            [program, upstream, *map(str, delays)], stdout=subprocess.PIPE, text=True
        )
        assert self._server.stdout is not None
        address = self._server.stdout.readline().strip()
        if not address:
            self.close()
            raise OSError(f"{program} did not start")
        self.endpoint = f"http://{address}"

    def close(self) -> None:
        """Ends it, with all connections."""
        _end(self._server)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait_for(address: str) -> None:
    host, port = address.split(":")
    begin = time.monotonic()
    while True:
        try:
            socket.create_connection((host, int(port))).close()
        except OSError:
            if time.monotonic() - begin > _ANSWERS_WITHIN_S:
                raise
            time.sleep(_LOOK_EVERY_S)
        else:
            return


def _end(server: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    server.kill()
    server.wait()
    if server.stdout is not None:
        server.stdout.close()
