//! The document says what the router does: the same paths and methods, and of every answer in any of these tests its status, its type and its shape.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use axum::http::Uri;

use super::*;
use crate::error::Code;
use crate::rest::{health, table};

pub(super) static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(health::OPENAPI).unwrap());
/// Keywords that say nothing which is looked at here.
const WORDS: [&str; 6] = ["description", "format", "default", "pattern", "contentMediaType", "title"];

/// What a reference leads to, or the thing itself.
pub(super) fn resolved(value: &'static Value) -> &'static Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(reference) => {
            let found = DOCUMENT.pointer(reference.trim_start_matches('#'));
            resolved(found.unwrap_or_else(|| panic!("{reference} leads nowhere")))
        }
        None => value,
    }
}

/// Why a value is not as a schema says.
fn fault(schema: &'static Value, value: &Value, at: &str) -> Option<String> {
    let schema = resolved(schema);
    let names =
        |list: &Value| list.as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let is = |kind: &str| match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("a type `{other}`"),
    };
    let chars = value.as_str().map(|text| text.chars().count() as u64);
    let items = value.as_array().map(|items| items.len() as u64);
    let within = |count: Option<u64>, least: u64, most: u64| count.is_none_or(|count| (least..=most).contains(&count));
    for (keyword, rule) in schema.as_object().unwrap() {
        let number = rule.as_u64().unwrap_or(0);
        let holds = match keyword.as_str() {
            "type" if rule.is_array() => names(rule).iter().any(|kind| is(kind)),
            "type" => is(rule.as_str().unwrap()),
            "enum" => rule.as_array().unwrap().contains(value),
            "const" => rule == value,
            "oneOf" => {
                let all = rule.as_array().unwrap().iter();
                all.filter(|one| fault(one, value, at).is_none()).count() == 1
            }
            "minLength" => within(chars, number, u64::MAX),
            "maxLength" => within(chars, 0, number),
            "minItems" => within(items, number, u64::MAX),
            "maxItems" => within(items, 0, number),
            "minimum" => {
                value.is_null() || within(value.as_u64(), number, u64::MAX) && value.as_i64().is_none_or(|it| it >= 0)
            }
            "maximum" => within(value.as_u64(), 0, number),
            "minProperties" => value.as_object().is_none_or(|members| members.len() as u64 >= number),
            "required" => names(rule).iter().all(|name| value.is_null() || value.get(name).is_some()),
            "additionalProperties" => {
                assert_eq!(rule, false);
                let known = schema["properties"].as_object().unwrap();
                value.as_object().is_none_or(|members| members.keys().all(|name| known.contains_key(name)))
            }
            "properties" => {
                for (name, schema) in rule.as_object().unwrap() {
                    if let Some(found) = value.get(name).and_then(|value| fault(schema, value, &format!("{at}/{name}")))
                    {
                        return Some(found);
                    }
                }
                true
            }
            "items" => {
                let all = value.as_array().into_iter().flatten().enumerate();
                if let Some(found) =
                    all.filter_map(|(index, value)| fault(rule, value, &format!("{at}/{index}"))).next()
                {
                    return Some(found);
                }
                true
            }
            word if WORDS.contains(&word) => true,
            other => panic!("a keyword `{other}`"),
        };
        if !holds {
            return Some(format!("{at}: {value} is not {keyword} {rule}"));
        }
    }
    None
}

/// Whether a path is one of a template.
fn fits(template: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(wanted), Some(given)) if wanted == given || (wanted == "{id}" && !given.is_empty()) => {}
            _ => return false,
        }
    }
}

fn operation(method: &Method, uri: &Uri) -> Option<&'static Value> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let (_, path) = paths.iter().find(|(template, _)| fits(template, uri.path()))?;
    path.get(method.as_str().to_lowercase())
}

