//! Objectives: the whole row, and the one statement that stores a transition.

mod messages;
mod write;

use opkit_domain::access::Scope;
use opkit_domain::ids::{ObjectiveId, RepositoryId, SessionId};
use opkit_domain::objective::{Counters, Criterion, Facts, Gate, Kind, Status};
use opkit_domain::state_machine::Transition;
use sqlx::sqlite::SqliteQueryResult;

use super::cards::{not_here, word};
use super::{Store, Tx};
use crate::clock::now_ms;
use crate::error::{Error, Result};
pub(crate) use messages::{add_message, close_outbox, mark_delivered, open_outbox, outbox};
pub(crate) use write::{
    NewRow, add_dependency, clear_dependencies, insert, remember_key, store_edit, waits_on,
};

/// An objective as the use cases need it.
#[derive(Debug, Clone)]
pub(crate) struct Objective {
    pub(crate) id: ObjectiveId,
    pub(crate) scope: Scope,
    pub(crate) repo: RepositoryId,
    pub(crate) parent: Option<ObjectiveId>,
    pub(crate) title: String,
    pub(crate) goal: String,
    pub(crate) brief: String,
    pub(crate) criteria: Vec<Criterion>,
    pub(crate) facts: Facts,
    pub(crate) base: String,
    pub(crate) base_commit: Option<String>,
    pub(crate) head_commit: Option<String>,
    pub(crate) agent: String,
    pub(crate) script: Option<String>,
    pub(crate) labels: Vec<String>,
    pub(crate) creator: String,
    pub(crate) session: Option<SessionId>,
    pub(crate) worker_account: Option<String>,
    pub(crate) worktree_ready: bool,
    pub(crate) findings: Vec<String>,
    pub(crate) last_session_summary: String,
    pub(crate) integrated: Option<String>,
    pub(crate) priority: u8,
    pub(crate) position: i64,
    pub(crate) version: i64,
    pub(crate) created_at: i64,
    pub(crate) waiting_since: Option<i64>,
}

impl Objective {
    /// `obj/42`.
    pub(crate) fn branch(&self) -> String {
        format!("obj/{}", self.id)
    }
}

#[derive(sqlx::FromRow)]
struct Row {
    id: i64,
    client_id: i64,
    repository_id: i64,
    parent_id: Option<i64>,
    title: String,
    goal: String,
    brief: String,
    kind: String,
    gate: String,
    status: String,
    sub_state: Option<String>,
    attention: Option<String>,
    came_from: Option<String>,
    hold: bool,
    delegate: bool,
    priority: i64,
    position: i64,
    criteria: String,
    locked: bool,
    rounds: i64,
    rounds_total: i64,
    run_failures: i64,
    start_failures: i64,
    review_errors: i64,
    plan_failures: i64,
    max_rounds: i64,
    base: String,
    base_commit: Option<String>,
    head_commit: Option<String>,
    agent: String,
    script: Option<String>,
    labels: String,
    creator: String,
    session_id: Option<String>,
    worker_account: Option<String>,
    worktree_ready: bool,
    waiting_since: Option<i64>,
    findings: String,
    passed: bool,
    last_session_summary: String,
    integrated: Option<String>,
    version: i64,
    created_at: i64,
}

const SELECT: &str = "SELECT id, client_id, repository_id, parent_id, title, goal, brief, kind, gate, status,
    sub_state, attention, came_from, hold, delegate, priority, position, criteria, locked, rounds, rounds_total,
    run_failures, start_failures, review_errors, plan_failures, max_rounds, base, base_commit, head_commit,
    agent, script, labels, creator, session_id, worker_account, worktree_ready, waiting_since, findings, passed,
    last_session_summary, integrated, version, created_at
    FROM objective WHERE client_id = $1 AND id = $2";

