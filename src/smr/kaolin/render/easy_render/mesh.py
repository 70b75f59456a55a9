"""`kaolin.render.easy_render.mesh`: a mesh with its materials under spherical-gaussian lights, in one call.

Unlike Kaolin's default, features are perspective-correct, whatever the backend's name.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import normalize

from ..lighting.sg import SgLightingParameters, sg_diffuse_inner_product, sg_warp_specular_term
from ..materials.pbr import PBRMaterial
from ..mesh.rasterization import check_backend, rasterize
from ..mesh.utils import texture_mapping
from .common import default_lighting, default_material

if TYPE_CHECKING:
    from ...rep.surface_mesh import SurfaceMesh
    from ..camera.camera import Camera


class RenderPass(str, enum.Enum):
    """Images that `render_mesh` gives; a name serves as a key as well as the member."""

    render = "render"
    face_idx = "face_idx"
    albedo = "albedo"
    diffuse = "diffuse"
    specular = "specular"
    roughness = "roughness"
    normals = "normals"
    uvs = "uvs"
    features = "features"
    alpha = "alpha"

    __hash__ = str.__hash__


def _single(tensor: torch.Tensor, dims: int) -> torch.Tensor:
    """An attribute of one mesh without its batch axis."""
    if tensor.dim() == dims + 1:
        if len(tensor) != 1:
            raise ValueError(f"one mesh can be rendered at a time, not a batch of {len(tensor)}")
        return tensor[0]
    return tensor


def _attribute(mesh: SurfaceMesh, name: str, dims: int) -> torch.Tensor | None:
    """A tensor of the mesh, computed where it can be; None where it is neither there nor computable."""
    return _single(getattr(mesh, name), dims) if mesh.has_or_can_compute_attribute(name) else None


def _project(camera: Camera, vertices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Vertices (V, 3) in the image (V, 2), depth that is linear in the image (V,), and the divisor w (V,)."""
    in_camera = camera.extrinsics.transform(vertices).reshape(-1, 3)
    in_image = camera.intrinsics.transform(in_camera).reshape(-1, 3)
    if camera.lens_type == "ortho":
        return in_image[:, :2], in_camera[:, 2], torch.ones_like(in_camera[:, 2])
    w = -in_camera[:, 2]
    return in_image[:, :2], 1.0 / w, w


