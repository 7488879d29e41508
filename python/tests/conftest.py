"""A folder and a web server, for tests; and what is skipped is counted."""

from __future__ import annotations

import http.server
import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Add what was skipped to the list of all tests; where nothing may be, this fails."""
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    skipped = reporter.stats.get("skipped", [])
    if told := os.environ.get("NEARFIRST_SKIPPED"):
        with Path(told).open("a") as file:
            for report in skipped:
                reason = report.longrepr[2].removeprefix("Skipped: ")
                file.write(f"{report.nodeid}\t{reason}\n")
    if skipped and os.environ.get("NEARFIRST_REQUIRE_ALL") == "1":
        reporter.write_line("\nsome are skipped, and NEARFIRST_REQUIRE_ALL is 1")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of whoever runs the tests is read or written."""
    home = tmp_path_factory.mktemp("home")
    for variable in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(home))
    # Root's table of devices is the system's, wherever a home is.
    monkeypatch.setenv("NEARFIRST_STATE", str(home / "nearfirst"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files."""
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.txt").write_text(f"text of {name}")
    return tmp_path


class Server:
    """A web server of a few objects; what is held is answered in part, and ends when released.

    Parts are answered with, and heads, if `ranges` is set.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.held: set[str] = set()
        self.ranges = False
        self.released = threading.Event()
        self.asked = threading.Event()
        handler = type("Handler", (_Handler,), {"of": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/{name}"

    def put(self, name: str, content: bytes, *, hold: bool = False) -> str:
        self.objects[name] = content
        if hold:
            self.held.add(name)
        return self.url(name)

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    of: Server

    def do_GET(self) -> None:
        name = self.path.lstrip("/")
        self.of.requests.append(name)
        content = self.of.objects.get(name)
        if content is None:
            self.send_error(404)
            return
        part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if part and self.of.ranges:
            start, end = int(part[1]), min(int(part[2] or len(content)) + 1, len(content))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
            content = content[start:end]
        else:
            self.send_response(200)
        if self.of.ranges:
            self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Type", "text/plain; charset=latin-1")
        for field in ("accept", "cookie"):
            self.send_header("Vary", field)
        self.end_headers()
        if self.command == "HEAD":
            return
        first = len(content) // 2 if name in self.of.held else len(content)
        self.wfile.write(content[:first])
        self.wfile.flush()
        if name in self.of.held:
            self.of.asked.set()
            self.of.released.wait()
            try:
                self.wfile.write(content[first:])
            except OSError:
                return

    def do_HEAD(self) -> None:
        if self.of.ranges:
            self.do_GET()
        else:
            self.send_error(501)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    """A web server."""
    server = Server()
    yield server
    server.close()
