"""Build hook: the folders a user works in ride inside the wheel, byte for byte.

A hook rather than a ``force-include`` table, because that one also copies them into every
editable install, where the copies would grow stale beside the checkout.
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDERS = ("envs", "policies", "training")


class BundleHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the bundle to standard wheels; an editable install reads the checkout instead."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before a wheel is built; ``version`` is its kind."""
        if version == "standard":
            for folder in FOLDERS:
                build_data["force_include"][folder] = f"selfheal_rl/_bundle/{folder}"
