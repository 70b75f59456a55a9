"""Bad input to every public operation on tensors: an error that names the argument, or the right result."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from bad_input_calls import Call, valid_calls  # noqa: E402
from smr.errors import SmrError  # noqa: E402
from smr.ops import mesh, points, render, voxels  # noqa: E402

CALLS = valid_calls()
RENAMED = {"K": "K|focal|center", "R": "R|world_from_camera", "T": "T|world_from_camera"}
RENAMED |= {
    "view": "view|world_from_camera",
    "focal_length": "focal_length|focal",
    "principal_point": "principal_point|center",
}
"""Arguments whose values are first looked at where they have become another tensor."""
WHOLE = {"count", "k", "neighbors", "num_vertices", "iterations", "knum", "height", "width", "resolution"}
WHOLE |= {"max_hole_edges", "size", "votes", "target_faces"}


def run(name: str, **changed: Any) -> Any:
    """The operation with some arguments changed; the annotations of the tests' hook do not check them."""
    function, arguments = CALLS[name]
    return plain(function)(**{**arguments, **changed})


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.ismethod(function):
        return inspect.unwrap(function.__func__).__get__(function.__self__)
    return inspect.unwrap(function) if inspect.isfunction(function) else function


def tensors_of(call: Call) -> Iterator[tuple[str, torch.Tensor]]:
    for argument, value in call[1].items():
        if isinstance(value, torch.Tensor):
            yield argument, value


def parts_of(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, tuple | list):
        return [part for one in result for part in parts_of(one)]
    fields = getattr(result, "__dataclass_fields__", ())
    return [part for field in fields for part in parts_of(getattr(result, field))]


TENSORS = [(name, argument) for name, call in CALLS.items() for argument, _ in tensors_of(call)]
FLOATS = [(n, a) for n, a in TENSORS if CALLS[n][1][a].is_floating_point()]
INDICES = [(n, a) for n, a in TENSORS if a in ("faces", "tetrahedra", "cells")]


def named(argument: str) -> str:
    return rf"\b({RENAMED.get(argument, argument)})\b"


def test_every_public_operation_is_called_here() -> None:
    for module in (mesh, points, voxels, render):
        short = module.__name__.rsplit(".", 1)[1]
        operations = {name for name in module.__all__ if name[0].islower()}
        # these take what another operation gives, or a function
        operations -= {"cut_squares", "fan_squares", "refine_occupancy"}
        assert operations == {name.split(".")[1] for name in CALLS if name.startswith(f"{short}.")}


@pytest.mark.parametrize(("name", "argument"), TENSORS)
def test_what_is_no_dense_tensor_with_values_is_refused(name: str, argument: str) -> None:
    value = CALLS[name][1][argument]
    for wrong in (value.tolist(), value.numpy(), value.to(torch.complex64), value.to_sparse()):
        with pytest.raises(TypeError, match=named(argument)):
            run(name, **{argument: wrong})
    with pytest.raises(ValueError, match=rf"{named(argument)}.* is on meta|one device.*{named(argument)}"):
        run(name, **{argument: value.to("meta")})


