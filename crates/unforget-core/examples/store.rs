//! A store: a session by its key, a turn with a tool, a list, a search, and a second writer who is refused.
//!
//! ```console
//! $ cargo run -p unforget-core --example store
//! ```

use std::error::Error;
use std::path::Path;

use unforget_core::{Error as StoreError, Key, Limits, ListQuery, OnMissing, SearchQuery, Store, Turn};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    #[expect(clippy::print_stdout, reason = "an example shows what it does")]
    for line in run(folder.path())? {
        println!("{line}");
    }
    Ok(())
}

/// Fills a store and tells what is in it.
pub(crate) fn run(dir: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut told = Vec::new();
    let store = Store::open(dir)?;

    // A key says whose conversation it is: agent, channel, peer. Nothing else has to be remembered to find it again.
    let ada: Key = "main:cli:ada".parse()?;
    let mut session = store.load(&ada, OnMissing::Create)?;
    let turn = Turn::new("How warm is it at the lighthouse?")
        .call("call-1", "thermometer", r#"{"place":"lighthouse"}"#)
        .result("call-1", "17 degrees")
        .answer("It is 17 degrees at the lighthouse.");
    let records = session.save(&turn)?;
    told.push(format!("saved records {} to {}", records.start, records.end - 1));

    // The file has one writer. A second one hears at once who has it, and can still read.
    match store.load(&ada, OnMissing::Fail) {
        Err(StoreError::Busy { .. }) => told.push("a second writer is refused".to_owned()),
        other => told.push(format!("a second writer got {other:?}")),
    }
    session.close()?;

    let mut other = store.load(&"main:cli:bob".parse()?, OnMissing::Create)?;
    other.save(&Turn::new("When is high tide?").answer("High tide is at six."))?;
    other.close()?;

    // The list comes from the index, which every session brought up to date when it was closed.
    for info in store.list(&ListQuery::default())?.entries {
        let (key, title) = (info.row.key.as_deref().unwrap_or("?"), info.row.title.as_deref().unwrap_or("?"));
        told.push(format!("{key}: {title}"));
    }

    // What is sent to a model: calls and results in their places, roles alternating, within the API's limits.
    let info = store.find("main:cli:ada")?;
    let restored = store.history(&info, &Limits::default())?;
    for message in &restored.history.messages {
        told.push(format!("{} says {}", message.role.name(), message.blocks.join(" ")));
    }

    let query = SearchQuery::new("light*")?;
    for hit in store.search(&query)?.hits {
        let words = store.snippet(&hit, &query.query)?.unwrap_or_default();
        told.push(format!("record {} ({}): {}", hit.n, hit.role.name(), words.text));
    }
    Ok(told)
}
