"""From an incident to a decision: facts, mask, observation, selector, exploration, checks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation import (
    SPEC_HASH,
    BeliefTables,
    encode,
    facts_of,
    legal_mask,
)
from selfheal_rl.core.values import N_ACTIONS, Decision, Incident, RepairAction
from selfheal_rl.runtime.decide.draws import keyed_uniform
from selfheal_rl.runtime.decide.explore import Exploration, explorable, mix, pick
from selfheal_rl.runtime.decide.selector import Selector

Fault = Callable[[str, BaseException | str], None]
_NO_OBSERVATION = np.empty((1, 0), np.float32)
_SUM_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class _Choice:
    probabilities: NDArray[np.float64]
    selector: Selector
    override: str = ""
    intended: RepairAction | None = None


class Decider:
    """Chooses one repair for one incident, whatever the selector does.

    A selector that raises, or that answers with something that is no distribution over the legal
    actions, is answered by the rules; the rules by ``escalate``. Each such fault is reported.

    Args:
        selector: the policy in force.
        rules: what answers in its stead.
        seed: keys all draws.
        exploration: opt-in randomisation; None for none.
        sample: draw from the selector's probabilities instead of taking the largest.
        explain: give reasons; costs about a dozen evaluations of the selector.
        on_fault: told of every fault of a selector.
    """

    def __init__(
        self,
        selector: Selector,
        rules: Selector,
        *,
        seed: int = 0,
        exploration: Exploration | None = None,
        sample: bool = False,
        explain: bool = False,
        on_fault: Fault = lambda component, error: None,
    ) -> None:
        self.selector, self.rules = selector, rules
        self.seed, self.exploration = seed, exploration
        self.sample, self.explain = sample, explain
        self.on_fault = on_fault

    def decide(self, incident: Incident, key: tuple[str | int, ...], explored: bool) -> Decision:
        """The decision for the incident's present state.

        Args:
            incident: with its latest failure last.
            key: names the draw, e.g. (task, tool, nth incident, attempt).
            explored: True when this incident has had its explored decision.
        """
        facts = facts_of(incident)
        mask = legal_mask(facts)
        observation = self._observe(self.selector, facts)
        choice = self._choose(facts, observation, mask)
        composite, epsilon = choice.probabilities, 0.0
        if self.exploration is not None and not explored and not choice.override:
            epsilon = self.exploration.epsilon
            composite = mix(choice.probabilities, explorable(facts, mask[0]), epsilon)
        drawn = epsilon > 0.0 or self.sample
        greedy = int(choice.probabilities.argmax())
        action = pick(composite, keyed_uniform(self.seed, *key, "action")) if drawn else greedy
        if not drawn:
            composite = np.zeros(N_ACTIONS)
            composite[action] = 1.0
        reasons = self._reasons(choice, facts, observation, mask, action)
        return Decision(
            action=RepairAction(action),
            probabilities=tuple(composite.tolist()),
            propensity=min(float(composite[action]), 1.0),
            mask=tuple(mask[0].tolist()),
            selector=choice.selector.name,
            policy_hash=str(getattr(choice.selector, "hash", "")),
            spec_hash=SPEC_HASH,
            reasons=reasons,
            intended=choice.intended,
            override=choice.override,
            randomisation_unit="decision" if drawn else "",
            observation=tuple(observation[0].tolist()),
        )

    @staticmethod
    def _observe(selector: Selector, facts: NDArray[np.float32]) -> NDArray[np.float32]:
        tables: BeliefTables | None = getattr(selector, "tables", None)
        return _NO_OBSERVATION if tables is None else encode(facts, tables)

    def _choose(
        self,
        facts: NDArray[np.float32],
        observation: NDArray[np.float32],
        mask: NDArray[np.bool_],
    ) -> _Choice:
        override, intended = "", None
        chain = [self.selector] if self.selector is self.rules else [self.selector, self.rules]
        for selector in chain:
            try:
                answer = selector.probabilities(facts, observation, mask)
                problem, wish = _check(answer, mask)
            except Exception as error:
                problem, wish = f"{type(error).__name__}: {error}", None
            if not problem:
                probabilities = np.asarray(answer, np.float64)[0]
                return _Choice(probabilities, selector, override, intended)
            self.on_fault(f"selector {getattr(selector, 'name', selector)!s}", problem)
            override, intended = override or problem, intended or wish
        certain = np.zeros(N_ACTIONS)
        certain[RepairAction.ESCALATE] = 1.0
        return _Choice(certain, self.rules, override, intended)

    def _reasons(
        self,
        choice: _Choice,
        facts: NDArray[np.float32],
        observation: NDArray[np.float32],
        mask: NDArray[np.bool_],
        action: int,
    ) -> tuple[str, ...]:
        if not self.explain:
            return ()
        from selfheal_rl.runtime.decide.reasons import reasons_for

        try:
            found = reasons_for(choice.selector, facts, observation, mask, RepairAction(action))
        except Exception as error:  # an explanation must never stand in the way of a repair
            self.on_fault("reasons", error)
            return ()
        if choice.override:
            found = (f"{self.selector.name} could not answer ({choice.override})", *found)
        return found


def _check(answer: Any, mask: NDArray[np.bool_]) -> tuple[str, RepairAction | None]:
    """What is wrong with a selector's answer, '' when nothing is, and the action it wanted."""
    values = np.asarray(answer, np.float64)
    if values.shape != mask.shape:
        return f"answered with shape {values.shape}, expected {mask.shape}", None
    row = values[0]
    if not np.isfinite(row).all() or (row < 0.0).any() or abs(row.sum() - 1.0) > _SUM_TOLERANCE:
        return "answered with something that is no distribution", None
    if row[~mask[0]].any():
        wish = RepairAction(int(np.where(mask[0], 0.0, row).argmax()))
        return f"gave weight to {wish.slug}, which is not legal here", wish
    return "", None
