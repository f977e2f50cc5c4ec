"""Finds worlds, policies and recipes; reads TOML; the artifact format of policies."""

from selfheal_rl.core.catalog.artifact import (
    Manifest,
    Training,
    json_hash,
    read_manifest,
    verify_artifact,
    write_artifact,
)
from selfheal_rl.core.catalog.golden import Golden, read_golden
from selfheal_rl.core.catalog.locate import (
    bundle_root,
    find_policy,
    find_recipe,
    find_world,
    list_policies,
    list_recipes,
    list_worlds,
)
from selfheal_rl.core.catalog.toml import load_toml, read_toml, unknown_key, validate

__all__ = [
    "Golden",
    "Manifest",
    "Training",
    "bundle_root",
    "find_policy",
    "find_recipe",
    "find_world",
    "json_hash",
    "list_policies",
    "list_recipes",
    "list_worlds",
    "load_toml",
    "read_golden",
    "read_manifest",
    "read_toml",
    "unknown_key",
    "validate",
    "verify_artifact",
    "write_artifact",
]
