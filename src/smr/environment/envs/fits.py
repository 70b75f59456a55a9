"""Whether a packed environment can work on a machine: asked before anything is written, in the doctor's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smr.environment import tables, versions
from smr.environment.envs.check import dotted
from smr.environment.envs.machine import covers
from smr.environment.rules import Facts, driver
from smr.errors import SmrError


def refuse_where_it_cannot_work(lock: Mapping[str, Any], document: Mapping[str, Any]) -> None:
    """Compare what a lock needs with the facts of a machine.

    Raises:
        SmrError: Operating system, processor, C library, driver or GPU do not fit.
    """
    needs = Facts(
        {"needs": lock.get("needs", {}), "extension": lock.get("extension", {}), "plan": lock.get("plan", {})}
    )
    facts = Facts(document)
    for what in ("os", "machine"):
        wanted, here = needs.text(f"needs.{what}"), facts.text(f"system.{what}")
        if wanted and here and wanted != here:
            raise SmrError(f"it was packed for {wanted}, this is {here}", f"pack one on a machine with {here}")
    _glibc(needs.text("needs.glibc"), facts.text("system.glibc"))
    cuda = needs.text("needs.cuda")
    if cuda:
        _driver(cuda, document)
        _gpus(needs, facts, cuda)


def _glibc(wanted: str, here: str) -> None:
    if wanted and here and versions.below(here, wanted):
        what = f"its files need glibc {wanted}, this system has {here} [glibc_too_old]"
        cure = "use a newer Linux or a container with one; or plan and build on this machine (smr env plan)"
        raise SmrError(what, cure)


def _driver(cuda: str, document: Mapping[str, Any]) -> None:
    with_torch = {**document, "torch": {"version": "packed", "cuda": cuda}}
    for finding in driver.driver_too_old(Facts(with_torch)):
        raise SmrError(f"{finding.what} [{finding.kind}]", "\n       ".join(finding.cure))


def _gpus(needs: Facts, facts: Facts, cuda: str) -> None:
    """Every GPU that is here must find code; a machine that shows none (a login node) is let through."""
    cubins, ptx = needs.items("extension.cubins"), needs.items("extension.ptx")
    archs = ";".join([*(dotted(str(name)) for name in cubins), *(f"{dotted(str(name))}+PTX" for name in ptx)])
    here = facts.text("driver.version")
    jit = not here or versions.at_least(here, tables.toolkit_driver(cuda) or "0")
    for capability in sorted(set(facts.capabilities)):
        if archs and not covers(archs, capability, ptx=jit):
            what = f"it has GPU code for {archs}, this GPU is {capability} [no_kernel_image]"
            cure = f"build it for this GPU as well: smr env plan {needs.text('plan.package')} --gpu {capability}"
            raise SmrError(what, cure)
