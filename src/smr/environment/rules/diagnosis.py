"""All rules over all facts: findings, with consequences under their root cause, what blocks most first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smr.environment.rules import binaries, building, driver, installed
from smr.environment.rules.finding import BLOCKS, Facts, Finding, merged, nested, ranked

RULES = (*driver.RULES, *binaries.RULES, *building.RULES, *installed.RULES)

_OF_THE_WRONG_TORCH = (
    *("import_fails", "crash_on_import", "kaolin_torch_range", "mixed_pip_conda", "stale_build_dir", "torch_cpu_only"),
    *("cudart_missing", "cudnn_missing", "torch_lib_layout", "numpy2_abi"),
)
ROOTS: Mapping[str, tuple[str, ...]] = {
    "driver_hangs": ("driver_library_mismatch", "container_cuinit", "driver_missing", "torch_cpu_only"),
    "driver_missing": ("libcuda_link_path",),
    "driver_library_mismatch": ("container_cuinit", "import_fails"),
    "driver_too_old": ("ptx_toolchain", "import_fails"),
    "torch_missing": ("import_fails", "cudart_missing"),
    "torch_abi_mismatch": (*_OF_THE_WRONG_TORCH, "cxx11_abi_mismatch"),
    "cxx11_abi_mismatch": _OF_THE_WRONG_TORCH,
    "torch_cpu_only": ("torch_lib_layout", "cudart_missing", "import_fails"),
    "ld_library_path_shadows_wheel": ("import_fails", "crash_on_import"),
    "cudart_missing": ("import_fails",),
    "glibc_too_old": ("import_fails", "libstdcxx_too_old"),
    "libstdcxx_too_old": ("import_fails",),
    "conda_libstdcxx_shadows_system": ("import_fails",),
    "numpy2_abi": ("import_fails", "crash_on_import"),
    "torch_arch_dropped": ("no_kernel_image",),
    "damaged_file": ("import_fails", "crash_on_import"),
}
"""Which kinds another kind brings about, strongest root first."""


def diagnose(document: Mapping[str, Any], purpose: str = "") -> list[Finding]:
    """Findings from a facts document.

    Args:
        document: What `collect` gathered, here or on another machine.
        purpose: `reconstruct`, `kaolin` or `build` keeps what concerns it; empty: what is installed (no advice on
            building, and nothing on a Kaolin that is not there).
    """
    facts = Facts(document)
    findings = [finding for rule in RULES for finding in rule(facts)]
    if not purpose:
        findings = [finding for finding in findings if _concerns_what_is_here(finding, facts)]
    elif purpose == "kaolin" and facts.version("kaolin"):
        findings = [finding for finding in findings if finding.concerns != ("build",)]
    return ranked(nested(merged(ranked(findings, purpose)), ROOTS), purpose)


def blocks(findings: list[Finding]) -> bool:
    """Whether anything blocks."""
    return any(finding.level == BLOCKS for finding in findings)


def _concerns_what_is_here(finding: Finding, facts: Facts) -> bool:
    absent = finding.kind in ("kaolin_missing", "no_wheel_for_python") and not facts.version("kaolin")
    return finding.concerns != ("build",) and not absent
