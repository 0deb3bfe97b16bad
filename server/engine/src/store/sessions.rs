//! Sessions, reviews and what they left.

use opkit_domain::access::Scope;
use opkit_domain::ids::{ClientId, ObjectiveId, SessionId};
use opkit_domain::session::{Outcome, Role, SessionState};
use opkit_domain::siblings::Sibling;
use opkit_domain::view::{ReviewView, SessionView};
use sqlx::AssertSqlSafe;

use super::cards::word;
use super::{Store, Tx};
use crate::SessionQuery;
use crate::clock::now_ms;
use crate::error::{Error, Result};

/// A session row as the poller and the launcher need it.
#[derive(Debug, Clone)]
pub(crate) struct SessionRow {
    pub(crate) id: SessionId,
    pub(crate) scope: Scope,
    pub(crate) objective: ObjectiveId,
    pub(crate) role: Role,
    pub(crate) state: SessionState,
    pub(crate) account: String,
    pub(crate) agent: String,
    pub(crate) round: u32,
    pub(crate) commit: Option<String>,
    pub(crate) nonce: Option<String>,
    pub(crate) deadline: i64,
    pub(crate) blocked_reason: Option<String>,
    /// Held while anything of the session lives; none when the service is not root.
    pub(crate) slot: Option<u32>,
    /// The account's OS user, if it has one of its own.
    pub(crate) os_user: Option<String>,
    /// The author of its commits, where the account has one of its own.
    pub(crate) git_name: Option<String>,
    /// Their address.
    pub(crate) git_email: Option<String>,
}

type Tuple = (
    String,
    i64,
    i64,
    String,
    String,
    String,
    String,
    i64,
    Option<String>,
    Option<String>,
    i64,
    Option<String>,
    Option<i64>,
    Option<String>,
    Option<String>,
    Option<String>,
);

fn session_row(row: Tuple) -> Result<SessionRow> {
    Ok(SessionRow {
        id: word(&row.0)?,
        scope: Scope { client: ClientId(row.1) },
        objective: ObjectiveId(row.2),
        role: word(&row.3)?,
        state: word(&row.4)?,
        account: row.5,
        agent: row.6,
        round: row.7 as u32,
        commit: row.8,
        nonce: row.9,
        deadline: row.10,
        blocked_reason: row.11,
        slot: row.12.map(|slot| slot as u32),
        os_user: row.13,
        git_name: row.14,
        git_email: row.15,
    })
}

const ROW: &str = "SELECT id, client_id, objective_id, role, state, account, agent, round, commit_sha, nonce,
    deadline, blocked_reason, slot, (SELECT os_user FROM account WHERE name = session.account),
    (SELECT git_name FROM account WHERE name = session.account),
    (SELECT git_email FROM account WHERE name = session.account) FROM session";

const VIEW: &str =
    "SELECT s.id, s.objective_id, o.title AS objective_title, s.role, s.state, s.outcome, s.detail,
    s.account, s.agent, s.actor, s.pid, s.proof, s.started_at, s.ended_at, s.turns, s.cost_usd_micros,
    s.activity, s.round, s.wall_clock_s, s.denials, s.policy_start, s.policy_end, s.planted FROM session s JOIN objective o ON o.id = s.objective_id";

#[derive(sqlx::FromRow)]
struct ViewRow {
    id: String,
    objective_id: i64,
    objective_title: String,
    role: String,
    state: String,
    outcome: Option<String>,
    detail: String,
    account: String,
    agent: String,
    actor: String,
    pid: Option<i64>,
    proof: Option<String>,
    started_at: i64,
    ended_at: Option<i64>,
    turns: i64,
    cost_usd_micros: i64,
    activity: String,
    round: i64,
    wall_clock_s: i64,
    denials: i64,
    policy_start: Option<String>,
    policy_end: Option<String>,
    planted: String,
}

