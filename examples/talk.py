import asyncio, json, os, sys, uuid, websockets
async def talk(key, *words, busy=None, live=False, mine=str(uuid.uuid4()), home=os.getenv("UNFORGET_HOME", os.path.expanduser("~/.local/share/unforget"))):
    async with websockets.connect("ws://127.0.0.1:8080/ws", additional_headers={"Authorization": "Bearer " + open(home + "/server/owner.token").read().strip()}) as socket:
        await socket.send(json.dumps({"type": "prompt", "key": key, "prompt": " ".join(words), "client_id": mine} if words else {"type": "attach", "key": key}))
        async for told in (json.loads(text) async for text in socket):
            busy, live, record = busy or words or told.get("turn"), live or told["type"] == "caught_up", told.get("record", {})
            if not live and record.get("type") in ("user", "assistant"): print("".join(part if type(part) is str else part.get("text", "") for part in record["content"]))
            if told["type"] == "delta" and told["kind"] == "text": print(told["text"], end="", flush=True)
            if live and not busy or told["type"] in ("done", "failed", "error") and (not words or told["client_id"] in (mine, None)): return print(told.get("error", {}).get("message", ""))
asyncio.run(talk(*sys.argv[1:]))
