//! Connections: few, each used by one at a time, and given up when there is any doubt about them.
//!
//! Waiting is bounded here and not by a setting of the server, because a pooler in between would forget the setting or refuse it. A
//! statement that takes too long is told to stop, and its connection is thrown away: an answer that comes late must not be
//! taken for that of the next question. What it did is not known then, which the layers above expect.

use std::time::Duration;

use deadpool_postgres::{Client, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime};
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::failure::{Failure, with_causes};
use super::options::Options;
use super::tables::Statements;
use super::{Limits, NAMES, tls};
use crate::error::{Error, Result};
use crate::stream::Stream;

/// A value of a statement, with its type: then the server need not be asked for it.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// How long telling a server to stop may take.
const STOPPING: Duration = Duration::from_secs(1);
/// The slowest line on which a large value still arrives in time.
const BYTES_PER_SECOND: usize = 256 << 10;
/// How long a connection without traffic goes unquestioned by the system.
const IDLE: Duration = Duration::from_secs(60);

/// A connection keeps the buffer of the largest answer that it read. Beyond this size the connection is closed instead.
const LARGE: usize = 4 << 20;

/// Connections to one database.
pub(super) struct Connections {
    pool: Pool,
    tls: MakeRustlsConnect,
    limits: Limits,
    name: String,
}

impl Connections {
    /// Connections that are made when they are needed.
    pub(super) fn new(options: Options, limits: Limits) -> Result<Self> {
        let Options { mut config, trust, name, .. } = options;
        let tls = tls::connector(&trust)?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(limits.connect);
        }
        config.keepalives_idle(IDLE);
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let pool = Pool::builder(Manager::from_config(config, tls.clone(), manager))
            .max_size(limits.connections.max(1))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(limits.statement))
            .create_timeout(Some(limits.connect))
            .build()
            .map_err(|error| Error::Invalid(error.to_string()))?;
        Ok(Self { pool, tls, limits, name })
    }

    /// Where the database is, without any secret.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Asks one question in one round trip; `bytes` is how large its values are.
    pub(super) async fn rows(
        &self,
        statement: &str,
        values: &[Parameter<'_>],
        bytes: usize,
    ) -> Result<Vec<Row>, Failure> {
        let client = self.client().await?;
        match timeout(self.allowance(bytes), client.query_typed(statement, values)).await {
            Ok(Ok(rows)) => {
                if rows.iter().map(Row::raw_size_bytes).sum::<usize>() > LARGE {
                    drop(Object::take(client));
                }
                Ok(rows)
            }
            answer => self.answered(client, answer).await,
        }
    }

    /// Takes several steps at once, all or none where the server can.
    pub(super) async fn batch(&self, statements: &str) -> Result<(), Failure> {
        let client = self.client().await?;
        let answer = timeout(self.allowance(0), client.batch_execute(statements)).await;
        self.answered(client, answer).await
    }

    /// Removes a stream and what was kept for no other.
    pub(super) async fn delete(&self, statements: &Statements, stream: &Stream) -> Result<()> {
        let mut client = self.client().await?;
        let answer = timeout(self.allowance(0), remove(&mut client, statements, stream)).await;
        match self.answered(client, answer).await {
            // Somebody refers to a line that was about to go.
            Err(failure) if failure.is_broken_reference() => Err(self.meanwhile()),
            done => Ok(done?),
        }
    }

    /// Somebody else came in between; the same again will do.
    pub(super) fn meanwhile(&self) -> Error {
        Failure::unavailable(&self.name, "somebody else changes the same at this moment").into()
    }

    async fn client(&self) -> Result<Client, Failure> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => Failure::of(&self.name, &error),
            PoolError::Timeout(_) => Failure::unavailable(&self.name, "no connection could be had in time"),
            other => Failure::unavailable(&self.name, with_causes(&other)),
        })
    }

    fn allowance(&self, bytes: usize) -> Duration {
        self.limits.statement + Duration::from_secs((bytes / BYTES_PER_SECOND) as u64)
    }

    async fn answered<T>(
        &self,
        client: Client,
        answer: Result<Result<T, tokio_postgres::Error>, tokio::time::error::Elapsed>,
    ) -> Result<T, Failure> {
        let Ok(answer) = answer else {
            let client = Object::take(client);
            let stopped = timeout(STOPPING, client.cancel_token().cancel_query(self.tls.clone())).await;
            tracing::warn!(place = self.name, is_told = matches!(stopped, Ok(Ok(()))), "a statement took too long");
            return Err(Failure::unavailable(&self.name, "it did not answer in time"));
        };
        answer.map_err(|error| {
            if error.as_db_error().is_none() {
                // Not the server's word, but the end of a connection.
                drop(Object::take(client));
            }
            Failure::of(&self.name, &error)
        })
    }
}

/// One transaction: first nobody can add to the stream any more, then all of it goes.
async fn remove(client: &mut Client, statements: &Statements, stream: &Stream) -> Result<(), tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    let parts = stream.parts();
    let Some(row) = transaction.query_typed_opt(&statements.lock, &super::texts(&parts)).await? else {
        return transaction.rollback().await;
    };
    let life: i64 = row.try_get(0)?;
    let of_life: [Parameter<'_>; 1] = [(&life, Type::INT8)];
    transaction.execute_typed(&statements.remove_segments, &of_life).await?;
    let claims = transaction.query_typed(&statements.remove_claims, &of_life).await?;
    let mut names: Vec<String> = claims.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    names.sort();
    let tenant = stream.tenant();
    for some in names.chunks(NAMES) {
        let named: [Parameter<'_>; 2] = [(&tenant, Type::TEXT), (&some, Type::TEXT_ARRAY)];
        // Two statements: the second one sees the claims of those whom the first one waited for.
        transaction.execute_typed(&statements.lock_kept, &named).await?;
        transaction.execute_typed(&statements.remove_kept, &named).await?;
    }
    transaction.execute_typed(&statements.remove_stream, &of_life).await?;
    transaction.commit().await
}
