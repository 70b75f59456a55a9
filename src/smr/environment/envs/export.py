"""Files that carry an environment elsewhere: job scripts, containers, kernels, services, CI jobs.

Each sets the loader environment before the interpreter starts, and asks the doctor's check first where it can. Texts
are quoted for the file that they stand in: for a shell with `shlex.quote`, for JSON and YAML as JSON strings.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from smr.environment.envs.plan import Plan

_KEPT_OUT = "PYTHONPATH PYTHONHOME LD_LIBRARY_PATH"


@dataclass(frozen=True)
class Exported:
    """What an export speaks of."""

    plan: Plan
    lock: Mapping[str, Any]
    prefix: str
    """Folder of the prefix, absolute."""
    library_path: str
    """What LD_LIBRARY_PATH has to be; mostly empty."""

    @property
    def env(self) -> str:
        """The environment in use, through the link that `promote` changes."""
        return f"{self.prefix}/current/env"

    @property
    def name(self) -> str:
        """A name for services and kernels."""
        return f"{self.plan.package}-{self.plan.package_version}".lower().replace(".", "-").replace("_", "-")

    def variables(self) -> dict[str, str]:
        """The loader environment."""
        found = {"VIRTUAL_ENV": self.env, "PYTHONNOUSERSITE": "1"}
        return {**found, "LD_LIBRARY_PATH": self.library_path} if self.library_path else found


def requirements(one: Exported) -> str:
    """A requirements file with hashes; the built wheel has to lie in a folder given with --find-links."""
    lines = [f"# {one.plan.title}", "# pip install --no-deps --require-hashes --find-links wheels -r requirements.txt"]
    if one.plan.torch_index:
        lines.append(f"--extra-index-url {one.plan.torch_index}")
    lines += [f"{row['name']}=={row['version']} --hash=sha256:{row['sha256']}" for row in one.lock["packages"]]
    return "\n".join(lines) + "\n"


def conda(one: Exported) -> str:
    """A conda environment file: Python from conda, everything else the locked wheels."""
    lines = [f"name: {json.dumps(one.name)}", "channels:", "  - conda-forge", "dependencies:"]
    lines += [f"  - {json.dumps(f'python={one.plan.python}.*')}", "  - pip", "  - pip:"]
    lines.append(f"      - {json.dumps('--find-links ' + one.prefix + '/current/wheels')}")
    if one.plan.torch_index:
        lines.append(f"      - {json.dumps('--extra-index-url ' + one.plan.torch_index)}")
    lines += [f"      - {json.dumps(row['name'] + '==' + row['version'])}" for row in one.lock["packages"]]
    lines += ["variables:", '  PYTHONNOUSERSITE: "1"']
    return "\n".join(lines) + "\n"


def dockerfile(one: Exported) -> str:
    """A container that restores the bundle; what it needs of the machine is the driver alone."""
    lines = [
        f"# {one.plan.title}",
        "# smr env pack DIR --out environment.smr-env, beside this file",
        f"FROM python:{one.plan.python}-slim",
        "RUN pip install --no-cache-dir smr3d",
        "COPY environment.smr-env /tmp/environment.smr-env",
        "RUN smr env restore /tmp/environment.smr-env --prefix /opt/environment && rm /tmp/environment.smr-env",
        'ENV VIRTUAL_ENV="/opt/environment/current/env" PYTHONNOUSERSITE="1"',
        'ENV PATH="/opt/environment/current/env/bin:$PATH"',
        'ENV NVIDIA_VISIBLE_DEVICES="all" NVIDIA_DRIVER_CAPABILITIES="compute,utility,graphics"',
        'ENTRYPOINT ["smr", "env", "run", "/opt/environment", "--"]',
        'CMD ["python"]',
    ]
    return "\n".join(lines) + "\n"


def apptainer(one: Exported) -> str:
    """The same for Apptainer: `apptainer build x.sif FILE`, then `apptainer run --nv x.sif python job.py`."""
    lines = ["Bootstrap: docker", f"From: python:{one.plan.python}-slim", "", "%files"]
    lines += ["    environment.smr-env /opt/environment.smr-env", "", "%post"]
    lines += ["    pip install --no-cache-dir smr3d"]
    lines += [
        "    smr env restore /opt/environment.smr-env --prefix /opt/environment",
        "    rm /opt/environment.smr-env",
    ]
    lines += ["", "%environment", "    export PYTHONNOUSERSITE=1", f"    unset {_KEPT_OUT}"]
    lines += ["", "%runscript", '    exec smr env run /opt/environment -- "$@"', "", "%labels"]
    return "\n".join([*lines, f"    environment {one.plan.track}"]) + "\n"


def slurm(one: Exported) -> str:
    """An sbatch script: the loader environment first, the check as gate, then the command."""
    lines = ["#!/bin/bash", f"#SBATCH --job-name={one.name}", "#SBATCH --output=%x-%j.out"]
    if one.plan.cuda:
        lines.append("#SBATCH --gres=gpu:1")
    lines += ["", "# usage: sbatch THIS python my_job.py", "set -euo pipefail", f"unset {_KEPT_OUT}"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in one.variables().items()]
    lines += [f'export PATH={shlex.quote(one.env + "/bin")}:"$PATH"', ""]
    lines += ["if command -v smr > /dev/null; then", f"    smr env check {shlex.quote(one.prefix)}", "fi"]
    return "\n".join([*lines, 'exec "$@"']) + "\n"


def jupyter(one: Exported) -> str:
    """A kernel spec: save it as kernel.json in share/jupyter/kernels/NAME (ipykernel has to be in the environment)."""
    path = f"{one.env}/bin:/usr/local/bin:/usr/bin:/bin"
    spec = {
        "argv": [f"{one.env}/bin/python", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": one.plan.title,
        "language": "python",
        "env": {**one.variables(), "PATH": path, "PYTHONPATH": "", "LD_LIBRARY_PATH": one.library_path},
        "metadata": {"debugger": True},
    }
    return json.dumps(spec, indent=1, ensure_ascii=False) + "\n"


def systemd(one: Exported) -> str:
    """A service unit: set its ExecStart to your program."""
    lines = ["[Unit]", f"Description={one.plan.title}", "", "[Service]"]
    lines.append("UnsetEnvironment=PYTHONPATH PYTHONHOME" + ("" if one.library_path else " LD_LIBRARY_PATH"))
    lines += [f"Environment={_systemd(f'{name}={value}')}" for name, value in one.variables().items()]
    lines += [f"Environment={_systemd(f'PATH={one.env}/bin:/usr/local/bin:/usr/bin:/bin')}"]
    lines += [f"ExecStart={_systemd(one.env + '/bin/python')} -c {_systemd(_imports(one))}", "Restart=no"]
    return "\n".join([*lines, "", "[Install]", "WantedBy=multi-user.target"]) + "\n"


def github_actions(one: Exported) -> str:
    """A workflow for a runner of one's own that has the driver; the check is the gate before the tests."""
    runner = "[self-hosted, gpu]" if one.plan.cuda else "ubuntu-latest"
    lines = [f"name: {json.dumps(one.name)}", "on: [push, pull_request]", "jobs:", "  test:", f"    runs-on: {runner}"]
    lines += [
        "    steps:",
        "      - uses: actions/checkout@v4",
        "      - uses: actions/setup-python@v5",
        "        with:",
    ]
    lines += [f"          python-version: {json.dumps(one.plan.python)}", "      - run: pip install smr3d"]
    lines += [f"      - run: {json.dumps(command)}" for command in _ci_commands()]
    return "\n".join(lines) + "\n"