fn objective(row: Row, scope: Scope) -> Result<Objective> {
    let criteria: Vec<Criterion> = serde_json::from_str(&row.criteria)?;
    let facts = Facts {
        kind: word::<Kind>(&row.kind)?,
        gate: word::<Gate>(&row.gate)?,
        status: word::<Status>(&row.status)?,
        sub_state: row.sub_state.as_deref().map(word).transpose()?,
        attention: row.attention.as_deref().map(word).transpose()?,
        hold: row.hold,
        criteria: criteria.len() as u32,
        locked: row.locked,
        delegate: row.delegate,
        delivered: row.head_commit.is_some(),
        live: row.session_id.is_some(),
        passed: row.passed,
        came_from: row.came_from.as_deref().map(word).transpose()?,
        counters: Counters {
            rounds: row.rounds as u32,
            rounds_total: row.rounds_total as u32,
            run_failures: row.run_failures as u32,
            start_failures: row.start_failures as u32,
            review_errors: row.review_errors as u32,
            plan_failures: row.plan_failures as u32,
        },
        max_rounds: row.max_rounds as u32,
    };
    debug_assert_eq!(row.client_id, scope.client.0);
    Ok(Objective {
        id: ObjectiveId(row.id),
        scope,
        repo: RepositoryId(row.repository_id),
        parent: row.parent_id.map(ObjectiveId),
        title: row.title,
        goal: row.goal,
        brief: row.brief,
        criteria,
        facts,
        base: row.base,
        base_commit: row.base_commit,
        head_commit: row.head_commit,
        agent: row.agent,
        script: row.script,
        labels: serde_json::from_str(&row.labels)?,
        creator: row.creator,
        session: row.session_id.and_then(|id| id.parse().ok()),
        worker_account: row.worker_account,
        worktree_ready: row.worktree_ready,
        findings: serde_json::from_str(&row.findings)?,
        last_session_summary: row.last_session_summary,
        integrated: row.integrated,
        priority: row.priority as u8,
        position: row.position,
        version: row.version,
        created_at: row.created_at,
        waiting_since: row.waiting_since,
    })
}

impl Store {
    pub(crate) async fn objective(&self, scope: Scope, id: ObjectiveId) -> Result<Objective> {
        let row: Option<Row> =
            sqlx::query_as(SELECT).bind(scope.client.0).bind(id.0).fetch_optional(&self.read).await?;
        objective(row.ok_or_else(|| not_here(id))?, scope)
    }
}

/// Reads an objective inside a write transaction.
pub(crate) async fn get(tx: &mut Tx, scope: Scope, id: ObjectiveId) -> Result<Objective> {
    let row: Option<Row> =
        sqlx::query_as(SELECT).bind(scope.client.0).bind(id.0).fetch_optional(&mut **tx).await?;
    objective(row.ok_or_else(|| not_here(id))?, scope)
}

/// Everything that is stored together with a transition.
#[derive(Debug, Clone, Default)]
pub(crate) struct Beside {
    pub(crate) attention_note: String,
    /// Replaces the findings when given.
    pub(crate) findings: Option<Vec<String>>,
    /// Appends a round mark.
    pub(crate) round_mark: Option<char>,
    pub(crate) passed: Option<bool>,
    pub(crate) head_commit: Option<String>,
    pub(crate) summary: Option<String>,
    pub(crate) verdict: Option<String>,
    pub(crate) criteria: Option<(u32, u32)>,
    pub(crate) cost_usd_micros: i64,
    /// The live session ended or none is left.
    pub(crate) clear_session: bool,
    pub(crate) worktree_ready: bool,
    pub(crate) not_before: i64,
    pub(crate) integrated: Option<String>,
}