fn view(row: ViewRow) -> Result<SessionView> {
    let state: SessionState = word(&row.state)?;
    Ok(SessionView {
        id: word(&row.id)?,
        objective: ObjectiveId(row.objective_id),
        objective_title: row.objective_title,
        role: word(&row.role)?,
        state,
        outcome: row.outcome.as_deref().map(word).transpose()?,
        detail: row.detail,
        account: row.account,
        agent: row.agent,
        actor: row.actor,
        pid: row.pid.filter(|_| state != SessionState::Ended).map(|pid| pid as u32),
        confinement: row.proof.and_then(|proof| serde_json::from_str(&proof).ok()),
        started_at: row.started_at,
        ended_at: row.ended_at,
        turns: row.turns as u32,
        cost_usd_micros: row.cost_usd_micros,
        activity: row.activity,
        round: row.round as u32,
        wall_clock_s: row.wall_clock_s as u64,
        denials: row.denials as u32,
        policy_changed: row.policy_start.is_some() && row.policy_start != row.policy_end,
        policy: row.policy_start,
        planted: serde_json::from_str(&row.planted)?,
    })
}

impl Store {
    /// All live sessions of the installation.
    pub(crate) async fn live_sessions(&self) -> Result<Vec<SessionRow>> {
        let rows: Vec<Tuple> =
            sqlx::query_as(AssertSqlSafe(format!("{ROW} WHERE state <> 'ended' ORDER BY started_at")))
                .fetch_all(&self.read)
                .await?;
        rows.into_iter().map(session_row).collect()
    }

    pub(crate) async fn session_row(&self, id: &SessionId) -> Result<Option<SessionRow>> {
        let row: Option<Tuple> = sqlx::query_as(AssertSqlSafe(format!("{ROW} WHERE id = $1")))
            .bind(id.as_str())
            .fetch_optional(&self.read)
            .await?;
        row.map(session_row).transpose()
    }

    /// OS users of the accounts.
    pub(crate) async fn os_users(&self) -> Result<Vec<String>> {
        let rows: Vec<(String,)> =
            sqlx::query_as("SELECT DISTINCT os_user FROM account WHERE os_user IS NOT NULL")
                .fetch_all(&self.read)
                .await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    /// How many accounts there are, and how many of them have an OS user of their own; disabled ones do not count.
    pub(crate) async fn account_users(&self) -> Result<(i64, i64)> {
        Ok(sqlx::query_as("SELECT COUNT(*), COUNT(os_user) FROM account WHERE state <> 'disabled'")
            .fetch_one(&self.read)
            .await?)
    }

    pub(crate) async fn session_by_token(&self, hash: &str) -> Result<Option<SessionRow>> {
        let row: Option<Tuple> =
            sqlx::query_as(AssertSqlSafe(format!("{ROW} WHERE token_hash = $1 AND state <> 'ended'")))
                .bind(hash)
                .fetch_optional(&self.read)
                .await?;
        row.map(session_row).transpose()
    }

    pub(crate) async fn session(&self, scope: Scope, id: &SessionId) -> Result<SessionView> {
        let row: Option<ViewRow> =
            sqlx::query_as(AssertSqlSafe(format!("{VIEW} WHERE s.client_id = $1 AND s.id = $2")))
                .bind(scope.client.0)
                .bind(id.as_str())
                .fetch_optional(&self.read)
                .await?;
        row.map(view)
            .transpose()?
            .ok_or_else(|| Error::NotFound(format!("Session {} is not here.", id.short())))
    }

    pub(crate) async fn sessions(&self, scope: Scope, query: &SessionQuery) -> Result<Vec<SessionView>> {
        let rows: Vec<ViewRow> = sqlx::query_as(AssertSqlSafe(format!(
            "{VIEW} WHERE s.client_id = $1 AND ($2 IS NULL OR s.objective_id = $2) AND (NOT $3 OR s.state <> 'ended')
             AND ($5 IS NULL OR s.started_at < (SELECT started_at FROM session WHERE id = $5)
                  OR (s.started_at = (SELECT started_at FROM session WHERE id = $5) AND s.id > $5))
             ORDER BY s.started_at DESC, s.id LIMIT $4"
        )))
        .bind(scope.client.0)
        .bind(query.objective.map(|id| id.0))
        .bind(query.live_only)
        .bind(if query.limit == 0 { 200 } else { query.limit.min(1000) })
        .bind(query.after.as_ref().map(SessionId::as_str))
        .fetch_all(&self.read)
        .await?;
        rows.into_iter().map(view).collect()
    }

    pub(crate) async fn reviews(&self, scope: Scope, id: ObjectiveId) -> Result<Vec<ReviewView>> {
        type Row = (String, i64, String, i64, Option<String>, Option<String>, Option<String>, String);
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT session_id, round, commit_sha, at, verdict, floor, error, visible FROM review
             WHERE client_id = $1 AND objective_id = $2 ORDER BY at LIMIT 200",
        )
        .bind(scope.client.0)
        .bind(id.0)
        .fetch_all(&self.read)
        .await?;
        rows.into_iter()
            .map(|(session, round, commit, at, verdict, floor, error, visible)| {
                Ok(ReviewView {
                    session: word(&session)?,
                    round: round as u32,
                    commit,
                    at,
                    verdict: verdict.and_then(|text| serde_json::from_str(&text).ok()),
                    floor: floor.and_then(|text| serde_json::from_str(&text).ok()),
                    error,
                    visible: serde_json::from_str(&visible).unwrap_or_default(),
                })
            })
            .collect()
    }

