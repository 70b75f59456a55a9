"""The module tree of NVIDIA Kaolin over `smr.ops`: code written for Kaolin runs unchanged, on a CPU or a GPU.

`import smr.kaolin as kal`, or leave the code as it is and start it with `python -m smr.kaolin SCRIPT`
(`-m MODULE`), where `import kaolin` means this package. Modules are imported when they are first used.
"""

from __future__ import annotations

from .. import __version__ as _smr_version
from ._absent import NotInSmrError, add_absent_modules
from ._alias import install, uninstall
from ._lazy import reexport

FOLLOWS = "Kaolin 0.18.0 and its main branch of 2026-08-14 (d52da9f)"
"""The Kaolin whose names, shapes and error types this package has."""

__version__ = f"0.18.0+smr.{_smr_version}"

add_absent_modules()
reexport(__name__)
__all__ = ["FOLLOWS", "NotInSmrError", "__version__", "install", "uninstall"]
