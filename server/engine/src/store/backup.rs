//! What a copy needs of the database: rows of the audit in order, a consistent copy of the file, and a look at one.

use std::path::Path;

use opkit_domain::ids::{ObjectiveId, RepositoryId, SessionId};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{ConnectOptions, Connection, SqliteConnection};

use super::Store;
use super::cards::word;
use crate::error::{Error, Result};

/// A row of the audit.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(crate) struct AuditRow {
    pub(crate) id: i64,
    #[sqlx(rename = "client_id")]
    pub(crate) client: i64,
    pub(crate) at: i64,
    pub(crate) actor: String,
    pub(crate) action: String,
    pub(crate) target: String,
    /// JSON.
    pub(crate) detail: String,
}

impl Store {
    /// Number of the newest audit row; 0 when there is none.
    pub(crate) async fn newest_audit(&self) -> Result<i64> {
        let (newest,): (Option<i64>,) =
            sqlx::query_as("SELECT MAX(id) FROM audit").fetch_one(&self.read).await?;
        Ok(newest.unwrap_or(0))
    }

    /// Rows of the audit after a number, ascending.
    pub(crate) async fn audit_after(&self, after: i64, limit: u32) -> Result<Vec<AuditRow>> {
        Ok(sqlx::query_as(
            "SELECT id, client_id, at, actor, action, target, detail FROM audit WHERE id > $1
             ORDER BY id LIMIT $2",
        )
        .bind(after)
        .bind(limit)
        .fetch_all(&self.read)
        .await?)
    }
}

impl Store {
    /// Objectives that are not finished and have delivered something, with the commit.
    pub(crate) async fn open_deliveries(&self, repo: RepositoryId) -> Result<Vec<(ObjectiveId, String)>> {
        let rows: Vec<(i64, String)> = sqlx::query_as(
            "SELECT id, head_commit FROM objective WHERE repository_id = $1 AND head_commit IS NOT NULL
             AND status NOT IN ('done', 'cancelled') ORDER BY id",
        )
        .bind(repo.0)
        .fetch_all(&self.read)
        .await?;
        Ok(rows.into_iter().map(|(id, head)| (ObjectiveId(id), head)).collect())
    }

    /// What was delivered is nowhere any more: work starts from the base again.
    pub(crate) async fn forget_delivery(&self, id: ObjectiveId) -> Result<()> {
        let mut tx = self.begin().await?;
        sqlx::query(
            "UPDATE objective SET head_commit = NULL, passed = 0, version = version + 1 WHERE id = $1",
        )
        .bind(id.0)
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(())
    }
}

async fn connect(database: &Path, options: SqliteConnectOptions) -> Result<SqliteConnection> {
    Ok(options.filename(database).create_if_missing(false).connect().await?)
}

/// Writes a copy of a database that others use meanwhile: it is of one instant, and nobody waits for it.
pub(crate) async fn copy(database: &Path, target: &Path) -> Result<()> {
    let target = target
        .to_str()
        .ok_or_else(|| Error::BadInput("The path of the copy is not UTF-8. Choose another place.".into()))?;
    let mut connection = connect(database, SqliteConnectOptions::new()).await?;
    sqlx::query("VACUUM INTO $1").bind(target).execute(&mut connection).await?;
    Ok(connection.close().await?)
}

/// The newest schema that this program knows.
pub(crate) fn own_schema() -> i64 {
    sqlx::migrate!("../../migrations").iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// What a restored database says of itself.
pub(crate) struct Restored {
    pub(crate) schema: i64,
    pub(crate) objectives: i64,
    /// Sessions that ran when the copy was made.
    pub(crate) live: Vec<SessionId>,
}

/// Checks a restored database and takes back what is true only where it was made: worktrees are not in a backup, and
/// paths below the old data directory are below the new one. The error says what is wrong with it.
pub(crate) async fn settle_in(database: &Path, old_root: &str, new_root: &str) -> Result<Restored> {
    let options = SqliteConnectOptions::new().journal_mode(SqliteJournalMode::Wal);
    let mut connection = connect(database, options).await?;
    let checks: Vec<(String,)> =
        sqlx::query_as("PRAGMA integrity_check(5)").fetch_all(&mut connection).await?;
    if checks.first().is_none_or(|(text,)| text != "ok") {
        let found: Vec<String> = checks.into_iter().map(|(text,)| text).collect();
        return Err(Error::Refused(format!(
            "The database in this backup is damaged: {}. Use another backup.",
            found.join("; ")
        )));
    }
    let (schema,): (i64,) = sqlx::query_as("SELECT MAX(version) FROM _sqlx_migrations WHERE success")
        .fetch_one(&mut connection)
        .await?;
    let live: Vec<(String,)> = sqlx::query_as("SELECT id FROM session WHERE state <> 'ended' ORDER BY id")
        .fetch_all(&mut connection)
        .await?;
    let (objectives,): (i64,) =
        sqlx::query_as("SELECT COUNT(*) FROM objective").fetch_one(&mut connection).await?;
    sqlx::query("UPDATE objective SET worktree_ready = 0").execute(&mut connection).await?;
    sqlx::query(
        "UPDATE repository SET source = $2 || SUBSTR(source, LENGTH($1) + 1)
         WHERE SUBSTR(source, 1, LENGTH($1) + 1) = $1 || '/'",
    )
    .bind(old_root)
    .bind(new_root)
    .execute(&mut connection)
    .await?;
    connection.close().await?;
    let live = live.into_iter().map(|(id,)| word(&id)).collect::<Result<_>>()?;
    Ok(Restored { schema, objectives, live })
}
