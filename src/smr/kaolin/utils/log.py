"""Set up logging for a script, and describe tensors in the log."""

from __future__ import annotations

import argparse
import logging
import sys

from .testing import Array, tensor_info


def default_log_setup(level: int = logging.INFO, force: bool = True) -> None:
    """Send the log of all modules to standard output, with time, level and module.

    Args:
        level: The least level that is shown.
        force: Replace handlers that are there already.
    """
    form = "%(asctime)s|%(levelname)8s|%(name)s| %(message)s"
    logging.basicConfig(level=level, format=form, stream=sys.stdout, force=force)


def add_log_level_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--log_level N` to a parser: a number as in `logging` (10 debug, 20 info, 30 warning)."""
    levels = "10 debug, 20 info, 30 warning, 40 error, 50 critical"
    parser.add_argument("--log_level", type=int, default=logging.INFO, help=f"least level that is shown: {levels}")


def log_tensor(
    t: Array,
    name: str,
    use_logger: logging.Logger | None = None,
    level: int = logging.DEBUG,
    print_stats: bool = False,
    detailed: bool = False,
) -> None:
    """Log what `tensor_info` says of a tensor.

    Args:
        t: Tensor or array.
        name: What to call it.
        use_logger: None is this module's.
        level: Level of the message.
        print_stats: With smallest, mean and largest value.
        detailed: With the values.
    """
    (use_logger or logging.getLogger(__name__)).log(level, tensor_info(t, name, print_stats, detailed))


def print_tensor(t: Array, name: str, print_stats: bool = False, detailed: bool = False) -> None:
    """Print what `tensor_info` says of a tensor."""
    sys.stdout.write(tensor_info(t, name, print_stats, detailed) + "\n")
