"""The ``selfheal`` command: a registry of commands, each imported only when it is called."""

import errno
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import typer

from selfheal_rl.core.values.errors import SelfHealError

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class CommandInfo:
    """One command of the registry.

    Attributes:
        name: as typed, e.g. ``tune-ladder``.
        summary: one line for ``selfheal --help``.
        panel: heading it stands under.
    """

    name: str
    summary: str
    panel: str

    @property
    def module(self) -> str:
        """Where the command's function lives."""
        return f"selfheal_rl.cli.{self.function}"

    @property
    def function(self) -> str:
        """Name of the command's function, and of its module."""
        return self.name.replace("-", "_")


_START, _LEARN, _RUN, _LOOK = "Start here", "Train and judge", "Heal", "Look around"
COMMANDS: tuple[CommandInfo, ...] = (
    CommandInfo("quickstart", "Train, judge, export and watch a policy heal: 3 minutes.", _START),
    CommandInfo("init", "Make a workspace with worlds, recipes and policies to edit.", _START),
    CommandInfo("train", "Train a repair policy on simulated failures.", _LEARN),
    CommandInfo("tune-ladder", "Tune a table of rules, the yardstick a policy must beat.", _LEARN),
    CommandInfo("evaluate", "Judge a policy against rules, libraries and a clairvoyant.", _LEARN),
    CommandInfo("export", "Write a trained policy as a small, verified artifact.", _LEARN),
    CommandInfo("lab", "Run an agent on real components that really fail.", _RUN),
    CommandInfo("incidents", "Show what the healer did, and why.", _RUN),
    CommandInfo("worlds", "List the worlds policies are trained in, or show one.", _LOOK),
    CommandInfo("policies", "List the policies, or verify and show one.", _LOOK),
)
_EXTRA_OF = {
    "train": {
        "gymnasium",
        "jinja2",
        "matplotlib",
        "onnx",
        "onnxscript",
        "sb3_contrib",
        "stable_baselines3",
        "tensorboard",
        "torch",
    },
    "lab": {"httpx", "langchain", "langgraph", "stamina", "tenacity"},
}


def build_app(selected: str | None = None) -> typer.Typer:
    """The typer application.

    Args:
        selected: the only command whose module is imported; the others are listed by their
            summaries. None imports none.
    """
    app = typer.Typer(
        name="selfheal",
        help="Learned repair for LLM agents: train a repair policy, prove it, heal with it.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
    app.callback()(_root)
    for info in COMMANDS:
        function = _load(info) if info.name == selected else _placeholder
        app.command(info.name, short_help=info.summary, rich_help_panel=info.panel)(function)
    return app


def run(argv: Sequence[str]) -> int:
    """Run the command line and return its exit code; never raises for a user's mistake.

    Args:
        argv: arguments without the program's name.
    """
    arguments = list(argv)
    name = next((a for a in arguments if not a.startswith("-")), None)
    try:
        build_app(name)(args=arguments, prog_name="selfheal")
    except SystemExit as stop:
        return _exit_code(stop.code)
    except KeyboardInterrupt:
        return _exit_code(EXIT_INTERRUPTED)
    except SelfHealError as error:
        return _complain(str(error))
    except ModuleNotFoundError as error:
        return _missing_module(error)
    except OSError as error:
        return _os_error(error)
    return 0


def main() -> None:
    """Entry point of the ``selfheal`` command."""
    sys.exit(run(sys.argv[1:]))


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The known name most like ``name``, if any is like it."""
    return next(iter(get_close_matches(name, known, n=1, cutoff=0.5)), None)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"selfheal-rl {version('selfheal-rl')}")
        raise typer.Exit


def _root(
    version: bool = typer.Option(
        False, "--version", is_eager=True, callback=_show_version, help="Show the version."
    ),
) -> None:
    """Options of the bare command."""


def _placeholder() -> None:
    """Stands for a command that was not asked for."""


def _load(info: CommandInfo) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(importlib.import_module(info.module), info.function)
    return function


def _exit_code(code: object) -> int:
    if code == EXIT_INTERRUPTED:
        print("selfheal: interrupted", file=sys.stderr)
    if code is None or isinstance(code, int):
        return code or 0
    return _complain(str(code))


def _complain(message: str) -> int:
    print(f"selfheal: error: {message}", file=sys.stderr)
    return EXIT_ERROR


def _missing_module(error: ModuleNotFoundError) -> int:
    package = (error.name or "").partition(".")[0]
    for extra, packages in _EXTRA_OF.items():
        if package in packages:
            return _complain(
                f"this command needs {package!r}, which is not installed; "
                f"run: pip install 'selfheal-rl[{extra}]'"
            )
    raise error


def _os_error(error: OSError) -> int:
    advice = {
        errno.ENOSPC: "free some space, then run the same command again",
        errno.EDQUOT: "free some space, then run the same command again",
        errno.EACCES: "check the permissions, or name another place",
        errno.EROFS: "the file system is read-only; name another place",
        errno.ENOENT: "check the path",
    }.get(error.errno or 0, "check the path and the disk")
    where = f"{error.filename}: " if error.filename else ""
    return _complain(f"{where}{error.strerror or error}; {advice}")
