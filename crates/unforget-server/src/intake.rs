//! What is taken in of a request's body: how many bytes, for how long, and at whose expense.
//!
//! Every body is wrapped here, behind the identity and before anything reads it: handlers, and the layer that sends requests on to other servers. A client that has
//! not said who it is gets as much as it needs to say so (`handshake_bytes`) and as long (`handshake`); others get the bounds of a body. A body that says itself that
//! it is longer is refused unread. Each piece that comes is charged to its sender ([`budget`](crate::budget)).
//!
//! A body that is refused in the middle ends with the [`Problem`] as its error, and [`problem`] finds it again in whatever a library
//! wrapped around it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::CONTENT_LENGTH;
use http_body_util::LengthLimitError;
use hyper::body::{Frame, SizeHint};
use tokio::time::Sleep;

use crate::budget::Claim;
use crate::caller::Caller;
use crate::error::{Code, Problem, Result};
use crate::limits::Limits;

/// How much is taken in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    bytes: usize,
    time: Duration,
    is_known: bool,
}

impl Terms {
    /// The terms for whoever sent this.
    pub(crate) fn of(request: &Request, limits: &Limits) -> Self {
        let caller = request.extensions().get::<Caller>();
        match caller.is_some_and(|caller| caller.actor.is_some()) {
            true => Self { bytes: limits.body, time: limits.body_time, is_known: true },
            false => Self { bytes: limits.handshake_bytes, time: limits.handshake, is_known: false },
        }
    }

    fn too_large(&self) -> Problem {
        let (most, name) = (self.bytes, if self.is_known { "body" } else { "handshake_bytes" });
        Problem::new(Code::TooLarge, format!("the body has more than {most} bytes (`{name}`); send less"))
    }
}

/// Bounds the body of a request; one that says itself that it is too long is refused.
pub(crate) fn bound(request: Request, terms: Terms, claim: &Arc<Claim>) -> Result<Request> {
    let length = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| usize::try_from(length).map_or(true, |length| length > terms.bytes)) {
        return Err(terms.too_large());
    }
    let intake = |body| Body::new(Intake { body, terms, taken: 0, claim: claim.clone(), until: None });
    Ok(request.map(intake))
}

/// Why a body did not come; `most` is what the reader itself takes.
pub(crate) fn problem(error: &axum::Error, most: usize) -> Problem {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(problem) = error.downcast_ref::<Problem>() {
            return problem.clone();
        }
        if error.is::<LengthLimitError>() {
            return Problem::new(Code::TooLarge, format!("the body has more than {most} bytes (`body`); send less"));
        }
        cause = error.source();
    }
    Problem::invalid("the body did not arrive as a whole")
}

/// A body within its bounds.
struct Intake {
    body: Body,
    terms: Terms,
    taken: usize,
    claim: Arc<Claim>,
    /// When it has to be here; from the first look at it on.
    until: Option<Pin<Box<Sleep>>>,
}

impl HttpBody for Intake {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let refused = |problem: Problem| Poll::Ready(Some(Err(axum::Error::new(problem))));
        let time = self.terms.time;
        let until = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
        if until.as_mut().poll(context).is_ready() {
            let problem =
                Problem::new(Code::Timeout, format!("the body did not arrive within {} s", time.as_secs_f32()));
            return refused(problem);
        }
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            // What stands behind a body is no part of it, and is held as well.
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            self.taken = self.taken.saturating_add(bytes);
            if self.taken > self.terms.bytes {
                return refused(self.terms.too_large());
            }
            if let Err(problem) = self.claim.add(bytes) {
                return refused(problem);
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::budget::{Budget, Sender};

    const STRANGER: Terms = Terms { bytes: 10, time: Duration::from_secs(600), is_known: false };

    fn claim(budget: &Budget) -> Arc<Claim> {
        Arc::new(budget.claim(Sender::new(None, IpAddr::from([192, 0, 2, 1]))))
    }

    async fn read(body: Body, terms: Terms, budget: &Budget) -> Result<Bytes> {
        let request = bound(Request::new(body), terms, &claim(budget))?;
        axum::body::to_bytes(request.into_body(), 1000).await.map_err(|error| problem(&error, 1000))
    }

    /// A body in pieces of which the last never comes.
    fn withheld(pieces: usize) -> Body {
        let pieces = (0..pieces).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b"12345")));
        use futures_util::StreamExt as _;
        Body::from_stream(futures_util::stream::iter(pieces).chain(futures_util::stream::pending()))
    }

    #[tokio::test]
    async fn s3_a_body_is_read_up_to_its_bound_and_charged() {
        let budget = Budget::new(1000);
        assert_eq!(read(Body::from("0123456789"), STRANGER, &budget).await.unwrap(), "0123456789");
        assert_eq!(read(withheld(3), STRANGER, &budget).await.unwrap_err().code, Code::TooLarge);
        let known = Terms { bytes: 1000, is_known: true, ..STRANGER };
        assert_eq!(read(withheld(200), known, &Budget::new(100)).await.unwrap_err().code, Code::TooMany);
        assert_eq!(budget.used(), 0, "what was refused is not held");
    }

    #[tokio::test]
    async fn s3_a_body_that_says_that_it_is_too_long_is_not_read() {
        let mut request = Request::new(withheld(0));
        request.headers_mut().insert(CONTENT_LENGTH, 11.into());
        let problem = bound(request, STRANGER, &claim(&Budget::new(1000))).unwrap_err();
        assert!(problem.code == Code::TooLarge && problem.message.contains("handshake_bytes"), "{problem}");
    }

    #[tokio::test(start_paused = true)]
    async fn s3_a_body_whose_end_is_withheld_is_given_up() {
        let problem = read(withheld(1), STRANGER, &Budget::new(1000)).await.unwrap_err();
        assert_eq!(problem.code, Code::Timeout);
    }
}
