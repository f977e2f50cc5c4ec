"""Diagnosis: from a raw error to a posterior over fault kinds and an effect state."""

from selfheal_rl.runtime.diagnose.classifier import classify, kind_probabilities

__all__ = ["classify", "kind_probabilities"]
