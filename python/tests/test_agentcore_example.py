"""The program in examples/agentcore-python, as a process of its own: conversations outlive its machine and are their actor's alone.

What stands in for AgentCore Memory and for the Messages API is ours; the SDKs, the command line and `main.py` are real.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("bedrock_agentcore", reason="the program for AgentCore needs bedrock-agentcore")
jwt = pytest.importorskip("jwt", reason="the program for AgentCore needs PyJWT")
pytest.importorskip("websockets", reason="the program for AgentCore needs websockets")

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

PROGRAM = Path(__file__).parents[2] / "examples" / "agentcore-python" / "main.py"
NEEDED = ("UNFORGET_FAKE_AGENTCORE", "UNFORGET_FAKE_API", "UNFORGET_BIN")
USER = "X-Amzn-Bedrock-AgentCore-Runtime-User-Id"
PATIENCE = 240.0
QUIET = dict.fromkeys(
    [
        "DISABLE_TELEMETRY",
        "DISABLE_AUTOUPDATER",
        "DISABLE_ERROR_REPORTING",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    ],
    "1",
)

pytestmark = pytest.mark.slow


class Stands:
    """What stands in for the services: a memory, and a model that does what it is told."""

    def __init__(self, folder: Path, pace: int) -> None:
        self._log = folder / "requests.jsonl"
        self._processes: list[subprocess.Popen[str]] = []
        memory = self._start([os.environ["UNFORGET_FAKE_AGENTCORE"]], "BEDROCK_AGENTCORE_MEMORY_ID")
        # Slow enough for somebody to leave in the middle of an answer of some hundred words.
        command = [os.environ["UNFORGET_FAKE_API"], "--pace", str(pace), "--log", str(self._log)]
        self.environment = {**memory, **self._start(command, "ANTHROPIC_API_KEY")}
        self.environment["MEMORY_ID"] = self.environment.pop("BEDROCK_AGENTCORE_MEMORY_ID")

    def _start(self, command: list[str], last: str) -> dict[str, str]:
        """Starts one; it says what to put into the environment of its clients."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._processes.append(process)
        assert process.stdout is not None
        told: dict[str, str] = {}
        while last not in told:
            line = process.stdout.readline()
            assert line, f"{command[0]} ended"
            if line.startswith("export "):
                name, _, value = line.removeprefix("export ").strip().partition("=")
                told[name] = value
        return told

    def requests(self) -> list[dict[str, Any]]:
        """What the model was sent in conversations, oldest first."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        bodies = [json.loads(line).get("body") for line in lines]
        return [body for body in bodies if isinstance(body, dict) and body.get("tools")]

    def forget(self) -> None:
        """Ends the memory alone."""
        self._end(self._processes.pop(0))

    def hang(self) -> None:
        """Has the memory take connections and answer nothing."""
        self._processes[0].send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Has it answer again."""
        self._processes[0].send_signal(signal.SIGCONT)

    def end(self) -> None:
        for process in self._processes:
            self._end(process)

    @staticmethod
    def _end(process: subprocess.Popen[str]) -> None:
        process.kill()
        process.communicate()


class Machine:
    """A MicroVM: the program on a disk on which there is nothing."""

    def __init__(self, folder: Path, environment: dict[str, str], **settings: str) -> None:
        self.folder = folder
        # It is kept until the program listens there, so that nobody else gets it.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self._port: int = self._reserved.getsockname()[1]
        for name in ("home", "config", "unforget", "tmp"):
            (folder / name).mkdir(parents=True)
        # As the design document spells it.
        memory = environment["MEMORY_ID"]
        (folder / ".bedrock_agentcore.yaml").write_text(f"memory:\n  id: {memory}\n  mode: STM_AND_LTM\n")
        kept = ("PATH", "LANG", "PYTHONPATH", "UNFORGET_BIN", "UNFORGET_CONFIG")
        self._log = (folder / "log").open("w")
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM)],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            cwd=folder,
            env={
                **{name: os.environ[name] for name in kept if name in os.environ},
                **QUIET,
                **environment,
                "HOME": str(folder / "home"),
                "CLAUDE_CONFIG_DIR": str(folder / "config"),
                "UNFORGET_HOME": str(folder / "unforget"),
                "TMPDIR": str(folder / "tmp"),
                "PYTHONDONTWRITEBYTECODE": "1",
                "PORT": str(self._port),
                "ACTOR_FROM": "user-id",
                **settings,
            },
            start_new_session=True,
        )
        self._wait_until_it_listens()

    def _wait_until_it_listens(self) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                self._reserved.close()
                return
            except OSError:
                assert time.monotonic() < end, self.words()
            try:
                self._process.wait(0.02)
                pytest.fail(f"the program ended: {self.words()}")
            except subprocess.TimeoutExpired:
                pass

    def words(self) -> str:
        return (self.folder / "log").read_text()

    def destroy(self) -> None:
        """Takes the power away: everything that runs here stops at the same time, and gets no chance to save anything."""
        if self._process.poll() is None:
            for kind in (signal.SIGSTOP, signal.SIGKILL):
                for pid in family(self._process.pid):
                    try:
                        os.kill(pid, kind)
                    except ProcessLookupError:
                        pass
            self._process.wait()
        self._log.close()

    @asynccontextmanager
    async def connection(self, actor: str | None = "ada", **headers: str) -> AsyncIterator[ClientConnection]:
        """A connection of somebody."""
        if actor is not None:
            headers[USER] = actor
        url = f"ws://127.0.0.1:{self._port}/ws"
        async with connect(url, additional_headers=headers, open_timeout=PATIENCE, proxy=None) as opened:
            yield opened

    async def say(self, prompt: str, session: str | None = None, actor: str | None = "ada", **headers: str) -> Told:
        """Says something and hears everything that is told, until the connection is closed."""
        async with self.connection(actor, **headers) as opened:
            await opened.send(json.dumps({"prompt": prompt, "session_id": session}))
            return Told([json.loads(line) async for line in opened])


