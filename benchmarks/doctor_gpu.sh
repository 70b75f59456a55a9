#!/usr/bin/env bash
# The doctor on a machine with a GPU, torch with CUDA and nvcc: no false alarm, its cost, and three extensions built on purpose.
#     bash benchmarks/doctor_gpu.sh [folder for the answers]
set -u
out="${1:-$(mktemp -d)}"; mkdir -p "$out"
root="$(cd "$(dirname "$0")/.." && pwd)"
export PYTHONPATH="$root/src"
smr() { python3 -c 'import sys; from smr.cli.doctor import main; sys.exit(main(sys.argv[1:]))' "$@"; }
echo "== whole machine"; time smr --save-facts "$out/facts.json"; echo "exit $?"
echo "== quick"; time smr --quick >/dev/null
for purpose in kaolin build; do echo "== for $purpose"; smr --quick --for $purpose | tail -n +10; done
echo "== vital signs"; smr --quick --run | tail -4
site="$out/lib/site-packages"; mkdir -p "$site"
cat > "$out/k.cu" <<'CU'
#include <torch/extension.h>
__global__ void twice(float* x, int n) { int i = blockIdx.x * 256 + threadIdx.x; if (i < n) x[i] *= 2; }
void run(torch::Tensor x) { twice<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), x.numel());
  TORCH_CHECK(cudaGetLastError() == cudaSuccess, "launch failed: no kernel image?"); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
CU
cat > "$out/build.py" <<'PY'
import shutil, sys
from pathlib import Path
from torch.utils.cpp_extension import load
out, name = sys.argv[1], sys.argv[2]
folder = Path(out) / ("build_" + name); folder.mkdir(exist_ok=True)
load(name, [out + "/k.cu"], build_directory=str(folder), is_python_module=False)
target = Path(out) / "lib/site-packages" / name; target.mkdir(exist_ok=True)
shutil.copy(folder / (name + ".so"), target / "_C.so")
PY
TORCH_CUDA_ARCH_LIST="9.0" python3 "$out/build.py" "$out" native >/dev/null 2>"$out/native.err" &
TORCH_CUDA_ARCH_LIST="8.0+PTX" python3 "$out/build.py" "$out" byptx >/dev/null 2>"$out/byptx.err" &
TORCH_CUDA_ARCH_LIST="7.5" python3 "$out/build.py" "$out" foreign >/dev/null 2>"$out/foreign.err" &
wait
ls "$site"
export PYTHONPATH="$root/src:$site"
echo "== native, by PTX, foreign: only the last must be found"
smr | tail -n +10; echo "exit ${PIPESTATUS[0]}"
python3 - "$site" <<'PY'
import sys, importlib.util, torch
for name in ("native", "byptx", "foreign"):
    spec = importlib.util.spec_from_file_location(name, sys.argv[1] + "/" + name + "/_C.so")
    module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)
    x = torch.ones(4, device="cuda")
    try:
        module.run(x); torch.cuda.synchronize(); print(name, x.tolist())
    except RuntimeError as error:
        print(name, str(error).splitlines()[0])
PY
echo "== what the three were built for"
python3 - "$out" <<'PY'
import json, sys
from pathlib import Path
from smr.environment.gather.collect import collect
for e in collect()["extensions"]:
    t = e.get("torch") or {}
    print(e["path"][-60:], t.get("low"), t.get("high"), t.get("abi"), "absent", len(t.get("absent", [])), "unresolved", t.get("unresolved"), "missing", e.get("missing"), e.get("code"), e.get("error", ""))
PY
