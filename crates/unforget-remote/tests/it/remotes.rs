//! The suite on each place, plain and sealed.

use std::sync::Arc;

use unforget_core::medium::Os;
use unforget_remote::file::Folder;
use unforget_remote::memory::Memory;
use unforget_remote::{Key, conformance};

const SECRET: [u8; 32] = [9; 32];

#[tokio::test(flavor = "multi_thread")]
async fn memory_keeps_every_promise() {
    let place = Memory::default();
    conformance::all(&place.remote(), &place.remote(), "tenant").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_keeps_every_promise_when_sealed() {
    let place = Memory::default();
    let client = || place.remote().sealed(Some(Key::new(&SECRET)));
    conformance::all(&client(), &client(), "tenant").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_keeps_every_promise() {
    let dir = tempfile::tempdir().unwrap();
    let place = Folder::new(Arc::new(Os::new(dir.path())));
    conformance::all(&place.remote(), &place.remote(), "tenant").await;
}
