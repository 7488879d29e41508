"""Somebody who looks at objects of slow servers and thinks in between: Figure 11 of the SETS paper.

The traces of `bench/traces` (`bench/make-traces` says how they are drawn) are replayed in real time
against a server of this machine that takes for each object what the trace says. Waiting is what is
between asking for the next object and having all of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import svg
from bench import Bench, Data, Experiment, Row
from measure import FailedError, Spread

TRACES = Path(__file__).resolve().parent / "traces"
GONE_TARGET = 0.98
MODES = ("sets", "plain")
_PIECES = 20


class _SlowWeb(ThreadingHTTPServer):
    """Answers as slowly as the traces say, each request by itself."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, objects: dict[str, Data]) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        _Answer.objects = objects
        self.endpoint = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: object, client_address: object) -> None:
        """Silent about who hung up: another request for the same object was quicker."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def close(self) -> None:
        """Ends it."""
        self.shutdown()
        self.server_close()


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects: ClassVar[dict[str, Data]] = {}

    def do_HEAD(self) -> None:
        """The first byte takes as long without a body."""
        self._head()

    def do_GET(self) -> None:
        """All of it, piece by piece."""
        if (told := self._head()) is None:
            return
        size = told["bytes"]
        for piece in range(_PIECES):
            time.sleep(told["transfer_s"] / _PIECES)
            count = size * (piece + 1) // _PIECES - size * piece // _PIECES
            self.wfile.write(b"." * count)

    def _head(self) -> Data | None:
        told = self.objects.get(self.path)
        if told is None:
            self.send_error(404)
            return None
        time.sleep(told["first_byte_s"])
        self.send_response(200)
        self.send_header("Content-Length", str(told["bytes"]))
        self.send_header("ETag", f'"{self.path}"')
        self.end_headers()
        return told

    def log_message(self, *_arguments: object) -> None:
        """Says nothing."""


def _replay(bench: Bench, mode: str, trace: Path, endpoint: str, state: Path) -> Data:
    command: list[str | Path] = [
        bench.peers.example("measured"),
        "replay",
        mode,
        trace,
        endpoint,
    ]
    env = {**os.environ, "NEARFIRST_STATE": str(state)}
    done = subprocess.run(command, env=env, capture_output=True, check=False)
    if done.returncode != 0:
        raise FailedError(f"replay {mode} {trace.name}: {done.stderr.decode().strip()}")
    told: Data = json.loads(done.stdout)
    return told


def _measure(bench: Bench) -> Data:
    traces = sorted(TRACES.glob("*.json"))[: 1 if bench.quick else None]
    loaded = {trace.stem: json.loads(trace.read_text()) for trace in traces}
    objects = {thing["path"]: thing for told in loaded.values() for thing in told["objects"]}
    bench.say(f"think: {len(traces)} searches, with sets and without")
    with (
        bench.folder("think") as at,
        closing(_SlowWeb(objects)) as web,
        ThreadPoolExecutor(len(traces) * len(MODES)) as pool,
    ):
        # At once, since all of them do nothing but wait.
        asked = {
            (trace.stem, mode): pool.submit(
                _replay, bench, mode, trace, web.endpoint, at / f"{mode}-{trace.stem}"
            )
            for trace in traces
            for mode in MODES
        }
        done = {key: future.result() for key, future in asked.items()}
    searches = {}
    for name, told in loaded.items():
        waits = [thing["first_byte_s"] + thing["transfer_s"] for thing in told["objects"]]
        searches[name] = {
            "objects": len(waits),
            "slowest_s": max(waits),
            "fastest_s": min(waits),
            "think_s": sum(told["think_s"]),
            **{mode: done[name, mode] for mode in MODES},
        }
    return {"searches": searches, "conditions": {"rounds": "1"}}


def _gone(search: Data) -> float:
    return 1.0 - float(search["sets"]["waited_s"]) / float(search["plain"]["waited_s"])


def _rows(data: Data) -> list[Row]:
    rows = []
    for name, search in data["searches"].items():
        span = f"{search['fastest_s']:.2g} s to {search['slowest_s']:.2g} s each"
        rows.append(
            Row(
                what=f"{name}: waiting for {search['objects']} objects of {span}",
                ours=f"{search['sets']['waited_s']:.3g} s",
                peer=f"one after the other {search['plain']['waited_s']:.3g} s",
                reached=f"{_gone(search):.1%} gone",
                target="",
                met=None,
            )
        )
    gone = Spread.of([_gone(search) for search in data["searches"].values()])
    ours = Spread.of([search["sets"]["waited_s"] for search in data["searches"].values()])
    plain = Spread.of([search["plain"]["waited_s"] for search in data["searches"].values()])
    rows.append(
        Row(
            what=f"waiting, median of {gone.runs} searches",
            ours=ours.as_time(),
            peer=f"one after the other {plain.as_time()}",
            reached=f"{gone.median:.1%} gone ({gone.low:.1%} to {gone.high:.1%})",
            target=f"≥ {GONE_TARGET:.0%}",
            met=gone.median >= GONE_TARGET,
        )
    )
    return rows


def _plots(data: Data) -> dict[str, str]:
    bars = []
    for name, search in data["searches"].items():
        for mode, said in (("plain", "one after the other"), ("sets", "set")):
            waited = search[mode]["waited_s"]
            bars.append(svg.Bar(f"{name}, {said}", waited, waited, waited))
    return {"think": svg.bars("Waiting in searches on slow servers", "seconds", bars)}


EXPERIMENTS = (
    Experiment("think", "Waiting while somebody thinks (Figure 11)", _measure, _rows, _plots),
)
