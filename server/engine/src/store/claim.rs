//! The claim: slot, account and objective in one immediate transaction.

use opkit_domain::access::Scope;
use opkit_domain::account_pool::Load;
use opkit_domain::dispatch::{Candidate, Class, Live};
use opkit_domain::ids::{ClientId, ObjectiveId, SessionId};
use opkit_domain::session::Role;
use opkit_domain::state_machine::Transition;

use super::objectives::Objective;
use super::{Store, Tx};
use crate::clock::now_ms;
use crate::error::Result;

/// Takes the gate: the first statement of everything that must not run beside a claim.
pub(crate) async fn take_gate(tx: &mut Tx) -> Result<()> {
    sqlx::query("UPDATE gate SET claims = claims + 1 WHERE id = 1").execute(&mut **tx).await?;
    Ok(())
}

/// Takes the gate and reads what a claim decides by: every account's load and OS user, and the live sessions by kind.
/// A cool-down that is over counts as available.
pub(crate) async fn open(tx: &mut Tx) -> Result<(Vec<(Load, Option<String>)>, Live)> {
    let statement = format!("UPDATE gate SET claims = claims + 1 WHERE id = 1; {LOADS}");
    let rows: Vec<LoadRow> = sqlx::query_as(sqlx::AssertSqlSafe(statement)).fetch_all(&mut **tx).await?;
    let mut live = Live::default();
    for (.., other, review) in &rows {
        live.other += *other as u32;
        live.review += *review as u32;
    }
    let now = now_ms();
    Ok((rows.into_iter().map(|row| load(row, now)).collect(), live))
}

type LoadRow = (String, i64, bool, String, Option<i64>, Option<String>, i64, i64);

const LOADS: &str = "
    SELECT a.name, CASE WHEN a.login_only AND a.session_limit > 1 THEN 1 ELSE a.session_limit END,
           a.login_only, a.state, a.until_at, a.os_user,
           COALESCE(SUM(s.role <> 'review'), 0), COALESCE(SUM(s.role = 'review'), 0)
    FROM account a LEFT JOIN session s ON s.account = a.name AND s.state <> 'ended'
    GROUP BY a.name ORDER BY a.name";

/// An account's load, and its OS user.
fn load(
    (name, limit, alone, state, until, user, other, review): LoadRow,
    now: i64,
) -> (Load, Option<String>) {
    let available =
        state == "available" || (state == "cooling_down" && until.is_some_and(|until| until <= now));
    (Load { name, available, live: (other + review) as u32, limit: limit as u32, alone }, user)
}

impl Store {
    /// Every account's load and OS user, without taking the gate: for what only prepares.
    pub(crate) async fn loads(&self) -> Result<Vec<(Load, Option<String>)>> {
        let rows: Vec<LoadRow> = sqlx::query_as(LOADS).fetch_all(&self.read).await?;
        let now = now_ms();
        Ok(rows.into_iter().map(|row| load(row, now)).collect())
    }
}

/// Who wants a session: at most `limit` of each class, in the order of claims. Objectives of agents that are `held`
/// back do not count, so that a long queue of theirs is in nobody's way.
pub(crate) async fn candidates(tx: &mut Tx, limit: u32, held: &[String]) -> Result<Vec<(Scope, Candidate)>> {
    type Row = (i64, i64, String, i64, i64, i64);
    let held = serde_json::to_string(held)?;
    let rows: Vec<Row> =
        sqlx::query_as(CANDIDATES).bind(now_ms()).bind(limit).bind(held).fetch_all(&mut **tx).await?;
    Ok(rows
        .into_iter()
        .map(|(client, id, status, priority, position, key)| {
            let class = match status.as_str() {
                "ai_review" => Class::Review,
                "working" => Class::Return,
                _ => Class::Queue,
            };
            // A negative key is a person's "next, now": before every priority, the latest wish first.
            let (priority, position) = if key < 0 { (u8::MAX, key) } else { (priority as u8, position) };
            let candidate = Candidate { id: ObjectiveId(id), class, priority, position };
            (Scope { client: ClientId(client) }, candidate)
        })
        .collect())
}

