"""The four families of seeds. What is learned, tuned, chosen and reported never shares luck.

Each constant seeds both the deployments that are drawn and the luck of the tasks. They lie far
apart, since a training run adds its own seed (below 10,000) and worlds add their index.
"""

TRAIN_SEED = 11_000
"""Training: PPO, bandit and clairvoyant learn on the pool drawn from it."""
TUNE_SEED = 22_000_000
"""Tuning of rule tables."""
VALIDATE_SEED = 33_000_000
"""Choice of checkpoints, of the best training seed and of the best tuned table."""
REPORT_SEED = 44_000_000
"""Reported figures; nothing may be chosen on it."""
