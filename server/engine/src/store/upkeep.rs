//! What pool and housekeeping ask: over all clients, because directories belong to the installation.

use std::collections::HashMap;

use opkit_domain::access::Scope;
use opkit_domain::ids::{ClientId, ObjectiveId, RepositoryId, SessionId};
use opkit_domain::objective::Status;
use opkit_domain::session::Outcome;

use super::cards::word;
use super::repositories::RepoRow;
use super::{Store, Tx};
use crate::error::Result;

/// What housekeeping needs to know of an objective.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) id: ObjectiveId,
    pub(crate) scope: Scope,
    pub(crate) status: Status,
    /// When it reached its status.
    pub(crate) since: i64,
    pub(crate) live: bool,
    /// An agent has worked in its worktree.
    pub(crate) worktree_ready: bool,
}

/// The last session that may have written into an objective's worktree.
#[derive(Debug, Clone)]
pub(crate) struct LastRun {
    pub(crate) id: SessionId,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) ended_at: Option<i64>,
}

type KeptRow = (i64, i64, String, i64, bool, bool);

fn kept((id, client, status, since, live, worktree_ready): KeptRow) -> Result<Kept> {
    Ok(Kept {
        id: ObjectiveId(id),
        scope: Scope { client: ClientId(client) },
        status: word(&status)?,
        since,
        live,
        worktree_ready,
    })
}

const KEPT: &str =
    "SELECT id, client_id, status, since, session_id IS NOT NULL, worktree_ready FROM objective";

impl Store {
    /// Repositories of all clients.
    pub(crate) async fn all_repos(&self) -> Result<Vec<RepoRow>> {
        Ok(sqlx::query_as(
            "SELECT id, name, source, base, setup, verify, integrate, pool FROM repository ORDER BY id",
        )
        .fetch_all(&self.read)
        .await?)
    }

    /// Notes a number of the service's own. Nobody chose it, so it is not audited.
    pub(crate) async fn note_number(&self, name: &str, value: i64) -> Result<()> {
        let mut tx = self.begin().await?;
        sqlx::query(
            "INSERT INTO setting (name, value) VALUES ($1, $2)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )
        .bind(name)
        .bind(value.to_string())
        .execute(&mut *tx)
        .await?;
        Ok(tx.commit().await?)
    }

    /// A setting that is a number; what cannot be read counts as not set.
    pub(crate) async fn number(&self, name: &str) -> Result<Option<i64>> {
        Ok(self.setting(name).await?.and_then(|text| text.trim().parse().ok()))
    }

    pub(crate) async fn kept(&self, id: i64) -> Result<Option<Kept>> {
        let row: Option<KeptRow> = sqlx::query_as(sqlx::AssertSqlSafe(format!("{KEPT} WHERE id = $1")))
            .bind(id)
            .fetch_optional(&self.read)
            .await?;
        row.map(kept).transpose()
    }

    /// Objectives that have a worktree and nobody in it.
    pub(crate) async fn with_worktree(&self) -> Result<Vec<Kept>> {
        let rows: Vec<KeptRow> = sqlx::query_as(sqlx::AssertSqlSafe(format!(
            "{KEPT} WHERE worktree_ready = 1 AND session_id IS NULL"
        )))
        .fetch_all(&self.read)
        .await?;
        rows.into_iter().map(kept).collect()
    }

    /// Delivered commits of a repository by objective.
    pub(crate) async fn delivered(&self, id: RepositoryId) -> Result<HashMap<i64, String>> {
        let rows: Vec<(i64, String)> = sqlx::query_as(
            "SELECT id, head_commit FROM objective WHERE repository_id = $1 AND head_commit IS NOT NULL",
        )
        .bind(id.0)
        .fetch_all(&self.read)
        .await?;
        Ok(rows.into_iter().collect())
    }

    /// Whether a session is known, and when it ended.
    pub(crate) async fn session_end(&self, id: &str) -> Result<Option<Option<i64>>> {
        let row: Option<(Option<i64>,)> =
            sqlx::query_as("SELECT CASE WHEN state = 'ended' THEN ended_at END FROM session WHERE id = $1")
                .bind(id)
                .fetch_optional(&self.read)
                .await?;
        Ok(row.map(|(end,)| end))
    }

    pub(crate) async fn last_run(&self, id: ObjectiveId) -> Result<Option<LastRun>> {
        let row: Option<(String, Option<String>, Option<i64>)> = sqlx::query_as(
            "SELECT id, outcome, ended_at FROM session WHERE objective_id = $1 AND role <> 'review'
             AND NOT (outcome IS NOT NULL AND (outcome = 'never_ran' OR (outcome = 'stopped' AND pid IS NULL)))
             ORDER BY started_at DESC LIMIT 1",
        )
        .bind(id.0)
        .fetch_optional(&self.read)
        .await?;
        row.map(|(id, outcome, ended_at)| {
            Ok(LastRun { id: word(&id)?, outcome: outcome.as_deref().map(word).transpose()?, ended_at })
        })
        .transpose()
    }
}

/// The next session of an objective makes its worktree anew. False when somebody is in it now.
pub(crate) async fn worktree_gone(tx: &mut Tx, id: ObjectiveId) -> Result<bool> {
    let done = sqlx::query(
        "UPDATE objective SET worktree_ready = 0 WHERE id = $1 AND session_id IS NULL AND worktree_ready = 1",
    )
    .bind(id.0)
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// The worktree of an objective that is over may go. False when it is over no more.
pub(crate) async fn worktree_over(tx: &mut Tx, id: ObjectiveId) -> Result<bool> {
    let done = sqlx::query(
        "UPDATE objective SET worktree_ready = 0
         WHERE id = $1 AND session_id IS NULL AND status IN ('done', 'cancelled')",
    )
    .bind(id.0)
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}
