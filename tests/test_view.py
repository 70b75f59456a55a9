from __future__ import annotations

import http.client
from pathlib import Path

import numpy as np
import pytest

from format_samples import colored_mesh, corner_rows, textured_mesh
from smr.errors import SmrError
from smr.formats import read_mesh, write_mesh
from smr.formats.model import Y_UP_FROM, geometry
from smr.view import Viewer, serve


def get(
    viewer: Viewer, path: str, *, host: str | None = None, method: str = "GET"
) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", viewer.port, timeout=60)
    connection.request(method, path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body, dict(answer.getheaders())


def test_page_and_model(tmp_path: Path) -> None:
    path = write_mesh(textured_mesh(1), tmp_path / "椅子 <1>.glb")
    with serve(path) as viewer:
        assert viewer.url == f"http://127.0.0.1:{viewer.port}/"
        status, body, headers = get(viewer, "/")
        assert status == 200
        page = body.decode()
        assert "椅子 &lt;1&gt;.glb" in page
        assert "<1>" not in page
        assert 'ios-src="model.usdz"' in page
        assert "32 faces" in page
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "http" not in headers["Content-Security-Policy"]
        status, body, headers = get(viewer, "/model.glb")
        assert (status, body) == (200, path.read_bytes())
        assert headers["Content-Type"] == "model/gltf-binary"
        status, body, headers = get(viewer, "/model.usdz")
        assert headers["Content-Type"] == "model/vnd.usdz+zip"
        (tmp_path / "back.usdz").write_bytes(body)
        np.testing.assert_allclose(
            corner_rows(read_mesh(tmp_path / "back.usdz")), corner_rows(read_mesh(path)), atol=1e-6
        )
        assert b"Apache License" in get(viewer, "/licenses.txt")[1]
        assert len(get(viewer, "/model-viewer.min.js")[1]) > 500_000
        assert get(viewer, "/page.css")[0] == get(viewer, "/ar.svg")[0] == 200
        status, body, headers = get(viewer, "/model.glb", method="HEAD")
        assert (status, body, int(headers["Content-Length"])) == (200, b"", path.stat().st_size)


def test_other_formats_are_converted_upright(tmp_path: Path) -> None:
    path = write_mesh(colored_mesh(), tmp_path / "a.ply", world_up="z")
    with serve(path) as viewer:
        (tmp_path / "b.glb").write_bytes(get(viewer, "/model.glb")[1])
    expected = colored_mesh().vertices @ Y_UP_FROM["z"].T
    np.testing.assert_array_equal(geometry(read_mesh(tmp_path / "b.glb")).vertices, expected.astype(np.float32))
    (tmp_path / "c.obj").write_text("v 1 2 3\nv 1 2 4\nv 1 3 3\nf 1 2 3\n")
    with serve(tmp_path / "c.obj", up="z") as viewer:
        (tmp_path / "d.glb").write_bytes(get(viewer, "/model.glb")[1])
    assert geometry(read_mesh(tmp_path / "d.glb")).vertices.tolist() == [[1, 3, -2], [1, 4, -2], [1, 3, -3]]


@pytest.mark.parametrize(
    "path", ["/../secret", "/%2e%2e/secret", "/secret", "//etc/passwd", "/etc/passwd", "/index.html"]
)
def test_nothing_else_is_served(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_text("secret")
    with serve(write_mesh(colored_mesh(), tmp_path / "a.glb")) as viewer:
        assert get(viewer, path)[0] == 404
        assert get(viewer, "/", method="POST")[0] == 501


def test_foreign_host_names_are_refused(tmp_path: Path) -> None:
    with serve(write_mesh(colored_mesh(), tmp_path / "a.glb")) as viewer:
        assert get(viewer, "/model.glb", host="evil.example")[0] == 421
        assert get(viewer, "/model.glb", host=f"evil.example:{viewer.port}")[0] == 421
        assert get(viewer, "/model.glb", host=f"localhost:{viewer.port}")[0] == 200


def test_refusals(tmp_path: Path) -> None:
    path = write_mesh(colored_mesh(), tmp_path / "a.glb")
    with serve(path) as viewer:
        with pytest.raises(SmrError, match=f"127.0.0.1:{viewer.port} cannot be listened on") as caught:
            serve(path, port=viewer.port)
        assert "--port" in caught.value.cure
    for port in (-1, 99999):
        with pytest.raises(SmrError, match=f"--port is {port}"):
            serve(path, port=port)
    with pytest.raises(SmrError, match="cannot be listened on"):
        serve(path, host="192.0.2.1")
    with pytest.raises(SmrError, match=r"b\.glb is not there"):
        serve(tmp_path / "b.glb")


def test_a_model_that_vanishes_is_an_error_of_the_server(tmp_path: Path) -> None:
    path = write_mesh(colored_mesh(), tmp_path / "a.glb")
    with serve(path) as viewer:
        path.unlink()
        assert get(viewer, "/model.glb")[0] == 500


def test_temporary_files_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = write_mesh(colored_mesh(), tmp_path / "a.ply")
    viewer = serve(path)
    get(viewer, "/model.glb")
    assert len(list(tmp_path.glob("smr-view-*"))) == 1
    viewer.close()
    viewer.wait()
    assert not list(tmp_path.glob("smr-view-*"))
