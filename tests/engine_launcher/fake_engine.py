"""A stand-in for an engine process: health, completions, crashes, children, deafness; standard library only.

Arguments: PORT FOLDER [OPTION...]; each start adds a line to FOLDER/starts.
  slow          healthy only after 0.5 s
  tokenless     answers completions without tokens
  crash         exits with status 3 before it serves
  crash-once    as crash, at the first start only
  child         starts a child process in the same group that ignores SIGTERM
  deaf          ignores SIGTERM
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

STARTED = time.monotonic()
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


class Handler(BaseHTTPRequestHandler):
    options: frozenset[str] = frozenset()

    def do_GET(self) -> None:
        slow = "slow" in self.options and time.monotonic() - STARTED < 0.5
        self.answer(503 if slow else 200, {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body["prompt"] == "die":
            os._exit(9)
        tokens = 0 if "tokenless" in self.options else body["max_tokens"]
        self.answer(200, {"usage": {"completion_tokens": tokens}})

    def answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


def main() -> None:
    port, folder, options = int(sys.argv[1]), Path(sys.argv[2]), frozenset(sys.argv[3:])
    starts = folder / "starts"
    with starts.open("a") as file:
        file.write(f"{os.getpid()}\n")
    sys.stderr.write("INFO fake: starting\nWARNING fake: a warning\n")
    sys.stderr.flush()
    first = len(starts.read_text().splitlines()) == 1
    if "crash" in options or ("crash-once" in options and first):
        sys.exit("ERROR fake: out of luck")
    if "child" in options:
        subprocess.Popen([sys.executable, "-c", DEAF])
    if "deaf" in options:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Handler.options = options
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


main()
