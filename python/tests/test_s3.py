"""Sets of objects of an S3 server."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import random
import shutil
import socket
import subprocess
import threading
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nearfirst
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

# Below the ports that the kernel gives to outgoing connections, which so cannot take one between
# our look and the server's start.
PORTS = range(20_000, 32_000)
STARTS_MAX = 3
# On a busy machine.
PATIENCE_S = 90
# The server checks no signature, only that there is one.
SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=0"
}


def program() -> str | None:
    peers = Path(os.environ.get("NEARFIRST_PEERS", "target/peers")).resolve()
    return shutil.which("moto_server", path=f"{peers}/venv/bin") or shutil.which("moto_server")


def put(url: str, body: bytes, headers: dict[str, str] | None = None) -> None:
    kind = {"Content-Type": "binary/octet-stream"} if body else {}
    request = urllib.request.Request(  # noqa: S310
        url, data=body, method="PUT", headers={**SIGNED, **kind, **(headers or {})}
    )
    urllib.request.urlopen(request).close()  # noqa: S310


def free_port() -> int:
    for port in random.sample(PORTS, len(PORTS)):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    pytest.fail("no port is free")


def answers(server: subprocess.Popen[bytes], port: int) -> bool:
    """Whether it has come to serve, and has not ended."""
    waited = threading.Event()
    for _ in range(PATIENCE_S * 20):
        with contextlib.suppress(ConnectionError):
            socket.create_connection(("127.0.0.1", port)).close()
            break
        if server.poll() is not None:
            break
        waited.wait(0.05)
    return server.poll() is None


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    moto, mortal = program(), shutil.which("setpriv")
    if moto is None or mortal is None:
        pytest.skip("there is no moto_server, or no setpriv")
    quiet = subprocess.DEVNULL
    for _ in range(STARTS_MAX):
        port = free_port()
        command = [mortal, "--pdeathsig", "KILL", moto, "-H", "127.0.0.1", "-p", str(port)]
        with subprocess.Popen(command, stdout=quiet, stderr=quiet) as server:
            if answers(server, port):
                url = f"http://127.0.0.1:{port}"
                put(f"{url}/bucket", b"")
                yield url
                server.kill()
                return
    pytest.fail(f"moto_server ended {STARTS_MAX} times")


@pytest.fixture
def options(endpoint: str) -> dict[str, str]:
    return {
        "endpoint": endpoint,
        "region": "us-east-1",
        "access_key_id": "k",
        "secret_access_key": "s",
    }


def test_objects_come_with_their_bytes_and_file_names(
    endpoint: str, options: dict[str, str]
) -> None:
    contents = {f"s3://bucket/logs/{number}.gz": os.urandom(number) for number in range(40)}
    for name, content in contents.items():
        put(name.replace("s3://", f"{endpoint}/"), content)
    members = nearfirst.open("s3://bucket/logs/*.gz", storage_options=options)
    assert len(members) == 40
    found = {}
    for member in members:
        assert member.url == member.name
        assert member.version
        with member.open() as file:
            found[member.name] = file.read()
        path = Path(member.path())
        assert path.name == member.name.rsplit("/", 1)[1]
        assert path.read_bytes() == found[member.name]
    assert found == contents


def restored_after(endpoint: str, looks: int) -> None:
    """Have each restore take so many looks at its object."""
    transition = {"progression": "manual", "times": looks}
    setting = json.dumps({"model_name": "s3::keyrestore", "transition": transition})
    request = urllib.request.Request(  # noqa: S310
        f"{endpoint}/moto-api/state-manager/set-transition",
        data=setting.encode(),
        headers={"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request).close()  # noqa: S310


def test_what_lies_in_cold_storage_is_restored_and_waited_for_if_that_is_wished(
    endpoint: str, options: dict[str, str]
) -> None:
    for name in ("asked/cold", "waits/cold"):
        put(f"{endpoint}/bucket/{name}", b"text", {"x-amz-storage-class": "GLACIER"})
    for name in ("asked/warm", "waits/warm"):
        put(f"{endpoint}/bucket/{name}", b"text")
    restored_after(endpoint, 2)

    def members(folder: str, **how: Any) -> tuple[list[bytes], list[nearfirst.NearfirstError]]:
        spec = f"s3://bucket/{folder}/*"
        opened = list(nearfirst.open(spec, storage_options=options, errors="yield", **how))
        errors = [member.error for member in opened if member.error]
        return [member.read() for member in opened if not member.error], errors

    read, (error,) = members("asked")
    assert read == [b"text"]
    assert isinstance(error, nearfirst.Cold)
    assert error.reason == "in cold storage (GLACIER): it must be restored before it can be read"
    read, (error,) = members("asked", recall=3)
    assert read == [b"text"]
    assert isinstance(error, nearfirst.Cold)
    assert error.reason == (
        "in cold storage (GLACIER): its restore is under way and takes 5 h at most"
    )
    assert members("waits", recall=True, wait=PATIENCE_S) == ([b"text", b"text"], [])

    wrong: list[dict[str, Any]] = [{"wait": True}, {"recall": 0}, {"recall": True, "wait": -1.0}]
    for how in wrong:
        with pytest.raises(ValueError, match=r"recall|wait"):
            members("asked", **how)
    wrong = [{"recall": "3"}, {"recall": True, "wait": "long"}]
    for how in wrong:
        with pytest.raises(TypeError, match=r"recall|wait"):
            members("asked", **how)


def test_options_have_the_names_of_s3fs_too(endpoint: str) -> None:
    put(f"{endpoint}/bucket/named", b"x")
    kwargs = {"endpoint_url": endpoint, "region_name": "us-east-1"}
    for options in (
        {"key": "k", "secret": "s", "client_kwargs": kwargs},
        {"key": "k", "secret": "s", "use_ssl": False, "endpoint_url": endpoint},
        {"key": "k", "secret": "s", "client_options": {"allow_http": True}, "endpoint": endpoint},
        {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_ENDPOINT_URL": endpoint},
    ):
        (member,) = nearfirst.open("s3://bucket/named", storage_options=options)
        assert member.read() == b"x"
    with pytest.raises(nearfirst.Refused, match="use_ssl is true, but the endpoint begins with"):
        next(nearfirst.open("s3://bucket/named", storage_options=options | {"use_ssl": True}))
    unsigned = {"anon": True, "endpoint_url": endpoint}
    with pytest.raises(nearfirst.Denied):
        next(nearfirst.open("s3://bucket/named", storage_options=unsigned))


def test_what_is_archived_is_cold(endpoint: str, options: dict[str, str]) -> None:
    put(f"{endpoint}/bucket/cold/object", b"x", {"x-amz-storage-class": "GLACIER"})
    members = nearfirst.open("s3://bucket/cold/*", storage_options=options)
    assert list(members.filter(lambda entry: entry.is_cold).names()) == ["s3://bucket/cold/object"]
    with pytest.raises(nearfirst.Cold, match="GLACIER"):
        next(members)
    (sled,) = nearfirst.sleds("s3://bucket/cold/object", storage_options=options)
    assert (sled.length, sled.place, sled.device) == (1, "cold", "cold:s3://bucket")
    assert nearfirst.delivery_time("s3://bucket/cold/object", storage_options=options).cold_bytes


class _KnowsNobody(http.server.BaseHTTPRequestHandler):
    """As versitygw answers a key that it does not know."""

    def do_GET(self) -> None:
        text = b"<Error><Code>XAdminUserNotFound</Code><Message>No such user</Message></Error>"
        self.send_response(404)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize("spec", ["s3://bucket/*", "s3://bucket/key"])
def test_who_is_not_known_is_denied_whatever_the_status(spec: str) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _KnowsNobody) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        options = {
            "endpoint": f"http://127.0.0.1:{server.server_port}",
            "access_key_id": "k",
            "secret_access_key": "s",
        }
        with pytest.raises(nearfirst.Denied, match="No such user"):
            next(nearfirst.open(spec, storage_options=options))
        server.shutdown()
