//! The bytes of one file, live and durable.
//!
//! This module owns what a write, a cut and a sync do to the two images of a file's content. It knows no names
//! and no faults. The failure it guards against is a test that passes because a write was taken for saved
//! before anybody synced it.

use super::survival::Bytes;

#[derive(Debug, Clone, Default)]
pub(super) struct FileData {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// Both images agree up to here; kept so that a sync copies what is new and not the whole file.
    common: usize,
    live_modified_ns: i64,
    durable_modified_ns: i64,
}

impl FileData {
    pub(super) fn new(now_ns: i64) -> Self {
        Self { live_modified_ns: now_ns, durable_modified_ns: now_ns, ..Self::default() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.live
    }

    pub(super) fn modified_ns(&self) -> i64 {
        self.live_modified_ns
    }

    pub(super) fn append(&mut self, bytes: &[u8], now_ns: i64) {
        self.live.extend_from_slice(bytes);
        self.live_modified_ns = now_ns;
    }

    /// Cuts the live image, or lengthens it with zeros.
    pub(super) fn set_len(&mut self, len: usize, now_ns: i64) {
        self.live.resize(len, 0);
        self.common = self.common.min(len);
        self.live_modified_ns = now_ns;
    }

    pub(super) fn sync(&mut self) {
        self.durable.truncate(self.common);
        self.durable.extend_from_slice(&self.live[self.common..]);
        self.common = self.durable.len();
        self.durable_modified_ns = self.live_modified_ns;
    }

    /// The file after a crash that left these of its bytes.
    pub(super) fn after_crash(&self, left: Bytes) -> Self {
        let (agreed, unsynced) = self.live.split_at(self.common);
        let mut bytes = agreed.to_vec();
        match left {
            Bytes::Cached => return self.clone(),
            Bytes::Synced => return Self::settled(self.durable.clone(), self.durable_modified_ns),
            Bytes::FirstHalf => bytes.extend_from_slice(&unsynced[..unsynced.len() / 2]),
            Bytes::Zeros => bytes.resize(self.live.len(), 0),
        }
        Self::settled(bytes, self.live_modified_ns)
    }

    /// What is read from a platter is on the platter.
    fn settled(bytes: Vec<u8>, modified_ns: i64) -> Self {
        Self {
            durable: bytes.clone(),
            common: bytes.len(),
            live: bytes,
            live_modified_ns: modified_ns,
            durable_modified_ns: modified_ns,
        }
    }
}
