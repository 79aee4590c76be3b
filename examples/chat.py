#!/usr/bin/env python3
"""Talks to `unforget serve`: python3 chat.py NAME, where NAME is what the conversation is called.

A connection is nothing. When it drops, also in the middle of an answer, the prompt is sent again under the name that it has: the server takes
it once, and tells what is missing. Run it again tomorrow with the same NAME, and the conversation goes on.
"""
import asyncio, json, os, sys, uuid

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

URL = os.environ.get("UNFORGET_URL", "ws://127.0.0.1:8080/ws")
HEADERS = {"Authorization": f"Bearer {token}"} if (token := os.environ.get("UNFORGET_TOKEN")) else {}


async def ask(key, prompt, show):
    message = {"type": "prompt", "key": key, "prompt": prompt, "client_id": str(uuid.uuid4())}
    text, shown = "", ""
    async for socket in connect(URL, additional_headers=HEADERS):  # Again and again, until it is done.
        try:
            await socket.send(json.dumps(message))
            async for line in socket:
                told = json.loads(line)
                if told["type"] == "answering":
                    text = ""
                elif told["type"] == "delta" and told["kind"] == "text":
                    text += told["text"]
                elif told["type"] in ("error", "failed") and told["client_id"] == message["client_id"]:
                    raise SystemExit(told["error"]["message"])
                elif told["type"] == "done" and told["client_id"] == message["client_id"]:
                    show(told["text"].removeprefix(shown) + "\n")
                    return
                if len(text) > len(shown):
                    show(text[len(shown):])
                    shown = text
        except ConnectionClosed:
            continue


def show(text):
    print(text, end="", flush=True)


if __name__ == "__main__":
    key = f"main:chat:{sys.argv[1]}"
    for line in sys.stdin:
        asyncio.run(ask(key, line.strip(), show))
