//! The claim: slot, account and objective in one immediate transaction.

use opkit_domain::access::Scope;
use opkit_domain::dispatch::{Candidate, Class, Live};
use opkit_domain::ids::{ClientId, ObjectiveId, SessionId};
use opkit_domain::session::Role;

use super::objectives::Objective;
use super::{Store, Tx};
use crate::clock::now_ms;
use crate::error::Result;

/// Takes the gate: the first statement of every claim.
pub(crate) async fn take_gate(tx: &mut Tx) -> Result<()> {
    sqlx::query("UPDATE gate SET claims = claims + 1 WHERE id = 1").execute(&mut **tx).await?;
    Ok(())
}

/// Live sessions of the installation by kind.
pub(crate) async fn live(tx: &mut Tx) -> Result<Live> {
    let (other, review): (i64, i64) = sqlx::query_as(
        "SELECT COALESCE(SUM(role <> 'review'), 0), COALESCE(SUM(role = 'review'), 0) FROM session
         WHERE state <> 'ended'",
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(Live { other: other as u32, review: review as u32 })
}

/// Who wants a session: at most `limit` of each class, in the order of claims.
pub(crate) async fn candidates(tx: &mut Tx, limit: u32) -> Result<Vec<(Scope, Candidate)>> {
    let now = now_ms();
    let mut list = Vec::new();
    for (status, class) in [("ai_review", Class::Review), ("working", Class::Return), ("queue", Class::Queue)]
    {
        let rows: Vec<(i64, i64, i64, i64, i64)> = sqlx::query_as(
            "SELECT o.client_id, o.id, o.priority, o.position, o.sort_key FROM objective o
             WHERE o.status = $1 AND o.session_id IS NULL AND o.not_before <= $2
               AND ($1 <> 'queue' OR o.hold = 0)
               AND ($1 <> 'working' OR o.sub_state IS NULL OR o.sub_state <> 'waiting_children')
               AND NOT EXISTS (SELECT 1 FROM dependency d JOIN objective n ON n.id = d.needs_id
                               WHERE d.objective_id = o.id AND n.status <> 'done')
             ORDER BY o.sort_key, o.id LIMIT $3",
        )
        .bind(status)
        .bind(now)
        .bind(limit)
        .fetch_all(&mut **tx)
        .await?;
        list.extend(rows.into_iter().map(|(client, id, priority, position, key)| {
            // A negative key is a person's "next, now": before every priority, the latest wish first.
            let (priority, position) = if key < 0 { (u8::MAX, key) } else { (priority as u8, position) };
            let candidate = Candidate { id: ObjectiveId(id), class, priority, position };
            (Scope { client: ClientId(client) }, candidate)
        }));
    }
    Ok(list)
}

/// A session row to be, and what the objective notes of it.
pub(crate) struct NewSession<'a> {
    pub(crate) id: &'a SessionId,
    pub(crate) objective: &'a Objective,
    pub(crate) role: Role,
    pub(crate) account: &'a str,
    pub(crate) round: u32,
    pub(crate) nonce: Option<&'a str>,
    pub(crate) token_hash: Option<&'a str>,
    pub(crate) deadline: i64,
    pub(crate) wall_clock_s: u64,
}

/// Inserts the session and hangs it on the objective. The unique index on live sessions is the last defence.
pub(crate) async fn insert_session(tx: &mut Tx, new: &NewSession<'_>) -> Result<()> {
    let objective = new.objective;
    sqlx::query(
        "INSERT INTO session (id, client_id, objective_id, role, state, account, agent, actor, round, commit_sha,
            nonce, token_hash, deadline, wall_clock_s, started_at)
         VALUES ($1, $2, $3, $4, 'starting', $5, $6, 'dispatcher', $7, $8, $9, $10, $11, $12, $13);
         UPDATE objective SET session_id = $1,
            worker_account = CASE WHEN $4 = 'review' THEN worker_account ELSE $5 END WHERE id = $3",
    )
    .bind(new.id.as_str())
    .bind(objective.scope.client.0)
    .bind(objective.id.0)
    .bind(new.role.as_str())
    .bind(new.account)
    .bind(&objective.agent)
    .bind(new.round)
    .bind(objective.head_commit.as_deref().filter(|_| new.role == Role::Review))
    .bind(new.nonce)
    .bind(new.token_hash)
    .bind(new.deadline)
    .bind(new.wall_clock_s as i64)
    .bind(now_ms())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

impl Store {
    /// Figures for the slots display: (work, plan, review, oldest in queue, review depth, needs you).
    pub(crate) async fn wip_figures(&self, scope: Scope) -> Result<(u32, u32, u32, Option<i64>, u32, u32)> {
        let (work, plan, review): (i64, i64, i64) = sqlx::query_as(
            "SELECT COALESCE(SUM(role IN ('work', 'delegate')), 0), COALESCE(SUM(role = 'plan'), 0),
                    COALESCE(SUM(role = 'review'), 0) FROM session WHERE state <> 'ended'",
        )
        .fetch_one(&self.read)
        .await?;
        let (oldest, depth, needs): (Option<i64>, i64, i64) = sqlx::query_as(
            "SELECT (SELECT MIN(since) FROM objective WHERE client_id = $1 AND status = 'queue'),
                    (SELECT COUNT(*) FROM objective WHERE client_id = $1 AND status = 'ai_review'
                        AND session_id IS NULL),
                    (SELECT COUNT(*) FROM objective WHERE client_id = $1 AND status = 'human_review')",
        )
        .bind(scope.client.0)
        .fetch_one(&self.read)
        .await?;
        Ok((work as u32, plan as u32, review as u32, oldest, depth as u32, needs as u32))
    }
}

impl Store {
    /// A cheap look before a claim takes the writer: is anything waiting at all?
    pub(crate) async fn anything_to_claim(&self, now: i64) -> Result<bool> {
        let (any,): (bool,) = sqlx::query_as(
            "SELECT EXISTS (SELECT 1 FROM objective WHERE status = 'queue' AND session_id IS NULL AND hold = 0
                            AND not_before <= $1)
                 OR EXISTS (SELECT 1 FROM objective WHERE status IN ('ai_review', 'working')
                            AND session_id IS NULL AND not_before <= $1
                            AND (sub_state IS NULL OR sub_state <> 'waiting_children'))",
        )
        .bind(now)
        .fetch_one(&self.read)
        .await?;
        Ok(any)
    }
}
