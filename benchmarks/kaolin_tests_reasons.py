"""Why tests of Kaolin fail on smr.kaolin: patterns of file::test, and the reason."""

from __future__ import annotations

REASONS: dict[str, str] = {
    r"utils/test_testing.py::TestCheckSpcOctrees::test_spc_wrong_device": "CPU copy: compares two devices",
    r"utils/test_testing.py::TestContainedTorchEqual::test_ignore_device": "CPU copy: compares two devices",
}
