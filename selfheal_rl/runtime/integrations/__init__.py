"""Adapters that bring the healer to an agent; so far for plain functions."""

from selfheal_rl.runtime.integrations.functions import heal_functions

__all__ = ["heal_functions"]
