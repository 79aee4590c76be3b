//! Clients that others wrote, unchanged: `websockets` as a client of the design document would use it, boto3 through the door of AgentCore Runtime, and schemathesis, which
//! believes nothing that the OpenAPI document says.
//!
//! `cargo xtask test` installs them; where one is missing, it is installed here, and a machine that cannot do that fails the test.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use unforget_server::Limits;
use unforget_testkit::runtime::FrontDoor;

use crate::scene::{Scene, Setting};

/// Where a package of PyPI is; the versions are those of xtask.
fn tool(name: &str, package: &str) -> PathBuf {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = INSTALLING.lock();
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools").join(name);
    if !place.exists() {
        let half = place.with_extension("half");
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore"]);
        assert!(pip.arg("--target").arg(&half).arg(package).status().unwrap().success(), "{package} can be installed");
        std::fs::rename(half, &place).unwrap();
    }
    place
}

fn python(packages: &Path) -> Command {
    let mut command = Command::new("python3");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("PYTHONPATH", packages);
    command.env("PYTHONUTF8", "1").env("PYTHONDONTWRITEBYTECODE", "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn websockets() -> Command {
    python(&tool("websockets", "websockets==17.4"))
}

/// What a script says, line by line, and its end.
struct Script {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Script {
    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        match self.lines.next() {
            Some(line) => line.unwrap(),
            None => {
                let mut said = String::new();
                self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                panic!("the script ended: {said}");
            }
        }
    }

    fn end(mut self) {
        let mut said = String::new();
        drop(self.child.stdin.take());
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
    }
}

const CONVERSATION: &str = r#"
import asyncio, json, os, websockets
def connect():
    return websockets.connect(os.environ["URL"], additional_headers={"Authorization": "Bearer " + os.environ["TOKEN"]})
async def turn(message):
    told = []
    async with connect() as socket:
        await socket.send(json.dumps(message))
        async for text in socket:
            told.append(json.loads(text))
    return told
async def main():
    told = await turn({"prompt": "my name is Ada", "session_id": None})
    session = next(it["session_id"] for it in told if "session_id" in it)
    assert told[-1]["type"] == "done" and told[-1]["text"] == "you said: my name is Ada", told
    told = await turn({"prompt": "recall", "session_id": session, "user_id": "default_user"})
    assert told[-1]["text"] == "my name is Ada | recall", told
    socket = await connect()
    await socket.send(json.dumps({"prompt": "hold this answer", "session_id": session}))
    seen = None
    async for text in socket:
        told = json.loads(text)
        if told["type"] == "record": seen = told["n"]
        if told["type"] == "delta": break
    socket.transport.abort()
    print("dropped", flush=True)
    input()
    async with connect() as socket:
        await socket.send(json.dumps({"type": "attach", "session_id": session, "after": seen}))
        numbers, done = [], None
        async for text in socket:
            told = json.loads(text)
            if told["type"] == "record":
                numbers.append(told["n"])
                if told["record"]["type"] == "turn": break
    assert numbers == list(range(seen + 1, seen + 1 + len(numbers))), (seen, numbers)
    told = await turn({"prompt": "recall", "session_id": session})
    assert told[-1]["text"] == "my name is Ada | recall | hold this answer | recall", told[-1]
    large = "x" * 300_000
    told = await turn({"prompt": large})
    assert told[-1]["text"] == "you said: " + large, len(told[-1]["text"])
asyncio.run(main())
"#;

#[test]
fn websockets_talks_drops_and_comes_back() {
    let scene = Scene::new();
    let mut command = websockets();
    command.args(["-c", CONVERSATION]).env("URL", format!("ws://{}/ws", scene.address));
    command.env("TOKEN", scene.owner_token());
    let mut script = Script::start(command);
    assert_eq!(script.line(), "dropped");
    scene.puppet.let_go();
    writeln!(script.child.stdin.as_mut().unwrap()).unwrap();
    script.end();
}

const INVOKE: &str = r#"
import json, boto3
from botocore.exceptions import ClientError
client = boto3.client("bedrock-agentcore")
arn = "arn:aws:bedrock-agentcore:eu-west-1:123456789012:runtime/agent-a1b2c3d4e5"
session = "a-session-of-the-runtime-0123456789"
def invoke(prompt, user="ada", session=session, **more):
    payload = json.dumps({"prompt": prompt, **more}).encode()
    answer = client.invoke_agent_runtime(agentRuntimeArn=arn, runtimeSessionId=session, runtimeUserId=user, payload=payload)
    assert answer["runtimeSessionId"] == session and answer["statusCode"] == 200, answer
    body = answer["response"].read()
    return answer["contentType"], body
kind, body = invoke("my name is Ada")
first = json.loads(body)
assert kind == "application/json" and first["response"] == "you said: my name is Ada", first
again = json.loads(invoke("recall")[1])
assert again["response"] == "my name is Ada | recall" and again["session_id"] == first["session_id"], again
other = json.loads(invoke("recall", user="bob")[1])
assert other["response"] == "recall" and other["session_id"] != first["session_id"], other
by_id = json.loads(invoke("recall", session="b" * 33, session_id=first["session_id"])[1])
assert by_id["response"].startswith("my name is Ada"), by_id
kind, body = invoke("in pieces", stream=True)
events = [json.loads(event[6:]) for event in body.decode().split("\n\n") if event.startswith("data: ")]
assert kind == "text/event-stream" and events[-1]["type"] == "done", events
def refused(code, **arguments):
    try:
        client.invoke_agent_runtime(agentRuntimeArn=arn, payload=b'{"prompt":"hi"}', **arguments)
    except ClientError as error:
        assert error.response["Error"]["Code"] == code, error.response
    else:
        raise SystemExit(f"{arguments} was not refused")
refused("RuntimeClientError", runtimeSessionId=session)
try:
    invoke("hi", user="bob", session_id=first["session_id"])
    raise SystemExit("bob was answered")
except ClientError as error:
    assert error.response["Error"]["Code"] == "RuntimeClientError", error.response
"#;

#[test]
fn boto3_invokes_it_through_the_door_of_the_runtime() {
    let scene = Scene::with(Setting { trust_runtime_headers: true, ..Setting::default() });
    let door = FrontDoor::open(scene.address).unwrap();
    let mut command = python(&tool("boto3", "boto3==1.44.0"));
    command.args(["-c", INVOKE]).env("AWS_ENDPOINT_URL_BEDROCK_AGENTCORE", door.url());
    command.envs([("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s"), ("AWS_DEFAULT_REGION", "eu-west-1")]);
    Script::start(command).end();
}

/// Something between a client and the server that can be cut.
struct Cable {
    address: SocketAddr,
    ends: Arc<Mutex<Vec<TcpStream>>>,
}

impl Cable {
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ends = Arc::new(Mutex::new(Vec::new()));
        let kept = ends.clone();
        std::thread::spawn(move || {
            for here in listener.incoming().map_while(Result::ok) {
                let Ok(there) = TcpStream::connect(server) else { return };
                for (mut from, mut to) in [
                    (here.try_clone().unwrap(), there.try_clone().unwrap()),
                    (there.try_clone().unwrap(), here.try_clone().unwrap()),
                ] {
                    std::thread::spawn(move || {
                        // One that is cut ends with an error, or without.
                        drop(std::io::copy(&mut from, &mut to));
                        drop(to.shutdown(std::net::Shutdown::Both));
                    });
                }
                kept.lock().unwrap().extend([here, there]);
            }
        });
        Self { address, ends }
    }

    fn cut(&self) {
        for end in self.ends.lock().unwrap().drain(..) {
            // It may have been closed already.
            drop(end.shutdown(std::net::Shutdown::Both));
        }
    }
}

