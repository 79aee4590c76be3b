"""LangGraph: `SqliteSaver`, the checkpoints of a thread of messages.

It sets WAL and leaves `synchronous` as SQLite has it (FULL). A checkpoint holds all messages of the thread. A graph makes several
of them in a turn and reads one back; here it is one, written by `put`, because the store is measured and not the graph.
"""

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import common
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver


def messages(sources):
    made = []
    for source in sources:
        kind = source["type"]
        if kind == "user":
            made.append(HumanMessage(common.text_of(source["content"])))
        elif kind == "assistant":
            made.append(AIMessage(common.text_of(source["content"])))
        elif kind == "tool_use":
            call = {"name": source["name"], "args": source["input"], "id": source["tool_use_id"], "type": "tool_call"}
            if made and isinstance(made[-1], AIMessage) and not made[-1].tool_calls:
                made[-1] = AIMessage(made[-1].content, tool_calls=[call])
            else:
                made.append(AIMessage("", tool_calls=[call]))
        elif kind == "tool_result":
            made.append(ToolMessage(common.as_text(source["output"]), tool_call_id=source["tool_use_id"]))
    return made


def thread(name):
    return {"configurable": {"thread_id": name, "checkpoint_ns": ""}}


class Chat:
    """One database, and the messages of the threads that are open, as a graph that runs has them in memory."""

    def __init__(self, path):
        self.connection = sqlite3.connect(path, check_same_thread=False)
        self.saver = SqliteSaver(self.connection)
        self.saver.setup()
        self.open = {}

    def add(self, name, made):
        """One checkpoint of the whole thread, which is the least that a graph saves for a turn."""
        config, held, step = self.open.get(name, (thread(name), [], 0))
        held = held + made
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": held}
        checkpoint["channel_versions"] = {"messages": step + 1}
        metadata = {"source": "loop", "step": step, "parents": {}}
        config = self.saver.put(config, checkpoint, metadata, {"messages": step + 1})
        self.open[name] = (config, held, step + 1)

    def messages(self, name):
        return self.saver.get_tuple(thread(name)).checkpoint["channel_values"]["messages"]


class LangGraph:
    def __init__(self, options):
        self.work = options.work
        self.turns = [messages(turn) for turn in common.read_turns(options.turns)]
        self.chats = {}

    def hello(self):
        found = f"{version('langgraph')}, checkpoint-sqlite {version('langgraph-checkpoint-sqlite')}"
        return {"version": found, "sync": "each turn (SQLite WAL, synchronous=FULL)"}

    def path(self, folder):
        return os.path.join(self.work, f"{folder}.db")

    def fill(self, folder, sessions, others=0, history=None):
        chat = self.chats[folder] = Chat(self.path(folder))
        if others:
            chat.add("other", self.turns[0])
            count = "WITH RECURSIVE other(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM other WHERE n < ?)"
            rest = "checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"
            copy = f"{count} INSERT INTO checkpoints SELECT 'other' || n, {rest} FROM checkpoints, other"
            chat.connection.execute(copy, (others,))
            chat.connection.commit()
        if history:
            chat.add("bench0", messages(common.read_records(history)))
        return {}

    def append(self, folder, turn):
        chat, made = self.chats[folder], self.turns[turn % len(self.turns)]
        return common.timed(lambda: chat.add("bench0", made))

    def many(self, folder, sessions, turns, threads):
        chat = self.chats[folder]

        def one(number):
            for turn in range(number, turns, sessions):
                chat.add(f"bench{number}", self.turns[turn % len(self.turns)])

        def work():
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(one, range(sessions)))

        return common.timed(work)

    def take_session(self, file):
        Chat(self.path("long")).add("bench0", messages(common.read_records(file)))
        return {}

    def whole(self):
        chat = Chat(self.path("long"))
        return common.measured(lambda: len(chat.messages("bench0")))

    def resume(self, records):
        chat = Chat(self.path("long"))
        return common.measured(lambda: len(chat.messages("bench0")[-records:]))

    def take_store(self, store):
        chat = Chat(self.path("store"))
        chat.connection.execute("PRAGMA synchronous=OFF")
        for row, sources in common.read_plan(store):
            chat.add(row["id"], messages(sources))
            chat.open.clear()
        chat.connection.close()
        return {}

    def list(self, limit):
        """It lists checkpoints, newest first; the first `limit` threads among them."""

        def work():
            chat, found = Chat(self.path("store")), set()
            for checkpoint in chat.saver.list(None):
                found.add(checkpoint.config["configurable"]["thread_id"])
                if len(found) == limit:
                    break
            return len(found)

        return common.timed(work)

    def open(self, id, key):
        return common.timed(lambda: len(Chat(self.path("store")).messages(id)))


options = common.arguments()
if options.start:
    chat = Chat(os.path.join(options.work, "store.db"))
    newest = next(iter(chat.saver.list(None, limit=1)))
    chat.messages(newest.config["configurable"]["thread_id"])
    print("> ", end="", flush=True)
    os._exit(0)
else:
    common.serve(LangGraph(options))
