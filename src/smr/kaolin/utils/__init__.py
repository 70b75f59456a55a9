"""Helpers for tests and logs: `testing`, `log`, `env_vars`, `bundled_data`."""

from __future__ import annotations

from .._lazy import reexport

__all__ = reexport(__name__)
