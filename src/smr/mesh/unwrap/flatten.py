"""Charts to the plane: as rigid as possible, then vertex by vertex until nothing is folded or stretched.

All charts are solved together: their matrices are the blocks of one. The start is the projection on each chart's mean
plane; a few local-global steps (Liu, Zhang, Xu, Gotsman, Gortler 2008) make it nearly isometric; then the energy of
Garanzha, Kaporin, Kudryavtseva, Protais, Ray, Sokolov (Foldover-free maps in 50 lines of code, 2021), which is finite
for folded triangles and grows without bound towards them from the other side, is lowered one vertex at a time.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np
import warp as wp
from jaxtyping import Complex128, Float64, Int64
from scipy.sparse import coo_matrix, identity
from scipy.sparse.linalg import splu

from ...arrays import launch_chunked
from .deal import deal
from .surface import Cut, Surface, triangle_areas

RIGID_STEPS = 6
SWEEPS = 30
HIGH_POWER = wp.constant(5)
GOOD_ENERGY = wp.constant(4.0)
"""Energy of a triangle that is stretched by at most about 1.7; 3 is that of none."""

REST = wp.constant(wp.float64(0.999))
"""A vertex whose energy falls by less than to this part of it rests until a neighbour moves."""


def flatten(
    surface: Surface, chosen: Int64[np.ndarray, " G"], cut: Cut, start: Float64[np.ndarray, "U 2"] | None = None
) -> Float64[np.ndarray, "U 2"]:
    """Coordinates of the charts' vertices, each chart with the area of its surface and its centre at the origin.

    With a `start` that is nearly right already, the global steps are left out.
    """
    flat = surface.flat[chosen]
    if start is None:
        origin = np.zeros(len(cut.vertex_charts), np.int64)
        origin[cut.faces.ravel()] = surface.faces[chosen].ravel()
        seen = _project(surface, chosen, cut, surface.vertices[origin])
        rigid = _as_rigid_as_possible(flat[..., 0] + 1j * flat[..., 1], cut, seen)
        start = np.stack([rigid.real, rigid.imag], axis=1)
    return _normalise(surface.areas[chosen], cut, relax(flat, cut, start))


def _project(
    surface: Surface, chosen: np.ndarray, cut: Cut, points: Float64[np.ndarray, "U 3"]
) -> Complex128[np.ndarray, " U"]:
    """Each chart seen along its mean normal."""
    weighted = surface.normals[chosen] * surface.areas[chosen][:, None]
    normal = np.stack([np.bincount(cut.charts, weighted[:, k], cut.count) for k in range(3)], axis=1)
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    normal = np.where(length > 1e-12, normal / np.maximum(length, 1e-12), [0.0, 0.0, 1.0])
    least = np.eye(3)[np.abs(normal).argmin(axis=1)]
    right = np.cross(least, normal)
    right /= np.linalg.norm(right, axis=1, keepdims=True)
    up = np.cross(normal, right)
    chart = cut.vertex_charts
    along: np.ndarray = (points * right[chart]).sum(axis=1) + 1j * (points * up[chart]).sum(axis=1)
    return along


def _as_rigid_as_possible(
    flat: Complex128[np.ndarray, "G 3"], cut: Cut, uv: Complex128[np.ndarray, " U"]
) -> Complex128[np.ndarray, " U"]:
    """Local-global steps: the best rotation of every triangle, then the vertices that fit them best."""
    edges = np.roll(flat, -1, axis=1) - flat
    spokes = np.roll(edges, 1, axis=1) * np.conj(-np.roll(edges, -1, axis=1))  # at the corner across each edge
    weight = np.clip(np.abs(spokes.real) * np.sign(spokes.real) / np.maximum(np.abs(spokes.imag), 1e-12), 0.05, 10.0)
    i, j = cut.faces, np.roll(cut.faces, -1, axis=1)
    count = len(uv)
    rows = np.concatenate([i.ravel(), j.ravel(), i.ravel(), j.ravel()])
    columns = np.concatenate([i.ravel(), j.ravel(), j.ravel(), i.ravel()])
    w = weight.ravel()
    matrix = coo_matrix((np.concatenate([w, w, -w, -w]), (rows, columns)), shape=(count, count)).tocsc()
    hold = 1e-7 * identity(count, format="csc")  # keeps each chart where it is
    solver = splu(matrix + hold, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    for _ in range(RIGID_STEPS):
        turned = (weight * (uv[j] - uv[i]) * np.conj(edges)).sum(axis=1)
        rotation = turned / np.maximum(np.abs(turned), 1e-12)
        pull = weight * edges * rotation[:, None]
        right = 1e-7 * uv
        for part, sign in ((j, 1.0), (i, -1.0)):
            right = right + sign * (
                np.bincount(part.ravel(), pull.real.ravel(), count)
                + 1j * np.bincount(part.ravel(), pull.imag.ravel(), count)
            )
        solved = solver.solve(np.stack([right.real, right.imag], axis=1))
        uv = solved[:, 0] + 1j * solved[:, 1]
    return uv


def inverse_edges(flat: Float64[np.ndarray, "G 3 2"]) -> Float64[np.ndarray, "G 2 2"]:
    """Inverse of the matrix with columns corner 1 - corner 0 and corner 2 - corner 0."""
    a, b = flat[:, 1] - flat[:, 0], flat[:, 2] - flat[:, 0]
    det = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    return np.stack([np.stack([b[:, 1], -b[:, 0]], 1), np.stack([-a[:, 1], a[:, 0]], 1)], 1) / det[:, None, None]


def singular_values(
    flat: Float64[np.ndarray, "G 3 2"], placed: Float64[np.ndarray, "G 3 2"]
) -> Float64[np.ndarray, "G 2"]:
    """Largest and smallest stretch of each triangle; the smallest is negative where it is folded over."""
    edges = np.stack([placed[:, 1] - placed[:, 0], placed[:, 2] - placed[:, 0]], axis=2)
    jacobian = edges @ inverse_edges(flat)
    a, b, c, d = jacobian[:, 0, 0], jacobian[:, 0, 1], jacobian[:, 1, 0], jacobian[:, 1, 1]
    similar, mirrored = np.hypot(a + d, c - b) / 2, np.hypot(a - d, c + b) / 2
    return np.stack([similar + mirrored, similar - mirrored], axis=1)


def _normalise(
    areas: Float64[np.ndarray, " G"], cut: Cut, uv: Float64[np.ndarray, "U 2"]
) -> Float64[np.ndarray, "U 2"]:
    covered = np.bincount(cut.charts, triangle_areas(uv[cut.faces]), cut.count)
    wanted = np.bincount(cut.charts, areas, cut.count)
    fair = (covered > 1e-12) & (wanted > 1e-12)
    scale = np.sqrt(np.divide(wanted, covered, out=np.ones(cut.count), where=fair))
    size = np.bincount(cut.vertex_charts, minlength=cut.count)
    centre = np.stack([np.bincount(cut.vertex_charts, uv[:, k], cut.count) / size for k in range(2)], axis=1)
    centred: np.ndarray = (uv - centre[cut.vertex_charts]) * scale[cut.vertex_charts][:, None]
    return centred


def relax(flat: Float64[np.ndarray, "G 3 2"], cut: Cut, uv: Float64[np.ndarray, "U 2"]) -> Float64[np.ndarray, "U 2"]:
    """Lower the distortion vertex by vertex, charts in parallel."""
    vertex_order = np.argsort(cut.vertex_charts, kind="stable").astype(np.int32)
    vertex_start = np.searchsorted(cut.vertex_charts[vertex_order], np.arange(cut.count + 1)).astype(np.int32)
    corners = np.argsort(cut.faces.ravel(), kind="stable").astype(np.int32)
    corner_start = np.searchsorted(cut.faces.ravel()[corners], np.arange(len(uv) + 1)).astype(np.int32)
    face_order = np.argsort(cut.charts, kind="stable").astype(np.int32)
    face_start = np.searchsorted(cut.charts[face_order], np.arange(cut.count + 1)).astype(np.int32)
    placed = wp.array(uv, dtype=wp.vec2d, device="cpu")
    ints = [
        wp.array(part, dtype=wp.int32, device="cpu")
        for part in (vertex_order, vertex_start, corners, corner_start, face_order, face_start, cut.faces.ravel())
    ]
    inverse = wp.array(inverse_edges(flat), dtype=wp.mat22d, device="cpu")
    piles = deal(np.diff(face_start))
    dealt = wp.array(piles.reshape(-1), dtype=wp.int32, device="cpu")
    scratch = [wp.zeros(len(uv), dtype=wp.float64, device="cpu"), wp.zeros(len(uv), dtype=wp.bool, device="cpu")]
    inputs = [dealt, *ints, inverse, SWEEPS, *scratch]
    launch_chunked(_relax, piles.size, inputs, outputs=[placed], device="cpu", chunks=len(piles))
    return placed.numpy()


@wp.func
@no_type_check
def _jacobian(
    faces: wp.array(dtype=wp.int32), inverse: wp.array(dtype=wp.mat22d), uv: wp.array(dtype=wp.vec2d), face: wp.int32
):
    u0 = uv[faces[3 * face]]
    a = uv[faces[3 * face + 1]] - u0
    b = uv[faces[3 * face + 2]] - u0
    return wp.mat22d(a[0], b[0], a[1], b[1]) @ inverse[face]


@wp.func
@no_type_check
def _energy(J: wp.mat22d, soft: wp.float64):
    det = J[0, 0] * J[1, 1] - J[0, 1] * J[1, 0]
    norm = J[0, 0] * J[0, 0] + J[0, 1] * J[0, 1] + J[1, 0] * J[1, 0] + J[1, 1] * J[1, 1]
    root = wp.sqrt(det * det + soft * soft)
    # det + root without cancellation where det < 0
    chi = (det + root) * wp.float64(0.5)
    if det < wp.float64(0.0):
        chi = wp.float64(0.5) * soft * soft / (root - det)
    return (norm + det * det + wp.float64(1.0)) / chi


@wp.func
@no_type_check
def _raise(energy: wp.float64, power: int):
    """A power of the energy relative to about where stretch 1.5 begins, so that high powers fight the worst."""
    scaled = energy * wp.float64(0.25)
    result = wp.float64(1.0)
    for _i in range(power):
        result = result * scaled
    return result


@wp.func
@no_type_check
def _energy_around(
    v: wp.int32,
    soft: wp.float64,
    power: int,
    corners: wp.array(dtype=wp.int32),
    corner_start: wp.array(dtype=wp.int32),
    faces: wp.array(dtype=wp.int32),
    inverse: wp.array(dtype=wp.mat22d),
    uv: wp.array(dtype=wp.vec2d),
):
    total = wp.float64(0.0)
    for c in range(corner_start[v], corner_start[v + 1]):
        total = total + _raise(_energy(_jacobian(faces, inverse, uv, corners[c] // 3), soft), power)
    return total


@wp.func
@no_type_check
def _newton_step(
    v: wp.int32,
    soft: wp.float64,
    power: int,
    corners: wp.array(dtype=wp.int32),
    corner_start: wp.array(dtype=wp.int32),
    faces: wp.array(dtype=wp.int32),
    inverse: wp.array(dtype=wp.mat22d),
    uv: wp.array(dtype=wp.vec2d),
):
    half = wp.float64(0.5)
    one = wp.float64(1.0)
    g = wp.vec2d()
    h00 = wp.float64(1e-12)
    h01 = wp.float64(0.0)
    h11 = wp.float64(1e-12)
    for i in range(corner_start[v], corner_start[v + 1]):
        corner = corners[i]
        face = corner // 3
        k = corner - 3 * face
        M = inverse[face]
        m = wp.vec2d(M[0, 0], M[0, 1])
        if k == 2:
            m = wp.vec2d(M[1, 0], M[1, 1])
        if k == 0:
            m = wp.vec2d(-M[0, 0] - M[1, 0], -M[0, 1] - M[1, 1])
        J = _jacobian(faces, inverse, uv, face)
        det = J[0, 0] * J[1, 1] - J[0, 1] * J[1, 0]
        norm = J[0, 0] * J[0, 0] + J[0, 1] * J[0, 1] + J[1, 0] * J[1, 0] + J[1, 1] * J[1, 1]
        root = wp.sqrt(det * det + soft * soft)
        chi = (det + root) * half
        if det < wp.float64(0.0):
            chi = half * soft * soft / (root - det)
        chi1 = chi / root
        chi2 = half * soft * soft / (root * root * root)
        top = norm + det * det + one
        weight = _raise(top / chi, power - 1)
        # d/d det of top / chi with norm held, and its second derivative
        slope = (wp.float64(2.0) * det - top * chi1 / chi) / chi
        curve = (
            wp.float64(2.0)
            - wp.float64(4.0) * det * chi1 / chi
            - top * chi2 / chi
            + wp.float64(2.0) * top * chi1 * chi1 / (chi * chi)
        ) / chi
        along = wp.vec2d(J[0, 0] * m[0] + J[0, 1] * m[1], J[1, 0] * m[0] + J[1, 1] * m[1]) * (wp.float64(2.0) / chi)
        c = wp.vec2d(J[1, 1] * m[0] - J[1, 0] * m[1], -J[0, 1] * m[0] + J[0, 0] * m[1])
        g = g + weight * (along + slope * c)
        stiff = weight * wp.float64(2.0) * wp.dot(m, m) / chi
        curve = weight * wp.max(curve, wp.float64(0.0))
        h00 = h00 + stiff + curve * c[0] * c[0]
        h01 = h01 + curve * c[0] * c[1]
        h11 = h11 + stiff + curve * c[1] * c[1]
    det = h00 * h11 - h01 * h01
    return wp.vec2d(h01 * g[1] - h11 * g[0], h01 * g[0] - h00 * g[1]) / det


@wp.kernel(enable_backward=False)
@no_type_check
def _relax(
    base: int,
    dealt: wp.array(dtype=wp.int32),
    vertex_order: wp.array(dtype=wp.int32),
    vertex_start: wp.array(dtype=wp.int32),
    corners: wp.array(dtype=wp.int32),
    corner_start: wp.array(dtype=wp.int32),
    face_order: wp.array(dtype=wp.int32),
    face_start: wp.array(dtype=wp.int32),
    faces: wp.array(dtype=wp.int32),
    inverse: wp.array(dtype=wp.mat22d),
    sweeps: int,
    energy: wp.array(dtype=wp.float64),
    resting: wp.array(dtype=wp.bool),
    uv: wp.array(dtype=wp.vec2d),
):
    chart = dealt[base + wp.tid()]
    if chart < 0:
        return
    if face_start[chart + 1] - face_start[chart] < 2:
        return
    before = wp.float64(-1.0)
    power = wp.int32(1)
    fresh = wp.bool(True)  # visit all vertices: the energy is another one than in the last sweep
    for _sweep in range(sweeps):
        least = wp.float64(1.0)
        worst = wp.float64(0.0)
        for i in range(face_start[chart], face_start[chart + 1]):
            J = _jacobian(faces, inverse, uv, face_order[i])
            least = wp.min(least, J[0, 0] * J[1, 1] - J[0, 1] * J[1, 0])
            worst = wp.max(worst, _energy(J, wp.float64(1e-3)))
        folded = wp.min(least, wp.float64(0.0))
        soft = wp.sqrt(wp.float64(1e-6) + wp.float64(0.04) * folded * folded)
        total = wp.float64(0.0)
        for i in range(vertex_start[chart], vertex_start[chart + 1]):
            v = vertex_order[i]
            if fresh or not resting[v]:
                old = _energy_around(v, soft, power, corners, corner_start, faces, inverse, uv)
                step = _newton_step(v, soft, power, corners, corner_start, faces, inverse, uv)
                here = uv[v]
                best = wp.float64(old)
                for _try in range(6):
                    uv[v] = here + step
                    new = _energy_around(v, soft, power, corners, corner_start, faces, inverse, uv)
                    if new < old:
                        best = wp.float64(new)
                        break
                    step = step * wp.float64(0.5)
                if best >= old:
                    uv[v] = here
                energy[v] = best
                resting[v] = best > REST * old
                if not resting[v]:
                    for c in range(corner_start[v], corner_start[v + 1]):
                        for k in range(3):
                            resting[faces[corners[c] // 3 * 3 + k]] = False
            total = total + energy[v]
        fresh = folded < wp.float64(0.0)
        if folded == wp.float64(0.0) and before >= wp.float64(0.0) and total > wp.float64(0.999) * before:
            if power > 1 or worst < wp.float64(GOOD_ENERGY):
                break
            power = wp.int32(HIGH_POWER)
            total = wp.float64(-1.0)
            fresh = wp.bool(True)
        before = wp.float64(total)
        if folded < wp.float64(0.0):
            before = wp.float64(-1.0)