/// Sees that a request and its answer are in the document.
pub(super) fn check(method: &Method, uri: &Uri, asked: &[u8], answer: &Answer) {
    let Some(operation) = operation(method, uri) else {
        assert!([404, 405].contains(&answer.status.as_u16()), "{method} {uri} is answered and not documented");
        return;
    };
    let status = answer.status.as_str();
    let response = operation["responses"].get(status);
    let response = resolved(response.unwrap_or_else(|| panic!("{method} {uri}: {status} is not documented")));
    match response.get("content") {
        None => assert!(answer.bytes.is_empty(), "{method} {uri}"),
        Some(content) => {
            let media = answer.headers["content-type"].to_str().unwrap();
            let schema = content.get(media).unwrap_or_else(|| panic!("{method} {uri}: {media} is not documented"));
            // What only text can hold (lone surrogates, 1e400) is not looked at.
            if media == "application/json"
                && let Ok(value) = serde_json::from_slice::<Value>(&answer.bytes)
            {
                assert_eq!(fault(&schema["schema"], &value, ""), None, "{method} {uri}");
            }
        }
    }
    if !answer.status.is_success() {
        return;
    }
    let parameters = || operation["parameters"].as_array().into_iter().flatten();
    for (name, _) in uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('=')) {
        assert!(
            parameters().any(|it| it["in"] == "query" && it["name"] == name),
            "{method} {uri}: `{name}` is not documented"
        );
    }
    if let (Some(body), Ok(value)) = (operation.get("requestBody"), serde_json::from_slice::<Value>(asked)) {
        assert_eq!(fault(&body["content"]["application/json"]["schema"], &value, ""), None, "{method} {uri}: the body");
    }
}

#[test]
fn router_and_document_have_the_same_operations() {
    let routed: BTreeSet<(String, String)> = table()
        .into_iter()
        .map(|(method, path, _)| (format!("{PREFIX}{path}"), method.as_str().to_lowercase()))
        .collect();
    let paths = DOCUMENT["paths"].as_object().unwrap().iter();
    let documented: BTreeSet<(String, String)> = paths
        .flat_map(|(path, methods)| methods.as_object().unwrap().keys().map(|method| (path.clone(), method.clone())))
        .collect();
    assert_eq!(routed, documented);
}

#[test]
fn every_operation_names_its_schemas_and_its_security() {
    let mut ids = BTreeSet::new();
    for (path, methods) in DOCUMENT["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let at = format!("{method} {path}");
            assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{at}");
            let is_open = operation.get("security").is_some_and(|security| *security == json!([]));
            let open = ["/v1/health", "/v1/openapi.json", "/v1/login", "/v1/logout"];
            assert_eq!(is_open, open.contains(&path.as_str()), "{at}");
            let responses = operation["responses"].as_object().unwrap();
            // Whoever comes in shows a token as well, and it may be wrong.
            assert_eq!(responses.contains_key("401"), !is_open || path == "/v1/login", "{at}");
            for (status, response) in responses {
                let response = resolved(response);
                let content = response.get("content").and_then(Value::as_object);
                assert_eq!(content.is_none(), status == "204", "{at} {status}");
                for (media, schema) in content.into_iter().flatten() {
                    let is_named = schema["schema"].get("$ref").is_some();
                    assert_eq!(is_named, media == "application/json", "{at} {status} {media}");
                    resolved(&schema["schema"]);
                }
            }
            if let Some(body) = operation.get("requestBody") {
                let schema = &body["content"]["application/json"]["schema"];
                assert!(schema.get("$ref").is_some(), "{at}");
                assert_eq!(resolved(schema)["additionalProperties"], false, "{at}");
                assert!(responses.contains_key("413") && responses.contains_key("415"), "{at}");
            }
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                assert!(parameter["schema"]["type"].is_string(), "{at}");
            }
        }
    }
    assert_eq!(DOCUMENT["security"], json!([{ "bearer": [] }]));
    assert_eq!(DOCUMENT["components"]["securitySchemes"]["bearer"], json!({ "type": "http", "scheme": "bearer" }));
}

#[test]
fn every_code_is_in_the_document_and_so_is_its_status() {
    let named = DOCUMENT.pointer("/components/schemas/Problem/properties/error/properties/code/enum").unwrap();
    let names: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(*named, json!(names));
    for code in Code::ALL.into_iter().filter(|code| *code != Code::MethodNotAllowed) {
        let name = format!("Problem{}", code.status().as_u16());
        assert!(DOCUMENT["components"]["responses"].get(&name).is_some(), "{name}");
    }
}

#[test]
fn a_value_that_is_not_as_the_document_says_is_noticed() {
    let schema = &DOCUMENT["components"]["schemas"]["Compacted"];
    assert_eq!(fault(schema, &json!({ "n": 3 }), ""), None);
    assert_eq!(fault(schema, &json!({ "n": null }), ""), None);
    for wrong in [json!({}), json!({ "n": "3" }), json!({ "n": -1 }), json!({ "n": 3, "m": 4 }), json!([])] {
        assert!(fault(schema, &wrong, "").is_some(), "{wrong}");
    }
}
