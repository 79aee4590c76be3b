"""Strands: `FileSessionManager`, a directory a session and a file a message; nothing is synced.

Messages are stored through its repository interface (`create_message`), as its hooks do for every message of an agent.
"""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import common
from strands.session.file_session_manager import FileSessionManager
from strands.types.session import SessionAgent, SessionMessage

AGENT = "default"


def messages(sources):
    made = []
    for source in sources:
        kind = source["type"]
        if kind == "user":
            made.append({"role": "user", "content": [{"text": common.text_of(source["content"])}]})
        elif kind == "assistant":
            made.append({"role": "assistant", "content": [{"text": common.text_of(source["content"])}]})
        elif kind == "tool_use":
            block = {"toolUse": {"toolUseId": source["tool_use_id"], "name": source["name"], "input": source["input"]}}
            if made and made[-1]["role"] == "assistant":
                made[-1]["content"].append(block)
            else:
                made.append({"role": "assistant", "content": [block]})
        elif kind == "tool_result":
            content = [{"text": common.as_text(source["output"])}]
            result = {"toolUseId": source["tool_use_id"], "status": "success", "content": content}
            made.append({"role": "user", "content": [{"toolResult": result}]})
    return made


class Conversation:
    def __init__(self, folder, name):
        self.name = name
        self.manager = FileSessionManager(session_id=name, storage_dir=folder)
        if self.manager.read_agent(name, AGENT) is None:
            self.manager.create_agent(name, SessionAgent(agent_id=AGENT, state={}, conversation_manager_state={}))
        self.next = 0

    def add(self, made):
        for message in made:
            self.manager.create_message(self.name, AGENT, SessionMessage.from_message(message, self.next))
            self.next += 1

    def messages(self, offset=0):
        return [message.to_message() for message in self.manager.list_messages(self.name, AGENT, offset=offset)]


class Strands:
    def __init__(self, options):
        self.work = options.work
        self.turns = [messages(turn) for turn in common.read_turns(options.turns)]
        self.conversations = {}

    def hello(self):
        return {"version": version("strands-agents"), "sync": "never"}

    def fill(self, folder, sessions, others=0, history=None):
        path = os.path.join(self.work, folder)
        # Their directories are all that could matter; whole ones would be sixty thousand files.
        for number in range(others):
            os.makedirs(os.path.join(path, f"session_other{number}"))
        self.conversations[folder] = [Conversation(path, f"bench{number}") for number in range(sessions)]
        if history:
            self.conversations[folder][0].add(messages(common.read_records(history)))
        return {}

    def append(self, folder, turn):
        conversation, made = self.conversations[folder][0], self.turns[turn % len(self.turns)]
        return common.timed(lambda: conversation.add(made))

    def many(self, folder, sessions, turns, threads):
        opened = self.conversations[folder]

        def one(number):
            for turn in range(number, turns, sessions):
                opened[number].add(self.turns[turn % len(self.turns)])

        def work():
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(one, range(sessions)))

        return common.timed(work)

    def take_session(self, file):
        Conversation(os.path.join(self.work, "long"), "bench0").add(messages(common.read_records(file)))
        return {}

    def whole(self):
        conversation = Conversation(os.path.join(self.work, "long"), "bench0")
        return common.measured(lambda: len(conversation.messages()))

    def resume(self, records):
        """It reads from an offset, which an agent's conversation manager remembers; four messages are six records."""
        conversation = Conversation(os.path.join(self.work, "long"), "bench0")
        folder = os.path.join(self.work, "long", "session_bench0", "agents", f"agent_{AGENT}", "messages")
        offset = max(0, len(os.listdir(folder)) - records * 4 // 6)
        return common.measured(lambda: len(conversation.messages(offset)))

    def take_store(self, store):
        folder = os.path.join(self.work, "store")
        for row, sources in common.read_plan(store):
            conversation = Conversation(folder, row["id"])
            conversation.add(messages(sources))
            conversation.manager.session.updated_at = row["updated"]
            path = os.path.join(folder, f"session_{row['id']}", "session.json")
            with open(path, "w", encoding="utf-8") as out:
                json.dump(conversation.manager.session.to_dict(), out, indent=2)
        return {}

    def list(self, limit):
        """It has no listing: every `session.json` in its folder, the newest first."""
        return common.timed(lambda: len(newest(os.path.join(self.work, "store"))[:limit]))

    def open(self, id, key):
        return common.timed(lambda: len(Conversation(os.path.join(self.work, "store"), id).messages()))


def newest(folder):
    rows = []
    for entry in os.scandir(folder):
        with open(os.path.join(entry.path, "session.json"), encoding="utf-8") as file:
            rows.append(json.load(file))
    return sorted(rows, key=lambda row: row["updated_at"], reverse=True)


options = common.arguments()
if options.start:
    folder = os.path.join(options.work, "store")
    Conversation(folder, newest(folder)[0]["session_id"]).messages()
    print("> ", end="", flush=True)
else:
    common.serve(Strands(options))
