"""Code blocks that two tutorials on Kaolin print, run as they stand there: only the device and the paths are ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import smr.kaolin as kal  # noqa: E402

RASTERIZE = """
import torch
import kaolin
device = torch.device('cuda')
vertices = torch.rand(1, 1000, 3, device=device)
faces = torch.randint(0, 1000, (1, 2000, 3), device=device)
mesh = kaolin.rep.Mesh(vertices, faces)
cameras = kaolin.render.camera.PinholeCamera(
    K=torch.eye(3, device=device).unsqueeze(0),
    world_2_cam=torch.eye(4, device=device).unsqueeze(0)
)
fragments = kaolin.render.mesh.rasterize(mesh, cameras, image_size=256)
"""
FROM_POINTS_TO_A_PACKAGE = """
import torch
import kaolin
import numpy as np
points_3d = torch.randn(500, 3, device='cuda') * 0.5
poses = torch.eye(4, device='cuda').unsqueeze(0).repeat(5, 1, 1)
poses[:, :3, 3] += torch.randn(5, 3, device='cuda') * 0.01
mesh = kaolin.ops.points.poisson_surface_reconstruction(
    points_3d.unsqueeze(0),  # batch dim
    normals=None,
    grid_resolution=128,
    max_points_per_voxel=10
)[0]
smoothed_vertices = kaolin.ops.mesh.laplacian_smooth(
    mesh.vertices.unsqueeze(0),  # [1, V, 3]
    mesh.faces,
    iterations=3
)[0]
stage = kaolin.io.usd.export_mesh(
    '/tmp/smr_output.usdz',
    smoothed_vertices,
    mesh.faces,
    time_samples=[0.0]
)
"""
CHECKED = """
def safe_mesh_op(vertices, faces):
    assert not torch.isnan(vertices).any(), "Vertices contain NaN"
    assert not torch.isinf(vertices).any(), "Vertices contain Inf"
    assert not torch.isnan(faces).any(), "Faces contain NaN"
    assert faces.min() >= 0, "Face index < 0"
    assert faces.max() < vertices.shape[0], "Face index >= vertex count"
    return kaolin.ops.mesh.face_normals(vertices, faces)
normals = safe_mesh_op(smoothed_vertices, mesh.faces)
"""
FROM_MEMORY = """
import kaolin
with open('/tmp/input.obj', 'r') as f:
    obj_str = f.read()
mesh = kaolin.io.obj.import_mesh_from_string(obj_str)
"""
OPENNI = """
import torch
import kaolin as kal
openni_to_opengl = torch.tensor([
    [1, 0, 0, 0],
    [0, 0, -1, 0],
    [0, 1, 0, 0],
    [0, 0, 0, 1]
], dtype=torch.float32)
pointcloud = load_smr_pointcloud()
homogeneous = torch.cat([pointcloud, torch.ones(pointcloud.shape[0], 1)], dim=1)
pointcloud_opengl = (openni_to_opengl @ homogeneous.T).T[:, :3]
"""
VOXELS = """
voxel_grid = kal.ops.conversions.pointcloud_to_voxelgrid(
    pointcloud_opengl.unsqueeze(0),
    voxel_size=0.02,
    grid_shape=[256, 256, 256]
)
vertices, faces = kal.ops.conversions.voxelgrid_to_mesh(
    voxel_grid.squeeze(0),
    iso_value=0.5,
    smooth=False
)
mesh = kal.rep.Mesh(vertices, faces)
"""
CLEANED = """
for _ in range(3):
    mesh = kal.ops.mesh.fill_holes(mesh, max_hole_edges=30)
target_vertices = 80000
simplified_mesh = kal.ops.mesh.simplify_mesh(
    mesh,
    target_number_of_vertices=target_vertices,
    preserve_border=True
)
uvs, face_uvs_idx = kal.ops.mesh.auto_uv(
    simplified_mesh.vertices,
    simplified_mesh.faces,
    chart_num=100,
    padding=0.001
)
"""


@pytest.fixture(autouse=True)
def alias() -> Iterator[None]:
    torch.manual_seed(0)
    kal.install()
    yield
    kal.uninstall()


def run(*blocks: str, folder: Path, **names: Any) -> dict[str, Any]:
    code = "\n".join(blocks).replace("'cuda'", "'cpu'").replace("'/tmp/", f"'{folder}/")
    exec(compile(code, "tutorial", "exec"), names)
    return names


def test_rasterizing_random_faces(tmp_path: Path) -> None:
    fragments = run(RASTERIZE, folder=tmp_path)["fragments"]
    assert fragments.pix_to_face.shape == (1, 256, 256, 1)


def test_from_points_to_a_package(tmp_path: Path) -> None:
    names = run(FROM_POINTS_TO_A_PACKAGE, CHECKED, folder=tmp_path)
    vertices, faces = names["smoothed_vertices"], names["mesh"].faces
    torch.testing.assert_close(names["normals"].norm(dim=1), torch.ones(len(faces)))
    again = kal.io.usd.import_mesh(str(tmp_path / "smr_output.usdz"))
    torch.testing.assert_close(again.vertices, vertices)
    assert torch.equal(again.faces, faces)
    with pytest.raises(ValueError, match="time_samples must be one time"):
        kal.io.usd.export_mesh(tmp_path / "two.usdz", vertices, faces, time_samples=[0.0, 1.0])


def test_a_mesh_from_memory(tmp_path: Path) -> None:
    (tmp_path / "input.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    mesh = run(FROM_MEMORY, folder=tmp_path)["mesh"]
    assert mesh.faces.tolist() == [[0, 1, 2]]
    bare = kal.io.obj.import_mesh(tmp_path / "input.obj", with_materials=True)  # of which the file has none
    assert bare.faces.tolist() == [[0, 1, 2]]
    assert (bare.material_assignments == -1).all()


def test_from_a_cloud_to_texture_coordinates(tmp_path: Path) -> None:
    def load_smr_pointcloud() -> torch.Tensor:
        """The walls of a box of 1.2 × 1 × 0.8 m."""
        size = torch.tensor([1.2, 1.0, 0.8])
        points = torch.rand(60_000, 3) * size
        side = torch.randint(0, 6, (60_000,))
        points[torch.arange(60_000), side % 3] = (side // 3) * size[side % 3]
        return points

    names = run(OPENNI, VOXELS, CLEANED, folder=tmp_path, load_smr_pointcloud=load_smr_pointcloud)
    assert names["voxel_grid"].shape == (1, 256, 256, 256)
    simplified = names["simplified_mesh"]
    assert 0 < len(simplified.vertices) <= 80_000
    assert names["face_uvs_idx"].shape == simplified.faces.shape
    assert 0 <= names["uvs"].min() <= names["uvs"].max() <= 1
