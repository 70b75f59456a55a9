"""Which photo paints where: agreement between photos, a smooth choice of the best, and how it is corrected.

At each support vertex the photos that saw it vote on its colour; those that disagree (something moved, a highlight, a
wrong pose) are dropped there. The best view is chosen with a Potts term that keeps the choice the same over patches
(Waechter 2014), and feathered across their borders. What a photo differs from the consensus is a smooth field on the
surface that is added to it: its low frequencies then come from all photos, its high frequencies from itself
(multi-band blending, Burt and Adelson 1983, in the manner of Allene 2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, no_type_check

import numpy as np
import warp as wp
from jaxtyping import Float

from ..arrays import launch_chunked
from .slots import Slots, exposed
from .support import Support

BLEND: Any = wp.constant(3)
"""Views that paint at a vertex."""
_CANDIDATES: Any = wp.constant(8)
_SWEEPS = 12
_SMOOTHNESS = 0.6
_FEATHER_ROUNDS = 2
_CORRECTION_ROUNDS = 3

_Few: Any = wp.types.vector(length=8, dtype=wp.float32)
_FewInts: Any = wp.types.vector(length=8, dtype=wp.int32)


@dataclass(frozen=True)
class Choice:
    """What paints at each support vertex, on the device."""

    consensus: Any
    """wp.array(vec3): the colour on which the views agree; x is -1 where no view saw the vertex."""
    agrees: Any
    """wp.array(uint8) a slot: 1 where the view belongs to those that agree."""
    correction: Any
    """wp.array(vec3) a slot: added to the view's corrected exposure."""
    view: Any
    """wp.array(int32), BLEND a vertex, -1 for none."""
    weight: Any
    """wp.array(float32), BLEND a vertex."""


@wp.func
@no_type_check
def _distance(a: wp.vec3, b: wp.vec3):
    return wp.length(a - b) * 0.57735


@wp.kernel(enable_backward=False)
@no_type_check
def _agree(
    base: int,
    slots: int,
    view: wp.array(dtype=int),
    score: wp.array(dtype=float),
    color: wp.array(dtype=wp.vec3),
    gain: wp.array(dtype=wp.vec3),
    bound: float,
    consensus: wp.array(dtype=wp.vec3),
    agrees: wp.array(dtype=wp.uint8),
    residual: wp.array(dtype=float),
):
    """Start from the view that is nearest to all others, then average those that are near it (biweight)."""
    i = base + wp.tid()
    at = i * slots
    best_cost = wp.float32(1e30)
    center = wp.vec3(-1.0, 0.0, 0.0)
    for k in range(slots):
        if view[at + k] >= 0:
            mine = exposed(gain[view[at + k]], color[at + k])
            cost = wp.float32(0.0)
            for j in range(slots):
                if view[at + j] >= 0:
                    other = exposed(gain[view[at + j]], color[at + j])
                    cost += score[at + j] * wp.min(_distance(mine, other), bound)
            if cost < best_cost:
                best_cost = cost
                center = mine
    if best_cost < 1e30:
        for _round in range(3):
            total = wp.vec3(0.0, 0.0, 0.0)
            weight = wp.float32(0.0)
            for k in range(slots):
                if view[at + k] >= 0:
                    mine = exposed(gain[view[at + k]], color[at + k])
                    d = _distance(mine, center) / bound
                    if d < 1.0:
                        w = score[at + k] * (1.0 - d * d) * (1.0 - d * d)
                        total += w * mine
                        weight += w
            if weight > 0.0:
                center = total / weight
    consensus[i] = center
    for k in range(slots):
        agrees[at + k] = wp.uint8(0)
        residual[at + k] = 0.0
        if view[at + k] >= 0:
            d = _distance(exposed(gain[view[at + k]], color[at + k]), center)
            residual[at + k] = d
            if d < bound:
                agrees[at + k] = wp.uint8(1)


@wp.kernel(enable_backward=False)
@no_type_check
def _scale_scores(
    base: int, slots: int, view: wp.array(dtype=int), factor: wp.array(dtype=float), score: wp.array(dtype=float)
):
    i = base + wp.tid()
    for k in range(i * slots, i * slots + slots):
        if view[k] >= 0:
            score[k] = score[k] * factor[view[k]]


