"""A valid call of every public operation on tensors, for tests that spoil one argument at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from smr.ops import cameras, mesh, points, render, voxels

Call = tuple[Callable[..., Any], dict[str, Any]]


def _tetrahedron() -> tuple[torch.Tensor, torch.Tensor]:
    vertices = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    return vertices, torch.tensor([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])


def _mesh_calls() -> dict[str, Call]:
    v, f = _tetrahedron()
    p = torch.rand(5, 3, generator=torch.Generator().manual_seed(0))
    both = {"vertices": v, "faces": f}
    edges = mesh.find_edges(f, 4)
    corners = v[None]
    packed = {"vertices": v, "faces": f, "face_counts": torch.tensor([4])}
    calls: dict[str, Call] = {
        "adjacency_matrix": (mesh.adjacency_matrix, {"faces": f, "num_vertices": 4}),
        "average_at_vertices": (
            mesh.average_at_vertices,
            {"faces": f, "face_features": torch.rand(4, 3, 2), "num_vertices": 4},
        ),
        "cotangent_weights": (mesh.cotangent_weights, {**both, "edges": edges}),
        "find_edges": (mesh.find_edges, {"faces": f, "num_vertices": 4}),
        "find_neighbours": (mesh.find_neighbours, {"faces": f, "num_vertices": 4}),
        "index_vertices_by_faces": (mesh.index_vertices_by_faces, {"features": v, "faces": f}),
        "inverse_offsets": (mesh.inverse_offsets, {"corners": corners}),
        "mesh_to_sdf": (mesh.mesh_to_sdf, {**both, "resolution": 4}),
        "pack_meshes": (mesh.pack_meshes, {"vertices": [v], "faces": [f]}),
        "packed_face_areas": (mesh.packed_face_areas, {**packed, "first_vertices": torch.tensor([0, 4])}),
        "point_to_triangle_distance": (mesh.point_to_triangle_distance, {"points": p, "triangles": v[f]}),
        "sample_packed_surfaces": (mesh.sample_packed_surfaces, {**packed, "count": 3}),
        "sample_surface": (mesh.sample_surface, {"vertices": v[None], "faces": f, "count": 3}),
        "simplify": (mesh.simplify, {**both, "target_faces": 4}),
        "subdivide_tetrahedra": (
            mesh.subdivide_tetrahedra,
            {"vertices": v[None], "tetrahedra": torch.tensor([[0, 1, 2, 3]])},
        ),
        "tetrahedron_volumes": (mesh.tetrahedron_volumes, {"corners": corners}),
        "triangulate_points_2d": (mesh.triangulate_points_2d, {"points": p[:, :2]}),
        "uniform_laplacian": (mesh.uniform_laplacian, {"faces": f, "num_vertices": 4}),
        "unindex_vertices_by_faces": (mesh.unindex_vertices_by_faces, {"face_features": torch.rand(4, 3, 2)}),
        "unwrap": (mesh.unwrap, {**both, "size": 64}),
        "vertex_tangents": (
            mesh.vertex_tangents,
            {"faces": f, "face_vertices": v[f], "face_uvs": torch.rand(4, 3, 2), "normals": v + 0.1},
        ),
    }
    for name in ("cotangent_laplacian", "face_areas", "face_normals", "repair", "vertex_areas", "vertex_normals"):
        calls[name] = (getattr(mesh, name), dict(both))
    for name in ("laplacian_smooth", "taubin_smooth", "subdivide_loop", "subdivide_midpoint", "fill_holes"):
        calls[name] = (getattr(mesh, name), dict(both))
    for name in ("is_inside", "signed_distance", "winding_number", "point_to_mesh_distance"):
        calls[name] = (getattr(mesh, name), {**both, "points": p})
    return {f"mesh.{name}": call for name, call in calls.items()}


def _point_calls() -> dict[str, Call]:
    p = torch.rand(30, 3, generator=torch.Generator().manual_seed(0))
    calls: dict[str, Call] = {
        "center_points": (points.center_points, {"points": p[None]}),
        "chamfer_distance": (points.chamfer_distance, {"first": p, "second": p + 0.1}),
        "estimate_normals": (points.estimate_normals, {"points": p, "neighbors": 4}),
        "f_score": (points.f_score, {"truth": p, "points": p + 0.1, "distance": 0.2}),
        "nearest_neighbors": (points.nearest_neighbors, {"points": p, "targets": p + 0.1, "k": 2}),
        "radius_inliers": (points.radius_inliers, {"points": p, "radius": 0.3, "neighbors": 2}),
        "sample_farthest_points": (points.sample_farthest_points, {"points": p, "count": 3, "start": 0}),
        "sided_distance": (points.sided_distance, {"points": p, "targets": p + 0.1}),
        "statistical_inliers": (points.statistical_inliers, {"points": p, "neighbors": 4, "ratio": 2.0}),
        "voxel_downsample": (points.voxel_downsample, {"points": p, "size": 0.2, "features": torch.rand(30, 2)}),
    }
    return {f"points.{name}": call for name, call in calls.items()}


def _voxel_calls() -> dict[str, Call]:
    v, f = _tetrahedron()
    grids = (torch.rand(2, 4, 4, 4, generator=torch.Generator().manual_seed(0)) > 0.5).float()
    axis = torch.arange(3.0)
    corners = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    first = torch.tensor([[0, 1, 3, 4, 9, 10, 12, 13]])
    cells = torch.cat([first + offset for offset in (0, 1, 3, 4, 9, 10, 12, 13)])
    shape = (4, 4, 4)
    calls: dict[str, Call] = {
        "cubic_mesh": (voxels.cubic_mesh, {"voxelgrid": grids[0]}),
        "downsample": (voxels.downsample, {"voxelgrids": grids, "scale": (2, 2, 2)}),
        "extract_odms": (voxels.extract_odms, {"voxelgrids": grids}),
        "extract_surface": (voxels.extract_surface, {"voxelgrids": grids}),
        "fill": (voxels.fill, {"voxelgrids": grids}),
        "flexicubes": (
            voxels.flexicubes,
            {"corners": corners, "values": (corners - 1.1).norm(dim=1) - 0.8, "cells": cells},
        ),
        "marching_cubes": (voxels.marching_cubes, {"values": grids[0] - 0.5}),
        "marching_tetrahedra": (
            voxels.marching_tetrahedra,
            {
                "vertices": v,
                "tetrahedra": torch.tensor([[0, 1, 2, 3]]),
                "values": torch.tensor([-1.0, 1.0, 1.0, -1.0]),
            },
        ),
        "project_odms": (voxels.project_odms, {"odms": torch.randint(0, 5, (2, 6, 4, 4)), "votes": 1}),
        "voxelize_points": (voxels.voxelize_points, {"points": v[None], "shape": shape}),
        "voxelize_solid": (voxels.voxelize_solid, {"vertices": v[None], "faces": f, "shape": shape}),
        "voxelize_surface": (voxels.voxelize_surface, {"vertices": v[None], "faces": f, "shape": shape}),
    }
    return {f"voxels.{name}": call for name, call in calls.items()}


def _render_calls() -> dict[str, Call]:
    v, f = _tetrahedron()
    v = v + torch.tensor([0.0, 0.0, 2.0])
    k = torch.tensor([[8.0, 0, 4], [0, 8, 4], [0, 0, 1]])
    fragments = render.rasterize(v, f, k, image_size=8)
    image = torch.rand(1, 8, 8, 3, generator=torch.Generator().manual_seed(0))
    z, xy = -v[None][:, f][..., 2], v[None][:, f][..., :2]
    seen = fragments.pix_to_face[..., 0]
    flat = {"face_vertices_z": z, "face_vertices_image": xy}
    rays = {"points": torch.rand(1, 5, 2), "render_ranges": torch.tensor([[[-9.0, 9.0]]]).expand(1, 5, 2).contiguous()}
    features = torch.rand(1, 4, 3, 2)
    scene = {"vertices": v, "faces": f, "camera": k}
    along = (torch.arange(8.0) + 0.5) / 8
    texels = torch.stack(torch.meshgrid(along, along, indexing="xy"), -1)[None]
    calls: dict[str, Call] = {
        "antialias": (render.antialias, {"color": image, "fragments": fragments, **scene}),
        "face_neighbors": (render.face_neighbors, {"faces": f}),
        "find_faces_behind": (render.find_faces_behind, {**rays, **flat, "knum": 3}),
        "find_faces_in_image": (render.find_faces_in_image, {"height": 8, "width": 8, **flat}),
        "interpolate": (render.interpolate, {"attributes": v, "fragments": fragments, "faces": f}),
        "mipmaps": (render.mipmaps, {"image": image}),
        "rasterize": (render.rasterize, {**scene, "image_size": 8, "layers": 1}),
        "rasterize_in_image": (
            render.rasterize_in_image,
            {"height": 8, "width": 8, **flat, "face_features": features},
        ),
        "render_points": (render.render_points, {**rays, **flat, "face_features": features, "knum": 3}),
        "screen_derivatives": (render.screen_derivatives, {"attributes": v, "fragments": fragments, **scene}),
        "soft_mask": (render.soft_mask, {"face_vertices_image": xy, "selected_face_idx": seen, "knum": 3}),
        "soft_mask_hits": (render.soft_mask_hits, {"face_vertices_image": xy, "selected_face_idx": seen}),
        "texture": (render.texture, {"image": image, "uv": texels}),
    }
    return {f"render.{name}": call for name, call in calls.items()}


def _camera_calls() -> dict[str, Call]:
    focal, center, pose = torch.tensor([8.0, 8.0]), torch.tensor([4.0, 4.0]), torch.eye(4)
    made = {"width": 8, "height": 8, "focal": focal, "center": center, "world_from_camera": pose}
    k = torch.tensor([[8.0, 0, 4], [0, 8, 4], [0, 0, 1]])
    camera = cameras.Pinhole(**made)
    gl = cameras.to_opengl(camera, near=0.1, far=10.0)
    p3d = cameras.to_pytorch3d(camera)
    calls: dict[str, Call] = {
        "change_axes": (cameras.change_axes, {"world_from_camera": pose, "source": "opencv", "target": "opengl"}),
        "change_point_axes": (
            cameras.change_point_axes,
            {"points": torch.rand(5, 3), "source": "opencv", "target": "opengl"},
        ),
        "from_colmap": (
            cameras.from_colmap,
            {
                "model": "PINHOLE",
                "parameters": [8.0, 8, 4, 4],
                "width": 8,
                "height": 8,
                "quat_wxyz": torch.tensor([1.0, 0, 0, 0]),
                "translation": torch.zeros(3),
            },
        ),
        "from_opencv": (
            cameras.from_opencv,
            {"K": k, "R": torch.eye(3), "t": torch.zeros(3), "width": 8, "height": 8},
        ),
        "from_opengl": (cameras.from_opengl, {**gl._asdict(), "width": 8, "height": 8}),
        "from_pytorch3d": (cameras.from_pytorch3d, p3d._asdict()),
        "quat_wxyz_from_rotation": (cameras.quat_wxyz_from_rotation, {"rotation": torch.eye(3)}),
        "rotation_from_quat_wxyz": (
            cameras.rotation_from_quat_wxyz,
            {"quat_wxyz": torch.tensor([1.0, 0.0, 0.0, 0.0])},
        ),
        "to_opengl": (cameras.to_opengl, {"camera": camera, "near": 0.1, "far": 10.0}),
    }
    for name in ("to_colmap", "to_kaolin", "to_opencv", "to_pytorch3d", "to_record"):
        calls[name] = (getattr(cameras, name), {"camera": camera})
    for kind in (cameras.Pinhole, cameras.Fisheye, cameras.Orthographic, cameras.Equirectangular):
        calls[kind.__name__] = (kind, dict(made))
        one = kind(**made)
        calls[f"{kind.__name__}.project"] = (one.project, {"points": torch.rand(5, 3) + 1})
        calls[f"{kind.__name__}.unproject"] = (
            one.unproject,
            {"pixels": torch.rand(5, 2) * 8, "depth": torch.rand(5) + 1},
        )
        calls[f"{kind.__name__}.rays"] = (one.rays, {"pixels": torch.rand(5, 2) * 8})
    return {f"cameras.{name}": call for name, call in calls.items()}


def valid_calls() -> dict[str, Call]:
    """Each operation's name with a function and arguments that are right."""
    return _mesh_calls() | _point_calls() | _voxel_calls() | _render_calls() | _camera_calls()
