"""Peers as arms: each library's own retry code decides, on the lab's virtual time.

One module per library, all of one shape: ``attempt(call)`` runs a call the way the library's
default does, and ``modules()`` names the library's modules whose clock is lent.
"""

from importlib import import_module
from types import ModuleType

RIVALS: tuple[str, ...] = ("tenacity", "stamina", "langgraph", "langchain")
"""Names of the rival arms."""


def rival(name: str) -> ModuleType:
    """The module of one rival; imports the library.

    Args:
        name: one of ``RIVALS``.

    Raises:
        ModuleNotFoundError: the library is not installed.
    """
    return import_module(f"selfheal_rl.lab.rivals.{name}")
