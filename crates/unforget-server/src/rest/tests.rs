//! Each route once good and once bad, in this process and with nothing in between but the router.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use serde_json::{Value, json};
use tower::ServiceExt as _;
use unforget_agent::model::Model;
use unforget_agent::model::offline::Offline;
use unforget_agent::prices::Prices;
use unforget_agent::settings::Settings;
use unforget_agent::tools::Toolbox;
use unforget_core::medium::Os;
use unforget_core::stamp::{SessionId, System};

use super::{PREFIX, routes};
use crate::activity::Activity;
use crate::actor::ActorId;
use crate::agent::{Agents, Native};
use crate::app::App;
use crate::door::Door;
use crate::hub::{Hub, Shared};
use crate::identity::{Identity, Owner, Ways};
use crate::ledger::Ledger;
use crate::limits::Limits;
use crate::protocol::ClientId;
use crate::realm::{Realm, Realms};

mod context;
mod document;
mod entries;
mod every;
mod login;
mod money;
mod one;
mod path;
mod several;

/// A router with two people before it.
struct Server {
    router: axum::Router,
    app: Arc<App>,
    realm: Arc<Realm>,
    _home: tempfile::TempDir,
}

/// What came back.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    bytes: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// The answer, if it has that status.
    #[track_caller]
    fn is(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        if self.bytes.is_empty() { Value::Null } else { self.json() }
    }

    /// The answer is a problem in the one form that problems have.
    #[track_caller]
    fn fails(&self, status: u16, code: &str) {
        let value = self.is(status);
        assert_eq!(value["error"]["code"], code, "{value}");
        assert!(value["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{value}");
        assert_eq!(value["error"].as_object().unwrap().len(), 2, "{value}");
        assert_eq!(self.headers["content-type"], "application/json");
    }
}

impl Server {
    async fn new() -> Self {
        Self::with(Arc::new(Offline::new(100_000)))
    }

    /// A server whose agent asks that model.
    fn with(model: Arc<dyn Model>) -> Self {
        Self::set_up(model, Prices::default())
    }

    /// A server that knows these prices.
    fn new_with(prices: Prices) -> Self {
        Self::set_up(Arc::new(Offline::new(100_000)), prices)
    }

    fn set_up(model: Arc<dyn Model>, prices: Prices) -> Self {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().to_path_buf();
        let limits = Limits { linger: Duration::from_millis(50), ..Limits::default() };
        let (ledger, _) = Ledger::open(&root).unwrap();
        let owner = Owner::open(&Os::new(&root), "http://localhost:8080").unwrap();
        let source = Arc::new(System);
        let shared = Shared::new(limits, ledger, Vec::new(), Arc::new(Activity::new(source.clone())), None);
        let agent = Native {
            name: "main".to_owned(),
            model,
            settings: Arc::new(Settings::default()),
            tools: Arc::new(|_, _| Ok(Toolbox::new(Vec::new()))),
        };
        let agents = Agents::new(vec![Arc::new(agent)]).unwrap();
        let realms = Realms::new(root, source.clone());
        let hub = Hub::new(Arc::new(shared), realms, agents, tokio::runtime::Handle::current());
        let app = App {
            entries: Arc::default(),
            hub: Arc::new(hub),
            identity: Identity::new(Ways { owner: Some(owner), ..Ways::default() }, &limits, source),
            door: Door::new(([127, 0, 0, 1], 0).into()),
            operators: Vec::new(),
            sockets: Arc::default(),
            prices: Arc::new(prices),
            page: true,
        };
        let app = Arc::new(app);
        let realm = app.hub.realm(&ActorId::verified("ada").unwrap());
        Self { router: routes().with_state(app.clone()), app, realm, _home: home }
    }

    /// The same server for somebody else.
    fn of(&self, name: &str) -> Arc<Realm> {
        self.app.hub.realm(&ActorId::verified(name).unwrap())
    }

    async fn send(&self, realm: Option<&Arc<Realm>>, mut request: Request<Body>) -> Answer {
        if let Some(realm) = realm {
            request.extensions_mut().insert(realm.clone());
        }
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let (parts, body) = request.into_parts();
        let asked = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let request = Request::from_parts(parts, Body::from(asked.clone()));
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap().to_vec();
        let answer = Answer { status: parts.status, headers: parts.headers, bytes };
        document::check(&method, &uri, &asked, &answer);
        answer
    }

    async fn ask_as(&self, realm: &Arc<Realm>, method: Method, path: &str, body: Option<&str>) -> Answer {
        let request = Request::builder().method(method).uri(format!("{PREFIX}{path}"));
        let request = match body {
            Some(body) => request.header("content-type", "application/json").body(Body::from(body.to_owned())),
            None => request.body(Body::empty()),
        };
        self.send(Some(realm), request.unwrap()).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask_as(&self.realm, Method::GET, path, None).await
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask_as(&self.realm, Method::POST, path, Some(&body.to_string())).await
    }

    /// A new session.
    async fn begin(&self) -> String {
        let begun = self.post("/sessions", json!({})).await.is(201);
        begun["id"].as_str().unwrap().to_owned()
    }

    /// Says something in a session and waits for the answer.
    async fn say(&self, id: &str, words: &str) {
        let id = SessionId::parse(id).unwrap();
        let client_id = ClientId::random();
        // Who watches keeps it live.
        let watching = self.app.hub.attach(&self.realm, &id, crate::protocol::After::End).await.unwrap();
        let crate::hub::Watching::Here(_, viewer) = watching else { panic!("it is here") };
        viewer.live().prompt(client_id, words.to_owned(), false, None).await.unwrap();
        viewer.live().quiet().await;
    }
}
