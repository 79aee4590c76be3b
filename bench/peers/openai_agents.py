"""OpenAI Agents SDK: `SQLiteSession` on one database file, as its documentation shows it.

It sets WAL and leaves `synchronous` as SQLite has it (FULL), so every `add_items` waits for the disk.
"""

import asyncio
import json
import os
import sqlite3
from importlib.metadata import version

import common
from agents import SQLiteSession


def items(sources):
    made = []
    for source in sources:
        kind = source["type"]
        if kind == "user":
            made.append({"role": "user", "content": common.text_of(source["content"])})
        elif kind == "assistant":
            text = {"type": "output_text", "text": common.text_of(source["content"]), "annotations": []}
            made.append({"type": "message", "role": "assistant", "status": "completed", "content": [text]})
        elif kind == "tool_use":
            arguments = json.dumps(source["input"], ensure_ascii=False)
            call = {"type": "function_call", "call_id": source["tool_use_id"], "name": source["name"]}
            made.append({**call, "arguments": arguments})
        elif kind == "tool_result":
            output = common.as_text(source["output"])
            made.append({"type": "function_call_output", "call_id": source["tool_use_id"], "output": output})
    return made


class OpenAi:
    def __init__(self, options):
        self.work = options.work
        self.turns = [items(turn) for turn in common.read_turns(options.turns)]
        self.loop = asyncio.new_event_loop()
        self.sessions = {}

    def hello(self):
        return {"version": version("openai-agents"), "sync": "each turn (SQLite WAL, synchronous=FULL)"}

    def database(self, folder):
        return os.path.join(self.work, f"{folder}.db")

    def fill(self, folder, sessions, others=0, history=None):
        opened = [SQLiteSession(f"bench{number}", self.database(folder)) for number in range(sessions)]
        self.sessions[folder] = opened
        if others:
            connection = sqlite3.connect(self.database(folder))
            names = [(f"other{number}",) for number in range(others)]
            connection.executemany("INSERT INTO agent_sessions (session_id) VALUES (?)", names)
            connection.commit()
            connection.close()
        if history:
            self.loop.run_until_complete(opened[0].add_items(items(common.read_records(history))))
        self.loop.run_until_complete(opened[0].get_items(limit=1))
        return {}

    def append(self, folder, turn):
        session, items = self.sessions[folder][0], self.turns[turn % len(self.turns)]
        return common.timed(lambda: self.loop.run_until_complete(session.add_items(items)))

    def many(self, folder, sessions, turns, threads):
        opened = self.sessions[folder]

        async def one(number):
            for turn in range(number, turns, sessions):
                await opened[number].add_items(self.turns[turn % len(self.turns)])

        async def work():
            await asyncio.gather(*(one(number) for number in range(sessions)))

        return common.timed(lambda: self.loop.run_until_complete(work()))

    def take_session(self, file):
        self.fill("long", 1)
        self.loop.run_until_complete(self.sessions["long"][0].add_items(items(common.read_records(file))))
        return {}

    def whole(self):
        session = SQLiteSession("bench0", self.database("long"))
        return common.measured(lambda: len(self.loop.run_until_complete(session.get_items())))

    def resume(self, records):
        session = SQLiteSession("bench0", self.database("long"))
        return common.measured(lambda: len(self.loop.run_until_complete(session.get_items(limit=records))))

    def take_store(self, store):
        """Its own tables, filled in bulk: 100,000 commits would take longer than everything else."""
        SQLiteSession("bench0", self.database("store")).close()
        connection = sqlite3.connect(self.database("store"))
        for row, sources in common.read_plan(store):
            times = (row["id"], row["created"], row["updated"])
            connection.execute("INSERT INTO agent_sessions (session_id, created_at, updated_at) VALUES (?, ?, ?)", times)
            rows = [(row["id"], json.dumps(item)) for item in items(sources)]
            connection.executemany("INSERT INTO agent_messages (session_id, message_data) VALUES (?, ?)", rows)
        connection.commit()
        connection.close()
        return {}

    def list(self, limit):
        """It has no listing: its table, asked directly."""

        def work():
            connection = sqlite3.connect(self.database("store"))
            query = "SELECT session_id, updated_at FROM agent_sessions ORDER BY updated_at DESC LIMIT ?"
            found = len(connection.execute(query, (limit,)).fetchall())
            connection.close()
            return found

        return common.timed(work)

    def open(self, id, key):
        def work():
            session = SQLiteSession(id, self.database("store"))
            return len(self.loop.run_until_complete(session.get_items()))

        return common.timed(work)


options = common.arguments()
if options.start:
    path = os.path.join(options.work, "store.db")
    connection = sqlite3.connect(path)
    newest = connection.execute("SELECT session_id FROM agent_sessions ORDER BY updated_at DESC LIMIT 1").fetchone()[0]
    asyncio.run(SQLiteSession(newest, path).get_items())
    print("> ", end="", flush=True)
    os._exit(0)
else:
    common.serve(OpenAi(options))
