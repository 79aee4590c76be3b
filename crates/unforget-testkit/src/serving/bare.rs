//! A server that keeps nothing: what the same turn costs where nobody cares about it afterwards.
//!
//! It takes prompts from WebSockets, asks the same model with the conversation so far, and passes each piece on as it comes, in messages of the same
//! protocol. The conversation is in memory and gone with the connection. There is no session, no actor, no bound.

use std::io::Write as _;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;

use super::Result;

/// Serves until the process is ended; prints where, as a server does.
pub fn serve(api: &str) -> Result {
    let fail = |error: std::io::Error| error.to_string();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(fail)?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{{\"listening\":\"http://{address}\"}}").and_then(|()| out.flush()).map_err(fail)?;
        drop(out);
        let asking = reqwest::Client::builder().no_proxy().build().map_err(|error| error.to_string())?;
        loop {
            let (stream, _) = listener.accept().await.map_err(fail)?;
            let (asking, api) = (asking.clone(), api.to_owned());
            tokio::spawn(async move {
                // A connection that breaks is its client's to notice.
                drop(converse(stream, &asking, &api).await);
            });
        }
    })
}

async fn converse(stream: TcpStream, asking: &reqwest::Client, api: &str) -> Result {
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let mut socket = tokio_tungstenite::accept_async(stream).await.map_err(|error| error.to_string())?;
    let mut messages: Vec<Value> = Vec::new();
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else { continue };
        let prompt: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let client_id = prompt["client_id"].clone();
        messages.push(json!({ "role": "user", "content": prompt["prompt"] }));
        let accepted = json!({ "type": "accepted", "client_id": client_id });
        socket.send(Message::text(accepted.to_string())).await.map_err(|error| error.to_string())?;
        let body = json!({ "model": "claude-opus-5", "max_tokens": 8192, "stream": true, "messages": messages });
        let request = asking.post(format!("{api}/v1/messages")).header("content-type", "application/json");
        let mut response = request.body(body.to_string()).send().await.map_err(|error| error.to_string())?;
        let (mut waiting, mut answer) = (String::new(), String::new());
        while let Some(chunk) = response.chunk().await.map_err(|error| error.to_string())? {
            waiting.push_str(&String::from_utf8_lossy(&chunk));
            while let Some((event, rest)) = waiting.split_once("\n\n") {
                let data = event.split("data: ").nth(1).unwrap_or("null");
                let event: Value = serde_json::from_str(data).unwrap_or_default();
                if let Some(text) = event["delta"]["text"].as_str() {
                    answer.push_str(text);
                    let delta = json!({ "type": "delta", "block": 0, "kind": "text", "text": text });
                    socket.send(Message::text(delta.to_string())).await.map_err(|error| error.to_string())?;
                }
                waiting = rest.to_owned();
            }
        }
        let done = json!({ "type": "done", "client_id": client_id, "state": "done", "text": answer });
        messages.push(json!({ "role": "assistant", "content": answer }));
        socket.send(Message::text(done.to_string())).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}
