"""A capture in, a clean textured mesh out."""

__version__ = "0.1.0.dev0"
