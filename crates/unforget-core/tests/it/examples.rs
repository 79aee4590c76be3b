//! The examples do what they say.

#[expect(dead_code, reason = "its `main` only shows what `run` gives back")]
#[path = "../../examples/custom_medium.rs"]
mod custom_medium;
#[expect(dead_code, reason = "its `main` only shows what `run` gives back")]
#[path = "../../examples/store.rs"]
mod store;

#[test]
fn the_store_is_filled_listed_and_searched() {
    let folder = tempfile::tempdir().unwrap();
    let told = store::run(folder.path()).unwrap();
    let expected = [
        "saved records 1 to 5",
        "a second writer is refused",
        "main:cli:bob: When is high tide?",
        "main:cli:ada: How warm is it at the lighthouse?",
        r#"user says {"type":"text","text":"How warm is it at the lighthouse?"}"#,
        r#"assistant says {"type":"tool_use","id":"call-1","name":"thermometer","input":{"place":"lighthouse"}}"#,
        r#"user says {"type":"tool_result","tool_use_id":"call-1","content":"17 degrees"}"#,
        r#"assistant says {"type":"text","text":"It is 17 degrees at the lighthouse."}"#,
    ];
    assert_eq!(told[..8], expected);
    assert!(told[8..].iter().any(|line| line == "record 1 (user): How warm is it at the lighthouse?"), "{told:?}");
}

#[test]
fn a_turn_is_one_write_and_one_sync() {
    let folder = tempfile::tempdir().unwrap();
    let (writes, bytes, syncs) = custom_medium::run(folder.path()).unwrap();
    assert_eq!((writes, syncs), (1, 1));
    assert!((100..1000).contains(&bytes), "{bytes}");
}

#[test]
fn a_file_in_the_place_of_a_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, "not a store").unwrap();
    let error = unforget_core::Store::open(&path).unwrap_err();
    assert!(error.is_io(std::io::ErrorKind::NotADirectory), "{error}");
    assert!(unforget_core::Store::open(folder.path().join("none")).is_ok());
}
