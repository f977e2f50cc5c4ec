"""Diagnosis: from a raw error to a posterior over fault kinds and an effect state."""

from selfheal_rl.runtime.diagnose.accuracy import GoldReport, TraceReport, score, score_traces
from selfheal_rl.runtime.diagnose.capture import snapshot_of, snapshot_of_result
from selfheal_rl.runtime.diagnose.classifier import classify, kind_probabilities
from selfheal_rl.runtime.diagnose.detectors import (
    LoopDetector,
    detect,
    empty_output,
    error_inside,
    loop_period,
    refusal,
    truncated_json,
)
from selfheal_rl.runtime.diagnose.results import error_in_result

__all__ = [
    "GoldReport",
    "LoopDetector",
    "TraceReport",
    "classify",
    "detect",
    "empty_output",
    "error_in_result",
    "error_inside",
    "kind_probabilities",
    "loop_period",
    "refusal",
    "score",
    "score_traces",
    "snapshot_of",
    "snapshot_of_result",
    "truncated_json",
]