class Told(list[dict[str, Any]]):
    """What a client was told."""

    def kinds(self) -> list[str]:
        return [one["type"] for one in self]

    def text(self) -> str:
        return "".join(one["text"] for one in self if one["type"] == "text")

    def session(self) -> str:
        """The conversation, of a turn that came to its end."""
        assert self.kinds()[0] == "session" and self[-1]["type"] == "done", self
        assert "error" not in self.kinds(), self
        assert self[-1] == {"type": "done", "session_id": self[0]["session_id"], "saved": True}
        return str(self[0]["session_id"])


def family(pid: int) -> list[int]:
    """A process and its descendants, whatever group they are in."""
    rows = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = dict(map(int, row.split()) for row in rows.splitlines())  # type: ignore[arg-type, misc]
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


async def hear(opened: ClientConnection, *kinds: str) -> Told:
    """Listens until each of these has been told."""
    told = Told()
    while not set(kinds) <= set(told.kinds()):
        told.append(json.loads(await opened.recv()))
    return told


def run(main: Any) -> Any:
    return asyncio.run(asyncio.wait_for(main, PATIENCE))


@pytest.fixture
def stands(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stands]:
    missing = [name for name in NEEDED if not os.environ.get(name)]
    if missing:
        pytest.skip(f"the program for AgentCore is not tested: {', '.join(missing)} must say where these programs are")
    stands = Stands(tmp_path, getattr(request, "param", 10))
    yield stands
    stands.end()


