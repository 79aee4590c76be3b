//! A server in this process, and clients that talk to it over real sockets.
//!
//! Every message that a client says or hears in any test is held against `docs/protocol.schema.json` (`schema`). A test that says something wrong on
//! purpose says it with [`Client::blurt`].

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use unforget_agent::prices::Prices;
use unforget_agent::settings::Settings;
use unforget_agent::tools::{Commands, Toolbox, Workspace, standard};
use unforget_core::medium::Os;
use unforget_core::stamp::{SharedSource, System};
use unforget_remote::Remote;
use unforget_server::Limits;
use unforget_server::agent::{Agent, Agents, ClaudeCode, Native};
use unforget_server::app::App;
use unforget_server::door::Door;
use unforget_server::fleet;
use unforget_server::identity::owner::TOKEN_FILE as OWNER_FILE;
use unforget_server::identity::{Identity, Owner, Tokens, Ways};
use unforget_server::peers::ClusterKey;
use unforget_server::serve::{Config, Server};
use unforget_testkit::serving::CLUSTER_KEY;

use crate::puppet::Puppet;
use crate::schema;

/// Longer than anything should take, and only waited for if something hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The owner of all scenes.
const OWNER: &str = "uft_the-owner-of-all-scenes-xxxxxxxxxxxxxxxxxxx";

pub(crate) struct Scene {
    pub(crate) puppet: Puppet,
    pub(crate) address: SocketAddr,
    pub(crate) runtime: Runtime,
    home: tempfile::TempDir,
    /// Beside the home, as the file of tokens is.
    tokens: tempfile::TempDir,
    secrets: BTreeMap<&'static str, String>,
    stop: Option<oneshot::Sender<()>>,
    served: Option<tokio::task::JoinHandle<()>>,
    app: Option<Arc<App>>,
    setting: Setting,
}

/// What is special about a server.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) limits: Limits,
    /// Who has a token; if nobody has, the server is for its owner, who is asking wherever a test does not say otherwise.
    pub(crate) actors: &'static [&'static str],
    /// Who may see the numbers.
    pub(crate) operators: &'static [&'static str],
    pub(crate) trust_runtime_headers: bool,
    /// Whether it takes requests for any host, as a platform may send them.
    pub(crate) any_host: bool,
    /// Tools that run unasked.
    pub(crate) allowed: &'static [&'static str],
    pub(crate) remote: Option<Arc<dyn Remote>>,
    /// Whether a turn counts as saved only when the remote has it.
    pub(crate) is_awaited: bool,
    /// Other names that it goes by.
    pub(crate) hosts: &'static [&'static str],
    /// How long a server may serve a session without a sign of life.
    pub(crate) lease: Duration,
    /// Other pages that may use it.
    pub(crate) origins: &'static [&'static str],
    /// Whether it shows its own.
    pub(crate) page: bool,
    /// Claude Code, as another agent.
    pub(crate) claude: Option<ClaudeCode>,
    /// The secret that it shares with other servers, if it has a remote.
    pub(crate) cluster_key: Option<&'static str>,
    /// Where it says that others reach it, if that is elsewhere.
    pub(crate) advertised: Option<String>,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            // What a test does not speak of must not end anything, however long the machine stands still.
            limits: Limits {
                linger: Duration::from_millis(300),
                handshake: PATIENCE,
                silence: 30 * PATIENCE,
                ..Limits::default()
            },
            actors: &[],
            operators: &[],
            trust_runtime_headers: false,
            any_host: false,
            allowed: &[],
            remote: None,
            is_awaited: true,
            hosts: &[],
            lease: PATIENCE,
            origins: &[],
            page: true,
            claude: None,
            cluster_key: Some(CLUSTER_KEY),
            advertised: None,
        }
    }
}

impl Setting {
    /// A server for these, each with a token.
    pub(crate) fn of(actors: &'static [&'static str]) -> Self {
        Self { actors, ..Self::default() }
    }
}