/// Three walks along the same partial index, each as short as its limit.
const CANDIDATES: &str = "
    SELECT * FROM (SELECT o.client_id, o.id, o.status, o.priority, o.position, o.sort_key FROM objective o
        WHERE o.status = 'ai_review' AND o.session_id IS NULL AND o.not_before <= $1
          AND o.agent NOT IN (SELECT value FROM json_each($3))
        ORDER BY o.sort_key, o.id LIMIT $2)
    UNION ALL
    SELECT * FROM (SELECT o.client_id, o.id, o.status, o.priority, o.position, o.sort_key FROM objective o
        WHERE o.status = 'working' AND o.session_id IS NULL AND o.not_before <= $1
          AND o.agent NOT IN (SELECT value FROM json_each($3))
          AND (o.sub_state IS NULL OR o.sub_state <> 'waiting_children')
        ORDER BY o.sort_key, o.id LIMIT $2)
    UNION ALL
    SELECT * FROM (SELECT o.client_id, o.id, o.status, o.priority, o.position, o.sort_key FROM objective o
        WHERE o.status = 'queue' AND o.session_id IS NULL AND o.not_before <= $1
          AND o.agent NOT IN (SELECT value FROM json_each($3)) AND o.hold = 0
          AND NOT EXISTS (SELECT 1 FROM dependency d JOIN objective n ON n.id = d.needs_id
                          WHERE d.objective_id = o.id AND n.status <> 'done')
        ORDER BY o.sort_key, o.id LIMIT $2)";

/// A claim to be stored: the session, the objective's transition, its event and its audit row.
pub(crate) struct NewSession<'a> {
    pub(crate) id: &'a SessionId,
    pub(crate) objective: &'a Objective,
    pub(crate) transition: &'a Transition,
    pub(crate) role: Role,
    pub(crate) account: &'a str,
    pub(crate) round: u32,
    pub(crate) nonce: Option<&'a str>,
    pub(crate) token_hash: Option<&'a str>,
    pub(crate) deadline: i64,
    pub(crate) wall_clock_s: u64,
    /// Take the lowest free slot.
    pub(crate) slot: bool,
    pub(crate) reason: &'a str,
    pub(crate) audit: &'a str,
}

/// Stores a claim in one script: each statement of its own would cost a thread hop. The objective was read in
/// this transaction, so its version cannot have moved; the unique index on live sessions is the last defence.
pub(crate) async fn store(tx: &mut Tx, new: &NewSession<'_>) -> Result<()> {
    let objective = new.objective;
    let moved = new.transition.to != objective.facts.status;
    sqlx::query(
        "INSERT INTO session (id, client_id, objective_id, role, state, account, agent, actor, round, commit_sha,
            nonce, token_hash, deadline, wall_clock_s, started_at, slot)
         SELECT $1, $2, $3, $4, 'starting', $5, $6, 'dispatcher', $7, $8, $9, $10, $11, $12, $13,
            CASE WHEN $23 THEN (SELECT MIN(free.n) FROM (SELECT 0 AS n UNION ALL
                SELECT t.slot + 1 FROM session t WHERE t.state <> 'ended' AND t.slot IS NOT NULL) free
                WHERE free.n NOT IN (SELECT u.slot FROM session u
                    WHERE u.state <> 'ended' AND u.slot IS NOT NULL)) END;
         UPDATE objective SET session_id = $1, status = $14, sub_state = NULL, attention = NULL,
            attention_note = '', came_from = NULL, locked = $15, waiting_since = NULL, not_before = 0,
            worker_account = CASE WHEN $4 = 'review' THEN worker_account ELSE $5 END,
            since = CASE WHEN $16 THEN $13 ELSE since END,
            sort_key = CASE WHEN $16 THEN ((4 - priority) << 52) | position ELSE sort_key END,
            updated_at = $13, version = version + 1 WHERE id = $3;
         UPDATE client SET seq = seq + 1 WHERE id = $2;
         INSERT INTO event (client_id, seq, at, objective_id, kind, from_status, to_status, trigger_name, actor,
            reason, session_id)
         SELECT $2, seq, $13, $3, $17, $18, $19, 'claimed', 'dispatcher', $20, $1 FROM client WHERE id = $2;
         INSERT INTO audit (client_id, at, actor, action, target, detail)
         VALUES ($2, $13, 'dispatcher', 'launch', $21, $22)",
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
    .bind(new.transition.to.as_str())
    .bind(new.transition.lock)
    .bind(moved)
    .bind(if moved { "moved" } else { "session" })
    .bind(moved.then_some(objective.facts.status.as_str()))
    .bind(moved.then_some(new.transition.to.as_str()))
    .bind(new.reason)
    .bind(format!("#{}", objective.id))
    .bind(new.audit)
    .bind(new.slot)
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