@pytest.fixture
def machines(stands: Stands, tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    """Makes machines, each with an empty disk."""
    made: list[Machine] = []

    def make(**settings: str) -> Machine:
        made.append(Machine(tmp_path / f"machine-{len(made)}", stands.environment, **settings))
        return made[-1]

    yield make
    for machine in made:
        machine.destroy()


def test_a_conversation_outlives_its_machine(stands: Stands, machines: Callable[..., Machine]) -> None:
    first = machines()
    told = run(first.say("remember BANANA"))
    session = told.session()
    assert "BANANA" in told.text()
    # How much is saved at a time is the SDK's to say; a machine that is slow gets more at once.
    saved = [role for one in told if one["type"] == "saved" for role in one["roles"]]
    assert sorted(saved) == ["assistant", "user"]
    again = run(first.say("remember CHERRY", session))
    assert again.session() == session
    first.destroy()

    second = machines()
    told = run(second.say("[[recall]]", session))
    assert told.session() == session
    assert "remember BANANA" in told.text() and "remember CHERRY" in told.text()
    # The model was sent its own words, too, in their order.
    said = [message["role"] for message in stands.requests()[-1]["messages"]]
    assert [role for role in said if role != "system"] == ["user", "assistant"] * 2 + ["user"]


def test_a_machine_that_dies_in_the_middle_of_an_answer(machines: Callable[..., Machine]) -> None:
    async def begin(machine: Machine) -> str:
        async with machine.connection() as opened:
            await opened.send(json.dumps({"prompt": "remember BANANA [[long:3000]]"}))
            first = json.loads(await opened.recv())
            assert first["type"] == "session"
            told = await hear(opened, "saved", "text")
            # What was asked is safe long before it is answered.
            assert [one for one in told if one["type"] == "saved"] == [{"type": "saved", "roles": ["user"]}]
            machine.destroy()
            return str(first["session_id"])

    session = run(begin(machines()))
    told = run(machines().say("[[recall]]", session))
    assert told.session() == session
    assert "remember BANANA" in told.text()


def test_a_machine_that_dies_with_a_question_open(stands: Stands, machines: Callable[..., Machine]) -> None:
    async def begin(machine: Machine) -> str:
        async with machine.connection() as opened:
            await opened.send(json.dumps({"prompt": "remember BANANA [[bash:touch never]]"}))
            told = await hear(opened, "session", "question")
            while {"type": "saved", "roles": ["assistant"]} not in told:
                told += await hear(opened, "saved")
            machine.destroy()
            return str(told[0]["session_id"])

    session = run(begin(machines()))
    told = run(machines().say("[[recall]]", session))
    assert told.session() == session
    assert "remember BANANA" in told.text()
    assert "tool_use" in json.dumps(stands.requests()[-1]["messages"]), "the call is not forgotten"


def test_a_client_that_leaves_finds_the_turn_saved(stands: Stands, machines: Callable[..., Machine]) -> None:
    machine = machines()

    async def leave() -> str:
        async with machine.connection() as opened:
            await opened.send(json.dumps({"prompt": "remember BANANA [[long:300]]"}))
            told = await hear(opened, "session", "text")
            opened.transport.abort()
            return str(told[0]["session_id"])

    session = run(leave())
    # The next prompt waits for the turn that is under way.
    told = run(machine.say("[[recall]]", session))
    assert told.session() == session
    assert "remember BANANA" in told.text()
    machine.destroy()
    # The memory's id may come from the file in the program's folder, too.
    told = run(machines(MEMORY_ID="").say("what did you say?", session))
    assert told.session() == session
    answers = [one["content"] for one in stands.requests()[-1]["messages"] if one["role"] == "assistant"]
    assert len(json.dumps(answers[0]).split()) >= 300, "the whole answer, though nobody heard it"


def test_another_actor_hears_nothing(stands: Stands, machines: Callable[..., Machine]) -> None:
    machine = machines()
    session = run(machine.say("remember BANANA")).session()
    before = len(stands.requests())
    elsewhere = machines()
    for other in ("bob", "Ada", "ada/", "../ada", "-ada"):
        for place in (machine, elsewhere):
            told = run(place.say("[[recall]]", session, other))
            assert told == [{"type": "error", "code": "not_found", "message": "you have no such session"}]
    assert len(stands.requests()) == before, "the model was not asked"
    told = run(machine.say("[[recall]]", session))
    assert told.session() == session and "BANANA" in told.text()


def test_an_unknown_session_is_not_begun_anew(stands: Stands, machines: Callable[..., Machine]) -> None:
    told = run(machines().say("hello", str(uuid4())))
    assert [one["code"] for one in told] == ["not_found"]
    assert stands.requests() == []


def test_nobody_is_refused(stands: Stands, machines: Callable[..., Machine]) -> None:
    machine = machines()
    token = jwt.encode({"sub": "ada"}, "nobody looks at this key, which is long enough")
    for headers in ({}, {USER: ""}, {"Authorization": f"Bearer {token}"}):
        with pytest.raises(InvalidStatus) as refused:
            run(machine.say("hello", None, None, **headers))
        assert refused.value.response.status_code == 401
    assert stands.requests() == []


def test_the_subject_of_a_token_is_the_actor(stands: Stands, machines: Callable[..., Machine]) -> None:
    def bearer(claims: dict[str, Any]) -> dict[str, str]:
        return {"Authorization": f"Bearer {jwt.encode(claims, 'nobody looks at this key, which is long enough')}"}

    machine = machines(ACTOR_FROM="jwt")
    ada, bob = bearer({"sub": "auth0|ada"}), bearer({"sub": "auth0|bob"})
    session = run(machine.say("remember BANANA", None, None, **ada)).session()
    assert "BANANA" in run(machine.say("[[recall]]", session, None, **ada)).text()
    # What a caller says about itself beside its token does not count.
    told = run(machine.say("[[recall]]", session, "auth0|ada", **bob))
    assert [one["code"] for one in told] == ["not_found"]
    for headers in ({}, {USER: "ada"}, {"Authorization": "Bearer nonsense"}, bearer({}), bearer({"sub": ""})):
        with pytest.raises(InvalidStatus) as refused:
            run(machine.say("hello", None, None, **headers))
        assert refused.value.response.status_code == 401


def test_tools_are_asked_for(machines: Callable[..., Machine]) -> None:
    async def ask(machine: Machine, file: str, reply: Any) -> Told:
        async with machine.connection() as opened:
            await opened.send(json.dumps({"prompt": f"make it [[bash:touch {file}]]"}))
            told = await hear(opened, "question")
            question = told[-1]
            assert question["tool"] == "Bash" and question["input"]["command"] == f"touch {file}"
            if reply is not None:
                # An answer to something else is no answer.
                await opened.send(json.dumps({"answer": "another", "allow": True}))
                await opened.send("no JSON")
                await opened.send(json.dumps({"answer": question["id"], "allow": reply}))
            return Told([*told, *[json.loads(line) async for line in opened]])

    def exists(machine: Machine, file: str) -> bool:
        return any((machine.folder / "unforget").rglob(file))

    machine = machines()
    for file, reply in [("allowed", True), ("denied", False)]:
        told = run(ask(machine, file, reply))
        assert told.kinds().count("error") == 2 and told[-1]["type"] == "done"
        assert exists(machine, file) == reply
    hasty = machines(ANSWER_SECONDS="0.2")
    told = run(ask(hasty, "unanswered", None))
    assert told[-1]["type"] == "done" and "did not answer" in told.text()
    assert not exists(hasty, "unanswered")

    async def leave() -> str:
        async with machine.connection() as opened:
            await opened.send(json.dumps({"prompt": "make it [[bash:touch abandoned]]"}))
            told = await hear(opened, "session", "question")
            return str(told[0]["session_id"])

    # Whoever is not there cannot allow anything; the turn ends at once and not after a minute.
    told = run(machine.say("[[recall]]", run(leave())))
    assert told[-1]["type"] == "done" and "abandoned" in told.text()
    assert not exists(machine, "abandoned")


def test_what_is_no_request_is_told(stands: Stands, machines: Callable[..., Machine]) -> None:
    async def send(machine: Machine, sent: str | bytes) -> Told:
        async with machine.connection() as opened:
            await opened.send(sent)
            return Told([json.loads(line) async for line in opened])

    machine = machines()
    wrong = ["", "no JSON", "[]", "{}", '{"prompt": 7}', '{"prompt": " "}', b'{"prompt": "bytes"}']
    for sent in [*wrong, *(json.dumps({"prompt": "a", "session_id": name}) for name in ("../a", "", 7, {}))]:
        assert [one["code"] for one in run(send(machine, sent))] == ["invalid"], sent
    assert stands.requests() == []


# So slowly that the memory is gone before the answer is there, wherever this runs.
@pytest.mark.parametrize("stands", [150], indirect=True)
def test_what_cannot_be_saved_is_told(stands: Stands, machines: Callable[..., Machine]) -> None:
    machine = machines()

    async def lose() -> Told:
        async with machine.connection() as opened:
            await opened.send(json.dumps({"prompt": "remember BANANA [[long:100]]"}))
            told = await hear(opened, "saved", "text")
            stands.forget()
            return Told([*told, *[json.loads(line) async for line in opened]])

    told = run(lose())
    assert told[-1]["type"] == "done" and told[-1]["saved"] is False
    assert {one["code"] for one in told if one["type"] == "error"} == {"not_saved"}
    assert "not saved" in machine.words()


def test_p12_a_memory_that_hangs_holds_no_turn_up_and_gets_the_words_later(
    stands: Stands, machines: Callable[..., Machine]
) -> None:
    machine = machines(MEMORY_SECONDS="1")
    stands.hang()
    began = time.monotonic()
    told = run(machine.say("remember BANANA"))
    # It was no answer within 100 seconds.
    assert time.monotonic() - began < 60
    assert told[-1]["type"] == "done" and told[-1]["saved"] is False
    assert "BANANA" in told.text()
    errors = [one for one in told if one["type"] == "error"]
    assert [one["code"] for one in errors] == ["not_saved"], "it is told once"
    assert "within 1 s" in errors[0]["message"] and "sent later" in errors[0]["message"]
    assert "saved" not in told.kinds()
    session = str(told[0]["session_id"])
    stands.go_on()
    end = time.monotonic() + PATIENCE
    while f"session {session}: saved, later than its turn" not in machine.words():
        assert time.monotonic() < end, machine.words()
        time.sleep(0.1)
    machine.destroy()
    told = run(machines().say("[[recall]]", session))
    assert told.session() == session
    assert "remember BANANA" in told.text()


def test_p12_a_memory_that_refuses_connections_holds_no_turn_up(
    stands: Stands, machines: Callable[..., Machine]
) -> None:
    stands.forget()
    machine = machines(MEMORY_SECONDS="1")
    began = time.monotonic()
    told = run(machine.say("remember BANANA"))
    assert time.monotonic() - began < 60
    assert told[-1]["type"] == "done" and told[-1]["saved"] is False
    assert [one["code"] for one in told if one["type"] == "error"] == ["not_saved"]
    # The next turn finds on this machine what was said here.
    told = run(machine.say("[[recall]]", str(told[0]["session_id"])))
    assert "remember BANANA" in told.text() and told[-1]["saved"] is False
