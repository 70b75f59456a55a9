"""The text to explain and what is known of the machine that it came from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from smr.environment import versions

CONTEXT_KEYS = (
    "driver",
    "smi_cuda",
    "nvcc",
    "torch",
    "torch_cuda",
    "python",
    "os",
    "gpu",
    "gcc",
    "glibc",
    "conda",
    "container",
    "install",
    "package",
    "package_version",
    "setuptools",
    "ram",
    "cores",
    "cmake",
    "msvc",
)
_TORCH_IN_TEXT = re.compile(
    r"\b(?:torch|pytorch)(?:==|[ :=-]|\s+version:?\s*)v?(\d\.\d{1,2}(?:\.\d+)?(?:\+\w+)?)", re.I
)
_ABSENT = re.compile(r"^\s*(none|no|not (?:found|installed|set)|absent|missing|-|n/?a)\b", re.I)


@dataclass(frozen=True)
class Situation:
    """A text and its context, with the questions that the clues ask."""

    text: str
    context: Mapping[str, Any] = field(default_factory=dict)

    def fact(self, key: str) -> str:
        """A fact of the context as text; empty where it is not given."""
        value = self.context.get(key)
        return "" if value in (None, False) else str(value)

    def says(self, pattern: str) -> bool:
        """Whether the text or the context mentions something (case does not matter)."""
        return bool(re.search(pattern, self.everything, re.I))

    @cached_property
    def everything(self) -> str:
        """The text and the context's values."""
        facts = [f"{key} {value}" for key, value in self.context.items() if value not in (None, False)]
        return "\n".join([self.text, *facts])

    @cached_property
    def torch(self) -> str:
        """Version of the installed torch with its local part (`2.4.0+cu121`); empty where unknown."""
        given = self.fact("torch")
        if given:
            return given
        found = _TORCH_IN_TEXT.search(self.text)
        return found.group(1) if found else ""

    @cached_property
    def torch_cuda(self) -> str:
        """CUDA that torch was built with, as `12.1`; empty where unknown or none."""
        return versions.minor(self.fact("torch_cuda")) or versions.cuda_of_tag(self.torch)

    @property
    def torch_is_cpu_build(self) -> bool:
        """Whether torch is known to be a CPU-only build."""
        return "+cpu" in self.torch or bool(
            re.search(r"\bcpu\b", f"{self.fact('torch')} {self.fact('torch_cuda')}", re.I)
        )

    @property
    def nvcc(self) -> str:
        """Toolkit version, empty where unknown."""
        return "" if self.nvcc_is_absent else versions.minor(self.fact("nvcc"))

    @property
    def nvcc_is_absent(self) -> bool:
        """Whether somebody looked for nvcc and found none."""
        return bool(_ABSENT.match(self.fact("nvcc")))

    @property
    def conda(self) -> bool:
        """Whether the environment is conda's."""
        given = self.context.get("conda")
        if given is not None:
            return bool(given) and not _ABSENT.match(str(given))
        return self.says(r"\b(ana|mini|micro)?(conda|mamba|forge)\d?\b|/envs/")

    @property
    def wsl(self) -> bool:
        """Whether it runs in the Windows Subsystem for Linux."""
        return self.says(r"\bWSL ?2?\b|/usr/lib/wsl|microsoft-standard")

    @property
    def windows(self) -> bool:
        """Whether it runs on Windows proper."""
        return not self.wsl and self.says(r"\bwindows\b|\bwin(10|11|32|64|_amd64)\b|[A-Z]:\\|\.pyd\b|\.dll\b")

    @property
    def container(self) -> bool:
        """Whether it runs in a container."""
        given = self.context.get("container")
        if given is not None:
            return bool(given) and not _ABSENT.match(str(given))
        return self.says(r"\b(docker|podman|singularity|apptainer|container|devcontainer|kubernetes|dockerfile)\b")

    @property
    def slurm(self) -> bool:
        """Whether a batch system ran it."""
        return self.says(r"\b(slurm\w*|sbatch|srun|salloc|qsub|PBS|LSF|compute nodes?|login nodes?|batch job)\b")

    @property
    def jupyter(self) -> bool:
        """Whether a notebook is involved."""
        return self.says(r"\b(jupyter\w*|ipykernel\w*|notebook|kernelspec|kernel\.json|ipython|colab|vs ?code)\b")

    @property
    def building(self) -> bool:
        """Whether the text shows that something is being built or installed."""
        return self.says(
            r"setup\.py|pip3? (install|wheel)|\bbuild(s|er|_\w+|ing| backend| dependencies)?\b|egg_info|"
            r"bdist_wheel|pyproject|"
            r"subprocess-exited|metadata-generation|get_requires_for|\buv (pip|sync|add)\b|cpp_extension|compil|isolat|"
            r"install(_|\.|ing\b)|prepare_metadata|wheel"
        )
