"""The documentation page of the faults, made from the catalogue so that it cannot go stale."""

from __future__ import annotations

from smr.environment.faults import FAULTS, Fault, filled

PAGES = {
    1: "An extension and torch do not fit each other",
    2: "The build finds the wrong CUDA toolkit, or none",
    3: "No machine code for this GPU",
    4: "nvcc, the GPU and the C++ compiler are of different times",
    5: "The driver: too old, half updated, stuck",
    6: "A mesh without faces after simplification",
    7: "No wheel for this Python, torch and CUDA",
    8: "pip builds in a place where torch is not",
    9: "A library is not found, or another copy of it is",
    10: "The system is older than the file: glibc and libstdc++",
    11: "The build lacks headers, tools or memory",
    12: "It works elsewhere: notebooks, batch jobs, containers, mixed installations",
}
_HEAD = """# The twelve frequent faults

Made from the doctor's catalogue by `python tools/build_faults_page.py`: what is here is what
`smr doctor` and `smr doctor explain` say. Each fault has the name (kind) that the JSON answers use. Words in capitals
stand for values that the doctor fills in where it knows them. Cures come smallest first, with what they cost behind
the `#`.
"""


def faults_page() -> str:
    """The whole page as Markdown."""
    parts = [_HEAD.rstrip()]
    parts.append("\n".join(f"{page}. [{title}](#{page}-{_anchor(title)})" for page, title in PAGES.items()))
    for page, title in PAGES.items():
        parts.append(f"## {page}. {title}")
        parts += [_section(fault) for fault in FAULTS.values() if fault.page == page]
    return "\n\n".join(parts) + "\n"


def _section(fault: Fault) -> str:
    cure = "\n".join(filled(fault, {}))
    return f"### `{fault.kind}`\n\n**{fault.title}**\n\n{fault.why}\n\n```sh\n{cure}\n```\n\nSource: {fault.source}."


def _anchor(title: str) -> str:
    kept = "".join(char for char in title.lower() if char.isalnum() or char in " -")
    return kept.replace(" ", "-")
