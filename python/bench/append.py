"""How long it takes until an item is safe: this package's session for the OpenAI Agents SDK, and the SDK's own.

All three are asked to keep the same items, one after the other, in turns, in one run; what is compared is the median of the rounds.
`PRAGMA synchronous=FULL` is what makes SQLite's promise the same as ours: an item that was acknowledged survives a power cut. With the SDK's default (WAL, and
`synchronous` as SQLite was built) it may be that as well, or not; what it is, is printed.

    python bench/append.py [--items 200] [--rounds 7] [--bytes 1000] [--at-once 1] [--folder DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agents import SQLiteSession

from unforget import OpenAIAgentsSession


class FullSQLiteSession(SQLiteSession):
    """The SDK's session, waiting for the disk."""

    @staticmethod
    def _configure_connection(connection: sqlite3.Connection) -> None:
        SQLiteSession._configure_connection(connection)
        connection.execute("PRAGMA synchronous=FULL")


async def spend(make: Callable[[str], Any], items: list[Any], at_once: int) -> float:
    """Microseconds for an item, with so many sessions at once."""
    sessions = [make(str(number)) for number in range(at_once)]
    for session in sessions:
        await session.add_items(items[:1])

    async def talk(session: Any) -> None:
        for item in items:
            await session.add_items([item])

    start = time.perf_counter()
    await asyncio.gather(*map(talk, sessions))
    spent = time.perf_counter() - start
    for session in sessions:
        assert len(await session.get_items()) == len(items) + 1
        session.close()
    return spent / (len(items) * at_once) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--items", type=int, default=200, help="items in a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--bytes", type=int, default=1000, help="length of an item")
    parser.add_argument("--at-once", type=int, default=1, help="sessions that are written at the same time")
    parser.add_argument("--folder", type=Path, help="where to write [default: a folder for temporary files]")
    given = parser.parse_args()
    items = [{"role": "user", "content": f"{number} " + "x" * given.bytes} for number in range(given.items)]
    folder = Path(tempfile.mkdtemp(prefix="unforget-bench-", dir=given.folder))
    # Stays open, so that the start of the process is not measured.
    kept = OpenAIAgentsSession("kept", home=folder / "home")
    spent: dict[str, list[float]] = {"unforget": [], "SQLite, FULL": [], "SQLite, default": []}
    try:
        for number in range(given.rounds):
            here = folder / str(number)
            here.mkdir()
            ways: dict[str, Callable[[str], Any]] = {
                "unforget": lambda name: OpenAIAgentsSession(f"{number}-{name}", home=folder / "home"),  # noqa: B023
                "SQLite, FULL": lambda name: FullSQLiteSession(name, here / "full.db"),  # noqa: B023
                "SQLite, default": lambda name: SQLiteSession(name, here / "default.db"),  # noqa: B023
            }
            for name, make in ways.items():
                spent[name].append(asyncio.run(spend(make, items, given.at_once)))
        usual = sqlite3.connect(folder / "0" / "default.db").execute("PRAGMA synchronous").fetchone()[0]
    finally:
        kept.close()
        shutil.rmtree(folder, ignore_errors=True)
    ours = statistics.median(spent["unforget"])
    print(f"{given.items} items of {given.bytes} bytes, {given.at_once} at once, median of {given.rounds} rounds; "
          f"SQLite's default is synchronous={usual}")  # fmt: skip
    print(f"{'':16} {'µs/item':>10} {'fastest':>10} {'slowest':>10} {'ratio':>7}")
    for name, rounds in spent.items():
        median = statistics.median(rounds)
        print(f"{name:16} {median:10.0f} {min(rounds):10.0f} {max(rounds):10.0f} {median / ours:7.2f}")


if __name__ == "__main__":
    sys.exit(main())
