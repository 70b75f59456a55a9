"""Found first on the PYTHONPATH of processes started by `python -m smr.kaolin`: `import kaolin` means `smr.kaolin`."""

import importlib
import sys
from importlib.util import find_spec
from pathlib import Path

sys.modules.pop("kaolin")
if find_spec("smr") is not None:
    import smr.kaolin

    smr.kaolin.install()
    sys.modules["kaolin"] = smr.kaolin
else:  # another Python, which has no smr: its own kaolin, if it has one
    here = Path(__file__).parent
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != here.resolve()]
    importlib.import_module("kaolin")
