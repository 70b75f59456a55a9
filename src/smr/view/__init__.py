"""A model in the web browser: `serve` opens a local page that shows it, with a link for AR on an iPhone or iPad."""

from .server import Viewer, serve

__all__ = ["Viewer", "serve"]
