"""Rendering: the rasterizer and pictures of textured meshes."""
