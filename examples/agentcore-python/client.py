"""Says something to the assistant: `python client.py PROMPT [SESSION_ID]`."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from websockets.asyncio.client import connect

URL = os.environ.get("ASSISTANT_URL", "ws://127.0.0.1:8080/ws")
# On AgentCore the runtime says who this is. Here nobody does, so that any name will do.
HEADERS = {"X-Amzn-Bedrock-AgentCore-Runtime-User-Id": os.environ.get("ACTOR", "ada")}


async def say(prompt: str, session: str | None = None) -> None:
    async with connect(URL, additional_headers=HEADERS) as socket:
        await socket.send(json.dumps({"prompt": prompt, "session_id": session}))
        async for told in socket:
            match json.loads(told):
                case {"type": "text", "text": text}:
                    print(text, end="", flush=True)
                case {"type": "question", "id": name, "tool": tool, "input": given}:
                    said = await asyncio.to_thread(input, f"\nMay {tool} be used? {given} [y/N] ")
                    await socket.send(json.dumps({"answer": name, "allow": said.strip().lower() == "y"}))
                case {"type": kind, **members}:
                    print(f"\n[{kind}] {members}")


if __name__ == "__main__":
    asyncio.run(say(*sys.argv[1:]))