@wp.kernel(enable_backward=False)
@no_type_check
def _label(
    vertices: int,
    slots: int,
    sweeps: int,
    smoothness: float,
    view: wp.array(dtype=int),
    score: wp.array(dtype=float),
    agrees: wp.array(dtype=wp.uint8),
    start: wp.array(dtype=int),
    neighbour: wp.array(dtype=int),
    label: wp.array(dtype=int),
):
    """Sequential: iterated conditional modes on score and the share of neighbours with another view."""
    for i in range(vertices):
        best = wp.int32(-1)
        for k in range(i * slots, i * slots + slots):
            if agrees[k] == wp.uint8(1) and (best < 0 or score[k] > score[best]):
                best = k
        label[i] = -1
        if best >= 0:
            label[i] = view[best]
    for sweep in range(sweeps):
        changed = wp.int32(0)
        for step in range(vertices):
            i = step
            if sweep % 2 == 1:
                i = vertices - 1 - step
            if label[i] < 0:
                continue
            top = wp.float32(0.0)
            for k in range(i * slots, i * slots + slots):
                if agrees[k] == wp.uint8(1):
                    top = wp.max(top, score[k])
            degree = wp.float32(0.0)
            for n in range(start[i], start[i + 1]):
                if label[neighbour[n]] >= 0:
                    degree += 1.0
            best = wp.int32(-1)
            best_gain = wp.float32(-1.0)
            for k in range(i * slots, i * slots + slots):
                if agrees[k] == wp.uint8(1):
                    same = wp.float32(0.0)
                    for n in range(start[i], start[i + 1]):
                        if label[neighbour[n]] == view[k]:
                            same += 1.0
                    value = score[k] / top
                    if degree > 0.0:
                        value += smoothness * same / degree
                    if value > best_gain or (value == best_gain and view[k] == label[i]):
                        best_gain = value
                        best = view[k]
            if best != label[i]:
                label[i] = best
                changed += 1
        if changed == 0:
            break


@wp.func
@no_type_check
def find_slot(slots: int, view: wp.array(dtype=int), agrees: wp.array(dtype=wp.uint8), vertex: int, wanted: int):
    """Index of the slot in which a vertex holds a view that agrees; -1 where it does not."""
    found = wp.int32(-1)
    for k in range(vertex * slots, vertex * slots + slots):
        if view[k] == wanted:
            if agrees[k] == wp.uint8(1):
                found = k
            break
    return found


@wp.kernel(enable_backward=False)
@no_type_check
def _one_hot(base: int, label: wp.array(dtype=int), chosen: wp.array(dtype=int), weight: wp.array(dtype=float)):
    i = base + wp.tid()
    for m in range(BLEND):
        chosen[i * BLEND + m] = -1
        weight[i * BLEND + m] = 0.0
    chosen[i * BLEND] = label[i]
    if label[i] >= 0:
        weight[i * BLEND] = 1.0


@wp.kernel(enable_backward=False)
@no_type_check
def _feather(
    base: int,
    slots: int,
    view: wp.array(dtype=int),
    agrees: wp.array(dtype=wp.uint8),
    start: wp.array(dtype=int),
    neighbour: wp.array(dtype=int),
    chosen: wp.array(dtype=int),
    weight: wp.array(dtype=float),
    chosen_out: wp.array(dtype=int),
    weight_out: wp.array(dtype=float),
):
    """Average the weights of a vertex with its neighbours', among views that the vertex itself has seen."""
    i = base + wp.tid()
    names = _FewInts()
    sums = _Few()
    used = wp.int32(0)
    degree = start[i + 1] - start[i]
    for n in range(start[i] - 1, start[i + 1]):
        at = i
        share = wp.float32(0.5)
        if n >= start[i]:
            at = neighbour[n]
            share = 0.5 / float(degree)
        for m in range(BLEND):
            name = chosen[at * BLEND + m]
            if name >= 0:
                place = wp.int32(-1)
                for c in range(used):
                    if names[c] == name:
                        place = c
                if place < 0 and used < _CANDIDATES and find_slot(slots, view, agrees, i, name) >= 0:
                    place = used
                    names[place] = name
                    used += 1
                if place >= 0:
                    sums[place] = sums[place] + share * weight[at * BLEND + m]
    total = wp.float32(0.0)
    for m in range(BLEND):
        best = wp.int32(-1)
        for c in range(used):
            if sums[c] > 0.0 and (best < 0 or sums[c] > sums[best]):
                best = c
        chosen_out[i * BLEND + m] = -1
        weight_out[i * BLEND + m] = 0.0
        if best >= 0:
            chosen_out[i * BLEND + m] = names[best]
            weight_out[i * BLEND + m] = sums[best]
            total += sums[best]
            sums[best] = 0.0
    if total > 0.0:
        for m in range(BLEND):
            weight_out[i * BLEND + m] = weight_out[i * BLEND + m] / total


@wp.kernel(enable_backward=False)
@no_type_check
def _differ(
    base: int,
    slots: int,
    view: wp.array(dtype=int),
    color: wp.array(dtype=wp.vec3),
    gain: wp.array(dtype=wp.vec3),
    agrees: wp.array(dtype=wp.uint8),
    consensus: wp.array(dtype=wp.vec3),
    correction: wp.array(dtype=wp.vec3),
):
    i = base + wp.tid()
    for k in range(i * slots, i * slots + slots):
        correction[k] = wp.vec3(0.0, 0.0, 0.0)
        if agrees[k] == wp.uint8(1):
            correction[k] = consensus[i] - exposed(gain[view[k]], color[k])