@pytest.mark.parametrize(("name", "argument"), FLOATS)
def test_values_that_are_not_finite_are_named_or_stay(name: str, argument: str) -> None:
    value = CALLS[name][1][argument]
    for wrong in (math.nan, math.inf):
        spoiled = value.clone()
        spoiled.view(-1)[value.numel() // 2] = wrong
        try:
            result = parts_of(run(name, **{argument: spoiled}))
        except ValueError as error:
            assert_told(str(error), rf"{named(argument)}.*(\[[\d, ]*\] is -?(nan|inf)|orthonormal)")
            continue
        if not _skips_what_is_not_finite(name, argument):
            assert any(not torch.isfinite(part).all() for part in result if part.is_floating_point())


def assert_told(message: str, pattern: str) -> None:
    assert re.search(pattern, message), message


def _skips_what_is_not_finite(name: str, argument: str) -> bool:
    """Faces in the image and points there that are not finite are not seen; projections are marked as not valid."""
    in_image = {"face_vertices_z", "face_vertices_image", "face_features", "points", "render_ranges"}
    return name.startswith("render.") and argument in (in_image | {"uv"})


@pytest.mark.parametrize(("name", "argument"), INDICES)
def test_an_index_that_is_not_there_is_named(name: str, argument: str) -> None:
    if name in ("render.interpolate", "render.face_neighbors"):
        pytest.skip("has no list of vertices to compare with")
    indices = CALLS[name][1][argument]
    for wrong in (10**6, -1, 2**31 + 1, 2**32):
        spoiled = indices.clone()
        spoiled[-1, 1] = wrong
        with pytest.raises(ValueError, match=rf"{argument}\[{len(indices) - 1}, 1\] is {wrong}"):
            run(name, **{argument: spoiled})


@pytest.mark.parametrize(("name", "argument"), TENSORS)
def test_layout_and_gradients_do_not_change_the_result(name: str, argument: str) -> None:
    torch.manual_seed(0)
    wanted = parts_of(run(name))
    value = CALLS[name][1][argument]
    variants = [value.transpose(0, -1).contiguous().transpose(0, -1)] if value.dim() > 1 else []
    if value.is_floating_point():
        variants.append(value.clone().requires_grad_())
    for variant in variants:
        torch.manual_seed(0)
        for got, expected in zip(parts_of(run(name, **{argument: variant})), wanted, strict=True):
            if got.layout == torch.sparse_coo:
                got, expected = got.to_dense(), expected.to_dense()
            torch.testing.assert_close(got, expected, equal_nan=True)


@pytest.mark.parametrize("name", CALLS)
def test_all_in_double_precision_gives_double_precision(name: str) -> None:
    function, arguments = CALLS[name]
    if (
        inspect.ismethod(function)
        or "fragments" in arguments
        or ("camera" in arguments and name.startswith("cameras."))
    ):
        pytest.skip("the camera or the fragments have a type already")
    doubled = {key: _double(value) for key, value in arguments.items()}
    for got, single in zip(parts_of(plain(function)(**doubled)), parts_of(run(name)), strict=True):
        wanted = (torch.float32, torch.float64) if single.dtype == torch.float32 else (single.dtype,)
        assert got.dtype in wanted


def _double(value: Any) -> Any:
    if isinstance(value, list):
        return [_double(one) for one in value]
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


@pytest.mark.parametrize(("name", "argument"), FLOATS)
def test_half_precision_is_computed_or_named(name: str, argument: str) -> None:
    try:
        run(name, **{argument: CALLS[name][1][argument].half()})
    except TypeError as error:
        assert_told(str(error), "float16|float32")


@pytest.mark.parametrize(("name", "argument"), [(n, a) for n, c in CALLS.items() for a in sorted(WHOLE & set(c[1]))])
def test_numbers_of_things_are_whole_and_not_too_large(name: str, argument: str) -> None:
    if name in ("points.sample_farthest_points", "voxels.voxel_downsample", "points.voxel_downsample"):
        pytest.skip("a length, or checked with the points")
    for wrong in (1.5, "3", math.inf):
        with pytest.raises((TypeError, ValueError), match=named(argument)):
            run(name, **{argument: wrong})
    for wrong in (-2, 2**40, 10**30):
        if argument == "iterations" and wrong > 0:
            continue
        with pytest.raises(ValueError, match=named(argument)):
            run(name, **{argument: wrong})


@pytest.mark.parametrize("name", [n for n, call in CALLS.items() if {"vertices", "faces"} <= set(call[1])])
def test_meshes_without_faces_or_vertices(name: str) -> None:
    _, arguments = CALLS[name]
    if not isinstance(arguments["faces"], torch.Tensor) or "fragments" in arguments or "edges" in arguments:
        pytest.skip("goes with another mesh")
    nothing = {"vertices": arguments["vertices"][..., :0, :], "faces": arguments["faces"][:0]}
    for empty in ({"faces": arguments["faces"][:0]}, nothing):
        try:
            result = parts_of(run(name, **empty))
        except (ValueError, TypeError, SmrError) as error:
            assert_told(str(error), "faces|vertices")
        else:
            assert all(torch.isfinite(part.to_dense()).all() for part in result)


def test_sizes_of_2_to_the_31_are_refused_before_memory_is_asked_for() -> None:
    huge = (2**16, 2**16, 2**16)
    for name in ("voxelize_points", "voxelize_solid", "voxelize_surface"):
        with pytest.raises(ValueError, match=r"shape: 1 grids of .* voxels are 2³¹ or more"):
            run(f"voxels.{name}", shape=huge)
    with pytest.raises(ValueError, match="resolution is 2000; that is 8000000000 grid points"):
        run("mesh.mesh_to_sdf", resolution=2000)
    with pytest.raises(ValueError, match="resolution is 4 and steps 20"):
        mesh.refine_occupancy(lambda places: places[:, 0] > 0, 4, 20)
    with pytest.raises(ValueError, match="width 65536 and height 65536 are out of range"):
        run("render.find_faces_in_image", height=2**16, width=2**16)
    with pytest.raises(ValueError, match="the result has"):
        run("render.rasterize", image_size=2**16)
    with pytest.raises(ValueError, match="5 points with knum = 2147483647 faces each"):
        run("render.find_faces_behind", knum=2**31 - 1)


def far() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    arguments = CALLS["mesh.is_inside"][1]
    return arguments["vertices"].double(), arguments["faces"], arguments["points"].double()


def test_meshes_far_from_the_origin_give_what_they_give_at_it() -> None:
    vertices, faces, places = far()
    away = torch.tensor([1e7, -1e7, 1e7], dtype=torch.float64)
    for measure in (
        lambda v, p: mesh.face_areas(v, faces),
        lambda v, p: mesh.vertex_normals(v, faces),
        lambda v, p: mesh.cotangent_laplacian(v, faces).to_dense(),
        lambda v, p: mesh.is_inside(v, faces, p).double(),
        lambda v, p: mesh.signed_distance(v, faces, p),
        lambda v, p: points.nearest_neighbors(p, v).squared_distances,
        lambda v, p: points.chamfer_distance(p, v),
        lambda v, p: points.estimate_normals(p, neighbors=3, orient=False).abs(),
        lambda v, p: mesh.repair(v, faces)[0] - v[0],
    ):
        torch.testing.assert_close(
            measure(vertices + away, places + away), measure(vertices, places), atol=1e-7, rtol=0
        )


def test_faces_without_area_and_faces_twice_change_no_distance() -> None:
    vertices, faces, places = far()
    flat = torch.tensor([[0, 0, 1], [2, 2, 2], [0, 1, 1]])
    more = torch.cat([faces, faces, flat])
    wanted = mesh.point_to_mesh_distance(places, vertices, faces).squared_distances
    torch.testing.assert_close(mesh.point_to_mesh_distance(places, vertices, more).squared_distances, wanted)
    assert torch.equal(
        mesh.is_inside(vertices, torch.cat([faces, flat]), places), mesh.is_inside(vertices, faces, places)
    )
    assert (mesh.face_areas(vertices, more)[-3:] == 0).all()
    assert (mesh.face_normals(vertices, more)[-3:] == 0).all()
    assert torch.isfinite(mesh.cotangent_laplacian(vertices, more).to_dense()).all()
    assert torch.equal(mesh.fill_holes(vertices, torch.cat([faces, flat]))[1], faces)
    assert mesh.sample_surface(vertices, more, 50).faces.max() < 2 * len(faces)
    new_vertices, new_faces = mesh.repair(vertices, more)
    assert (len(new_vertices), len(new_faces)) == (4, 4)


def test_fragments_of_another_scene_are_refused() -> None:
    """Kernels would read what lies behind the tensors."""
    function, arguments = CALLS["render.screen_derivatives"]
    doubled = {key: _double(value) for key, value in arguments.items()}
    with pytest.raises(TypeError, match=r"vertices are torch.float64 and fragments torch.float32"):
        plain(function)(**doubled)
    fragments = arguments["fragments"]
    found = fragments.pix_to_face.clone()
    found[0, 3, 4, 0] = 7
    other = render.Fragments(found, fragments.zbuf, fragments.bary_coords)
    for name in ("render.screen_derivatives", "render.antialias"):
        with pytest.raises(ValueError, match=r"fragments.pix_to_face\[0, 3, 4, 0\] is 7; .* 4 faces"):
            run(name, fragments=other)
    nowhere = object.__new__(render.Fragments)
    parts = {
        "pix_to_face": fragments.pix_to_face,
        "zbuf": fragments.zbuf,
        "bary_coords": fragments.bary_coords.to("meta"),
    }
    nowhere.__dict__.update(parts)
    for name in ("render.interpolate", "render.screen_derivatives", "render.antialias"):
        with pytest.raises(ValueError, match=r"fragments.bary_coords is on meta"):
            run(name, fragments=nowhere)


def test_edges_of_another_mesh_are_refused() -> None:
    faces = CALLS["mesh.face_areas"][1]["faces"]
    with pytest.raises(ValueError, match=r"edges.of_faces must have the shape \(4, 3\), not \(2, 3\)"):
        run("mesh.cotangent_weights", edges=mesh.find_edges(faces[:2], 4))
    with pytest.raises(TypeError, match="edges must be what find_edges returns, not str"):
        run("mesh.cotangent_weights", edges="x")


def test_cameras_are_cameras_and_quaternions_not_zero() -> None:
    for name in ("to_colmap", "to_kaolin", "to_opencv", "to_opengl", "to_pytorch3d", "to_record"):
        with pytest.raises(TypeError, match="camera"):
            run(f"cameras.{name}", camera=torch.eye(3))
    with pytest.raises(ValueError, match=r"quat_wxyz\[1\] is zero"):
        run("cameras.rotation_from_quat_wxyz", quat_wxyz=torch.eye(4)[:2] * torch.tensor([[1.0], [0.0]]))
    with pytest.raises(ValueError, match=r"depth must broadcast to the pixels' shape \(5,\), not \(4,\)"):
        run("cameras.Pinhole.unproject", depth=torch.ones(4))


def test_no_neighbours_of_no_points() -> None:
    nothing = torch.zeros(0, 3)
    assert points.radius_inliers(nothing, 1.0).shape == (0,)
    assert points.statistical_inliers(nothing).shape == (0,)
    assert points.nearest_neighbors(nothing, torch.rand(3, 3), 2).indices.shape == (0, 2)
    assert points.nearest_neighbors(torch.zeros(0, 4, 3), torch.zeros(0, 5, 3)).indices.shape == (0, 4)