    /// ARTIFACT.md and NOTES.md of the newest session that left them.
    pub(crate) async fn memory(
        &self,
        scope: Scope,
        id: ObjectiveId,
    ) -> Result<(Option<String>, Option<String>)> {
        let artifact: Option<(String,)> = sqlx::query_as(
            "SELECT artifact FROM session WHERE client_id = $1 AND objective_id = $2 AND artifact IS NOT NULL
             ORDER BY started_at DESC LIMIT 1",
        )
        .bind(scope.client.0)
        .bind(id.0)
        .fetch_optional(&self.read)
        .await?;
        let notes: Option<(String,)> = sqlx::query_as(
            "SELECT notes FROM session WHERE client_id = $1 AND objective_id = $2 AND notes IS NOT NULL
             ORDER BY started_at DESC LIMIT 1",
        )
        .bind(scope.client.0)
        .bind(id.0)
        .fetch_optional(&self.read)
        .await?;
        Ok((artifact.map(|(text,)| text), notes.map(|(text,)| text)))
    }

    /// The six fields of an objective's siblings.
    pub(crate) async fn siblings(&self, scope: Scope, id: ObjectiveId) -> Result<Vec<Sibling>> {
        let rows: Vec<(i64, String, String, Option<String>, String, i64)> = sqlx::query_as(
            "SELECT s.id, s.title, s.status, s.ai_review_verdict, s.last_session_summary, s.updated_at
             FROM objective s JOIN objective me ON me.id = $2 AND me.client_id = $1
             WHERE s.client_id = $1 AND s.parent_id = me.parent_id AND s.id <> me.id ORDER BY s.id LIMIT 100",
        )
        .bind(scope.client.0)
        .bind(id.0)
        .fetch_all(&self.read)
        .await?;
        rows.into_iter()
            .map(|(id, title, status, verdict, summary, updated_at)| {
                Ok(Sibling {
                    id: ObjectiveId(id),
                    title,
                    status: word(&status)?,
                    ai_review_verdict: verdict.as_deref().map(word).transpose()?,
                    last_session_summary: summary,
                    updated_at,
                })
            })
            .collect()
    }

    /// Activity and figures of a running session; at most every few seconds a session.
    pub(crate) async fn note_activity(
        &self,
        id: &SessionId,
        activity: &str,
        turns: u32,
        cost: i64,
        denials: u32,
    ) -> Result<()> {
        let mut tx = self.begin().await?;
        sqlx::query(
            "UPDATE session SET activity = $2, turns = $3, cost_usd_micros = $4, denials = $5 WHERE id = $1",
        )
        .bind(id.as_str())
        .bind(activity)
        .bind(turns)
        .bind(cost)
        .bind(denials)
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(())
    }
}