#[test]
fn the_example_loses_its_connection_in_the_middle_of_an_answer_and_has_the_answer() {
    // The cable has a port of its own.
    let scene = Scene::with(Setting { hosts: &["127.0.0.1"], ..Setting::of(&["ada"]) });
    let cable = Cable::to(scene.address);
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/chat.py");
    let start = |prompt: &str| {
        let mut command = websockets();
        command.arg(&example).arg("tea").env("UNFORGET_URL", format!("ws://{}/ws", cable.address));
        let mut child = command.env("UNFORGET_TOKEN", scene.token("ada")).spawn().unwrap();
        writeln!(child.stdin.take().unwrap(), "{prompt}").unwrap();
        child
    };
    let mut child = start("hold this long answer please");
    let mut output = child.stdout.take().unwrap();
    let mut said = String::new();
    let mut byte = [0];
    while !said.ends_with("you said: ") {
        if output.read(&mut byte).unwrap() == 0 {
            let mut wrong = String::new();
            child.stderr.take().unwrap().read_to_string(&mut wrong).unwrap();
            panic!("it ended: {said} {wrong}");
        }
        said.push(char::from(byte[0]));
    }
    cable.cut();
    scene.puppet.let_go();
    output.read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(said, "you said: hold this long answer please\n");
    assert_eq!(scene.puppet.asked.load(std::sync::atomic::Ordering::SeqCst), 1);
    let again = start("recall").wait_with_output().unwrap();
    assert_eq!(String::from_utf8(again.stdout).unwrap(), "hold this long answer please | recall\n");
}