/// What came back over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|_| Value::from(self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::with(Setting::default())
    }

    pub(crate) fn with(setting: Setting) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let mut scene = Self {
            puppet: Puppet::new(),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            runtime,
            home: tempfile::tempdir().unwrap(),
            tokens: tempfile::tempdir().unwrap(),
            secrets: BTreeMap::new(),
            stop: None,
            served: None,
            app: None,
            setting,
        };
        plant(scene.home());
        let tokens = scene.token_file();
        for actor in scene.setting.actors {
            let made = tokens.add(actor, None, None).unwrap();
            scene.secrets.insert(actor, made.secret.expose_secret().to_owned());
        }
        scene.start();
        scene
    }

    /// Whether the server is for its owner alone.
    pub(crate) fn is_own(&self) -> bool {
        self.setting.actors.is_empty() && !self.setting.trust_runtime_headers
    }

    /// What the owner's programs send: the token in the file that only the owner can read. Tests of several servers with one owner
    /// share it, as `plant` has it.
    pub(crate) fn owner_token(&self) -> String {
        std::fs::read_to_string(self.home().join(OWNER_FILE)).unwrap().trim().to_owned()
    }

    /// The headers of a request: the owner's token with them, unless something else says who is asking or whom it is from.
    fn with_owner<'a>(&self, headers: &[(&'a str, &'a str)], bearer: &'a mut String) -> Vec<(&'a str, &'a str)> {
        let mut all = headers.to_vec();
        let says_who = |name: &str| matches!(name, "authorization" | "cookie");
        if self.is_own() && !headers.iter().any(|(name, _)| says_who(name)) {
            *bearer = format!("Bearer {}", self.owner_token());
            all.push(("authorization", bearer.as_str()));
        }
        all
    }

    /// The same for a request whose bytes a test writes itself: the lines of its head that say whom it is for and from.
    pub(crate) fn head(&self) -> String {
        let owner =
            if self.is_own() { format!("Authorization: Bearer {}\r\n", self.owner_token()) } else { String::new() };
        format!("Host: {}\r\n{owner}", self.address)
    }

    fn token_file(&self) -> Tokens {
        Tokens::load(Arc::new(Os::new(self.tokens.path())), "tokens", Arc::new(System)).unwrap()
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// The folder of an actor's sessions.
    pub(crate) fn realm(&self, actor: &str) -> PathBuf {
        self.home().join("actors").join(actor)
    }

    pub(crate) fn token(&self, actor: &str) -> &str {
        &self.secrets[actor]
    }

    /// Takes an actor's token back.
    pub(crate) fn revoke(&self, actor: &str) {
        let tokens = self.token_file();
        let own: Vec<_> = tokens.list().unwrap().into_iter().filter(|token| token.actor == actor).collect();
        assert!(!own.is_empty());
        for token in own {
            tokens.remove(&token.id).unwrap();
        }
    }

    /// What the handlers reach.
    pub(crate) fn app(&self) -> &Arc<App> {
        self.app.as_ref().unwrap()
    }

    pub(crate) fn start(&mut self) {
        let source: SharedSource = Arc::new(System);
        let (home, clock) = (self.home().to_path_buf(), source.clone());
        // As `unforget serve` has it: commands are for a server that one person uses.
        let has_commands = self.is_own();
        let native = Native {
            name: "main".to_owned(),
            model: Arc::new(self.puppet.clone()),
            settings: Arc::new(Settings::default()),
            tools: Arc::new(move |realm, session| {
                let folder = realm.work(session)?;
                let tools = standard(
                    Workspace::open(&folder, &realm.root().join("agents"))?,
                    Commands::default(),
                    clock.clone(),
                );
                Ok(Toolbox::new(tools.into_iter().filter(|tool| has_commands || tool.name() != "bash").collect()))
            }),
        };
        let listener = self.runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).unwrap();
        self.address = listener.local_addr().unwrap();
        let fleet = self.setting.remote.clone().map(|remote| fleet::Settings {
            home: self.home().file_name().unwrap().to_string_lossy().into_owned(),
            remote,
            tenant: "the-owner".to_owned(),
            known_as: "elsewhere".to_owned(),
            address: self.setting.advertised.clone().unwrap_or_else(|| format!("http://{}", self.address)),
            source: source.clone(),
            is_awaited: self.setting.is_awaited,
            lease: self.setting.lease,
            cluster_key: self.setting.cluster_key.and_then(ClusterKey::from_text),
        });
        let url = format!("http://{}", self.address);
        let ways = Ways {
            owner: self.is_own().then(|| Owner::open(&Os::new(self.home()), &url).unwrap()),
            tokens: (!self.setting.actors.is_empty()).then(|| self.token_file()),
            jwt: None,
            trust_runtime_headers: self.setting.trust_runtime_headers,
        };
        let allow = |door: Door, host: &&str| door.allow_host(host).unwrap();
        let door = self.setting.hosts.iter().fold(Door::new(self.address), allow);
        let allow = |door: Door, origin: &&str| door.allow_origin(origin).unwrap();
        let door = self.setting.origins.iter().fold(door, allow);
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut agents: Vec<Arc<dyn Agent>> = vec![Arc::new(native)];
        agents.extend(self.setting.claude.clone().map(|claude| Arc::new(claude) as Arc<dyn Agent>));
        let server = Server::new(Config {
            home,
            agents: Agents::new(agents).unwrap(),
            allowed: owned(self.setting.allowed),
            identity: Identity::new(ways, &self.setting.limits, source.clone()),
            door: if self.setting.any_host { door.any_host() } else { door },
            operators: owned(self.setting.operators),
            limits: self.setting.limits,
            fleet,
            source,
            threads: 4,
            prices: Prices::default(),
            page: self.setting.page,
        })
        .unwrap();
        self.app = Some(server.app().clone());
        let socket = self.is_own().then(|| {
            let _entered = self.runtime.enter();
            server.owner_socket().unwrap()
        });
        let (stop, stopped) = oneshot::channel::<()>();
        self.stop = Some(stop);
        let serving = async move {
            let stopped = async move {
                drop(stopped.await);
            };
            server.run(listener, socket, stopped).await.unwrap();
        };
        self.served = Some(self.runtime.spawn(serving));
    }

    /// Stops the server as SIGTERM would.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
        self.app = None;
        let served = self.served.take().unwrap();
        self.runtime.block_on(async { tokio::time::timeout(PATIENCE, served).await.unwrap().unwrap() });
    }

    pub(crate) fn connect(&self) -> Client<'_> {
        self.dial("/ws", &[]).unwrap()
    }

    /// A client that shows its token in a header.
    pub(crate) fn connect_as(&self, actor: &str) -> Client<'_> {
        self.dial("/ws", &[("authorization", &format!("Bearer {}", self.token(actor)))]).unwrap()
    }

    /// Connects with headers; the status if the server does not want to.
    pub(crate) fn dial(&self, path: &str, headers: &[(&str, &str)]) -> Result<Client<'_>, u16> {
        let mut bearer = String::new();
        self.dial_bare(path, &self.with_owner(headers, &mut bearer))
    }

    /// The same with these headers and no other.
    pub(crate) fn dial_bare(&self, path: &str, headers: &[(&str, &str)]) -> Result<Client<'_>, u16> {
        let mut request = format!("ws://{}{path}", self.address).into_client_request().unwrap();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
        }
        match self.runtime.block_on(tokio_tungstenite::connect_async(request)) {
            Ok((stream, _)) => Ok(Client { runtime: &self.runtime, stream }),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Sends a request and gives back the status and the body.
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&str>) -> (u16, Value) {
        let answer = self.send(method, path, body, &[]);
        (answer.status, answer.json())
    }

    /// The same as somebody.
    pub(crate) fn ask_as(&self, actor: &str, method: &str, path: &str, body: Option<&str>) -> Answer {
        self.send(method, path, body, &[("authorization", &format!("Bearer {}", self.token(actor)))])
    }

    /// Sends a request with headers.
    pub(crate) fn send(&self, method: &str, path: &str, body: Option<&str>, headers: &[(&str, &str)]) -> Answer {
        let mut bearer = String::new();
        self.send_bare(method, path, body, &self.with_owner(headers, &mut bearer))
    }

    /// The same with these headers and no other.
    pub(crate) fn send_bare(&self, method: &str, path: &str, body: Option<&str>, headers: &[(&str, &str)]) -> Answer {
        let url = format!("http://{}{path}", self.address);
        self.runtime.block_on(async {
            let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
            let mut asking = reqwest::Client::builder().no_proxy().build().unwrap().request(method, url);
            if let Some(body) = body {
                asking = asking.header("content-type", "application/json").body(body.to_owned());
            }
            for (name, value) in headers {
                asking = asking.header(*name, *value);
            }
            let response = asking.send().await.unwrap();
            let status = response.status().as_u16();
            let headers = response.headers().iter().filter(|(name, _)| name.as_str() != "date");
            // What is said several times is one list.
            let headers = headers.fold(BTreeMap::<String, String>::new(), |mut all, (name, value)| {
                let value = value.to_str().unwrap();
                all.entry(name.to_string()).and_modify(|had| *had += &format!(", {value}")).or_insert(value.to_owned());
                all
            });
            Answer { status, headers, bytes: response.bytes().await.unwrap().to_vec() }
        })
    }

    /// Waits until something is so.
    pub(crate) fn wait(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let started = std::time::Instant::now();
        while !is_so() {
            assert!(started.elapsed() < PATIENCE, "it never came true: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The lines of a session's transcript.
    pub(crate) fn transcript(&self, id: &str) -> Vec<Value> {
        let path = self.home().join(format!("agents/main/sessions/{id}.jsonl"));
        lines(&path)
    }

    /// The same of an actor's.
    pub(crate) fn transcript_of(&self, actor: &str, id: &str) -> Vec<Value> {
        lines(&self.realm(actor).join(format!("agents/main/sessions/{id}.jsonl")))
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if self.served.is_some() {
            // A turn that is held would keep the server waiting.
            self.puppet.gate.add_permits(1000);
            self.stop();
        }
    }
}

/// Puts the token of the owner of all scenes into a home: servers that share a remote have one owner.
fn plant(home: &Path) {
    let file = home.join(OWNER_FILE);
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::set_permissions(file.parent().unwrap(), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(&file, format!("{OWNER}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A client.
pub(crate) struct Client<'a> {
    runtime: &'a Runtime,
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl Client<'_> {
    pub(crate) fn say(&mut self, message: &Value) {
        schema::said(message);
        self.blurt(&message.to_string());
    }

    /// Says what may be no message at all.
    pub(crate) fn blurt(&mut self, text: &str) {
        self.runtime.block_on(self.stream.send(Message::text(text))).unwrap();
    }

    /// The next message; none if the connection was closed.
    pub(crate) fn hear(&mut self) -> Option<Value> {
        self.runtime.block_on(async {
            loop {
                match tokio::time::timeout(PATIENCE, self.stream.next()).await.expect("nothing was told") {
                    Some(Ok(Message::Text(text))) => {
                        let message = serde_json::from_str(&text).unwrap();
                        schema::heard(&message);
                        return Some(message);
                    }
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                    Some(Ok(_)) => {}
                }
            }
        })
    }

    /// Why the connection was closed.
    pub(crate) fn closed(&mut self) -> Option<u16> {
        self.runtime.block_on(async {
            loop {
                match tokio::time::timeout(PATIENCE, self.stream.next()).await.expect("it was not closed") {
                    Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code.into()),
                    Some(Err(_)) | None => return None,
                    Some(Ok(_)) => {}
                }
            }
        })
    }

    /// All messages up to one of a type, that one included.
    pub(crate) fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut heard = Vec::new();
        loop {
            let message = self.hear().unwrap_or_else(|| panic!("closed before `{kind}`: {heard:#?}"));
            let is_it = message["type"] == kind;
            heard.push(message);
            if is_it {
                return heard;
            }
        }
    }

    /// Until this prompt is told to be accepted. Of an earlier one that may come later than its first words.
    pub(crate) fn until_accepted(&mut self, client_id: &str) -> Value {
        loop {
            let accepted = self.until("accepted").pop().unwrap();
            if accepted["client_id"] == client_id {
                return accepted;
            }
        }
    }

    pub(crate) fn attach(&mut self, id: &str, after: Option<u64>) -> Vec<Value> {
        self.say(&json!({ "type": "attach", "session_id": id, "after": after }));
        self.until("caught_up")
    }
}

/// The text of all deltas.
pub(crate) fn spoken(messages: &[Value]) -> String {
    messages
        .iter()
        .filter(|message| message["type"] == "delta")
        .map(|message| message["text"].as_str().unwrap())
        .collect()
}

/// The numbers of all records.
pub(crate) fn numbers(messages: &[Value]) -> Vec<u64> {
    messages
        .iter()
        .filter(|message| message["type"] == "record")
        .map(|message| message["n"].as_u64().unwrap())
        .collect()
}
