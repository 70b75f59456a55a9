"""Reads and writes the small part of TOML that plans use: texts, numbers, truth values, lists of texts, tables."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping
from typing import Any

from smr.errors import SmrError

_BARE = re.compile(r"^[A-Za-z0-9_-]+$")


def dumps(document: Mapping[str, Any]) -> str:
    """A document with tables one level deep."""
    lines = [_line(key, value) for key, value in document.items() if not isinstance(value, Mapping)]
    for name, table in document.items():
        if isinstance(table, Mapping) and table:
            lines += ["", f"[{_key(name)}]", *(_line(key, value) for key, value in table.items())]
    return "\n".join(lines) + "\n"


def loads(text: str) -> dict[str, Any]:
    """A document.

    Raises:
        ValueError: It is not TOML.
        SmrError: This Python has no reader of TOML.
    """
    for name in ("tomllib", "tomli", "pip._vendor.tomli"):  # 3.10 has none of its own, but its pip brings one
        try:
            reader = importlib.import_module(name)
        except ImportError:
            continue
        loaded: dict[str, Any] = reader.loads(text)
        return loaded
    raise SmrError("this Python cannot read TOML files", "use Python 3.11 or newer, or: pip install tomli")


def _line(key: str, value: Any) -> str:
    return f"{_key(key)} = {_value(value)}"


def _key(key: str) -> str:
    return key if _BARE.match(key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(item) for item in value)}]"
    return _text(str(value))


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
