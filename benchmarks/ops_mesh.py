"""Mesh operations on torch tensors: median time by size, with memory and the bandwidth floor.

    python benchmarks/ops_mesh.py --device cuda
    python benchmarks/ops_mesh.py --device cpu --faces 10000 100000 --repeats 5

One JSON line for each operation and size: median milliseconds of `repeats` after two warm-up runs, each synchronised;
`floor_ms` is the time that reading the inputs and writing the results once would take at the given bandwidth;
`peak_mb` is the memory taken on a GPU beyond the inputs. On the CPU `cpu_ms` is user + system time of all threads.
Meshes are bumpy tori. `--processing` adds simplification, holes, repair and charts, which run on the CPU.
"""

from __future__ import annotations

import argparse
import json
import platform

import torch
from ops_distance import bumpy_torus, measure

from smr.ops import mesh


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--faces", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--processing", action="store_true")
    parser.add_argument("--bandwidth", type=float, help="GB/s; 4800 for an H200, 20 for two shared cores")
    options = parser.parse_args()
    device = options.device
    rate = (options.bandwidth or (4800 if device == "cuda" else 20)) * 1e6  # bytes a millisecond
    name = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()

    def report(op: str, size: str, floor_bytes: float, call: object) -> None:
        wall, processor, peak = measure(call, device, options.repeats)  # type: ignore[arg-type]
        line = {"op": op, "size": size, "device": name, "median_ms": round(wall, 3)}
        line |= {"peak_mb": round(peak, 1)} if device == "cuda" else {"cpu_ms": round(processor, 1)}
        print(json.dumps(line | {"floor_ms": round(floor_bytes / rate, 4)}), flush=True)

    for wish in options.faces:
        vertices, faces = bumpy_torus(wish, device)
        wanted = vertices.clone().requires_grad_()
        size = f"{len(faces)} faces"
        read, edges = 12 * len(vertices) + 24 * len(faces), 3 * len(faces) // 2
        matrix = (2 * edges + len(vertices)) * 20  # two int64 and one float32 an entry
        count = len(vertices)

        def normals_both_ways(v: torch.Tensor = wanted, f: torch.Tensor = faces) -> None:
            mesh.vertex_normals(v, f).square().sum().backward()

        def smooth_both_ways(v: torch.Tensor = wanted, f: torch.Tensor = faces) -> None:
            mesh.laplacian_smooth(v, f, 10).square().sum().backward()

        jobs = {
            "face_areas": (read + 4 * len(faces), lambda v=vertices, f=faces: mesh.face_areas(v, f)),
            "face_normals": (read + 12 * len(faces), lambda v=vertices, f=faces: mesh.face_normals(v, f)),
            "vertex_normals": (read + 12 * count, lambda v=vertices, f=faces: mesh.vertex_normals(v, f)),
            "vertex_normals forward + backward": (2 * read + 24 * count, normals_both_ways),
            "find_edges": (24 * len(faces) * 2 + 16 * edges, lambda f=faces, n=count: mesh.find_edges(f, n)),
            "adjacency_matrix": (24 * len(faces) + 40 * edges, lambda f=faces, n=count: mesh.adjacency_matrix(f, n)),
            "uniform_laplacian": (24 * len(faces) + matrix, lambda f=faces, n=count: mesh.uniform_laplacian(f, n)),
            "cotangent_laplacian": (read + matrix, lambda v=vertices, f=faces: mesh.cotangent_laplacian(v, f)),
            "laplacian_smooth 10×": (read + 12 * count, lambda v=vertices, f=faces: mesh.laplacian_smooth(v, f, 10)),
            "laplacian_smooth 10× forward + backward": (2 * read + 24 * count, smooth_both_ways),
            "subdivide_midpoint": (5 * read, lambda v=vertices, f=faces: mesh.subdivide_midpoint(v, f)),
            "subdivide_loop": (5 * read, lambda v=vertices, f=faces: mesh.subdivide_loop(v, f)),
        }
        for op, (floor, call) in jobs.items():
            report(op, size, floor, call)
        if options.processing:
            goal = count // 10
            cut = faces[torch.arange(len(faces), device=device) % 500 != 0]
            read += 36 * len(faces)
            report("simplify to a tenth", size, read, lambda v=vertices, f=faces, n=goal: processing_simplify(v, f, n))
            report("fill_holes", size, read, lambda v=vertices, f=cut: mesh.fill_holes(v, f))
            report("repair", size, read, lambda v=vertices, f=faces: mesh.repair(v, f))
            report("unwrap", size, read, lambda v=vertices, f=faces: mesh.unwrap(v, f))


def processing_simplify(vertices: torch.Tensor, faces: torch.Tensor, goal: int) -> None:
    mesh.simplify(vertices, faces, target_vertices=goal)


if __name__ == "__main__":
    main()
