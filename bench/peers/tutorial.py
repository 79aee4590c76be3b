"""The session store of the claw0 tutorials (first version), written anew from a description of what it does.

One JSON-lines file a session, every record appended by opening the file, and an index `sessions.json` of all sessions that is
written whole, in place, at the end of every turn. Nothing is synced. `--fsync` is the same design with the transcript and the index
synced once a turn, which is what it would take to promise what the others promise.
"""

import json
import os
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

import common

FSYNC = "--fsync" in sys.argv
if FSYNC:
    sys.argv.remove("--fsync")


def now():
    return datetime.now(timezone.utc).isoformat()


class Store:
    def __init__(self, folder):
        self.folder = folder
        self.transcripts = os.path.join(folder, "transcripts")
        self.index_file = os.path.join(folder, "sessions.json")
        os.makedirs(self.transcripts, exist_ok=True)
        self.index = {}
        if os.path.exists(self.index_file):
            with open(self.index_file, encoding="utf-8") as file:
                self.index = json.load(file)

    def save_index(self):
        with open(self.index_file, "w", encoding="utf-8") as file:
            json.dump(self.index, file, indent=2, ensure_ascii=False)
            if FSYNC:
                file.flush()
                os.fsync(file.fileno())

    def enter(self, key, updated=None):
        session_id = uuid.uuid4().hex[:12]
        name = f"{key.replace(':', '_')}_{session_id}.jsonl"
        stamp = updated or now()
        self.index[key] = {
            "session_key": key,
            "session_id": session_id,
            "created_at": stamp,
            "updated_at": stamp,
            "message_count": 0,
            "transcript_file": name,
        }
        return name

    def append(self, name, record):
        with open(os.path.join(self.transcripts, name), "a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")

    def save_turn(self, key, records):
        row = self.index[key]
        for record in records:
            self.append(row["transcript_file"], {**record, "ts": now()})
        if FSYNC:
            with open(os.path.join(self.transcripts, row["transcript_file"]), "a", encoding="utf-8") as file:
                os.fsync(file.fileno())
        row["updated_at"] = now()
        row["message_count"] += 1
        self.save_index()

    def load(self, key):
        path = os.path.join(self.transcripts, self.index[key]["transcript_file"])
        with open(path, encoding="utf-8", newline="\n") as file:
            return rebuild(json.loads(line) for line in file.read().split("\n") if line)

    def newest(self):
        return sorted(self.index.values(), key=lambda row: row["updated_at"], reverse=True)


def rebuild(records):
    messages = []
    for record in records:
        kind = record["type"]
        if kind == "user":
            messages.append({"role": "user", "content": record["content"]})
        elif kind == "assistant":
            messages.append({"role": "assistant", "content": [{"type": "text", "text": record["content"]}]})
        elif kind == "tool_use":
            block = {"type": "tool_use", "id": record["tool_use_id"], "name": record["name"], "input": record["input"]}
            if messages and messages[-1]["role"] == "assistant":
                messages[-1]["content"].append(block)
            else:
                messages.append({"role": "assistant", "content": [block]})
        elif kind == "tool_result":
            block = {"type": "tool_result", "tool_use_id": record["tool_use_id"], "content": record["output"]}
            messages.append({"role": "user", "content": [block]})
    return messages


def record(source):
    """A native record as the tutorial would write it; `turn` and `title` do not exist there."""
    kind = source["type"]
    if kind in ("user", "assistant"):
        return {"type": kind, "content": common.text_of(source["content"])}
    if kind == "tool_use":
        return {"type": kind, **{name: source[name] for name in ("name", "tool_use_id", "input")}}
    if kind == "tool_result":
        return {"type": kind, "tool_use_id": source["tool_use_id"], "output": common.as_text(source["output"])}
    return None


def records(sources):
    return [made for made in map(record, sources) if made]


class Tutorial:
    def __init__(self, options):
        self.work = options.work
        self.turns = [records(turn) for turn in common.read_turns(options.turns)]
        self.stores = {}

    def hello(self):
        return {"version": "own", "sync": "transcript and index, each turn" if FSYNC else "never"}

    def fill(self, folder, sessions, others=0, history=None):
        """A fresh store whose index knows `others` sessions more, and the history of the first session."""
        store = Store(os.path.join(self.work, folder))
        for number in range(others):
            store.enter(f"main:bench:other{number}")
        for number in range(sessions):
            store.enter(f"main:bench:{number}")
        store.save_index()
        if history:
            name = store.index["main:bench:0"]["transcript_file"]
            for made in records(common.read_records(history)):
                store.append(name, made)
        self.stores[folder] = store
        return {}

    def append(self, folder, turn):
        store, records = self.stores[folder], self.turns[turn % len(self.turns)]
        return common.timed(lambda: store.save_turn("main:bench:0", records))

    def many(self, folder, sessions, turns, threads):
        store, lock = self.stores[folder], threading.Lock()

        def one(number):
            with lock:  # the index is one dictionary and one file
                store.save_turn(f"main:bench:{number % sessions}", self.turns[number % len(self.turns)])

        def work():
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(one, range(turns)))

        return common.timed(work)

    def take_session(self, file):
        store = Store(os.path.join(self.work, "long"))
        name = store.enter("main:bench:0")
        with open(os.path.join(store.transcripts, name), "w", encoding="utf-8") as out:
            for made in records(common.read_records(file)):
                out.write(json.dumps(made, ensure_ascii=False) + "\n")
        store.save_index()
        return {}

    def whole(self):
        store = Store(os.path.join(self.work, "long"))
        return common.measured(lambda: len(store.load("main:bench:0")))

    def resume(self, records):
        store = Store(os.path.join(self.work, "long"))
        return common.measured(lambda: len(store.load("main:bench:0")[-records:]))

    def take_store(self, store):
        own = Store(os.path.join(self.work, "store"))
        for row, sources in common.read_plan(store):
            name = own.enter(row["id"], row["updated"])
            with open(os.path.join(own.transcripts, name), "w", encoding="utf-8") as out:
                for made in records(sources):
                    out.write(json.dumps(made, ensure_ascii=False) + "\n")
        own.save_index()
        return {}

    def list(self, limit):
        return common.timed(lambda: len(Store(os.path.join(self.work, "store")).newest()[:limit]))

    def open(self, id, key):
        return common.timed(lambda: len(Store(os.path.join(self.work, "store")).load(id)))


options = common.arguments()
if options.start:
    store = Store(os.path.join(options.work, "store"))
    store.load(store.newest()[0]["session_key"])
    print("> ", end="", flush=True)
else:
    common.serve(Tutorial(options))
