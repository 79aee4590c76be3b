//! The example keeps every promise of a remote.

#[expect(dead_code, reason = "its `main` only says that `run` came back")]
#[path = "../../examples/custom_remote.rs"]
mod custom_remote;

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_of_ones_own_keeps_every_promise() {
    custom_remote::run().await;
}