/// The runner holds its lock: `starting` becomes `running`.
pub(crate) async fn mark_running(tx: &mut Tx, id: &SessionId, pid: u32, proof: Option<&str>) -> Result<bool> {
    let done = sqlx::query(
        "UPDATE session SET state = CASE WHEN state = 'starting' THEN 'running' ELSE state END, pid = $2,
            proof = COALESCE($3, proof) WHERE id = $1 AND state <> 'ended'",
    )
    .bind(id.as_str())
    .bind(pid)
    .bind(proof)
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// A stop was asked for.
pub(crate) async fn mark_stopping(tx: &mut Tx, id: &SessionId) -> Result<()> {
    sqlx::query("UPDATE session SET state = 'stopping' WHERE id = $1 AND state <> 'ended'")
        .bind(id.as_str())
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// What is stored when a session is over.
pub(crate) struct End<'a> {
    pub(crate) outcome: Outcome,
    pub(crate) detail: &'a str,
    pub(crate) turns: u32,
    pub(crate) cost_usd_micros: i64,
    pub(crate) denials: u32,
    pub(crate) artifact: Option<&'a str>,
    pub(crate) notes: Option<&'a str>,
    pub(crate) proof: Option<&'a str>,
    pub(crate) policy: (Option<&'a str>, Option<&'a str>),
    pub(crate) planted: &'a [String],
}

/// Ends a session row, once: false when it had ended already.
pub(crate) async fn end(tx: &mut Tx, id: &SessionId, end: &End<'_>) -> Result<bool> {
    let done = sqlx::query(
        "UPDATE session SET state = 'ended', outcome = $2, detail = $3, turns = $4, cost_usd_micros = $5,
            denials = $6, artifact = $7, notes = $8, proof = COALESCE($9, proof), ended_at = $10,
            policy_start = $11, policy_end = $12, planted = $13, token_hash = NULL WHERE id = $1 AND state <> 'ended'",
    )
    .bind(id.as_str())
    .bind(end.outcome.as_str())
    .bind(end.detail)
    .bind(end.turns)
    .bind(end.cost_usd_micros)
    .bind(end.denials)
    .bind(end.artifact)
    .bind(end.notes)
    .bind(end.proof)
    .bind(now_ms())
    .bind(end.policy.0)
    .bind(end.policy.1)
    .bind(serde_json::to_string(end.planted)?)
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Stores a review beside the end of its session.
pub(crate) struct NewReview<'a> {
    pub(crate) session: &'a SessionRow,
    pub(crate) verdict: Option<String>,
    pub(crate) floor: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) visible: &'a [String],
}

pub(crate) async fn insert_review(tx: &mut Tx, review: &NewReview<'_>) -> Result<()> {
    sqlx::query(
        "INSERT INTO review (session_id, client_id, objective_id, round, commit_sha, verdict, floor, error,
            visible, at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    )
    .bind(review.session.id.as_str())
    .bind(review.session.scope.client.0)
    .bind(review.session.objective.0)
    .bind(review.session.round)
    .bind(review.session.commit.as_deref().unwrap_or_default())
    .bind(&review.verdict)
    .bind(&review.floor)
    .bind(&review.error)
    .bind(serde_json::to_string(review.visible)?)
    .bind(now_ms())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

impl Store {
    /// Which commits a session made, in truth.
    pub(crate) async fn note_commits<'a>(
        &self,
        session: &SessionId,
        objective: ObjectiveId,
        commits: impl Iterator<Item = &'a str>,
    ) -> Result<()> {
        let mut tx = self.begin().await?;
        for sha in commits.filter(|sha| !sha.is_empty()) {
            sqlx::query(
                "INSERT INTO session_commit (session_id, sha, objective_id)
                 SELECT $1, $2, $3 WHERE NOT EXISTS
                    (SELECT 1 FROM session_commit WHERE sha = $2 AND objective_id = $3)",
            )
            .bind(session.as_str())
            .bind(sha)
            .bind(objective.0)
            .execute(&mut *tx)
            .await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// The agent says that it needs a person.
    pub(crate) async fn set_blocked(&self, session: &SessionId, reason: &str) -> Result<()> {
        let mut tx = self.begin().await?;
        sqlx::query("UPDATE session SET blocked_reason = $2 WHERE id = $1 AND state <> 'ended'")
            .bind(session.as_str())
            .bind(reason)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(())
    }
}

/// How many sessions of the same objective and role ended overloaded directly before this one, at most 16.
pub(crate) async fn overloads_in_a_row(tx: &mut Tx, row: &SessionRow) -> Result<u32> {
    let before: Vec<(Option<String>,)> = sqlx::query_as(
        "SELECT outcome FROM session WHERE objective_id = $1 AND role = $2 AND id <> $3
         ORDER BY started_at DESC LIMIT 16",
    )
    .bind(row.objective.0)
    .bind(row.role.as_str())
    .bind(row.id.as_str())
    .fetch_all(&mut **tx)
    .await?;
    let overloaded = |outcome: &Option<String>| outcome.as_deref() == Some(Outcome::Overloaded.as_str());
    Ok(before.iter().take_while(|(outcome,)| overloaded(outcome)).count() as u32)
}
