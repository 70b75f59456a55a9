"""Materials of an OBJ file: the .mtl beside it, and the textures it names."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..records import Finding, Material
from .images import TextureReader
from .names import find_companion, inside_folder

_LARGEST_LIBRARY = 16 << 20
_MOST_MATERIALS = 4096
_OPTION_WORDS = {
    b"-blendu": 1, b"-blendv": 1, b"-boost": 1, b"-mm": 2, b"-o": 3, b"-s": 3, b"-t": 3, b"-texres": 1, b"-clamp": 1,
    b"-bm": 1, b"-imfchan": 1, b"-type": 1, b"-cc": 1, b"-colorspace": 1,
}  # fmt: skip
_IMAGES = (".png", ".jpg", ".jpeg")


@dataclass(frozen=True)
class _Entry:
    material: Material
    texture: str | None = None


def read_library(path: Path, name: str, textures: TextureReader) -> dict[str, Material]:
    """The materials of the library `name` beside the OBJ file `path`; what is missing becomes a finding."""
    folder = path.parent
    library = find_companion(folder, name)
    words = name.split()
    if library is None and len(words) > 1 and any(find_companion(folder, word) for word in words):
        several: dict[str, Material] = {}
        for word in words:
            several.update(read_library(path, word, textures))
        return several
    if library is None:
        textures.findings.append(missing_file(path, name, "material file", "its materials are left out"))
        return {}
    if library.stat().st_size > _LARGEST_LIBRARY:
        textures.findings.append(Finding("warning", f"The material file {library.name} is over 16 MB: it is not read."))
        return {}
    pixels: dict[str, Any] = {}
    return {key: _with_texture(path, entry, textures, pixels) for key, entry in _parse(library.read_bytes()).items()}


def find_texture_beside(path: Path, textures: TextureReader) -> Material | None:
    """A texture for an OBJ that has texture coordinates and names no material file: the image of the same name."""
    try:
        names = sorted(entry.name for entry in path.parent.iterdir() if entry.suffix.lower() in _IMAGES)
    except OSError:
        names = []
    pattern = re.compile(re.escape(path.stem.lower()) + r"([ _.-].*)?")
    matching = [name for name in names if pattern.fullmatch(Path(name).stem.lower())]
    if len(matching) != 1:
        said = "The file has texture coordinates and names no material file: it is read without texture."
        textures.findings.append(Finding("note", said))
        return None
    image = find_companion(path.parent, matching[0])
    pixels = None if image is None else textures.open(image)
    if pixels is None:
        return None
    said = f"The file names no material file; the only image named after it, {matching[0]}, is taken as its texture."
    textures.findings.append(Finding("note", said))
    return Material(Path(matching[0]).stem, texture=pixels)


def _parse(text: bytes) -> dict[str, _Entry]:
    entries: dict[str, _Entry] = {}
    current = ""
    for line in text.replace(b"\r", b"\n").split(b"\n"):
        words = line.split()
        if len(words) < 2:
            continue
        keyword = words[0].lower()
        if keyword == b"newmtl":
            current = line.split(None, 1)[1].strip().decode("utf-8", "replace")
            if len(entries) >= _MOST_MATERIALS:
                break
            entries[current] = _Entry(Material(current, roughness=1.0))
        elif current:
            entries[current] = _apply(entries[current], keyword, words[1:], line)
    return entries


def _apply(entry: _Entry, keyword: bytes, words: list[bytes], line: bytes) -> _Entry:
    material = entry.material
    if keyword == b"map_kd":
        return replace(entry, texture=file_name(line))
    try:
        numbers = [min(max(float(word), 0.0), 1.0) for word in words[:3]]
    except ValueError:
        return entry
    color = material.base_color
    if keyword == b"kd":
        red, green, blue = (numbers * 3)[:3] if len(numbers) < 3 else numbers
        material = replace(material, base_color=(red, green, blue, color[3]))
    elif keyword == b"d":
        material = replace(material, base_color=(*color[:3], numbers[0]))
    elif keyword == b"pr":
        material = replace(material, roughness=numbers[0])
    elif keyword == b"pm":
        material = replace(material, metallic=numbers[0])
    return replace(entry, material=material)


def file_name(line: bytes) -> str:
    """The name after `map_Kd` and its options; it may hold spaces."""
    rest = line.split(None, 1)[1].strip()
    while rest.startswith(b"-"):
        words = rest.split()
        skip = 1 + _OPTION_WORDS.get(words[0].lower(), 1)
        numbers = 1
        while words[0].lower() in (b"-o", b"-s", b"-t") and numbers < skip and numbers < len(words):
            if not re.fullmatch(rb"[-+.\deE]+", words[numbers]):  # one to three numbers
                break
            numbers += 1
        taken = numbers if words[0].lower() in (b"-o", b"-s", b"-t") else skip
        if taken >= len(words):
            return ""
        rest = rest.split(None, taken)[-1]
    return rest.decode("utf-8", "replace")


def _with_texture(path: Path, entry: _Entry, textures: TextureReader, pixels: dict[str, Any]) -> Material:
    if entry.texture is None:
        return entry.material
    if entry.texture not in pixels:
        image = find_companion(path.parent, entry.texture)
        pixels[entry.texture] = None if image is None else textures.open(image)
        if image is None:
            textures.findings.append(missing_file(path, entry.texture, "texture", "it is left out"))
    if pixels[entry.texture] is None:
        return entry.material
    red, green, blue, opacity = entry.material.base_color
    if red == green == blue:  # exporters write 0.8 or even 0 beside a texture, and no viewer darkens it by that
        red = green = blue = 1.0
    return replace(entry.material, base_color=(red, green, blue, opacity), texture=pixels[entry.texture])


def missing_file(path: Path, name: str, kind: str, result: str) -> Finding:
    """The finding about a file `name` that the mesh file `path` refers to and that is not opened."""
    if inside_folder(path.parent, name) is None:
        said = f"The {kind} {name!r} lies outside the folder of {path.name} and is not opened; {result}."
        return Finding("warning", said, f"Put it beside {path.name} and name it without a folder.")
    said = f"The {kind} {name!r} is not beside {path.name}; {result}."
    return Finding("warning", said, f"Put it into {path.parent}.")
