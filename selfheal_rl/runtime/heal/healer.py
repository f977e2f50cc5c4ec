"""The healer: wraps tools, heals their failures, and never makes a failure worse."""

import asyncio
import inspect
import logging
import os
import secrets
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar, Unpack, overload

from selfheal_rl.core.values import (
    ArtifactError,
    Clock,
    ConfigError,
    Incident,
    Prices,
    SystemClock,
)
from selfheal_rl.runtime.decide.decider import Decider
from selfheal_rl.runtime.decide.explore import Exploration
from selfheal_rl.runtime.decide.rules import HAND_LADDER, LadderSelector
from selfheal_rl.runtime.decide.selector import Selector
from selfheal_rl.runtime.heal.blocks import Attempts
from selfheal_rl.runtime.heal.call import Call, ResultInfo, Tool
from selfheal_rl.runtime.heal.effects import Steps, Write
from selfheal_rl.runtime.heal.open_incident import OpenIncident
from selfheal_rl.runtime.heal.options import Budget, ToolOptions, ToolSpec
from selfheal_rl.runtime.heal.register import make_tool
from selfheal_rl.runtime.heal.task import CURRENT, Task, ToolRecord
from selfheal_rl.runtime.heal.trouble import Trouble
from selfheal_rl.runtime.heal.wrappers import wrap
from selfheal_rl.runtime.journal import Journal, JournalProtocol, NullJournal

LOG = logging.getLogger("selfheal_rl")
F = TypeVar("F", bound=Callable[..., Any])
JournalWrite = Callable[[JournalProtocol], Any]
_LAST: ContextVar[tuple[Incident, ResultInfo | None] | None] = ContextVar(
    "selfheal_last", default=None
)
_CALL_CACHE = 512


