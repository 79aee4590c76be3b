#!/usr/bin/env python3
"""Talks to `unforget serve`: python3 chat.py NAME, where NAME is what the conversation is called.

A connection is nothing. When it drops, also in the middle of an answer, the prompt is sent again under the name that it has: the server takes
it once, and tells what is missing. Run it again tomorrow with the same NAME, and the conversation goes on.

A turn with tools has several answers, one before each call and one at the end. Records are the truth; deltas are the same words, only sooner.

It sends the token of UNFORGET_TOKEN, or else the owner's, from the file that only the owner of the server can read.
"""
import asyncio, json, os, sys, uuid

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

URL = os.environ.get("UNFORGET_URL", "ws://127.0.0.1:8080/ws")
HOME = os.environ.get("UNFORGET_HOME", os.path.expanduser("~/.local/share/unforget"))


def headers():
    token = os.environ.get("UNFORGET_TOKEN") or open(f"{HOME}/server/owner.token").read().strip()
    return {"Authorization": f"Bearer {token}"}


class Answer:
    """What is shown of the answer that is coming."""

    def __init__(self, show):
        self.show, self.heard, self.shown = show, "", ""

    def hear(self, text):
        """More words; those that were shown before a connection dropped come again."""
        self.heard += text
        if not self.shown.startswith(self.heard):
            self.show(self.heard.removeprefix(self.shown) if self.heard.startswith(self.shown) else "\n" + self.heard)
            self.shown = self.heard

    def end(self, text):
        """All words of it."""
        self.heard = ""
        self.hear(text)
        if self.shown:
            self.show("\n")
        self.heard = self.shown = ""


def words(content):
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content if part["type"] == "text")


async def ask(key, prompt, show):
    mine = str(uuid.uuid4())
    answer, is_answered, is_mine, seen, last = Answer(show), False, False, False, None
    async for socket in connect(URL, additional_headers=headers()):  # Again and again, until it is done.
        try:
            if seen:  # What was recorded since.
                await socket.send(json.dumps({"type": "attach", "key": key, "after": last}))
            await socket.send(json.dumps({"type": "prompt", "key": key, "prompt": prompt, "client_id": mine}))
            async for line in socket:
                told = json.loads(line)
                record = told.get("record", {})
                if told["type"] == "attached" and not seen:
                    seen, last = True, told["n"]
                elif told["type"] == "record":
                    last = told["n"]
                    if record["type"] == "user":  # Others may talk here, too.
                        is_mine = record.get("client_id") == mine
                    elif record["type"] == "assistant" and is_mine:
                        answer.end(words(record["content"]))
                        is_answered = True
                elif told["type"] == "started":
                    is_mine = told["client_id"] == mine
                elif told["type"] == "answering":
                    answer.heard = ""
                elif told["type"] == "delta" and told["kind"] == "text" and is_mine:
                    answer.hear(told["text"])
                elif told["type"] in ("error", "failed") and told["client_id"] == mine:
                    raise SystemExit(told["error"]["message"])
                elif told["type"] == "done" and told["client_id"] == mine:
                    if not is_answered:
                        answer.end(told["text"])
                    return
        except ConnectionClosed:
            continue


def show(text):
    print(text, end="", flush=True)


if __name__ == "__main__":
    key = f"main:chat:{sys.argv[1]}"
    for line in sys.stdin:
        asyncio.run(ask(key, line.strip(), show))
