"""Operations on torch tensors: batched, differentiable where it means something, on the tensors' own device.

They need torch (`pip install 'smr3d[torch]'`). The main job does not: it works on NumPy arrays with the same kernels.
"""

from __future__ import annotations

from importlib.util import find_spec

from ..errors import SmrError

_CAUSE = "smr.ops and smr.kaolin need torch, which is not installed."


class TorchMissingError(SmrError, ModuleNotFoundError):
    """torch is not installed: an error of ours with its cure, and an import error too."""

    def __init__(self, cause: str = _CAUSE, cure: str = "pip install 'smr3d[torch]'") -> None:
        super().__init__(cause, cure)
        self.name = "torch"


def require_torch() -> None:
    """Raise `TorchMissingError` where torch is not installed; it is not imported."""
    if find_spec("torch") is None:
        raise TorchMissingError


require_torch()
