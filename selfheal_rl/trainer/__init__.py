"""Worlds, learning and judging; needs the extra ``train``."""
