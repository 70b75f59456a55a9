"""Vital signs: small jobs with known answers, each in a process of its own with a time limit.

A job prints what it measured; it ends with code 0 (well), 77 (what it needs is not installed: left out) or anything
else (a finding).
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smr.environment.commands import Runner, run

LIMIT_S = 180.0
_LEFT_OUT = 77
_NEEDS = """
import importlib.util, sys
def need(*names):
    for name in names:
        try:
            found = importlib.util.find_spec(name)
        except ImportError:
            found = None
        if found is None:
            sys.exit(77)
def have(module, name):
    need(module)
    value = getattr(importlib.import_module(module), name, None)
    if value is None:
        sys.exit(77)
    return value
def sphere(n=24):
    import numpy as np
    need("trimesh")
    import trimesh
    ball = trimesh.creation.icosphere(subdivisions=3)
    return np.asarray(ball.vertices, np.float32), np.asarray(ball.faces, np.int32)
import importlib
"""
_SMR = _NEEDS + "need('smr', 'numpy', 'warp')\nimport numpy as np\n"
_GPU = "import warp as wp\nwp.config.quiet = True\nwp.init()\ndevice = 'cuda:0' if wp.is_cuda_available() else 'cpu'\n"


@dataclass(frozen=True)
class Vital:
    """One job."""

    name: str
    package: str
    """Whose health it shows: `smr` or `kaolin`."""
    code: str


VITALS = (
    Vital("CUDA allocation and kernel (torch)", "kaolin", _NEEDS + """
need("torch")
import torch
if not torch.version.cuda:
    sys.exit(77)
import os
signs = ("/dev/nvidiactl", "/proc/driver/nvidia", "/dev/dxg", "/dev/nvhost-gpu")
if not torch.cuda.is_available() and os.name == "posix" and not any(map(os.path.exists, signs)):
    sys.exit(77)  # a machine without a GPU, which may build for another
if not torch.cuda.is_available():
    sys.exit("torch is built for CUDA " + torch.version.cuda + " and sees no GPU")
x = torch.arange(1000, device="cuda").float()
assert abs(float((x * x).double().sum()) - 332833500) < 1
print(torch.cuda.get_device_name(0))
"""),
    Vital("CUDA allocation and kernel (Warp)", "smr", _SMR + _GPU + """
if device == "cpu":
    sys.exit(77)
x = wp.full(1 << 20, 1.5, dtype=wp.float32, device=device)
@wp.kernel(enable_backward=False)
def double(x: wp.array(dtype=wp.float32)):
    x[wp.tid()] = 2.0 * x[wp.tid()]
wp.launch(double, dim=len(x), inputs=[x], device=device)
assert (x.numpy() == 3.0).all()
print(wp.get_device(device).name)
"""),
    Vital("Warp kernel", "smr", _SMR + _GPU + """
@wp.kernel(enable_backward=False)
def square(x: wp.array(dtype=wp.float32), y: wp.array(dtype=wp.float32)):
    i = wp.tid()
    y[i] = x[i] * x[i]
x = wp.array(np.arange(100, dtype=np.float32), device=device)
y = wp.zeros_like(x)
wp.launch(square, dim=100, inputs=[x], outputs=[y], device=device)
assert np.allclose(y.numpy(), np.arange(100, dtype=np.float32) ** 2)
print(device)
"""),
    Vital("rasterize", "smr", _SMR + _GPU + """
rasterize = have("smr.render.rasterize", "rasterize")
from smr.records import Camera
v, f = sphere()
found = rasterize(v + np.float32([0, 0, 4]), f, Camera(64, 64, 64.0, 64.0, 32.0, 32.0), device=device)
middle = float(found.depth[32, 32])
assert abs(middle - 3.0) < 0.02, middle
print("depth %.3f of 3" % middle)
"""),
    Vital("Poisson surface", "smr", _SMR + _GPU + """
poisson = have("smr.points.poisson", "poisson")
v, f = sphere()
mesh = poisson(v, v, device=device)
miss = abs(np.linalg.norm(mesh.vertices, axis=1) - 1)
assert len(mesh.faces) > 10000 and miss.max() < 0.02, (len(mesh.faces), miss.max(initial=0))
print("%d faces, at most %.4f from a sphere of radius 1" % (len(mesh.faces), miss.max()))
"""),
    Vital("Laplacian smoothing", "smr", _SMR + """
smooth = have("smr.mesh.smooth", "smooth_laplacian")
from smr.records import Mesh
v, f = sphere()
rough = v * (1 + 0.02 * np.random.default_rng(0).standard_normal((len(v), 1))).astype(np.float32)
smoothed = smooth(Mesh(rough, f), 5).vertices
before, after = np.linalg.norm(rough, axis=1).std(), np.linalg.norm(smoothed, axis=1).std()
assert after < before / 2, (before, after)
print("roughness %.4f to %.4f" % (before, after))
"""),
    Vital("inside test", "smr", _SMR + _GPU + """
is_inside = have("smr.mesh.inside", "is_inside")
from smr.records import Mesh
v, f = sphere()
points = np.float32([[0, 0, 0], [0.5, 0.5, 0.5], [1.5, 0, 0]])
answer = np.asarray(is_inside(Mesh(v, f), points, device=device))
assert answer.tolist() == [True, True, False], answer
print("3 of 3")
"""),
    Vital("USDZ written and read back", "smr", _SMR + """
