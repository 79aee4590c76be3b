//! That another server has a session, from the handler that finds out to the layer that makes the
//! request there.
//!
//! A handler answers with a [`Problem`] of the kind `moved` and leaves the place beside the
//! response. So it needs to know nothing of how requests are forwarded.

use std::cell::RefCell;

use unforget_core::stamp::SessionId;

use crate::error::{Code, Problem};

tokio::task_local! {
    /// The server that has the session of this request, if another one has it.
    static ELSEWHERE: RefCell<Option<Elsewhere>>;
}

/// The server of this cluster that serves a session, by a lease that it signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// Where it is reached.
    pub(crate) address: String,
    /// The session.
    pub(crate) session: SessionId,
}

impl Elsewhere {
    /// That a session is elsewhere; the request goes on there.
    pub(crate) fn moved(self) -> Problem {
        if let Err(error) = ELSEWHERE.try_with(|at| *at.borrow_mut() = Some(self)) {
            tracing::debug!(%error, "a session is elsewhere, and this task forwards nothing");
        }
        Problem::new(Code::Moved, "another server serves this session now; try again")
    }

    /// Runs a handler; the server that has the session as well, if the handler found one.
    pub(crate) async fn found<F: Future>(run: F) -> (F::Output, Option<Self>) {
        let run = async {
            let done = run.await;
            (done, ELSEWHERE.with(|at| at.borrow_mut().take()))
        };
        ELSEWHERE.scope(RefCell::new(None), run).await
    }
}