@wp.kernel(enable_backward=False)
@no_type_check
def _smooth_correction(
    base: int,
    slots: int,
    view: wp.array(dtype=int),
    agrees: wp.array(dtype=wp.uint8),
    start: wp.array(dtype=int),
    neighbour: wp.array(dtype=int),
    correction: wp.array(dtype=wp.vec3),
    smoothed: wp.array(dtype=wp.vec3),
):
    """Mean of a view's correction over a vertex and those neighbours that the view saw."""
    i = base + wp.tid()
    for k in range(i * slots, i * slots + slots):
        if agrees[k] == wp.uint8(1):
            total = correction[k]
            count = wp.float32(1.0)
            for n in range(start[i], start[i + 1]):
                other = find_slot(slots, view, agrees, neighbour[n], view[k])
                if other >= 0:
                    total += correction[other]
                    count += 1.0
            smoothed[k] = total / count


def scale_scores(slots: Slots, factor: Float[np.ndarray, " views"], *, device: str) -> None:
    """Multiply what each photo scored by a factor of the photo."""
    factors = wp.array(factor.astype(np.float32), dtype=float, device=device)
    vertices = len(slots.view) // slots.count
    launch_chunked(_scale_scores, vertices, [slots.count, slots.view, factors], outputs=[slots.score], device=device)


def choose(slots: Slots, support: Support, gains: Float[np.ndarray, "views 3"], *, device: str) -> Choice:
    """Decide what paints where. Scores in `slots` are lowered for photos that disagree with the others."""
    vertices = len(support.vertices)
    gain = wp.array(gains.astype(np.float32), dtype=wp.vec3, device=device)
    consensus, agrees = _find_consensus(slots, gain, vertices, len(gains), device=device)
    start = wp.array(support.neighbours.indptr.astype(np.int32), dtype=int, device=device)
    neighbour = wp.array(support.neighbours.indices.astype(np.int32), dtype=int, device=device)
    # a sequential algorithm: on the CPU even where the rest runs on a GPU
    on_cpu = [array.to("cpu") for array in (slots.view, slots.score, agrees, start, neighbour)]
    label = wp.empty(vertices, dtype=int, device="cpu")
    wp.launch(_label, 1, [vertices, slots.count, _SWEEPS, _SMOOTHNESS, *on_cpu], [label], device="cpu")
    view, weight = (wp.empty(vertices * BLEND, dtype=kind, device=device) for kind in (int, float))
    launch_chunked(_one_hot, vertices, [label.to(device)], outputs=[view, weight], device=device)
    for _ in range(_FEATHER_ROUNDS):
        wider, smoother = wp.empty_like(view), wp.empty_like(weight)
        inputs = [slots.count, slots.view, agrees, start, neighbour, view, weight]
        launch_chunked(_feather, vertices, inputs, outputs=[wider, smoother], device=device)
        view, weight = wider, smoother
    correction = wp.empty(vertices * slots.count, dtype=wp.vec3, device=device)
    inputs = [slots.count, slots.view, slots.color, gain, agrees, consensus]
    launch_chunked(_differ, vertices, inputs, outputs=[correction], device=device)
    for _ in range(_CORRECTION_ROUNDS):
        smoothed = wp.zeros_like(correction)
        inputs = [slots.count, slots.view, agrees, start, neighbour, correction]
        launch_chunked(_smooth_correction, vertices, inputs, outputs=[smoothed], device=device)
        correction = smoothed
    return Choice(consensus, agrees, correction, view, weight)


def _find_consensus(slots: Slots, gain: Any, vertices: int, views: int, *, device: str) -> tuple[Any, Any]:
    """Twice: the first round tells how well photos agree in general, and which photos do not."""
    consensus = wp.empty(vertices, dtype=wp.vec3, device=device)
    agrees = wp.empty(vertices * slots.count, dtype=wp.uint8, device=device)
    residual = wp.empty(vertices * slots.count, dtype=float, device=device)
    bound = 40.0
    for final in (False, True):
        inputs = [slots.count, slots.view, slots.score, slots.color, gain, bound]
        launch_chunked(_agree, vertices, inputs, outputs=[consensus, agrees, residual], device=device)
        if final:
            break
        view = slots.view.numpy()
        seen = view >= 0
        if not seen.any():
            break
        errors = np.minimum(residual.numpy()[seen], bound)
        bound = float(np.clip(6.0 * np.median(errors), 16.0, 40.0))
        mean = np.bincount(view[seen], errors, views) / np.maximum(np.bincount(view[seen], minlength=views), 1)
        usual = max(1.0, float(np.median(mean[mean > 0]))) if (mean > 0).any() else 1.0
        factor = np.minimum(1.0, 1.4 * usual / np.maximum(mean, 1e-6)) ** 2
        scale_scores(slots, factor, device=device)
    return consensus, agrees
