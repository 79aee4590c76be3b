"""An assistant on AgentCore Runtime whose conversations outlive the MicroVM that they were held in.

A client connects to `/ws` and sends `{"prompt": "…", "session_id": "…"}`, without an id for a new conversation. It is told, each a JSON object:

    session   the conversation's id; of a new one before anything else
    saved     what was said is in AgentCore Memory now, and nothing that happens here can lose it
    text      a piece of the answer
    question  may this tool be used? To be answered with {"answer": <the question's id>, "allow": true}
    error     what went wrong
    done      the answer is complete

Then the connection is closed. If the client closes it first, the answer is completed and saved all the same.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NewType
from uuid import UUID, uuid4
from weakref import WeakValueDictionary

import jwt
from bedrock_agentcore.runtime import BedrockAgentCoreApp, RequestContext
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, MirrorErrorMessage, ResultMessage, StreamEvent
from claude_agent_sdk.types import SessionKey, SessionStoreEntry
from starlette.responses import PlainTextResponse
from starlette.websockets import WebSocket
from unforget import UnforgetSessionStore
from unforget.errors import NotFound, TryAgain, UnforgetError

from connection import Connection

# Three kinds of names. A type checker sees to it that none stands in for another.
Actor = NewType("Actor", str)  # Whose conversations: somebody whom the runtime has verified.
ClaudeSessionId = NewType("ClaudeSessionId", str)  # Which conversation. Chosen here, remembered by the client.
RuntimeSessionId = NewType("RuntimeSessionId", str)  # Which MicroVM. For logs only: a conversation sees many.

# With nothing behind the slashes it is BEDROCK_AGENTCORE_MEMORY_ID, or the one in .bedrock_agentcore.yaml.
REMOTE = f"agentcore://{os.environ.get('MEMORY_ID', '')}"
FOLDER = Path(os.environ.get("UNFORGET_HOME") or Path(tempfile.gettempdir()) / "assistant")
TOOLS = ["Read", "Bash"]
ANSWER_SECONDS = float(os.environ.get("ANSWER_SECONDS", "60"))
# How long a turn waits for a memory that does not take what was said, in all.
MEMORY_SECONDS = float(os.environ.get("MEMORY_SECONDS", "5"))
AGAIN_SECONDS = 2
USER_HEADER = "X-Amzn-Bedrock-AgentCore-Runtime-User-Id"

app = BedrockAgentCoreApp()
log = app.logger
# What a memory has not taken yet, also after its turn.
senders: set[asyncio.Task[None]] = set()
# Two prompts at a time would split a conversation in two, so that the second one waits.
turns: WeakValueDictionary[tuple[Actor, ClaudeSessionId], asyncio.Lock] = WeakValueDictionary()


def actor_of(headers: Mapping[str, str]) -> Actor | None:
    """Who is asking, as the runtime has verified it. Nobody is somebody by default.

    ACTOR_FROM says what it verifies: `jwt` if the runtime has a JWT authorizer (which checks the signature before a connection comes here), `user-id` if callers sign
    with IAM and only your own backend may say who they are. Never both: what nobody has checked must not count.
    """
    if os.environ["ACTOR_FROM"] == "user-id":
        name = headers.get(USER_HEADER)
    else:
        token = headers.get("Authorization", "").removeprefix("Bearer ")
        try:
            name = jwt.decode(token, options={"verify_signature": False}).get("sub")
        except jwt.InvalidTokenError:
            return None
    return Actor(name) if isinstance(name, str) and name and name.isprintable() else None


def request_of(text: str) -> tuple[str, ClaudeSessionId | None]:
    """A prompt and the conversation that it belongs to."""
    match json.loads(text):
        case {"prompt": str(prompt), **others} if prompt.strip():
            match others.get("session_id"):
                case None:
                    return prompt, None
                case str(name):
                    return prompt, ClaudeSessionId(str(UUID(name)))
    raise ValueError('the first message is {"prompt": …, "session_id": …}')


class ActorStore(UnforgetSessionStore):
    """The conversations of one actor in AgentCore Memory. Those of others are not in it, whatever id is asked for."""

    def __init__(self, actor: Actor, folder: Path, client: Connection) -> None:
        super().__init__(home=folder, remote=REMOTE, tenant=actor, project="assistant", ack="remote")
        self._client = client
        self._is_late = False
        self.unsaved: list[list[SessionStoreEntry]] = []
        self.sending: set[asyncio.Task[None]] = set()

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Saves what was said. A turn waits MEMORY_SECONDS for the memory, once, and then goes on without it: the store keeps what was said on this
        machine, and it is sent when the memory answers. What the memory refuses for good the SDK tries again, twice, and then goes on without.
        """
        if not any(batch is entries for batch in self.unsaved):
            self.unsaved.append(entries)
        sender = asyncio.create_task(self._send(key, entries))
        self.sending.add(sender)
        sender.add_done_callback(self.sending.discard)
        done, _ = await asyncio.wait([sender], timeout=0 if self._is_late else MEMORY_SECONDS)
        if done:
            sender.result()
        elif not self._is_late:
            self._is_late = True
            message = f"the memory did not answer within {MEMORY_SECONDS:g} s; what was said is kept on this machine and sent later"
            log.error("session %s: not saved: %s", key["session_id"], message)
            await self._client.tell_error("not_saved", message)

    async def _send(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        while True:
            try:
                await super().append(key, entries)
                break
            except TryAgain as error:
                log.warning("session %s: not saved yet: %s", key["session_id"], error)
                await asyncio.sleep(AGAIN_SECONDS)
        self.unsaved = [batch for batch in self.unsaved if batch is not entries]
        roles = {entry["type"] for entry in entries} & {"user", "assistant"}
        if roles and "subpath" not in key:
            await self._client.tell("saved", roles=sorted(roles))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Restores a conversation. That there is none is an error: it must not become an empty one."""
        entries = await super().load(key)
        if not entries and "subpath" not in key:
            raise NotFound("you have no such session", "not_found")
        return entries


@app.async_task  # The runtime does not take a machine away that has something to send.
async def send_later(store: ActorStore, session: ClaudeSessionId) -> None:
    """Waits until the memory has taken what was said, however long that takes."""
    async with store:
        while store.sending:
            await asyncio.wait(store.sending)
    log.info("session %s: %s", session, "not saved" if store.unsaved else "saved, later than its turn")


@asynccontextmanager
async def ending(store: ActorStore, session: ClaudeSessionId) -> AsyncIterator[None]:
    """Closes a store at the end of a turn, or when everything is sent."""
    try:
        yield
    finally:
        if store.sending:
            sender = asyncio.create_task(send_later(store, session))
            senders.add(sender)
            sender.add_done_callback(senders.discard)
        else:
            await store.aclose()


@app.async_task  # `/ping` says HealthyBusy meanwhile, so that the runtime lets a turn end whose client has gone.
async def answer(client: Connection, actor: Actor, session: ClaudeSessionId, is_new: bool, prompt: str) -> None:
    """Answers a prompt, whether anybody still listens or not."""
    # A folder for each actor: what is cached for one is never looked at for another.
    folder = FOLDER / hashlib.sha256(actor.encode()).hexdigest()
    (folder / "work").mkdir(parents=True, exist_ok=True)
    lock = turns.setdefault((actor, session), asyncio.Lock())
    result: ResultMessage | None = None
    # The copy of a conversation that the command line works on ends with the turn.
    store = ActorStore(actor, folder / "home", client)
    with tempfile.TemporaryDirectory() as config:
        async with lock, ending(store, session):
            options = ClaudeAgentOptions(
                session_store=store,
                session_store_flush="eager",  # As it is said, not at the end of the turn.
                session_id=session if is_new else None,
                resume=None if is_new else session,
                system_prompt="You are a helpful assistant.",
                tools=TOOLS,
                can_use_tool=client.may_use,
                setting_sources=[],
                strict_mcp_config=True,
                verbatim_prompts=True,  # `@/some/file` and `/clear` are words here, not commands.
                max_turns=10,
                include_partial_messages=True,
                cwd=folder / "work",
                env={"CLAUDE_CONFIG_DIR": config},
            )
            async with ClaudeSDKClient(options) as claude:
                if not is_new:
                    await client.tell("session", session_id=session)
                await claude.query(prompt)
                async for message in claude.receive_response():
                    match message:
                        case StreamEvent(
                            event={"delta": {"type": "text_delta", "text": text}}, parent_tool_use_id=None
                        ):
                            await client.tell("text", text=text)
                        case MirrorErrorMessage():
                            log.error("session %s: not saved: %s", session, message.error)
                            await client.tell_error("not_saved", message.error)
                        case ResultMessage():
                            result = message
    if result is None or result.is_error:
        raise RuntimeError((result and result.result) or "the answer did not come to its end")
    await client.tell("done", session_id=result.session_id, saved=not store.unsaved)


@app.websocket
async def talk(socket: WebSocket, context: RequestContext) -> None:
    """Takes one prompt and stays until it is answered."""
    actor = actor_of(socket.headers)
    if actor is None:
        await socket.send_denial_response(PlainTextResponse("no verified user", 401))
        return
    await socket.accept()
    client = Connection(socket, TOOLS, ANSWER_SECONDS)
    try:
        prompt, known = request_of(await socket.receive_text())
    except (ValueError, KeyError) as error:
        await client.tell_error("invalid", str(error))
        await client.close()
        return
    session = known or ClaudeSessionId(str(uuid4()))
    runtime = RuntimeSessionId(context.session_id or "none")
    log.info("session %s of %s, runtime session %s", session, actor, runtime)
    if known is None:
        await client.tell("session", session_id=session)
    # A task of its own: it goes on if this connection does not.
    turn = asyncio.create_task(answer(client, actor, session, known is None, prompt))
    ears = asyncio.create_task(client.listen())
    await asyncio.wait([turn])
    if failure := turn.exception():
        # What the store says is wrapped by the SDK.
        cause = failure.__cause__ if isinstance(failure.__cause__, UnforgetError) else failure
        await client.tell_error(cause.code if isinstance(cause, UnforgetError) else "agent", str(cause))
    await client.close()
    ears.cancel()


if __name__ == "__main__":
    if os.environ.get("ACTOR_FROM") not in ("jwt", "user-id"):
        sys.exit("set ACTOR_FROM to what the runtime verifies: jwt or user-id")
    app.run(port=int(os.environ.get("PORT", "8080")))