def gitlab_ci(one: Exported) -> str:
    """A job with the check as gate."""
    lines = [f"{one.name}:", f"  image: {json.dumps(f'python:{one.plan.python}')}", "  script:"]
    lines += [f"    - {json.dumps(command)}" for command in ("pip install smr3d", *_ci_commands())]
    if one.plan.cuda:
        lines += ["  tags:", "    - gpu"]
    return "\n".join(lines) + "\n"


FORMATS: Mapping[str, tuple[str, Callable[[Exported], str]]] = {
    "requirements": ("requirements.txt", requirements),
    "conda": ("environment.yml", conda),
    "dockerfile": ("Dockerfile", dockerfile),
    "apptainer": ("environment.def", apptainer),
    "slurm": ("job.sh", slurm),
    "jupyter": ("kernel.json", jupyter),
    "systemd": ("environment.service", systemd),
    "github-actions": ("environment-workflow.yml", github_actions),
    "gitlab-ci": (".gitlab-ci.yml", gitlab_ci),
}


def _ci_commands() -> tuple[str, ...]:
    return (
        "smr env restore environment.smr-env --prefix .environment",
        "smr env check .environment",
        "smr env run .environment -- python -m pytest",
    )


def _imports(one: Exported) -> str:
    return "; ".join(f"import {module}" for module in one.plan.imports)


def _systemd(text: str) -> str:
    """Quoted for a unit file, where % and $ mean something."""
    return json.dumps(text.replace("%", "%%").replace("$", "$$"), ensure_ascii=False)
