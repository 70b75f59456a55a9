"""Farthest points on a GPU: a block of threads for a cloud, whose warps each keep every so manieth bucket.

In a step a lane looks whether its buckets can change (their boxes, in single precision rounded down); those that can, a
few, are gone through by the whole warp, a lane a point. The buckets of a warp lie far apart along the curve, so that
all warps have as much to do. Ties go to the lower number: the result does not depend on the threads.
"""

from __future__ import annotations

from typing import Any, no_type_check

import warp as wp

BLOCK: Any = wp.constant(1024)
"""Threads of a cloud."""
MOST_BUCKETS = 4 * 1024
"""A thread keeps up to four."""

_STEPS = """
#if defined(__CUDA_ARCH__)
    constexpr unsigned int all = 0xffffffffu;
    constexpr int none = 2147483647;

    // A candidate is a distance, made an integer that orders alike, a point's number, and where that lies on the curve.
    struct Candidate {
        unsigned long long rank;
        int point, place;
    };
    auto rank_of = [](double distance) {
        const long long bits = __double_as_longlong(distance);
        return static_cast<unsigned long long>(bits ^ ((bits >> 63) | (1ll << 63)));
    };
    auto best_of_warp = [](Candidate own) {
        Candidate best = own;
#if __CUDA_ARCH__ >= 800
        const unsigned int high = __reduce_max_sync(all, static_cast<unsigned int>(own.rank >> 32));
        const bool near = static_cast<unsigned int>(own.rank >> 32) == high;
        const unsigned int low = __reduce_max_sync(all, near ? static_cast<unsigned int>(own.rank) : 0u);
        const bool equal = near && static_cast<unsigned int>(own.rank) == low;
        best.rank = (static_cast<unsigned long long>(high) << 32) | low;
        best.point = __reduce_min_sync(all, equal ? own.point : none);
        const unsigned int holders = __ballot_sync(all, equal && own.point == best.point);
        best.place = __shfl_sync(all, own.place, __ffs(holders) - 1);
#else
        for (int reach = 16; reach > 0; reach >>= 1) {
            const unsigned long long rank = __shfl_xor_sync(all, best.rank, reach);
            const int point = __shfl_xor_sync(all, best.point, reach);
            const int place = __shfl_xor_sync(all, best.place, reach);
            if (rank > best.rank || (rank == best.rank && point < best.point))
                best = {rank, point, place};
        }
#endif
        return best;
    };

    __shared__ Candidate of_warps[2][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int leaves = 1 << depth;
    const long long first = static_cast<long long>(cloud) * count;
    const wp::vec3d* points = places.data + first;
    const int* numbers = order.data + first;
    double* away = distances.data + first;
    const wp::vec3f* corners = boxes.data + 2ll * leaves * (2 * cloud + 1);
    int* picked = chosen.data + static_cast<long long>(cloud) * wanted;

    // What a thread keeps of its buckets: the box, a bound of the largest distance, and the candidate.
    float low[4][3], high[4][3], bound[4];
    Candidate tops[4];
    #pragma unroll
    for (int slot = 0; slot < 4; ++slot) {
        const int leaf = slot * 1024 + lane * 32 + warp;
        tops[slot] = {0ull, none, 0};
        bound[slot] = leaf < leaves ? __int_as_float(0x7f800000) : -1.0f;
        #pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            low[slot][axis] = leaf < leaves ? corners[2 * leaf][axis] : 0.0f;
            high[slot][axis] = leaf < leaves ? corners[2 * leaf + 1][axis] : 0.0f;
        }
    }
    Candidate best = {0ull, none, 0};

    int taken = start.data[cloud];
    bool usable = away[taken] >= 0.0;
    bool apart = usable;  // the point taken lies away from those before it, so that its bucket's bound is above 0
    for (int step = 1; step < wanted; ++step) {
        const wp::vec3d p = points[taken];
        int holder = -1;
        if (!apart)
            holder = static_cast<int>(((taken + 1ll) * leaves - 1) / count);
        float below[3], above[3];
        #pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            const double local = p[axis] - origin.data[cloud][axis];
            below[axis] = __double2float_rd(local);
            above[axis] = __double2float_ru(local);
        }
        bool changed = false;
        #pragma unroll
        for (int slot = 0; slot < 4; ++slot) {
            if (slot * 1024 >= leaves)
                break;
            float nearest = 0.0f;  // never above the distances that are computed, whichever way those are rounded
            #pragma unroll
            for (int axis = 0; axis < 3; ++axis) {
                const float under = __fsub_rd(low[slot][axis], above[axis]);
                const float over = __fsub_rd(below[axis], high[slot][axis]);
                const float gap = fmaxf(fmaxf(under, over), 0.0f);
                nearest = __fmaf_rd(gap, gap, nearest);
            }
            const int mine = slot * 1024 + lane * 32 + warp;
            const bool inside = mine < leaves && (step == 1 || mine == holder);
            unsigned int waiting = __ballot_sync(all, inside || (usable && nearest < bound[slot]));
            while (waiting != 0) {
                const int owner = __ffs(waiting) - 1;
                waiting &= waiting - 1;
                const long long bucket = slot * 1024 + owner * 32 + warp;
                const int stop = static_cast<int>(((bucket + 1) * count) >> depth);
                Candidate most = {0ull, none, 0};
                for (int k = static_cast<int>((bucket * count) >> depth) + lane; k < stop; k += 32) {
                    const int number = numbers[k];
                    const wp::vec3d q = points[k];
                    double distance = away[k];
                    const double x = q[0] - p[0], y = q[1] - p[1], z = q[2] - p[2];
                    const double flat = __dadd_rn(__dmul_rn(x, x), __dmul_rn(y, y));
                    const double now = __dadd_rn(flat, __dmul_rn(z, z));
                    if (usable && distance > now)
                        away[k] = distance = now;
                    if (k == taken)
                        away[k] = distance = -2.0;
                    const unsigned long long rank = rank_of(distance);
                    if (rank > most.rank || (rank == most.rank && number < most.point))
                        most = {rank, number, k};
                }
                most = best_of_warp(most);
                if (lane == owner) {
                    const long long bits = static_cast<long long>(most.rank);
                    tops[slot] = most;
                    bound[slot] = bits < 0 ? __double2float_ru(__longlong_as_double(bits ^ (1ll << 63))) : -1.0f;
                    changed = true;
                }
            }
        }
        if (__any_sync(all, changed)) {
            best = tops[0];
            #pragma unroll
            for (int slot = 1; slot < 4; ++slot)
                if (tops[slot].rank > best.rank || (tops[slot].rank == best.rank && tops[slot].point < best.point))
                    best = tops[slot];
            best = best_of_warp(best);
        }
        const int turn = step % 2;  // warps that are ahead write into the other row
        if (lane == 0)
            of_warps[turn][warp] = best;
        __syncthreads();
        const Candidate farthest = best_of_warp(of_warps[turn][lane]);
        taken = farthest.place;
        usable = farthest.rank >= rank_of(0.0);
        apart = farthest.rank > rank_of(0.0);
        if (threadIdx.x == 0)
            picked[step] = farthest.point;
    }
#endif
"""


