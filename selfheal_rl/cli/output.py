"""Tables for people, JSON for programs: the same rows either way."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

Row = Mapping[str, Any]


def emit(
    rows: Sequence[Row],
    *,
    as_json: bool,
    title: str = "",
    columns: Sequence[str] | None = None,
    console: Console | None = None,
) -> None:
    """Print rows as a table, or as one JSON list on standard output.

    Args:
        rows: one mapping a row; all have the same keys.
        as_json: JSON instead of a table.
        title: heading of the table.
        columns: keys shown in the table, in order; all when None. JSON always has all.
        console: where the table goes; standard output when None.
    """
    if as_json:
        print_json(list(rows))
        return
    shown = list(columns or (rows[0] if rows else ()))
    table = Table(title=title or None, title_justify="left", header_style="bold")
    for name in shown:
        numeric = bool(rows) and all(_is_number(row.get(name)) for row in rows)
        table.add_column(name.replace("_", " "), justify="right" if numeric else "left")
    for row in rows:
        # Text, not str: a square bracket in data must not be read as markup.
        table.add_row(*(Text(_cell(row.get(name))) for name in shown))
    (console or Console()).print(table)


def print_json(value: Any) -> None:
    """Print one JSON value; never NaN, which is no JSON."""
    json.dump(value, sys.stdout, indent=1, allow_nan=False)
    sys.stdout.write("\n")


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(_cell(v) for v in value)
    return str(value)
