"""Faults of the driver, the place, and what is installed. Pages 5, 6, 7 and 12."""

from __future__ import annotations

from smr.environment.faults.model import Fault, Step

FAULTS = (
    Fault(
        "driver_too_old",
        5,
        "The NVIDIA driver on your system is too old",
        "Each CUDA major version needs a driver: 11 needs 450.80, 12 needs 525.60, 13 needs 580.",
        (
            Step(
                "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/{cu}  (a CUDA "
                "that this driver runs)",
                "3 GB, minutes, no root",
            ),
            Step("sudo apt install nvidia-driver-580 && sudo reboot", "root, reboot"),
        ),
        "NVIDIA's CUDA release notes, tables 2 and 3",
    ),
    Fault(
        "ptx_toolchain",
        5,
        "the provided PTX was compiled with an unsupported toolchain",
        "The driver translates PTX up to its own CUDA version only; compiled kernels of the same major "
        "version would run.",
        (
            Step(
                "TORCH_CUDA_ARCH_LIST='{arch}' pip install --no-build-isolation --no-cache-dir --no-binary "
                "{package} --force-reinstall --no-deps {package}",
                "minutes: compiled kernels, no PTX",
            ),
            Step(
                "sudo apt install nvidia-driver-580 && sudo reboot",
                "root, reboot: a driver of the toolkit's version ({toolkit_driver})",
            ),
        ),
        "NVIDIA's CUDA release notes, table 3",
    ),
    Fault(
        "cuda_compat_forward",
        5,
        "Error 804: forward compatibility was attempted on non supported HW",
        "A libcuda newer than the driver (the cuda-compat package, usual in containers) is found first; "
        "that works on data-centre GPUs only.",
        (
            Step(
                "export LD_LIBRARY_PATH=$(echo $LD_LIBRARY_PATH | tr : '\\n' | grep -v compat | paste -sd:)", "seconds"
            ),
            Step("rm -f /etc/ld.so.conf.d/*compat*.conf && ldconfig", "root in the container, seconds"),
            Step("# use an image whose CUDA the driver runs, or update the host's driver", "gigabytes; reboot"),
        ),
        "NVIDIA's CUDA compatibility guide",
    ),
    Fault(
        "driver_library_mismatch",
        5,
        "Failed to initialize NVML: Driver/library version mismatch",
        "The driver's libraries were updated; the kernel still runs the module from before.",
        (
            Step("sudo reboot", "root, minutes"),
            Step(
                "sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia",
                "root, seconds; nothing may use the GPU",
            ),
        ),
    ),
    Fault(
        "fabric_manager_missing",
        5,
        "Error 802: system not yet initialized",
        "GPUs joined by NVSwitch (HGX, DGX) start only with the fabric manager of exactly the driver's version.",
        (
            Step(
                "sudo apt install nvidia-fabricmanager-{driver} && sudo systemctl enable --now nvidia-fabricmanager",
                "root, minutes; the number is the driver's branch",
            ),
        ),
    ),
    Fault(
        "driver_hangs",
        5,
        "nvidia-smi does not answer",
        "The driver is stuck (a fallen-off GPU, a blocked kernel module): every CUDA program will hang with it.",
        (
            Step("sudo dmesg | grep -iE 'nvrm|xid' | tail", "root, seconds: what the driver says"),
            Step("sudo reboot", "root, minutes"),
        ),
    ),
    Fault(
        "driver_missing",
        5,
        "A GPU is in this machine, and no NVIDIA driver answers",
        "The graphics card is on the bus, and the driver is not installed or not loaded.",
        (
            Step("sudo apt install nvidia-driver-580 && sudo reboot", "root, reboot"),
            Step("sudo modprobe nvidia", "root, seconds: when it is installed already"),
        ),
    ),
    Fault(
        "mesh_has_no_faces",
        6,
        "Mesh has 0 faces after simplification",
        "A simplifier that joins all vertices inside a cell (vertex clustering, positions rounded to a grid) leaves "
        "nothing when the cell is larger than the model, which happens when millimetres are taken for metres. Edge "
        "collapse that keeps the topology, as smr's, cannot: a closed piece keeps at least 4 faces and an open one at "
        "least 1. There, 0 faces mean that no valid triangle came in (polygons that were not triangulated, indices "
        "that start at 1, corners that repeat). Kaolin has no simplification in any release.",
        (
            Step(
                "python -c \"from smr import read_mesh; m = read_mesh('MESH'); print(m.faces.shape, m.vertices.min(0), "
                'm.vertices.max(0))"',
                "seconds: no faces, or a size that is not in metres",
            ),
            Step("smr clean MESH --out CLEAN.ply  (drops invalid faces and says how many)", "seconds"),
        ),
        "smr.mesh.simplify and its tests; Kaolin's sources from 0.9 to 0.18",
    ),
    Fault(
        "no_wheel_for_torch_cuda",
        7,
        "No matching distribution found for kaolin==...",
        "There is no wheel page for this torch and CUDA, or its name is wrong (no local version in it); "
        "pip then sees only a placeholder.",
        (
            Step(
                "pip install kaolin -f https://nvidia-kaolin.s3.us-east-2.amazonaws.com/torch-{torch}_{cu}.html",
                "50 MB, if that page exists",
            ),
            Step(
                "pip install torch==2.8.0 --index-url https://download.pytorch.org/whl/cu128  (a pair that has wheels)",
                "3 GB",
            ),
            Step(
                "pip install --no-build-isolation git+https://github.com/NVIDIAGameWorks/kaolin",
                "20 CPU-minutes, needs nvcc",
            ),
        ),
        "docs/notes/installation.rst of Kaolin's releases",
    ),
    Fault(
        "no_wheel_for_python",
        7,
        "No matching distribution found (this Python is too new)",
        "Wheels are made for certain Python versions: Kaolin 0.18 up to 3.12.",
        (
            Step("uv venv --python 3.12 && uv pip install torch==2.8.0", "3 GB, minutes"),
            Step("# build from source", "20 CPU-minutes, needs nvcc"),
        ),
        "docs/notes/installation.rst of Kaolin's releases",
    ),
    Fault(
        "kaolin_torch_range",
        7,
        "Kaolin refuses the installed torch",
        "setup.py of each Kaolin release accepts a range of torch versions.",
        (
            Step(
                "IGNORE_TORCH_VER=1 pip install --no-build-isolation {package}",
                "20 CPU-minutes; often works one version beyond",
            ),
            Step("# install the Kaolin release that accepts torch {torch}", "minutes"),
        ),
        "setup.py of Kaolin's releases",
    ),
    Fault(
        "torch_cpu_only",
        12,
        "torch.cuda.is_available() is False although there is a GPU",
        "The installed torch is a CPU build: it has no CUDA half, and packages built for CUDA do not load beside it.",
        (
            Step(
                "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/{cu}", "3 GB, minutes"
            ),
            Step(
                "pip install --force-reinstall --no-deps {package} --index-url https://download.pytorch.org/whl/cpu  "
                "(without a GPU: the package's own CPU build)",
                "seconds",
            ),
        ),
    ),
    Fault(
        "jupyter_wrong_env",
        12,
        "works in the terminal, not in Jupyter",
        "The notebook's kernel is another interpreter than the terminal's.",
        (
            Step("python -c 'import sys; print(sys.executable)'  (here, and in a cell)", "seconds: compare"),
            Step(
                "pip install ipykernel && python -m ipykernel install --user --name smr",
                "seconds; then Kernel > Change kernel > smr",
            ),
        ),
    ),
    Fault(
        "slurm_env",
        12,
        "works in the terminal, not under sbatch",
        "A batch job starts without your shell's modules, PATH and LD_LIBRARY_PATH, and on a node with "
        "another GPU or none.",
        (
            Step("smr doctor --save-facts job.json  (in the job), then: smr doctor diff here.json job.json", "seconds"),
            Step(
                "# write `source ENV/bin/activate` and the `module load` lines into the job script; ask for a GPU "
                "(--gres=gpu:1)",
                "minutes",
            ),
        ),
    ),
    Fault(
        "container_no_gpu_flag",
        12,
        "no GPU inside the container",
        "A container sees the GPU only when it is started with it, and the host has NVIDIA's container toolkit.",
        (
            Step("docker run --gpus all IMAGE  (podman: --device nvidia.com/gpu=all; singularity: --nv)", "seconds"),
            Step("sudo apt install nvidia-container-toolkit && sudo systemctl restart docker", "root, on the host"),
        ),
    ),
    Fault(
        "container_cuinit",
        12,
        "CUDA driver initialization failed inside a container",
        "The container has the driver's libraries, but not all its devices or another version of it "
        "(after an update of the host, after systemd reloaded).",
        (
            Step("docker restart CONTAINER", "seconds"),
            Step("ls -l /dev/nvidia*  (nvidia0, nvidiactl and nvidia-uvm must be there)", "seconds"),
            Step("sudo nvidia-modprobe -u -c=0", "root, on the host"),
        ),
    ),
    Fault(
        "mig_visible_devices",
        12,
        "device >= 0 && device < num_gpus INTERNAL ASSERT FAILED (MIG)",
        "With MIG a process can use one slice only, and it has to be named.",
        (Step("export CUDA_VISIBLE_DEVICES=$(nvidia-smi -L | grep -o 'MIG-[^)]*' | head -1)", "seconds"),),
        "NVIDIA's MIG user guide",
    ),
    Fault(
        "conda_virtual_package_missing",
        12,
        "__cuda =* *, which is missing on the system",
        "conda offers CUDA builds only where it sees a driver; login nodes and docker builds have none.",
        (Step("CONDA_OVERRIDE_CUDA=12.6 conda install pytorch", "3 GB"),),
    ),
    Fault(
        "numpy2_abi",
        12,
        "A module that was compiled using NumPy 1.x cannot be run in NumPy 2",
        "Extensions compiled against NumPy 1 do not load with NumPy 2.",
        (
            Step("pip install --upgrade {package}", "seconds: a release made for NumPy 2"),
            Step("pip install 'numpy<2'", "20 MB"),
        ),
    ),
    Fault(
        "protobuf_conflict",
        12,
        "TypeError: Descriptors cannot be created directly",
        "Generated protobuf code is older than the installed protobuf.",
        (
            Step("pip install 'protobuf<3.21'", "seconds"),
            Step("export PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python", "seconds; slower"),
        ),
    ),
    Fault(
        "usd_core_python",
        12,
        "No module named 'pxr'",
        "USD for Python is the package usd-core, with wheels for certain Pythons and machines only.",
        (
            Step("pip install usd-core", "25 MB"),
            Step("uv venv --python 3.12  (a Python that usd-core has wheels for)", "seconds"),
        ),
    ),
    Fault(
        "usd_boost_conflict",
        12,
        "pxr/Tf/_tf.so: undefined symbol: _ZN5boost6python...",
        "Two builds of USD, or of the Boost it was built with, meet in one process.",
        (
            Step(
                "env -u PYTHONPATH -u LD_LIBRARY_PATH python -c 'import pxr; print(pxr.__path__)'",
                "seconds: the copy without the other's folders",
            ),
            Step("pip install --force-reinstall usd-core", "25 MB: one provider, without Boost"),
        ),
    ),
    Fault(
        "wrong_interpreter",
        12,
        "the active environment is not the one that runs",
        "The shell's environment (VIRTUAL_ENV, CONDA_PREFIX) names another folder than the interpreter "
        "that is running.",
        (
            Step(
                "$VIRTUAL_ENV/bin/python -m smr doctor  (the environment's own python; or ... smr-doctor.pyz)",
                "seconds",
            ),
            Step("hash -r; which -a python smr", "seconds"),
        ),
    ),
    Fault(
        "duplicate_packages",
        12,
        "a package is installed twice",
        "Two installations of one package lie on the search path; the first wins and the other's files may mix in.",
        (Step("pip uninstall -y {package}; pip uninstall -y {package}; pip install {package}", "seconds to minutes"),),
    ),
    Fault(
        "gpus_hidden",
        12,
        "no GPU is seen although nvidia-smi shows one",
        "CUDA_VISIBLE_DEVICES names the GPUs that a process may see; empty or -1 hides all.",
        (Step("unset CUDA_VISIBLE_DEVICES", "seconds, this shell only"),),
    ),
    Fault(
        "kaolin_missing",
        7,
        "No module named 'kaolin'",
        "Kaolin's wheels are not on the package index; each is made for one torch and one CUDA.",
        (
            Step("python -m smr.kaolin SCRIPT  (runs it without Kaolin, where smr has the operation)", "seconds"),
            Step(
                "pip install kaolin -f https://nvidia-kaolin.s3.us-east-2.amazonaws.com/torch-{torch}_{cu}.html",
                "50 MB, if that page exists",
            ),
            Step(
                "pip install --no-build-isolation git+https://github.com/NVIDIAGameWorks/kaolin",
                "20 CPU-minutes, needs nvcc",
            ),
        ),
        "docs/notes/installation.rst of Kaolin's releases",
    ),
    Fault(
        "unreadable_folder",
        12,
        "a folder of packages cannot be read",
        "The folder belongs to another user, or its disk is not there.",
        (Step("ls -ld FOLDER", "seconds"),),
    ),
)