/// Stores a transition: compares status and version, fails with a conflict when they moved.
pub(crate) async fn store_transition(
    tx: &mut Tx,
    before: &Objective,
    transition: &Transition,
    beside: &Beside,
) -> Result<()> {
    let now = now_ms();
    let moved = transition.to != before.facts.status;
    let waits = transition.sub_state == Some(opkit_domain::objective::SubState::WaitingAccount);
    let waiting_since = if waits { Some(before.waiting_since.unwrap_or(now)) } else { None };
    let first_key = transition.first.then_some(-now);
    let findings = beside.findings.as_ref().map(serde_json::to_string).transpose()?;
    let c = transition.counters;
    let done = sqlx::query(
        "UPDATE objective SET
            status = $3, sub_state = $4, attention = $5, attention_note = $6, came_from = $7, locked = $8,
            rounds = $9, rounds_total = $10, run_failures = $11, start_failures = $12, review_errors = $13,
            plan_failures = $14, since = CASE WHEN $15 THEN $16 ELSE since END, updated_at = $16,
            sort_key = COALESCE($17, CASE WHEN $3 = 'queue' AND status = 'queue' THEN sort_key ELSE
                ((4 - priority) << 52) | position END),
            findings = COALESCE($18, findings), round_marks = round_marks || $19,
            passed = COALESCE($20, passed), head_commit = COALESCE($21, head_commit),
            last_session_summary = COALESCE($22, last_session_summary),
            ai_review_verdict = COALESCE($23, ai_review_verdict),
            criteria_met = COALESCE($24, criteria_met), criteria_failed = COALESCE($25, criteria_failed),
            cost_usd_micros = cost_usd_micros + $26,
            session_id = CASE WHEN $27 THEN NULL ELSE session_id END,
            worktree_ready = worktree_ready OR $28, not_before = $29,
            integrated = COALESCE($30, integrated), false_passes = false_passes + $31,
            waiting_since = $32, version = version + 1
         WHERE id = $1 AND version = $2",
    )
    .bind(before.id.0)
    .bind(before.version)
    .bind(transition.to.as_str())
    .bind(transition.sub_state.map(|s| s.as_str()))
    .bind(transition.attention.map(|a| a.as_str()))
    .bind(&beside.attention_note)
    .bind(transition.came_from.map(Status::as_str))
    .bind(transition.lock)
    .bind(c.rounds)
    .bind(c.rounds_total)
    .bind(c.run_failures)
    .bind(c.start_failures)
    .bind(c.review_errors)
    .bind(c.plan_failures)
    .bind(moved)
    .bind(now)
    .bind(first_key)
    .bind(findings)
    .bind(beside.round_mark.map(String::from).unwrap_or_default())
    .bind(beside.passed)
    .bind(&beside.head_commit)
    .bind(&beside.summary)
    .bind(&beside.verdict)
    .bind(beside.criteria.map(|c| c.0))
    .bind(beside.criteria.map(|c| c.1))
    .bind(beside.cost_usd_micros)
    .bind(beside.clear_session)
    .bind(beside.worktree_ready)
    .bind(beside.not_before)
    .bind(&beside.integrated)
    .bind(transition.false_pass)
    .bind(waiting_since)
    .execute(&mut **tx)
    .await?;
    was_as_read(&done, before)
}

/// A change names the version that it was decided by; no row has it when somebody else was quicker.
fn was_as_read(done: &SqliteQueryResult, before: &Objective) -> Result<()> {
    if done.rows_affected() == 0 { Err(changed_meanwhile(before.id)) } else { Ok(()) }
}

/// What somebody decided by is not what is there any more.
pub(crate) fn changed_meanwhile(id: ObjectiveId) -> Error {
    Error::Conflict(format!("#{id} was changed by somebody else a moment ago. Look again."))
}

/// Notes how a branch was integrated.
pub(crate) async fn set_integrated(tx: &mut Tx, id: ObjectiveId, sentence: &str) -> Result<()> {
    sqlx::query("UPDATE objective SET integrated = $2, updated_at = $3, version = version + 1 WHERE id = $1")
        .bind(id.0)
        .bind(sentence)
        .bind(now_ms())
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// A change that the card shows but that is no transition.
pub(crate) async fn touch(tx: &mut Tx, id: ObjectiveId) -> Result<()> {
    sqlx::query("UPDATE objective SET version = version + 1, updated_at = $2 WHERE id = $1")
        .bind(id.0)
        .bind(now_ms())
        .execute(&mut **tx)
        .await?;
    Ok(())
}
