"""Surface meshes: batchings, attributes that are computed, joining, moving; containers of tensors."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smr.kaolin.rep import Mesh, SurfaceMesh, TensorContainerBase
from smr.kaolin.utils.testing import contained_torch_equal

NONE, FIXED, LIST = SurfaceMesh.Batching.NONE, SurfaceMesh.Batching.FIXED, SurfaceMesh.Batching.LIST

FACES = torch.tensor([[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]])


def tetrahedron(seed: int, **attributes: Any) -> SurfaceMesh:
    generator = torch.Generator().manual_seed(seed)
    vertices = torch.rand(4, 3, generator=generator, dtype=torch.double)
    uvs = torch.rand(6, 2, generator=generator, dtype=torch.double)
    return SurfaceMesh(
        vertices,
        FACES.clone(),
        uvs=uvs,
        face_uvs_idx=torch.randint(0, 6, (4, 3), generator=generator),
        vertex_colors=torch.rand(4, 3, generator=generator, dtype=torch.double),
        **attributes,
    )


def square(seed: int = 0) -> SurfaceMesh:
    vertices = torch.rand(4, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
    return SurfaceMesh(vertices, torch.tensor([[0, 1, 2, 3]]))


# Batchings


@given(st.lists(st.sampled_from([NONE, FIXED, LIST]), max_size=6))
@settings(max_examples=30, deadline=None)
def test_any_way_through_the_batchings_leads_back(way: list[Any]) -> None:
    mesh = tetrahedron(0, transform=torch.eye(4, dtype=torch.double))
    before = mesh.as_dict()
    for batching in way:
        assert mesh.set_batching(batching) is mesh
        assert mesh.batching == batching
        assert len(mesh) == 1
        assert mesh.check_sanity()
    mesh.batching = NONE
    assert contained_torch_equal(mesh.as_dict(), before)


def test_shapes_in_each_batching() -> None:
    mesh = SurfaceMesh.cat([tetrahedron(0), tetrahedron(1), tetrahedron(2)])
    assert mesh.batching == FIXED
    assert mesh.vertices.shape == (3, 4, 3)
    assert mesh.faces.shape == (4, 3)
    assert mesh.face_uvs.shape == (3, 4, 3, 2)
    mesh.set_batching(LIST)
    assert [v.shape for v in mesh.vertices] == [(4, 3)] * 3
    assert all(torch.equal(faces, FACES) for faces in mesh.faces)
    with pytest.raises(ValueError, match="3 meshes cannot be in batching NONE"):
        mesh.set_batching(NONE)
    assert mesh.batching == LIST
    assert mesh.to_batched().batching == FIXED
    assert mesh.getattr_batched("faces", "LIST")[2].shape == (4, 3)
    with pytest.raises(ValueError, match="'SOME' is no batching; there are NONE, FIXED, LIST"):
        mesh.batching = "SOME"


def test_different_meshes_stay_a_list() -> None:
    mesh = SurfaceMesh.cat([tetrahedron(0), square()], fixed_topology=False)
    assert (mesh.batching, len(mesh), mesh.is_triangular()) == (LIST, 2, False)
    assert [corners.shape for corners in mesh.face_vertices] == [(4, 3, 3), (1, 4, 3)]
    torch.testing.assert_close(mesh.face_vertices[1], square().face_vertices)
    with pytest.raises(ValueError, match="faces of different shapes cannot be in batching FIXED"):
        mesh.to_batched()
    other = tetrahedron(1)
    other.faces = FACES.flip(0)
    with pytest.raises(ValueError, match="different faces cannot be in batching FIXED"):
        SurfaceMesh.cat([tetrahedron(0), other])


def test_what_cannot_be_stacked_is_dropped_when_asked(caplog: pytest.LogCaptureFixture) -> None:
    mesh = SurfaceMesh([torch.rand(4, 3)] * 2, [FACES] * 2, normals=[torch.rand(2, 3), torch.rand(3, 3)])
    with pytest.raises(ValueError, match="normals of different shapes"):
        mesh.set_batching(FIXED)
    with caplog.at_level(logging.WARNING):
        mesh.set_batching(FIXED, skip_errors=True)
    assert "normals is dropped" in caplog.text
    assert mesh.normals is None
    assert mesh.vertices.shape == (2, 4, 3)


def test_meshes_one_by_one() -> None:
    mesh = SurfaceMesh.cat([tetrahedron(0), tetrahedron(1)])
    for batching in (FIXED, LIST):
        mesh.set_batching(batching)
        singles = list(mesh)
        assert [one.batching for one in singles] == [NONE, NONE]
        assert contained_torch_equal(singles[1].as_dict(), tetrahedron(1).as_dict())
        assert torch.equal(mesh[-1].vertices, singles[1].vertices)
        with pytest.raises(IndexError, match="mesh 2 of 2"):
            _ = mesh[2]
    single = tetrahedron(0)
    assert single[0] is single


# What is computed


def expected(mesh: SurfaceMesh) -> dict[str, torch.Tensor]:
    corners = mesh.vertices[mesh.faces]
    normals = torch.linalg.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals = torch.nn.functional.normalize(normals, dim=-1)[:, None].expand(-1, 3, -1)
    sums = torch.zeros_like(mesh.vertices).index_add(0, mesh.faces.flatten(), normals.reshape(-1, 3))
    return {
        "face_vertices": corners,
        "face_normals": normals,
        "vertex_normals": sums / torch.bincount(mesh.faces.flatten()).unsqueeze(-1),
        "face_uvs": mesh.uvs[mesh.face_uvs_idx],
        "face_colors": mesh.vertex_colors[mesh.faces],
    }


@pytest.mark.parametrize("batching", [NONE, FIXED, LIST])
@pytest.mark.parametrize("name", ["face_vertices", "face_normals", "vertex_normals", "face_uvs", "face_colors"])
def test_computed_attributes(name: str, batching: Any) -> None:
    singles = [tetrahedron(i) for i in range(1 if batching == NONE else 3)]
    mesh = singles[0] if batching == NONE else SurfaceMesh.cat(singles, fixed_topology=batching == FIXED)
    want = [expected(one)[name] for one in singles]
    assert mesh.probably_can_compute_attribute(name)
    assert not mesh.has_attribute(name)
    got = getattr(mesh, name)
    assert mesh.has_attribute(name)
    for one, other in zip([got] if batching == NONE else got, want, strict=True):
        torch.testing.assert_close(one, other)


def test_tangents_follow_the_texture() -> None:
    vertices = torch.tensor([[0.0, 0, 0], [2, 0, 0], [2, 3, 0], [0, 3, 0]])
    faces = torch.tensor([[0, 1, 2], [0, 2, 3]])
    mesh = SurfaceMesh(vertices, faces, uvs=vertices[:, [1, 0]], face_uvs_idx=faces)  # u runs along y
    torch.testing.assert_close(mesh.vertex_tangents.abs(), torch.tensor([[0.0, 1, 0]]).expand(4, 3))
    torch.testing.assert_close(mesh.face_tangents, mesh.vertex_tangents[faces])
    singles = [tetrahedron(i) for i in range(3)]
    for fixed in (True, False):
        batch = SurfaceMesh.cat(singles, fixed_topology=fixed)
        for one, tangents in zip(singles, batch.vertex_tangents, strict=True):
            torch.testing.assert_close(tangents, one.vertex_tangents)


def test_normals_that_are_given_are_used() -> None:
    mesh = tetrahedron(0, normals=torch.tensor([[0.0, 0, 1]]).double(), face_normals_idx=torch.zeros(4, 3).long())
    assert bool((mesh.face_normals == torch.tensor([0.0, 0, 1]).double()).all())
    mesh = tetrahedron(0, vertex_normals=torch.rand(4, 3).double())
    assert torch.equal(mesh.face_normals, mesh.vertex_normals[FACES])


def test_nothing_is_kept_that_needs_a_gradient() -> None:
    mesh = tetrahedron(0)
    mesh.vertices.requires_grad_()
    assert mesh.vertex_normals.requires_grad
    assert not mesh.has_attribute("vertex_normals")
    assert not mesh.has_attribute("face_vertices")
    with torch.no_grad():  # a value without gradient must not be kept for later either
        assert not mesh.face_normals.requires_grad
    assert not mesh.has_attribute("face_normals")
    assert mesh.face_uvs is not None
    assert mesh.has_attribute("face_uvs")
    assert mesh.get_or_compute_attribute("face_normals", should_cache=True).requires_grad
    assert mesh.has_attribute("face_normals")
    assert mesh.has_attribute("face_vertices")


def test_gradients_of_computed_attributes() -> None:
    def normals(vertices: torch.Tensor) -> torch.Tensor:
        return SurfaceMesh(vertices, FACES).vertex_normals

    vertices = torch.rand(4, 3, dtype=torch.double, generator=torch.Generator().manual_seed(3))
    assert torch.autograd.gradcheck(normals, vertices.requires_grad_())


def test_what_cannot_be_computed() -> None:
    mesh = square()
    assert mesh.face_vertices.shape == (1, 4, 3)
    for name in ("face_normals", "vertex_normals", "vertex_tangents", "face_uvs", "vertex_colors"):
        assert not mesh.has_or_can_compute_attribute(name)
        assert not mesh.probably_can_compute_attribute(name)
        assert getattr(mesh, name) is None
    mesh.unset_attributes_return_none = False
    with pytest.raises(AttributeError, match="SurfaceMesh: face_uvs is not set"):
        _ = mesh.face_uvs
    mesh.allow_auto_compute = False
    mesh.face_vertices = None
    with pytest.raises(AttributeError, match="face_vertices is not set"):
        _ = mesh.face_vertices
    assert mesh.get_or_compute_attribute("face_vertices").shape == (1, 4, 3)
    with pytest.raises(AttributeError, match="has no attribute 'colour'"):
        _ = mesh.colour
    with pytest.raises(AttributeError, match="has no attribute 'colour'"):
        mesh.get_attribute("colour")


def test_indices_out_of_range_raise_and_do_not_vanish() -> None:
    mesh = SurfaceMesh(torch.rand(4, 3), torch.tensor([[0, 1, 9]]))
    with pytest.raises(ValueError, match="9"):
        _ = mesh.face_vertices
    batch = SurfaceMesh([torch.rand(9, 3), torch.rand(4, 3)], [FACES, torch.tensor([[0, 1, 2], [3, 9, 0]])])
    with pytest.raises(ValueError, match=r"faces\[1, 1\] of mesh 1 is 9; it must be an index into 4 vertices"):
        _ = batch.face_vertices
    for fixed in (True, False):
        batch = SurfaceMesh.cat([tetrahedron(0), tetrahedron(1)], fixed_topology=fixed)
        batch.face_uvs_idx[0][2, 1] = 6  # the second mesh's first row, where all lie one after the other
        with pytest.raises(ValueError, match=r"face_uvs_idx\[2, 1\] of mesh 0 is 6; .* into 6 uvs"):
            _ = batch.face_uvs
    empty = SurfaceMesh(torch.zeros(0, 3), torch.tensor([[0, 1, 2]]))
    assert empty.face_vertices is None


def test_corners_become_indexed() -> None:
    mesh = SurfaceMesh.cat([tetrahedron(0), tetrahedron(1)])
    before = mesh.face_uvs
    mesh.uvs = mesh.face_uvs_idx = None
    for batching in (FIXED, LIST):
        mesh.set_batching(batching)
        mesh.uvs = None
        values, index = mesh.ensure_indexed_attribute("uvs")
        mesh.face_uvs = None
        assert contained_torch_equal(mesh.getattr_batched("face_uvs", FIXED), before)
        assert mesh.uvs is values
        assert mesh.face_uvs_idx is index
    assert mesh.ensure_indexed_attribute("uvs")[0] is mesh.uvs
    assert square().ensure_indexed_attribute("normals") == (None, None)
    with pytest.raises(AttributeError, match="'faces' has no index; normals and uvs have"):
        mesh.ensure_indexed_attribute("faces")


# Wrong shapes


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"normals": torch.rand(1, 2, 3)}, r"normals has the shape \(1, 2, 3\), should be \(VN, 3\)"),
        ({"face_uvs_idx": torch.zeros(3, 3).long()}, r"face_uvs_idx has the shape \(3, 3\), should be \(4, 3\)"),
        ({"vertex_normals": torch.rand(5, 3)}, r"vertex_normals has the shape \(5, 3\), should be \(4, 3\)"),
        ({"transform": torch.rand(2, 4, 4)}, r"transform has the shape \(2, 4, 4\), should be \(4, 4\)"),
        ({"normals": [torch.rand(2, 3)]}, "normals should be a tensor, not list"),
    ],
)
def test_wrong_shapes_are_told(attributes: dict[str, Any], text: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ValueError, match=text):
        SurfaceMesh(torch.rand(4, 3), FACES, **attributes)
    mesh = SurfaceMesh(torch.rand(4, 3), FACES, strict_checks=False, **attributes)
    with caplog.at_level(logging.ERROR):
        assert not mesh.check_sanity()
    assert "should be" in caplog.text
    caplog.clear()
    assert not mesh.check_sanity(log_error=False)
    assert not caplog.text


def test_wrong_lists_and_arguments_are_told() -> None:
    with pytest.raises(ValueError, match="normals has 1 items, should have 2"):
        SurfaceMesh([torch.rand(4, 3)] * 2, [FACES] * 2, normals=[torch.rand(4, 3)])
    with pytest.raises(ValueError, match=r"vertex_colors\[1\] has the shape \(5, 3\), should be \(4, \*\)"):
        SurfaceMesh([torch.rand(4, 3)] * 2, [FACES] * 2, vertex_colors=[torch.rand(4, 3), torch.rand(5, 3)])
    with pytest.raises(ValueError, match=r"they are \[4, 3\] and list"):
        SurfaceMesh(torch.rand(4, 3), [FACES])
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        SurfaceMesh(torch.rand(4, 3), FACES, colour=torch.rand(4, 3))


def test_a_mesh_without_faces_or_vertices() -> None:
    mesh = SurfaceMesh(torch.rand(4, 3), torch.zeros(0, 3).long(), face_uvs_idx=torch.zeros(4, 3).long())
    assert mesh.check_sanity()
    assert mesh.face_vertices.shape == (0, 3, 3)


# Joining


def test_a_batch_gives_its_meshes_back() -> None:
    singles = [tetrahedron(i) for i in range(3)]
    fixed = SurfaceMesh.cat(singles[:2])
    mesh = SurfaceMesh.cat([fixed, singles[2]], fixed_topology=False)
    assert contained_torch_equal([one.as_dict() for one in mesh], [one.as_dict() for one in singles])
    with pytest.raises(ValueError, match="there are no meshes to join"):
        SurfaceMesh.cat([])


def test_what_only_some_have_is_computed_or_left_out() -> None:
    one, two = tetrahedron(0), tetrahedron(1)
    one.face_normals = torch.rand(4, 3, 3).double()
    two.uvs = torch.rand(9, 2).double()  # another number of texture coordinates
    one.vertex_features = torch.rand(4, 2).double()
    mesh = SurfaceMesh.cat([one, two])
    names = {"vertices", "faces", "vertex_colors", "face_normals", "face_uvs"}
    assert set(mesh.get_attributes()) == names
    torch.testing.assert_close(mesh.face_normals[1], two.face_normals)
    torch.testing.assert_close(mesh.face_uvs, torch.stack([one.face_uvs, two.face_uvs]))
    assert set(SurfaceMesh.cat([one, two], fixed_topology=False).get_attributes()) >= {"uvs", "face_uvs_idx"}


def test_features_of_other_sizes_can_be_left_out(caplog: pytest.LogCaptureFixture) -> None:
    one, two = tetrahedron(0), tetrahedron(1)
    one.vertex_features, two.vertex_features = torch.rand(4, 2).double(), torch.rand(4, 3).double()
    with pytest.raises(ValueError, match="vertex_features of different shapes"):
        SurfaceMesh.cat([one, two])
    assert SurfaceMesh.cat([one, two], skip_errors=True).vertex_features is None
    assert "vertex_features is left out" in caplog.text


def test_transforms_are_batched_and_applied() -> None:
    move = torch.eye(4, dtype=torch.double)
    move[:3, 3] = torch.tensor([1.0, 2, 3])
    moved, still = tetrahedron(0, transform=move), tetrahedron(1)
    for fixed in (True, False):
        mesh = SurfaceMesh.cat([moved, still], fixed_topology=fixed)
        assert torch.equal(mesh.transform, torch.stack([move, torch.eye(4).double()]))
        world = mesh.as_transformed()
        assert world.transform is None
        torch.testing.assert_close(world.vertices[0], moved.vertices + move[:3, 3])
        torch.testing.assert_close(world.vertices[1], still.vertices)
        assert mesh.has_attribute("transform")
    flat = SurfaceMesh.flatten([moved, still])
    torch.testing.assert_close(flat.vertices, torch.cat([moved.vertices + move[:3, 3], still.vertices]))
    assert still.as_transformed() is still


def test_normals_stay_across_and_tangents_along_the_surface() -> None:
    generator = torch.Generator().manual_seed(5)
    matrix = torch.eye(4, dtype=torch.double)
    matrix[:3] = torch.rand(3, 4, generator=generator, dtype=torch.double)
    mesh = tetrahedron(2, transform=matrix)
    before = mesh.face_vertices, mesh.face_normals, mesh.face_tangents
    world = mesh.as_transformed()
    edges = world.face_vertices - world.face_vertices.roll(1, 1)
    across = (edges * world.face_normals).sum(-1)
    torch.testing.assert_close(across, torch.zeros_like(across), atol=1e-10, rtol=0)
    torch.testing.assert_close(world.face_normals.norm(dim=-1), torch.ones(4, 3).double())
    along = before[2] @ matrix[:3, :3].T
    torch.testing.assert_close(world.face_tangents, torch.nn.functional.normalize(along, dim=-1))
    assert torch.equal(before[0], mesh.face_vertices)


@pytest.mark.parametrize("batching", [NONE, FIXED, LIST])
def test_one_mesh_of_several(batching: Any) -> None:
    singles = [tetrahedron(i, material_assignments=torch.tensor([0, 1, -1, 0]).short()) for i in range(3)]
    for i, one in enumerate(singles):
        one.materials = [f"first {i}", f"second {i}"]
        one.set_batching(batching)
    flat = SurfaceMesh.flatten(singles)
    assert flat.batching == NONE
    assert flat.check_sanity()
    for i in range(3):
        single = singles[i].set_batching(NONE)
        torch.testing.assert_close(flat.face_vertices[4 * i : 4 * i + 4], single.vertices[FACES])
        torch.testing.assert_close(flat.face_uvs[4 * i : 4 * i + 4], single.face_uvs)
    assert flat.material_assignments.tolist() == [0, 1, -1, 0, 2, 3, -1, 2, 4, 5, -1, 4]
    assert flat.material_assignments.dtype == torch.short
    assert flat.materials[3] == "second 1"
    assert torch.equal(SurfaceMesh.flatten(SurfaceMesh.cat(singles)).vertices, flat.vertices)


def test_triangles_and_squares_are_not_one_mesh() -> None:
    with pytest.raises(ValueError, match="faces of 3 and 4 corners cannot be in one mesh; triangulate"):
        SurfaceMesh.flatten([tetrahedron(0), square()])


# Copies, text


def test_copies_share_or_not() -> None:
    mesh = tetrahedron(0)
    assert copy.copy(mesh).vertices is mesh.vertices
    assert copy.deepcopy(mesh).vertices is not mesh.vertices
    assert str(copy.deepcopy(mesh)) == str(mesh)
    shallow = copy.copy(mesh)
    shallow.vertices = torch.zeros(4, 3)
    assert bool(mesh.vertices.any())


def test_types_and_devices() -> None:
    class Moved:
        def to(self, device: str) -> str:
            return f"on {device}"

    mesh = tetrahedron(0)
    mesh.materials = [[Moved()], ["stays"]]
    assert mesh.float_tensors_to(torch.float).vertices.dtype == torch.float
    assert mesh.float_tensors_to(torch.float).faces.dtype == torch.long
    there = mesh.to("meta")
    assert there.vertices.device.type == there.faces.device.type == "meta"
    assert there.materials == [["on meta"], ["stays"]]
    assert mesh.vertices.device.type == "cpu"
    part = mesh.to("meta", attributes=["faces"])
    assert (part.vertices.device.type, part.faces.device.type) == ("cpu", "meta")
    assert part.materials is mesh.materials
    assert mesh.cpu(["faces"]).faces.device.type == "cpu"
    mesh.vertices.requires_grad_()
    assert not mesh.detach().vertices.requires_grad


def test_text_names_what_is_there_and_what_can_be() -> None:
    mesh = tetrahedron(0)
    text = str(mesh)
    assert text.startswith("SurfaceMesh object with batching strategy NONE\n")
    assert "            vertices: [4, 3] (torch.float64)[cpu]" in text
    assert "face_normals: if possible, computed on access from: (normals, face_normals_idx) or (vertex_norm" in text
    mesh.set_batching(LIST)
    assert "                      0: [4, 3] (torch.float64)[cpu]" in str(mesh)
    assert "[min 0." in mesh.to_string(print_stats=True)
    assert len(mesh.to_string(detailed=True)) > len(str(mesh))
    assert mesh.describe_attribute("materials") == ""
    with pytest.raises(AttributeError, match="colour"):
        mesh.describe_attribute("colour")
    info = SurfaceMesh.attribute_info_string("LIST")
    assert "               faces: list of (torch.IntTensor)   of shape ['F', 'FSz']" in info


# Mesh


def test_mesh_takes_a_batch_of_faces() -> None:
    vertices, faces = torch.rand(1, 1000, 3), torch.randint(0, 1000, (1, 2000, 3))
    mesh = Mesh(vertices, faces)
    assert (mesh.batching, mesh.faces.shape) == (FIXED, (2000, 3))
    assert Mesh(vertices[0], faces[0]).batching == NONE
    different = Mesh(torch.rand(2, 1000, 3), torch.randint(0, 1000, (2, 2000, 3)))
    assert (different.batching, len(different)) == (LIST, 2)
    assert isinstance(different[0], Mesh)


def test_mesh_of_points_on_a_sphere() -> None:
    points = torch.nn.functional.normalize(torch.randn(2000, 3, generator=torch.Generator().manual_seed(0)), dim=-1)
    mesh = Mesh.from_pointcloud(points, normals=points.unsqueeze(0), grid_resolution=32)
    radii = mesh.vertices.norm(dim=-1)
    assert float((radii - 1).abs().max()) < 0.1


# The base of containers


class Pair(TensorContainerBase):
    def __init__(self, first: Any, rest: Any = None, label: str = "") -> None:
        self.first, self.rest, self.label = first, rest, label

    @classmethod
    def class_tensor_attributes(cls) -> list[str]:
        return ["first", "rest"]

    @classmethod
    def class_other_attributes(cls) -> list[str]:
        return ["label"]


def test_containers_reach_into_lists_and_dicts() -> None:
    pair = Pair(torch.rand(2), {"a": torch.rand(3), "b": [torch.rand(1)]}, "x")
    there = pair.to(torch.double)
    assert (there.first.dtype, there.rest["a"].dtype, there.rest["b"][0].dtype) == (torch.double,) * 3
    assert pair.first.dtype == torch.float
    assert pair.get_attributes() == ["first", "rest", "label"]
    assert list(pair.as_dict(only_tensors=True)) == ["first", "rest"]
    assert "first" in str(pair)
    assert "rest[a]" in repr(Pair(torch.rand(2), {"a": torch.rand(3)}))


@pytest.mark.parametrize("name", ["check_tensor_attribute", "check_other_attribute"])
def test_a_container_must_define_its_checks(name: str) -> None:
    with pytest.raises(NotImplementedError, match=f"Pair must define {name}"):
        getattr(Pair(1), name)("first")
    with pytest.raises(NotImplementedError, match="TensorContainerBase must define class_tensor_attributes"):
        TensorContainerBase().class_tensor_attributes()
    with pytest.raises(NotImplementedError, match="TensorContainerBase must define class_other_attributes"):
        TensorContainerBase().class_other_attributes()