need("pxr")
write = have("smr.formats", "write_mesh")
from pathlib import Path
from smr.records import Mesh
v, f = sphere()
path = Path("vital.usdz")
write(Mesh(v, f), path)
from pxr import Usd, UsdGeom
stage = Usd.Stage.Open(str(path))
counts = [len(UsdGeom.Mesh(p).GetFaceVertexCountsAttr().Get()) for p in stage.Traverse() if p.IsA(UsdGeom.Mesh)]
assert sum(counts) == len(f), counts
print("%d faces" % sum(counts))
"""),
    Vital("Kaolin: import and inside test", "kaolin", _NEEDS + """
need("kaolin", "torch")
import torch, kaolin
if not hasattr(kaolin, "ops"):
    sys.exit("kaolin " + getattr(kaolin, "__version__", "?") + " is the index's placeholder, not Kaolin")
if not torch.cuda.is_available():
    print("imported; no GPU"); sys.exit()
v = torch.tensor([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)], device="cuda")
f = torch.tensor([[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6], [0, 2, 6],
                  [0, 6, 4], [1, 5, 7], [1, 7, 3]], device="cuda")
points = torch.tensor([[[0.1, 0.2, 0.3], [1.5, 0.2, 0.3]]], device="cuda")
answer = kaolin.ops.mesh.check_sign(v[None], f, points)[0].tolist()
assert answer == [True, False], answer
print("kaolin " + kaolin.__version__)
"""),
    Vital("Kaolin: rasterize", "kaolin", _NEEDS + """
need("kaolin", "torch")
import torch
if not torch.cuda.is_available():
    sys.exit(77)
import kaolin
corners = torch.tensor([[[[-0.9, -0.9], [0.9, -0.9], [0.0, 0.9]]]], device="cuda")
depth = torch.full((1, 1, 3), -2.0, device="cuda")
features = torch.ones((1, 1, 3, 1), device="cuda")
image, face = kaolin.render.mesh.rasterize(64, 64, depth, corners, features)
assert face[0, 32, 32] == 0 and face[0, 0, 0] == -1 and abs(float(image[0, 32, 32, 0]) - 1) < 1e-5
print("%d of 4096 pixels" % int((face >= 0).sum()))
"""),
    Vital("Kaolin: USD written and read", "kaolin", _NEEDS + """
need("kaolin", "torch", "pxr")
import os, tempfile, torch, kaolin.io.usd
v = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
f = torch.tensor([[0, 1, 2]])
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "one.usda")
    kaolin.io.usd.export_mesh(path, vertices=v, faces=f)
    mesh = kaolin.io.usd.import_mesh(path)
    assert torch.equal(mesh.vertices, v) and torch.equal(mesh.faces.long(), f)
print("the same mesh")
"""),
)  # fmt: skip


def vital_signs(*, run: Runner = run, limit_s: float = LIMIT_S) -> Iterator[dict[str, Any]]:
    """Run every job; what is not installed is left out."""
    for vital in VITALS:
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "vital.py"
            script.write_text(f"import os\nos.chdir({folder!r})\n{vital.code}")
            outcome = run([sys.executable, str(script)], limit_s=limit_s)
        if outcome.status == "exit" and outcome.detail == str(_LEFT_OUT):
            continue
        last = (outcome.stdout if outcome.ok else outcome.stderr or outcome.stdout).strip().splitlines()[-1:]
        yield {
            "name": vital.name,
            "package": vital.package,
            "status": outcome.status,
            "sentence": outcome.sentence(),
            "says": last[0][:300] if last else "",
            "seconds": round(time.monotonic() - started, 1),
        }


def warm(*, run: Runner = run, limit_s: float = 900.0) -> dict[str, Any]:
    """Compile every kernel of smr in another process, so that the first reconstruction does not wait for it."""
    outcome = run([sys.executable, "-c", _WARM], limit_s=limit_s)
    lines = (outcome.stdout if outcome.ok else outcome.stderr or outcome.stdout).strip().splitlines()
    return {
        "status": outcome.status,
        "sentence": outcome.sentence(),
        "says": lines[-1][:300] if lines else "",
    }


_WARM = """
import importlib, os, pathlib, time
import warp as wp
wp.config.quiet = True
wp.init()
import smr
def built():
    names = (path.name for path in pathlib.Path(wp.config.kernel_cache_dir).rglob("*"))
    return {name for name in names if name.endswith((".o", ".ptx", ".cubin"))}
started, before = time.monotonic(), built()
root = pathlib.Path(smr.__file__).parent
count = 0
for path in sorted(root.rglob("*.py")):
    parts = path.relative_to(root).with_suffix("").parts
    if parts[0] == "environment" or "wp.kernel" not in path.read_text(encoding="utf-8", errors="replace"):
        continue
    importlib.import_module(".".join(("smr", *(part for part in parts if part != "__init__"))))
    count += 1
devices = ["cpu", *(str(device) for device in wp.get_cuda_devices())]
wp.load_module("smr", device=devices, recursive=True, max_workers=os.cpu_count() or 1)
print("%d modules ready on %s; %d files compiled in %.1f s (%.1f s of CPU time) into %s" % (
    count, " and ".join(devices), len(built() - before), time.monotonic() - started, time.process_time(),
    wp.config.kernel_cache_dir))
"""
