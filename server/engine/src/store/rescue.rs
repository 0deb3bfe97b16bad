//! What was kept when a session ended or a worktree was cleared.

use opkit_domain::access::Scope;
use opkit_domain::ids::{ObjectiveId, RepositoryId, SessionId};

use super::cards::word;
use super::{Store, Tx};
use crate::clock::now_ms;
use crate::error::{Error, Result};

/// A snapshot to note.
pub(crate) struct NewRescue<'a> {
    pub(crate) scope: Scope,
    pub(crate) repo: RepositoryId,
    pub(crate) objective: ObjectiveId,
    /// None when housekeeping kept it.
    pub(crate) session: Option<&'a SessionId>,
    /// The ref in the rescue repository.
    pub(crate) name: &'a str,
    /// The commit that the ref stands for.
    pub(crate) commit: &'a str,
    /// Sentences about what did not fit into the snapshot.
    pub(crate) left_out: &'a [String],
}

/// Notes a snapshot in the transaction that ends its session; twice under one name is one row.
pub(crate) async fn insert_rescue(tx: &mut Tx, new: &NewRescue<'_>) -> Result<()> {
    sqlx::query(
        "INSERT INTO rescue (client_id, repository_id, objective_id, session_id, name, commit_sha, left_out,
            created_at)
         SELECT $1, $2, $3, $4, $5, $6, $7, $8
         WHERE NOT EXISTS (SELECT 1 FROM rescue WHERE repository_id = $2 AND name = $5)",
    )
    .bind(new.scope.client.0)
    .bind(new.repo.0)
    .bind(new.objective.0)
    .bind(new.session.map(SessionId::as_str))
    .bind(new.name)
    .bind(new.commit)
    .bind(serde_json::to_string(new.left_out)?)
    .bind(now_ms())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// A snapshot as the engine needs it.
#[derive(Debug, Clone)]
pub(crate) struct RescueRow {
    pub(crate) id: i64,
    pub(crate) repo: RepositoryId,
    pub(crate) objective: ObjectiveId,
    pub(crate) session: Option<SessionId>,
    pub(crate) name: String,
    pub(crate) commit: String,
    pub(crate) left_out: Vec<String>,
    pub(crate) created_at: i64,
    pub(crate) dropped_at: Option<i64>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: i64,
    repository_id: i64,
    objective_id: i64,
    session_id: Option<String>,
    name: String,
    commit_sha: String,
    left_out: String,
    created_at: i64,
    dropped_at: Option<i64>,
}

fn rescue(row: Row) -> Result<RescueRow> {
    Ok(RescueRow {
        id: row.id,
        repo: RepositoryId(row.repository_id),
        objective: ObjectiveId(row.objective_id),
        session: row.session_id.as_deref().map(word).transpose()?,
        name: row.name,
        commit: row.commit_sha,
        left_out: serde_json::from_str(&row.left_out).unwrap_or_default(),
        created_at: row.created_at,
        dropped_at: row.dropped_at,
    })
}

const COLUMNS: &str =
    "id, repository_id, objective_id, session_id, name, commit_sha, left_out, created_at, dropped_at";

impl Store {
    /// An objective's snapshots, newest first.
    pub(crate) async fn rescues(&self, scope: Scope, objective: ObjectiveId) -> Result<Vec<RescueRow>> {
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM rescue WHERE client_id = $1 AND objective_id = $2 ORDER BY id DESC LIMIT 200"
        )))
        .bind(scope.client.0)
        .bind(objective.0)
        .fetch_all(&self.read)
        .await?;
        rows.into_iter().map(rescue).collect()
    }

    /// One snapshot of an objective.
    pub(crate) async fn rescue(&self, scope: Scope, objective: ObjectiveId, id: i64) -> Result<RescueRow> {
        let row: Option<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM rescue WHERE client_id = $1 AND objective_id = $2 AND id = $3"
        )))
        .bind(scope.client.0)
        .bind(objective.0)
        .bind(id)
        .fetch_optional(&self.read)
        .await?;
        row.map(rescue).transpose()?.ok_or_else(|| {
            Error::NotFound(format!("Objective {objective} has nothing kept under the number {id}."))
        })
    }

    /// Snapshots of all clients that are older than a time and still in their repository.
    pub(crate) async fn rescues_before(&self, time: i64) -> Result<Vec<RescueRow>> {
        let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM rescue WHERE dropped_at IS NULL AND created_at <= $1 ORDER BY id LIMIT 500"
        )))
        .bind(time)
        .fetch_all(&self.read)
        .await?;
        rows.into_iter().map(rescue).collect()
    }

    /// The ref of a snapshot is gone.
    pub(crate) async fn rescue_dropped(&self, id: i64) -> Result<()> {
        let mut tx = self.begin().await?;
        sqlx::query("UPDATE rescue SET dropped_at = $2 WHERE id = $1")
            .bind(id)
            .bind(now_ms())
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(())
    }
}
