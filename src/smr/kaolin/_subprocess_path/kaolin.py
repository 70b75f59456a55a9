"""Found first on the PYTHONPATH of processes started by `python -m smr.kaolin`: `import kaolin` means `smr.kaolin`."""

import sys

sys.modules.pop("kaolin")
import smr.kaolin  # noqa: E402

smr.kaolin.install()
sys.modules["kaolin"] = smr.kaolin
