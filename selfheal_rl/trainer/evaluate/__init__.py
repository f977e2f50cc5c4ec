"""Judging policies: yardsticks, measures with intervals, reports."""
