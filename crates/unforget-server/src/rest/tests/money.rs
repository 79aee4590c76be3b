//! What sessions cost: in lists, of one of them, and added up.

use std::collections::BTreeMap;

use unforget_agent::prices::{Price, Prices};
use unforget_core::key::Key;
use unforget_core::record::Draft;

use super::*;

/// A call of a model with a million tokens in and one out.
fn call(model: &str) -> Draft {
    let usage = r#"{"input_tokens":1000000,"output_tokens":1}"#;
    Draft::turn("done").text("model", model).raw("usage", usage)
}

fn write(server: &Server, key: &str, models: &[&str]) -> String {
    let key: Key = key.parse().unwrap();
    let mut session = server.realm.store().create(&key, None).unwrap();
    for model in models {
        session.append(&[call(model)]).unwrap();
    }
    session.id().to_string()
}

fn priced() -> Server {
    let house = Price::of(&[("input", 2.0), ("output", 0.0)]).unwrap();
    Server::new_with(Prices { own: BTreeMap::from([("house".to_owned(), house)]) })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_costs_what_its_models_cost_or_nobody_knows() {
    let server = priced();
    let known = write(&server, "main:web:a", &["house", "claude-opus-5"]);
    let unknown = write(&server, "main:web:b", &["house", "nobody"]);
    let free = write(&server, "main:web:c", &["offline"]);
    let fresh = server.post("/sessions", json!({ "key": "main:web:d" })).await.is(201);
    assert_eq!(fresh["cost_usd"], 0.0);
    let listed = server.get("/sessions").await.is(200);
    for (id, cost) in [(&known, json!(7.000_025)), (&unknown, Value::Null), (&free, json!(0.0))] {
        let row = listed["sessions"].as_array().unwrap().iter().find(|row| row["id"] == **id).unwrap();
        assert_eq!(row["cost_usd"], cost);
        assert_eq!(server.get(&format!("/sessions/{id}")).await.is(200)["cost_usd"], cost);
    }
    server.ask_as(&server.realm, Method::DELETE, &format!("/sessions/{known}"), None).await.is(204);
    assert_eq!(server.get("/sessions?deleted=true").await.is(200)["sessions"][0]["cost_usd"], 7.000_025);
}

#[tokio::test(flavor = "multi_thread")]
async fn costs_are_added_up_and_what_has_no_price_is_named() {
    let server = priced();
    write(&server, "main:web:a", &["house", "house"]);
    write(&server, "other:web:b", &["house", "nobody"]);
    let by = async |query: &str| server.get(&format!("/usage?{query}")).await.is(200);
    let models = by("by=model").await;
    assert_eq!(models["unpriced"], json!(["nobody"]));
    assert_eq!(models["total"]["cost_usd"], 6.0);
    let rows: Vec<(&Value, &Value)> =
        models["rows"].as_array().unwrap().iter().map(|row| (&row["model"], &row["cost_usd"])).collect();
    assert_eq!(rows, [(&json!("house"), &json!(6.0)), (&json!("nobody"), &Value::Null)]);
    assert_eq!(by("by=agent&agent=other").await["rows"][0]["cost_usd"], 2.0, "the part that is known");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_can_be_told_apart_by_two_things() {
    let server = priced();
    let one = write(&server, "main:web:a", &["house", "claude-opus-5"]);
    write(&server, "other:web:b", &["house"]);
    let rows = async |query: &str, names: [&str; 2]| {
        let usage = server.get(&format!("/usage?{query}")).await.is(200);
        let rows = usage["rows"].as_array().unwrap().iter();
        let mut rows: Vec<_> =
            rows.map(|row| (names.map(|name| row[name].as_str().unwrap().to_owned()), row["input"].clone())).collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        rows
    };
    let row = |a: &str, b: &str, millions: u64| ([a.to_owned(), b.to_owned()], json!(millions * 1_000_000));
    let days = rows("by=day&and=model", ["day", "model"]).await;
    let day = days[0].0[0].clone();
    assert_eq!(days, [row(&day, "claude-opus-5", 1), row(&day, "house", 2)]);
    assert_eq!(
        rows("by=model&and=agent", ["model", "agent"]).await,
        [row("claude-opus-5", "main", 1), row("house", "main", 1), row("house", "other", 1)]
    );
    let session = rows("by=session&and=model&key=main:web:*", ["session", "model"]).await;
    assert_eq!(session, [row(&one, "claude-opus-5", 1), row(&one, "house", 1)]);
    for wrong in ["by=model&and=model", "and=day", "and="] {
        server.get(&format!("/usage?{wrong}")).await.fails(400, "invalid");
    }
}
