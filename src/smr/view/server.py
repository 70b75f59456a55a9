"""The web server of the viewer: a few files, to this machine only unless told otherwise."""

from __future__ import annotations

import html
import ipaddress
import logging
import socket
import socketserver
import string
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from ..errors import SmrError
from ..formats import read_model, write_mesh
from ..formats.model import AnyMesh, geometry, turned
from ..records import UpAxis

_LOG = logging.getLogger(__name__)
_STATIC = files("smr.view") / "static"
_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' blob: data:; connect-src 'self' blob: data:; worker-src blob:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""The browser may load nothing from elsewhere, whatever the model or the viewer's script asks for."""


@dataclass(frozen=True)
class Page:
    """One address of the server."""

    kind: str
    load: Callable[[], bytes]


class _Server(ThreadingHTTPServer):
    """The threaded server, for both families of addresses and without asking a name server for its own name."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: Any) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Bind, and take the address as the name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error of ours."""
        _LOG.debug("request from %s ended early", client_address, exc_info=True)


class Viewer:
    """A running viewer. Close it, or use it in a `with` block."""

    def __init__(self, server: ThreadingHTTPServer, host: str, folder: tempfile.TemporaryDirectory[str]) -> None:
        self._server = server
        self._folder = folder
        self.port = int(server.server_address[1])
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.port}/"
        """The address to open."""
        self._thread = threading.Thread(target=server.serve_forever, name="smr-view", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Serve until `close` is called from elsewhere, or the program is interrupted."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        """Stop the server and remove its temporary files."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._folder.cleanup()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def serve(model: Path | str, host: str = "127.0.0.1", port: int = 0, *, up: UpAxis | None = None) -> Viewer:
    """Show a mesh file on a local web page, with a link for AR Quick Look.

    A GLB or USDZ file is shown as it is; other formats are converted, and what is missing of the two is made when it
    is asked for. The page loads nothing from the network.

    Args:
        model: The mesh file.
        host: Address to listen on; with other than a loopback address everyone in the network can see the model.
        port: Port; 0 takes a free one.
        up: The axis that points up in the file, where the file does not say it; see `convert`.

    Raises:
        SmrError: The file cannot be read, or the address is taken or not of this machine.
    """
    model = Path(model)
    if not 0 <= port <= 65535:
        raise SmrError(f"--port is {port}.", "Give 1024 to 65535, or 0 for any free one.")
    read = read_model(model)
    folder = tempfile.TemporaryDirectory(prefix="smr-view-")
    shown = turned(read.mesh, up or read.world_up or "y", "y")
    pages = _pages(model, shown, Path(folder.name), as_it_is=up in (None, read.world_up))
    try:
        server = _Server((host, port), partial(_Handler, pages, _names(host)))
    except OSError as error:
        folder.cleanup()
        raise SmrError(
            f"{host}:{port} cannot be listened on: {error.strerror}.", "Choose another --port, or 0 for any free one."
        ) from error
    return Viewer(server, host, folder)


def _names(host: str) -> frozenset[str] | None:
    """Names by which a request may call this server; None: any.

    On a loopback address only its own names: a web page elsewhere cannot reach the model by pointing its own host
    name to this machine.
    """
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    return frozenset({host, "localhost", "127.0.0.1", "::1"}) if local else None


def _pages(model: Path, mesh: AnyMesh, folder: Path, *, as_it_is: bool) -> dict[str, Page]:
    lock = threading.Lock()

    def load(ending: str) -> bytes:
        if as_it_is and model.suffix.lower() == ending:
            return model.read_bytes()
        target = folder / f"model{ending}"
        with lock:
            if not target.exists():
                write_mesh(mesh, target, world_up="y")
        return target.read_bytes()

    return {
        "/": Page("text/html; charset=utf-8", lambda: _index(model, mesh)),
        "/page.css": Page("text/css; charset=utf-8", lambda: (_STATIC / "page.css").read_bytes()),
        "/model-viewer.min.js": Page("text/javascript", lambda: (_STATIC / "model-viewer.min.js").read_bytes()),
        "/ar.svg": Page("image/svg+xml", lambda: (_STATIC / "ar.svg").read_bytes()),
        "/licenses.txt": Page("text/plain; charset=utf-8", lambda: (_STATIC / "licenses.txt").read_bytes()),
        "/model.glb": Page("model/gltf-binary", lambda: load(".glb")),
        "/model.usdz": Page("model/vnd.usdz+zip", lambda: load(".usdz")),
    }


def _index(model: Path, mesh: AnyMesh) -> bytes:
    shape = geometry(mesh)
    extent = np.ptp(shape.vertices.astype(np.float64), axis=0)
    words = {
        "name": model.name,
        "stem": model.stem,
        "vertices": f"{len(shape.vertices):,}",
        "faces": f"{len(shape.faces):,}",
        "size": " × ".join(f"{length:.3g}" for length in extent) + " m",
    }
    page = string.Template((_STATIC / "index.html").read_text(encoding="utf-8"))
    return page.substitute({key: html.escape(value) for key, value in words.items()}).encode("utf-8", "replace")


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD for the pages, and nothing else."""

    server_version = "smr"
    sys_version = ""
    timeout = 30

    def __init__(self, pages: dict[str, Page], names: frozenset[str] | None, *arguments: Any) -> None:
        self._pages = pages
        self._names = names
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Send a page."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Send a page's headers."""
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        called = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        if self._names is not None and called not in self._names:
            self.send_error(421)
            return
        page = self._pages.get(urlsplit(self.path).path)
        if page is None:
            self.send_error(404)
            return
        try:
            body = page.load()
        except (SmrError, OSError) as error:
            _LOG.warning("%s: %s", self.path, error)
            self.send_error(500)
            return
        self.send_response(200)
        self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Keep requests off the terminal."""
        _LOG.debug(format, *arguments)
