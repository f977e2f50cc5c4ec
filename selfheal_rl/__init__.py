"""Learned repair for LLM agents."""