class Healer:
    """Heals failing calls of an agent's tools.

    By default it acts at level 1 (retry, wait, hand back, escalate, degrade) by built-in rules;
    level 2 and a policy are opt-in.

    Args:
        policy: None for rules; ``"default"`` or another bundled id; an artifact's folder; or any
            Selector.
        permission: highest level of repairs, 1 to 3.
        journal: None, a path or URL, or an open journal.
        budget: of healing.
        clock: gives time and waits.
        seed: keys all random draws.
        prices: what things cost, for reports.
        rules: ladder that acts without a policy and behind one: a bundled id, a ``rules.toml``, an
            artifact's folder, or any Selector.
        raise_healing_failed: raise HealingFailed *from* the agent's error, not the error itself.
        explore: share of decisions that try another reversible action; 0 for none.
        sample: draw from the policy's probabilities instead of taking the largest.
        explain: record reasons with each decision; by default when there is a journal.
        pass_through: exception types that are control flow, not failures: never touched.

    Raises:
        ConfigError: an option is wrong, or names something unknown.
        JournalError: the journal cannot be opened.

    Example:
        >>> healer = Healer()
        >>> @healer.tool(effects="read")
        ... def price(item: str) -> float:
        ...     return 2.5
        >>> price("tea")
        2.5
    """

    def __init__(
        self,
        policy: "str | os.PathLike[str] | Selector | None" = None,
        permission: int = 1,
        journal: "str | Path | JournalProtocol | None" = None,
        budget: Budget | None = None,
        clock: Clock | None = None,
        seed: int = 0,
        prices: Prices | None = None,
        rules: "str | os.PathLike[str] | Selector" = HAND_LADDER,
        *,
        raise_healing_failed: bool = False,
        explore: float = 0.0,
        sample: bool = False,
        explain: bool | None = None,
        pass_through: tuple[type[Exception], ...] = (),
    ) -> None:
        if permission not in (1, 2, 3):
            raise ConfigError(f"permission is {permission!r}; expected 1, 2 or 3")
        self.permission = permission
        self.budget, self.prices = budget or Budget(), prices or Prices()
        self.clock: Clock = clock or SystemClock()
        self.seed, self.raise_healing_failed = seed, raise_healing_failed
        self.pass_through = pass_through
        self._faults: dict[str, str] = {}
        self._incidents = 0
        self._specs: dict[tuple[Any, int], tuple[ToolSpec, Callable[..., Any]]] = {}
        self._owns_journal = isinstance(journal, str | os.PathLike)
        self.journal: JournalProtocol = (
            NullJournal()
            if journal is None
            else Journal.open(journal, clock=self.clock)
            if isinstance(journal, str | Path)
            else journal
        )
        fallback = rules if isinstance(rules, Selector) else LadderSelector.load(rules)
        self.decider = Decider(
            self._selector(policy, fallback),
            fallback,
            seed=seed,
            exploration=Exploration(explore) if explore else None,
            sample=sample,
            explain=not isinstance(self.journal, NullJournal) if explain is None else explain,
            on_fault=self.note_fault,
        )

    def _selector(
        self, policy: "str | os.PathLike[str] | Selector | None", rules: Selector
    ) -> Selector:
        if policy is None:
            return rules
        if not isinstance(policy, str | os.PathLike):
            return policy
        from selfheal_rl.runtime.decide.load import load_selector

        try:
            return load_selector(policy, rules)
        except ArtifactError as error:
            # A damaged policy must not stop the agent: the rules act, and health() says so.
            self.note_fault("policy", error)
            return rules

    @overload
    def tool(self, function: F, **options: Unpack[ToolOptions]) -> F: ...

    @overload
    def tool(self, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...

    def tool(self, function: Any = None, **options: Any) -> Any:
        """Decorate a sync or async function as a tool.

        Args:
            function: the tool; left out in the usual form ``@healer.tool(effects="read")``.
            options: fields of :class:`ToolSpec`; ``effects`` is required.

        Raises:
            ConfigError: effects are not declared, or an option is wrong.
        """

        def decorate(target: F) -> F:
            wrapped: F = wrap(self, make_tool(target, options, self.clock))
            return wrapped

        return decorate if function is None else decorate(function)

    def call(
        self,
        function: Callable[..., Any],
        *args: Any,
        tool: ToolSpec,
        task: Task | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call ``function`` once as the tool described by ``tool``; await it when it is async.

        Args:
            function: sync or async.
            args: of the call.
            tool: what is declared about it.
            task: whose call it is; the current one when None.
            kwargs: of the call.
        """
        key = (function, id(tool))
        if key not in self._specs:
            if len(self._specs) >= _CALL_CACHE:
                self._specs.pop(next(iter(self._specs)))
            options = {name: getattr(tool, name) for name in ToolSpec.__dataclass_fields__}
            made = make_tool(function, options, self.clock)
            self._specs[key] = tool, wrap(self, made)
        wrapped = self._specs[key][1]
        if task is None:
            return wrapped(*args, **kwargs)
        if inspect.iscoroutinefunction(function):
            return _in_task(task, wrapped, args, kwargs)
        token = CURRENT.set(task)
        try:
            return wrapped(*args, **kwargs)
        finally:
            CURRENT.reset(token)

    def attempts(self, **options: Any) -> Attempts:
        """Heal a block: ``for attempt in healer.attempts(effects="read"): with attempt: ...``.

        The block is run again while repairs allow; its last error is raised. ``async for`` with
        ``with`` inside works alike.

        Args:
            options: ``effects`` (required), ``name``, ``reset`` of :class:`ToolSpec`.
        """
        return Attempts(self, options)

    def task(
        self,
        id: str,
        *,
        goal: str = "",
        tenant: str = "default",
        task_type: str = "",
        deadline_s: float | None = None,
        n_steps: int | None = None,
    ) -> Task:
        """The task that calls inside ``with healer.task(...)`` belong to.

        Args:
            id: unique within the tenant.
            goal: in words.
            tenant: whose it is.
            task_type: of what kind.
            deadline_s: seconds it may take; waits beyond it are never begun.
            n_steps: how many steps it has, when known.

        Raises:
            ConfigError: an argument is wrong.
        """
        return Task(
            self,
            id,
            goal=goal,
            tenant=tenant,
            task_type=task_type,
            deadline_s=deadline_s,
            n_steps=n_steps,
        )

    def last_incident(self) -> Incident | None:
        """The incident that closed last in this thread or async task."""
        last = _LAST.get()
        return last[0] if last is not None else None

    def result_info(self, result: Any) -> ResultInfo | None:
        """What was done to ``result``; None unless it is the latest healed result here."""
        last = _LAST.get()
        info = last[1] if last is not None else None
        return info if info is not None and info.value is result else None

    def health(self) -> dict[str, Any]:
        """``{"status": "ok" | "degraded", "reasons": [...], "incidents": n, "selector": name}``."""
        reasons = [f"{component}: {text}" for component, text in sorted(self._faults.items())]
        return {
            "status": "degraded" if reasons else "ok",
            "reasons": reasons,
            "incidents": self._incidents,
            "selector": self.decider.selector.name,
            "permission": self.permission,
        }

    def close(self) -> None:
        """Let go of the journal, if this healer opened it."""
        if self._owns_journal:
            self.journal.close()

    # What follows is for the healer's own parts.

    def note_fault(self, component: str, error: BaseException | str) -> None:
        """Remember a fault of the healer's own, for :meth:`health`, and log it once."""
        text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        if self._faults.get(component) != text:
            self._faults[component] = text
            LOG.warning("healer is degraded: %s: %s", component, text)

    def journal_write(self, write: JournalWrite) -> Steps[None]:
        """Write to the journal; a fault of it is noted and healing goes on."""
        journal = self.journal
        if isinstance(journal, NullJournal):
            return
        reply = yield Write(lambda: write(journal))
        self._journal_answer(reply.error)

    def _journal_answer(self, error: Exception | None) -> None:
        if error is not None:
            self.note_fault("journal", error)
        else:
            self._faults.pop("journal", None)

    def write(self, write: JournalWrite) -> None:
        """Write to the journal from sync code."""
        if isinstance(self.journal, NullJournal):
            return
        try:
            write(self.journal)
        except Exception as error:
            self._journal_answer(error)

    async def awrite(self, write: JournalWrite) -> None:
        """Write to the journal without blocking the event loop."""
        if isinstance(self.journal, NullJournal):
            return
        try:
            await asyncio.to_thread(write, self.journal)
        except Exception as error:
            self._journal_answer(error)

    def closed(self, incident: Incident, info: ResultInfo | None) -> None:
        """An incident ended, or was handed back."""
        self._incidents += 1
        _LAST.set((incident, info))

    def substituted(self, info: ResultInfo) -> None:
        """A call went straight to a fallback that had helped before."""
        last = _LAST.get()
        if last is not None:
            _LAST.set((last[0], info))

    def call_of(
        self,
        tool: Tool,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        trouble: Trouble,
        record: ToolRecord,
        task: Task | None,
    ) -> Call:
        """The call to heal: in the tool's open incident, or in a new one."""
        incident = record.incident
        if task is None or incident is None or incident.busy:
            incident = self._open(tool.spec.name, record, task)
        incident.busy = True
        return Call(
            tool=tool,
            args=args,
            kwargs=dict(kwargs),
            record=record,
            task=task,
            first=trouble,
            latest=trouble,
            clock=self.clock,
            seed=self.seed,
            incident=incident,
        )

    def _open(self, name: str, record: ToolRecord, task: Task | None) -> OpenIncident:
        owner = task.id if task is not None else "orphan"
        key = (owner, name, record.opened)
        # The spent attempts of incidents that ended without success count against the next one.
        inherited = record.spent if task is not None and not record.ok else 0
        incident = OpenIncident(f"{secrets.token_hex(8)}", key, inherited)
        record.opened += 1
        if task is not None:
            incident.task_failures = task.incidents
            task.incidents += 1
        return incident


async def _in_task(
    task: Task, wrapped: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    token = CURRENT.set(task)
    try:
        return await wrapped(*args, **kwargs)
    finally:
        CURRENT.reset(token)