#[test]
fn b8_the_example_shows_every_answer_of_a_turn_with_tools() {
    let scene = Scene::new();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/chat.py");
    let mut command = websockets();
    command.arg(&example).arg("tea").env("UNFORGET_URL", format!("ws://{}/ws", scene.address));
    let mut child = command.env("UNFORGET_HOME", scene.home()).spawn().unwrap();
    // The puppet says the same before the call and behind it: neither may be taken for the other.
    let prompt = r#"tool read_file {"path":"none.txt"}"#;
    writeln!(child.stdin.take().unwrap(), "{prompt}\nrecall").unwrap();
    assert_eq!(said_by(child), format!("you said: {prompt}\nyou said: {prompt}\n{prompt} | recall\n"));
}

/// The ten lines of the README, as they are executed.
fn ten_lines(scene: &Scene) -> String {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let code = std::fs::read_to_string(workspace.join("examples/talk.py")).unwrap();
    let readme = std::fs::read_to_string(workspace.join("README.md")).unwrap();
    assert!(readme.contains(&format!("```python\n{code}```")), "the README shows another client");
    assert_eq!(code.lines().count(), 10);
    assert!(code.contains("127.0.0.1:8080"));
    code.replace("127.0.0.1:8080", &scene.address.to_string())
}

/// What it says until it ends well.
fn said_by(mut child: Child) -> String {
    let (mut said, mut wrong) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut wrong).unwrap();
    assert!(child.wait().unwrap().success(), "{said} {wrong}");
    said
}

#[test]
fn the_client_of_the_readme_is_cut_off_in_the_middle_of_an_answer_and_another_one_hears_all_of_it_once() {
    let scene = Scene::new();
    let code = ten_lines(&scene);
    let home = scene.home();
    let start = |arguments: &[&str]| {
        websockets().env("UNFORGET_HOME", home).args(["-c", &code]).args(arguments).spawn().unwrap()
    };
    // Reads until something was said, and no further.
    let until = |child: &mut Child, end: &str| {
        let (mut said, mut byte) = (String::new(), [0]);
        let output = child.stdout.as_mut().unwrap();
        while !said.ends_with(end) {
            assert_ne!(output.read(&mut byte).unwrap(), 0, "{said}");
            said.push(char::from(byte[0]));
        }
        said
    };
    let mut child = start(&["ada", "hold", "this", "long", "answer"]);
    assert_eq!(until(&mut child, "you said: hold "), "you said: hold ");
    child.kill().unwrap();
    child.wait().unwrap();
    // What was said, and the answer as far as it has come; then the rest of it.
    let mut again = start(&["ada"]);
    assert_eq!(until(&mut again, "you said: hold "), "hold this long answer\nyou said: hold ");
    scene.puppet.let_go();
    assert_eq!(said_by(again), "this long answer\n");
    assert_eq!(scene.puppet.asked.load(std::sync::atomic::Ordering::SeqCst), 1);
    // When nothing runs it shows what there is, and ends.
    assert_eq!(said_by(start(&["ada"])), "hold this long answer\nyou said: hold this long answer\n\n");
    assert_eq!(said_by(start(&["ada", "recall"])), "hold this long answer | recall\n");
}

