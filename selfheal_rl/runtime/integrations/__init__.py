"""Adapters that bring the healer to frameworks; plain functions need none."""
