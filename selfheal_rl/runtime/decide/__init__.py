"""Selectors: rule tables, networks, abstention, exploration, and the reasons they give."""

from selfheal_rl.runtime.decide.decider import Decider
from selfheal_rl.runtime.decide.explore import Exploration
from selfheal_rl.runtime.decide.load import load_selector
from selfheal_rl.runtime.decide.rules import Ladder, LadderSelector
from selfheal_rl.runtime.decide.selector import Selector

__all__ = ["Decider", "Exploration", "Ladder", "LadderSelector", "Selector", "load_selector"]
