"""A registry on this machine that answers every pull with the status that the image's name asks for."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
from collections.abc import Iterator

ANSWERS = {
    "gone": (404, "MANIFEST_UNKNOWN", "manifest unknown"),
    "denied": (403, "DENIED", "requested access to the resource is denied"),
    "login": (401, "UNAUTHORIZED", "authentication required"),
    "many": (429, "TOOMANYREQUESTS", "You have reached your pull rate limit"),
}


class _Registry(http.server.BaseHTTPRequestHandler):
    def handle(self) -> None:
        request: socket.socket = self.request
        if request.recv(1, socket.MSG_PEEK) == b"\x16":  # TLS: the engine then tries again without
            request.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
            return
        super().handle()

    def do_HEAD(self) -> None:
        name = self.path.split("/")[2]
        status, code, message = ANSWERS.get(name, (200, "", ""))
        body = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_GET = do_HEAD  # noqa: N815 - http.server's name

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def registry() -> Iterator[str]:
    """Its name, "localhost:PORT"."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"localhost:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