@wp.func_native(_STEPS)
@no_type_check
def _take_steps(
    cloud: int,
    start: wp.array(dtype=int),
    places: wp.array2d(dtype=wp.vec3d),
    order: wp.array(dtype=int),
    boxes: wp.array2d(dtype=wp.vec3),
    origin: wp.array(dtype=wp.vec3d),
    count: int,
    depth: int,
    wanted: int,
    distances: wp.array(dtype=wp.float64),
    chosen: wp.array2d(dtype=int),
): ...


@wp.kernel(enable_backward=False, cuda_max_registers=64)
@no_type_check
def pick_on_gpu(
    base: int,
    start: wp.array(dtype=int),
    places: wp.array2d(dtype=wp.vec3d),
    order: wp.array(dtype=int),
    boxes: wp.array2d(dtype=wp.vec3),
    origin: wp.array(dtype=wp.vec3d),
    count: int,
    depth: int,
    distances: wp.array(dtype=wp.float64),
    chosen: wp.array2d(dtype=int),
):
    """Choose points of each cloud, the first of which, at the place `start`, is there already."""
    cloud = (base + wp.tid()) / BLOCK
    wanted = chosen.shape[1]
    _take_steps(cloud, start, places, order, boxes, origin, count, depth, wanted, distances, chosen)