#[test]
fn the_client_of_the_readme_ends_however_a_turn_ends() {
    let scene = Scene::new();
    let code = ten_lines(&scene);
    let home = scene.home();
    let start = |arguments: &[&str]| {
        websockets().env("UNFORGET_HOME", home).args(["-c", &code]).args(arguments).spawn().unwrap()
    };
    let said = said_by(start(&["ada", "please", "fail"]));
    assert!(said.contains("as it was told"), "{said}");
    let said = said_by(start(&["no:such:thing:as:a:key", "hello"]));
    assert!(said.len() > 1, "it is told what is wrong: {said}");
    assert_eq!(said_by(start(&["nobody"])), "\n", "nothing was said there");
    // Its own answer, and not the end of somebody else's.
    let mut other = scene.connect();
    other.say(&serde_json::json!({ "type": "prompt", "key": "bob", "prompt": "hold on" }));
    other.until("delta");
    let child = start(&["bob", "recall"]);
    other.until("queued");
    scene.puppet.let_go();
    assert!(said_by(child).ends_with("hold on | recall\n"));
}

/// Operations whose parameters follow rules that a schema does not express: a cursor is one that the server gave out, a name is that of a checkpoint that there is, a
/// key excludes its parts. That what fits the schema is accepted is not asked of these; all else is.
const PARTICULAR: [&str; 12] = [
    "GET /v1/search",
    "GET /v1/sessions",
    "GET /v1/sessions/{id}/path",
    "GET /v1/usage",
    "PATCH /v1/sessions/{id}",
    "POST /v1/sessions",
    "POST /v1/sessions/{id}/branch",
    "POST /v1/sessions/{id}/checkpoint",
    "POST /v1/sessions/{id}/edits",
    "POST /v1/sessions/{id}/fork",
    "POST /v1/sessions/{id}/pin",
    "POST /v1/sessions/{id}/rewind",
];

#[test]
fn schemathesis_finds_nothing() {
    // A head that is too long is answered by the HTTP library, with a bare 431, whatever it asks for.
    let limits = Limits { wrong_tokens: u32::MAX, handshake_bytes: 1 << 20, ..Setting::default().limits };
    let scene = Scene::with(Setting { limits, ..Setting::of(&["ada"]) });
    let tools = tool("schemathesis", "schemathesis==4.32.5");
    let run = |arguments: &[&str]| {
        let place = tempfile::tempdir().unwrap();
        let mut command = python(&tools);
        command.arg(tools.join("bin/schemathesis")).arg("run").arg(format!("http://{}/v1/openapi.json", scene.address));
        command.args(["--header", &format!("Authorization: Bearer {}", scene.token("ada"))]);
        command.args(["--seed", "1", "--continue-on-failure", "--request-timeout", "60"]).args(arguments);
        // Where it keeps what it found, and nothing of a person's own settings.
        command.current_dir(place.path()).env("HOME", place.path()).stdin(Stdio::null());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("passed"), "{arguments:?}: {said}");
    };
    run(&["--max-examples", "15", "--checks", "all", "--exclude-checks", "positive_data_acceptance"]);
    let mut acceptance = vec!["--max-examples", "5", "--checks", "positive_data_acceptance", "--mode", "positive"];
    acceptance.extend(PARTICULAR.iter().flat_map(|name| ["--exclude-name", name]));
    run(&acceptance);
}
