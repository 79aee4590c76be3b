//! Connections that were accepted: where each comes from, and how many there are, in all and by
//! address.
//!
//! A connection counts as long as anything holds it, also a WebSocket that it has become.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::Extensions;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::limits::Limits;
use crate::shared::Shared;

/// What a WebSocket takes along from the connection that it was.
#[derive(Clone)]
pub(crate) struct Connection {
    /// It counts as long as it is open.
    counted: Arc<Open>,
    /// The server waits for it when it stops.
    pub(crate) tasks: TaskTracker,
    /// That the server stops.
    pub(crate) over: CancellationToken,
}

/// A connection that is counted, by its address and among all.
struct Open(Arc<Shared>, Counted);

impl Connection {
    pub(crate) fn new(shared: Arc<Shared>, counted: Counted, tasks: TaskTracker, over: CancellationToken) -> Self {
        shared.metrics.connections.inc();
        Self { counted: Arc::new(Open(shared, counted)), tasks, over }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.metrics.connections.dec();
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("address", &self.counted.1.1).finish_non_exhaustive()
    }
}

/// Where a request came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// Whether it came through the owner's socket, from a process of the owner.
    is_owner: bool,
}

impl Peer {
    /// What came through the owner's socket has no address, and is not counted with those that have
    /// one.
    const NO_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

    pub(crate) fn at(address: SocketAddr) -> Self {
        Self { address: address.ip(), is_owner: false }
    }

    pub(crate) fn at_socket(is_owner: bool) -> Self {
        Self { address: Self::NO_ADDRESS, is_owner }
    }

    /// The address that a request came from.
    pub(crate) fn of(extensions: &Extensions) -> IpAddr {
        extensions.get::<Self>().map_or(Self::NO_ADDRESS, |peer| peer.address)
    }

    /// Whether the kernel says that a process of the owner sent this request.
    pub(crate) fn is_owner(extensions: &Extensions) -> bool {
        extensions.get::<Self>().is_some_and(|peer| peer.is_owner)
    }
}

/// How many connections each address has.
#[derive(Debug, Default)]
pub(crate) struct Addresses(Mutex<(usize, HashMap<IpAddr, usize>)>);

/// One of them, until it is dropped.
pub(crate) struct Counted(Arc<Addresses>, IpAddr);

impl Addresses {
    /// Counts one more, unless there are too many.
    pub(crate) fn count(self: &Arc<Self>, address: IpAddr, limits: &Limits) -> Option<Counted> {
        // Whoever has one address of IPv6 has all of its network.
        let address = match address {
            IpAddr::V6(long) if long.to_ipv4_mapped().is_none() => {
                IpAddr::V6((u128::from(long) & !u128::from(u64::MAX)).into())
            }
            other => other,
        };
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = counts.1.get(&address).copied().unwrap_or(0);
        if counts.0 >= limits.connections || own >= limits.connections_per_address {
            return None;
        }
        counts.0 += 1;
        counts.1.insert(address, own + 1);
        Some(Counted(self.clone(), address))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.0 -= 1;
        if let Some(count) = counts.1.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                counts.1.remove(&self.1);
            }
        }
    }
}