def mesh_rasterize_interpolate_cuda(
    mesh: SurfaceMesh,
    camera: Camera,
    normals_required: bool = True,
    uvs_required: bool = True,
    tangents_required: bool = True,
    features_required: bool = True,
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """Rasterize a mesh and interpolate what it has, perspective-correct. On any device.

    Faces with a corner behind the camera are left out.

    Returns:
        Faces (1, H, W) int64, -1 for none; normals in the world (1, H, W, 3), tangents (1, H, W, 3), texture
        coordinates (1, H, W, 2) and features (1, H, W, D); None in place of what the mesh does not have, or was not
        asked for.
    """
    vertices, faces = _single(mesh.vertices, 2), mesh.faces
    image, depth, w = _project(camera, vertices)
    wanted = {
        "face_normals": normals_required,
        "face_tangents": tangents_required,
        "face_uvs": uvs_required,
        "face_features": features_required,
    }
    found = {name: _attribute(mesh, name, 3) if asked else None for name, asked in wanted.items()}
    inverse = (1.0 / w)[faces][..., None]
    parts = [value * inverse for value in found.values() if value is not None]
    images, face_idx = rasterize(
        camera.height,
        camera.width,
        depth[faces][None],
        image[faces][None],
        torch.cat([inverse, *parts], -1)[None],
        (w[faces] > 0).all(-1)[None],
    )
    seen = face_idx[..., None] >= 0
    images = torch.where(seen, images[..., 1:] / torch.where(seen, images[..., :1], 1.0), 0.0)
    cut = iter(torch.split(images, [part.shape[-1] for part in parts], -1))
    normals, tangents, uvs, features = (None if value is None else next(cut) for value in found.values())
    return face_idx, normals, tangents, uvs, features


def mesh_rasterize_interpolate_nvdiffrast(
    mesh: SurfaceMesh,
    camera: Camera,
    nvdiffrast_context: Any = None,
    normals_required: bool = True,
    uvs_required: bool = True,
    tangents_required: bool = True,
    features_required: bool = True,
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """`mesh_rasterize_interpolate_cuda`: nvdiffrast and its context are not needed."""
    del nvdiffrast_context
    return mesh_rasterize_interpolate_cuda(
        mesh, camera, normals_required, uvs_required, tangents_required, features_required
    )


def _sample(
    material: PBRMaterial, name: str, uvs: torch.Tensor | None, like: torch.Tensor, default: Sequence[float]
) -> torch.Tensor:
    """A quantity of a material at N pixels, (N, C): its texture, else its value, else a default."""
    texture = getattr(material, f"{name}_texture")
    if texture is not None and uvs is not None:
        if texture.shape[0] not in (1, 3, 4) or texture.shape[-1] in (1, 3, 4):
            texture = texture.permute(2, 0, 1)
        texture = texture[: len(default)].to(like)
        uvs = torch.where((uvs >= 0) & (uvs <= 1), uvs, uvs - torch.floor(uvs))  # repeated beyond 0..1
        wrapped = torch.stack([uvs[..., 0], 1.0 - uvs[..., 1]], -1)  # a mesh's origin is the top left corner
        return texture_mapping(wrapped[None], texture[None], mode="bilinear")[0]
    value = getattr(material, f"{name}_color" if name in ("diffuse", "specular") else f"{name}_value", None)
    color = like.new_tensor(default) if value is None else value.to(like).reshape(-1)
    return color.expand(like.shape[0], len(default))


def _bent(
    material: PBRMaterial, uvs: torch.Tensor | None, normals: torch.Tensor, tangents: torch.Tensor | None
) -> torch.Tensor:
    """Normals (N, 3) with the material's normal map."""
    if material.normals_texture is None or uvs is None or tangents is None:
        return normals
    local = 2.0 * _sample(material, "normals", uvs, normals, (0.5, 0.5, 1.0)) - 1.0
    tangents = tangents - (tangents * normals).sum(-1, keepdim=True) * normals
    length = tangents.norm(dim=-1, keepdim=True)
    usable = length > 1e-6  # not where a face has no area in the texture: its tangents are 0 or NaN
    tangents = torch.where(usable, tangents, 1.0) / torch.where(usable, length, 1.0)
    across = torch.linalg.cross(normals, tangents)
    bent = local[:, :1] * tangents + local[:, 1:2] * across + local[:, 2:] * normals
    return torch.where(usable, normalize(bent, dim=-1), normals)


def texture_sample_materials(
    backend: str | None,
    face_idx: torch.Tensor,
    im_base_normals: torch.Tensor,
    materials: Sequence[PBRMaterial] | None = None,
    uv_map: torch.Tensor | None = None,
    material_assignments: torch.Tensor | None = None,
    im_tangents: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """What the materials are like at each pixel.

    Args:
        backend: A name of Kaolin's; all mean the same here.
        face_idx: (1, H, W) faces.
        im_base_normals: (1, H, W, 3) normals in the world.
        materials: Materials; the default material where left out.
        uv_map: (1, H, W, 2) texture coordinates.
        material_assignments: (F,) index into the materials for each face; a face of none (-1) has the default material.
        im_tangents: (1, H, W, 3) tangents, for normal maps.

    Returns:
        Diffuse albedo (1, H, W, 3), specular albedo (1, H, W, 3), roughness (1, H, W) and normals (1, H, W, 3).
    """
    check_backend(backend)
    seen = face_idx >= 0
    which = torch.zeros_like(face_idx[seen])
    if materials and material_assignments is not None:
        which = material_assignments.reshape(-1).long()[face_idx[seen]]
    kinds = [*materials, default_material()] if materials else [default_material()]
    base = normalize(im_base_normals[seen], dim=-1)
    albedo, specular, normals = torch.zeros_like(base), torch.zeros_like(base), base.clone()
    roughness = torch.zeros_like(base[:, 0])
    for index, material in enumerate(kinds):
        here = which == index if index + 1 < len(kinds) or not materials else (which < 0) | (which >= len(materials))
        pixels = here.nonzero()[:, 0]
        uvs = None if uv_map is None else uv_map[seen][pixels]
        tangents = None if im_tangents is None else im_tangents[seen][pixels]
        diffuse = _sample(material, "diffuse", uvs, base[pixels], (0.7, 0.7, 0.7))
        if material.is_specular_workflow:
            shine = _sample(material, "specular", uvs, base[pixels], (0.0, 0.0, 0.0))
        else:
            metal = _sample(material, "metallic", uvs, base[pixels], (0.0,))
            shine = 0.04 * (1.0 - metal) + diffuse * metal
            diffuse = diffuse * (1.0 - metal)
        rough = _sample(material, "roughness", uvs, base[pixels], (0.5,))[:, 0]
        albedo = albedo.index_put((pixels,), diffuse)
        specular = specular.index_put((pixels,), shine)
        roughness = roughness.index_put((pixels,), rough)
        normals = normals.index_put((pixels,), _bent(material, uvs, base[pixels], tangents))
    return _spread(seen, albedo), _spread(seen, specular), _spread(seen, roughness), _spread(seen, normals)


def _spread(seen: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Values of the pixels that are seen, as an image with 0 elsewhere."""
    image = values.new_zeros((*seen.shape, *values.shape[1:]))
    return image.masked_scatter(seen.reshape(*seen.shape, *[1] * (values.dim() - 1)).expand_as(image), values)


def sg_shade(
    camera: Camera,
    face_idx: torch.Tensor,
    albedo: torch.Tensor,
    spec_albedo: torch.Tensor,
    im_roughness: torch.Tensor,
    im_world_normals: torch.Tensor,
    amplitude: torch.Tensor,
    direction: torch.Tensor,
    sharpness: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Shade pixels under spherical gaussians.

    Args:
        camera: One camera.
        face_idx: (1, H, W) faces.
        albedo: (1, H, W, 3) of diffuse light.
        spec_albedo: (1, H, W, 3) of specular light.
        im_roughness: (1, H, W).
        im_world_normals: (1, H, W, 3).
        amplitude: (N, 3) of the lights.
        direction: (N, 3) towards the lights.
        sharpness: (N,).

    Returns:
        The whole, diffuse and specular light, each (1, H, W, 3).
    """
    seen = face_idx >= 0
    _, rays = camera.generate_rays()
    view = -normalize(rays.reshape(1, camera.height, camera.width, 3)[seen], dim=-1)
    normals = im_world_normals[seen]
    lights = (amplitude, direction, sharpness)
    diffuse = sg_diffuse_inner_product(*lights, normals, albedo[seen])
    roughness = im_roughness[seen].clamp(min=0.03)  # sharper lobes lose their digits in single precision
    specular = sg_warp_specular_term(*lights, normals, roughness, view, spec_albedo[seen])
    return _spread(seen, diffuse + specular), _spread(seen, diffuse), _spread(seen, specular)


def _lights(lighting: SgLightingParameters | None, like: torch.Tensor) -> SgLightingParameters:
    return (default_lighting() if lighting is None else lighting).to(like.device, like.dtype)


def _materials(mesh: SurfaceMesh) -> Sequence[PBRMaterial] | None:
    materials = mesh.materials
    if materials is not None and len(materials) == 1 and isinstance(materials[0], (list, tuple)):
        materials = materials[0]
    if not materials:
        return None
    for material in materials:
        if not isinstance(material, PBRMaterial):
            name = type(material).__name__
            raise TypeError(f"materials must be PBRMaterial, not {name}; import the mesh with raw_materials=False")
    return list(materials)


def render_mesh(
    camera: Camera,
    mesh: SurfaceMesh,
    lighting: SgLightingParameters | None = None,
    custom_materials: Sequence[PBRMaterial] | None = None,
    custom_material_assignments: torch.Tensor | None = None,
    backend: str | None = None,
    nvdiffrast_context: Any = None,
) -> dict[RenderPass, torch.Tensor]:
    """Render a triangle mesh with its materials; on any device, differentiable.

    Args:
        camera: One camera, on the mesh's device.
        mesh: One mesh (a batch of one is one).
        lighting: Lights; `default_lighting()` where left out.
        custom_materials: Materials in place of the mesh's.
        custom_material_assignments: (F,) which material each face has, in place of the mesh's.
        backend: "cuda", "nvdiffrast" or None: all mean the rasterizer of `smr.ops`.
        nvdiffrast_context: Not needed.

    Returns:
        Images by `RenderPass`, each (1, H, W, C) (`face_idx`, `roughness` and `alpha` are (1, H, W)). `render` is not
        clamped; the background is 0. Normals are in the world, in 0..1.

    Raises:
        ValueError: A batch, or a backend that Kaolin does not have.
        TypeError: Materials are not PBRMaterial.
    """
    del nvdiffrast_context
    check_backend(backend)
    materials = _materials(mesh) if custom_materials is None else list(custom_materials)
    assignments = mesh.material_assignments if custom_material_assignments is None else custom_material_assignments
    has_normal_map = any(material.normals_texture is not None for material in materials or ())
    face_idx, normals, tangents, uvs, features = mesh_rasterize_interpolate_cuda(
        mesh, camera, tangents_required=has_normal_map
    )
    if normals is None:
        raise ValueError("the mesh has no normals and they cannot be computed")
    albedo, shine, roughness, bent = texture_sample_materials(
        backend, face_idx, normals, materials, uvs, assignments, tangents
    )
    lights = _lights(lighting, normals)
    whole, diffuse, specular = sg_shade(
        camera, face_idx, albedo, shine, roughness, bent, lights.amplitude, lights.direction, lights.sharpness
    )
    seen = (face_idx >= 0)[..., None]
    passes = {
        RenderPass.render: whole,
        RenderPass.face_idx: face_idx,
        RenderPass.albedo: albedo,
        RenderPass.diffuse: diffuse,
        RenderPass.specular: specular,
        RenderPass.roughness: roughness,
        RenderPass.normals: torch.where(seen, (bent + 1.0) / 2.0, 0.0),
        RenderPass.alpha: (face_idx >= 0).to(whole.dtype),
    }
    if uvs is not None:
        passes[RenderPass.uvs] = uvs
    if features is not None:
        passes[RenderPass.features] = features
    return passes
