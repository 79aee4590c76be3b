//! The tables and the statements on them; `docs/remote.md` describes them for whoever looks after the database.
//!
//! Nothing here is particular to one server: no advisory lock, no trigger, no notification, no sequence. Making the tables
//! is a list of numbered steps, each of which may be taken twice and by several machines at once: those who come too late are
//! told that it exists, or that a row is there already, and look again.

use tokio_postgres::types::Type;

use crate::error::{Error, Result};
use crate::postgres::connections::Connections;
use crate::segment::{MAX_BODY, MAX_HEAD};

/// The version of the tables that this program makes and understands.
const VERSION: i64 = 1;
/// How often making the tables is tried while others do the same.
const TRIES: usize = 8;

/// The steps, in order; the first one leads to version 1. `{schema}` is the schema's name.
const STEPS: [&str; VERSION as usize] = [r#"
CREATE TABLE IF NOT EXISTS {schema}.streams (
    life    bigint NOT NULL PRIMARY KEY,
    tenant  text COLLATE "C" NOT NULL,
    place   text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    side    text COLLATE "C" NOT NULL,
    UNIQUE (tenant, place, session, side)
);
CREATE TABLE IF NOT EXISTS {schema}.segments (
    life       bigint NOT NULL REFERENCES {schema}.streams (life),
    first_line bigint NOT NULL,
    end_line   bigint NOT NULL,
    head       bytea NOT NULL,
    body       bytea NOT NULL,
    PRIMARY KEY (life, first_line)
);
CREATE TABLE IF NOT EXISTS {schema}.kept (
    tenant text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    bytes  bytea NOT NULL,
    PRIMARY KEY (tenant, name)
);
CREATE TABLE IF NOT EXISTS {schema}.kept_for (
    tenant text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    life   bigint NOT NULL REFERENCES {schema}.streams (life),
    PRIMARY KEY (tenant, name, life),
    FOREIGN KEY (tenant, name) REFERENCES {schema}.kept (tenant, name)
);
CREATE INDEX IF NOT EXISTS kept_for_life ON {schema}.kept_for (life);
"#];

/// Every statement, for one schema.
pub(super) struct Statements {
    schema: String,
    /// `tenant, place, session, side` -> `life, first_line, end_line, head`.
    pub(super) last: String,
    /// `tenant, place, session, side, line` -> `first_line, end_line, head, body`.
    pub(super) holding: String,
    /// `first_line, end_line, head, body, tenant, names, life, first line of the one before` -> `life`, or nothing.
    pub(super) put: String,
    /// `first_line, end_line, head, body, tenant, names, life, place, session, side` -> `life`, or nothing.
    pub(super) begin: String,
    /// `tenant, place, session, behind place, behind session, behind side, limit` -> `place, session, side`.
    pub(super) list: String,
    /// `tenant, name` -> a row, or nothing.
    pub(super) is_kept: String,
    /// `tenant, place, session, side, name, bytes, life` -> `life`, or nothing.
    pub(super) keep: String,
    /// `tenant, name` -> `bytes`.
    pub(super) kept: String,
    /// `tenant, place, session, side` -> `life`, which nobody can add to until the transaction ends.
    pub(super) lock: String,
    /// `life` -> nothing.
    pub(super) remove_segments: String,
    /// `life` -> `name`.
    pub(super) remove_claims: String,
    /// `tenant, names` -> nothing; nobody can claim them until the transaction ends.
    pub(super) lock_kept: String,
    /// `tenant, names` -> nothing.
    pub(super) remove_kept: String,
    /// `life` -> nothing.
    pub(super) remove_stream: String,
}

impl Statements {
    /// The statements for a schema, whose name is known to be harmless.
    pub(super) fn new(schema: &str) -> Self {
        let in_schema = |text: &str| text.replace("{schema}", &format!("\"{schema}\""));
        // The server cuts off what is longer than anything that this program writes.
        const TOO_MANY: u64 = MAX_BODY + 1;
        const HEAD: &str = "substring(head FROM 1 FOR 4096)";
        const _: () = assert!(MAX_HEAD < 4096);
        const OF: &str = "tenant = $1 AND place = $2 AND session = $3 AND side = $4";
        const CLAIM: &str = "claimed AS (\
             INSERT INTO {schema}.kept_for (tenant, name, life) \
             SELECT $5, wanted.name, placed.life FROM placed, unnest($6) AS wanted (name) \
             ON CONFLICT DO NOTHING) \
             SELECT life FROM placed";
        Self {
            schema: schema.to_owned(),
            last: in_schema(&format!(
                "SELECT life, first_line, end_line, {HEAD} FROM {{schema}}.segments \
                 WHERE life = (SELECT life FROM {{schema}}.streams WHERE {OF}) ORDER BY first_line DESC LIMIT 1"
            )),
            holding: in_schema(&format!(
                "SELECT first_line, end_line, {HEAD}, substring(body FROM 1 FOR {TOO_MANY}) FROM (\
                 SELECT first_line, end_line, head, body FROM {{schema}}.segments \
                 WHERE life = (SELECT life FROM {{schema}}.streams WHERE {OF}) AND first_line <= $5 \
                 ORDER BY first_line DESC LIMIT 1) AS nearest WHERE end_line > $5"
            )),
            // The stream is locked before anything of it is looked at: whoever deletes it comes before or after this.
            put: in_schema(&format!(
                "WITH living AS (SELECT life FROM {{schema}}.streams WHERE life = $7 FOR KEY SHARE), \
                 placed AS (INSERT INTO {{schema}}.segments (life, first_line, end_line, head, body) \
                 SELECT living.life, $1, $2, $3, $4 FROM living JOIN {{schema}}.segments AS before \
                 ON before.life = living.life AND before.first_line = $8 AND before.end_line = $1 \
                 ON CONFLICT DO NOTHING RETURNING life), {CLAIM}"
            )),
            // There may be a stream without segments: one that a large line is kept for already.
            begin: in_schema(&format!(
                "WITH made AS (INSERT INTO {{schema}}.streams (life, tenant, place, session, side) \
                 VALUES ($7, $5, $8, $9, $10) ON CONFLICT DO NOTHING RETURNING life), \
                 living AS (SELECT life FROM made UNION ALL SELECT life FROM {{schema}}.streams \
                 WHERE tenant = $5 AND place = $8 AND session = $9 AND side = $10), \
                 placed AS (INSERT INTO {{schema}}.segments (life, first_line, end_line, head, body) \
                 SELECT living.life, $1, $2, $3, $4 FROM living ON CONFLICT DO NOTHING RETURNING life), {CLAIM}"
            )),
            list: in_schema(
                "SELECT place, session, side FROM {schema}.streams AS listed \
                 WHERE tenant = $1 AND ($2 IS NULL OR place = $2) AND ($3 IS NULL OR session = $3) \
                 AND (place, session, side) > ($4, $5, $6) \
                 AND EXISTS (SELECT 1 FROM {schema}.segments WHERE segments.life = listed.life) \
                 ORDER BY place, session, side LIMIT $7",
            ),
            is_kept: in_schema("SELECT 1 FROM {schema}.kept WHERE tenant = $1 AND name = $2"),
            // A claim from the beginning: what a writer leaves that dies before its segment goes with the stream.
            keep: in_schema(&format!(
                "WITH made AS (INSERT INTO {{schema}}.streams (life, tenant, place, session, side) \
                 VALUES ($7, $1, $2, $3, $4) ON CONFLICT DO NOTHING RETURNING life), \
                 living AS (SELECT life FROM made UNION ALL SELECT life FROM {{schema}}.streams WHERE {OF}), \
                 stored AS (INSERT INTO {{schema}}.kept (tenant, name, bytes) SELECT $1, $5, $6 FROM living \
                 ON CONFLICT DO NOTHING), \
                 claimed AS (INSERT INTO {{schema}}.kept_for (tenant, name, life) \
                 SELECT $1, $5, living.life FROM living ON CONFLICT DO NOTHING) \
                 SELECT life FROM living"
            )),
            kept: in_schema(&format!(
                "SELECT substring(bytes FROM 1 FOR {TOO_MANY}) FROM {{schema}}.kept WHERE tenant = $1 AND name = $2"
            )),
            lock: in_schema(&format!("SELECT life FROM {{schema}}.streams WHERE {OF} FOR UPDATE")),
            remove_segments: in_schema("DELETE FROM {schema}.segments WHERE life = $1"),
            remove_claims: in_schema("DELETE FROM {schema}.kept_for WHERE life = $1 RETURNING name"),
            lock_kept: in_schema(
                "SELECT 1 FROM {schema}.kept WHERE tenant = $1 AND name = ANY ($2) ORDER BY name FOR UPDATE",
            ),
            remove_kept: in_schema(
                "DELETE FROM {schema}.kept WHERE tenant = $1 AND name = ANY ($2) AND NOT EXISTS (\
                 SELECT 1 FROM {schema}.kept_for WHERE kept_for.tenant = kept.tenant AND kept_for.name = kept.name)",
            ),
            remove_stream: in_schema("DELETE FROM {schema}.streams WHERE life = $1"),
        }
    }
}

/// Makes the tables where they are not there yet. Where they are, this is one question, and takes no right but that of reading.
pub(super) async fn prepare(database: &Connections, statements: &Statements) -> Result<()> {
    let schema = &statements.schema;
    let ask = format!("SELECT max(version) FROM \"{schema}\".versions");
    for attempt in 1..=TRIES {
        let version = match database.rows(&ask, &[], 0).await {
            Ok(rows) => rows.first().and_then(|row| row.try_get::<_, Option<i64>>(0).ok().flatten()).unwrap_or(0),
            Err(failure) if failure.is_missing_table() => 0,
            Err(failure) => return Err(failure.into()),
        };
        if version == VERSION {
            return Ok(());
        }
        let Some(steps) = usize::try_from(version).ok().and_then(|done| STEPS.get(done..)) else {
            return Err(Error::Invalid(format!(
                "{} has tables of version {version}, and this program knows none above {VERSION}: it is too old",
                database.name()
            )));
        };
        let named = [(schema as _, Type::TEXT)];
        let found = database.rows("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1", &named, 0).await?;
        let mut batch = String::new();
        if found.is_empty() {
            batch.push_str("CREATE SCHEMA IF NOT EXISTS {schema};\n");
        }
        batch.push_str("CREATE TABLE IF NOT EXISTS {schema}.versions (version bigint NOT NULL PRIMARY KEY);\n");
        for (number, step) in (version + 1..).zip(steps) {
            batch.push_str(step);
            // Last, so that a server that makes tables outside of transactions never has a version without its tables.
            batch.push_str(&format!(
                "INSERT INTO {{schema}}.versions (version) VALUES ({number}) ON CONFLICT DO NOTHING;\n"
            ));
        }
        match database.batch(&batch.replace("{schema}", &format!("\"{schema}\""))).await {
            Ok(()) => tracing::info!(place = database.name(), version = VERSION, "made tables"),
            Err(failure) if failure.is_made_by_another() => tracing::debug!(attempt, "somebody else makes the tables"),
            Err(failure) => return Err(failure.into()),
        }
    }
    Err(Error::Unavailable {
        place: database.name().to_owned(),
        reason: "its tables are being made by others".to_owned(),
        wait: None,
    })
}
