"""The flat facts that explanations use, taken from a facts document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def context_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Flat facts as a person would write them in a bug report; what is unknown is left out."""
    gpus = [str(gpu.get("name", "")) for gpu in _list(document, "driver", "gpus") if isinstance(gpu, dict)]
    toolkits = [one for one in _list(document, "toolkits", "found") if isinstance(one, dict)]
    context = {
        "driver": _text(document, "driver", "version"),
        "smi_cuda": _text(document, "driver", "cuda"),
        "nvcc": str(toolkits[0].get("version", "")) if toolkits else "none",
        "torch": _text(document, "torch", "version"),
        "torch_cuda": _text(document, "torch", "cuda"),
        "python": _text(document, "python", "version"),
        "os": _text(document, "system", "distribution") + (" WSL2" if _at(document, "place", "wsl") is True else ""),
        "gpu": ", ".join(gpus),
        "gcc": _text(document, "compilers", "gcc", "version"),
        "glibc": _text(document, "system", "glibc"),
        "conda": _text(document, "python", "kind") == "conda",
        "container": _text(document, "place", "container") or False,
    }
    return {key: value for key, value in context.items() if value != ""}


def _at(document: Mapping[str, Any], *keys: str) -> Any:
    value: Any = document
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _text(document: Mapping[str, Any], *keys: str) -> str:
    value = _at(document, *keys)
    return value if isinstance(value, str) else ""


def _list(document: Mapping[str, Any], *keys: str) -> list[Any]:
    value = _at(document, *keys)
    return value if isinstance(value, list) else []
