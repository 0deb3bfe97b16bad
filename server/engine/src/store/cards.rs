//! Cards: what the board reads, never a brief.

use std::collections::HashMap;

use opkit_domain::access::Scope;
use opkit_domain::ids::{ObjectiveId, SessionId};
use opkit_domain::objective::{Counters, Criterion, Gate, Kind, Status};
use opkit_domain::view::{BoardFilter, CardView, LaneView, RoundMark};
use sqlx::AssertSqlSafe;

use super::Store;
use crate::ListQuery;
use crate::error::{Error, Result};

/// The columns of a card; `o` objective, `r` repository, `s` live session.
const SELECT: &str = "SELECT o.id, o.version, o.title, o.kind, o.gate, o.status, o.sub_state, o.attention,
    o.attention_note, o.came_from, o.hold, o.delegate, o.priority, o.position, o.criteria_count, o.locked,
    o.rounds, o.rounds_total, o.run_failures, o.start_failures, o.review_errors, o.plan_failures, o.max_rounds,
    o.agent, o.labels, o.session_id, o.head_commit IS NOT NULL AS delivered, o.passed, o.round_marks,
    o.criteria_met, o.criteria_failed, o.cost_usd_micros, o.since, o.parent_id,
    r.name AS repo, s.account, s.role, s.activity,
    (SELECT COUNT(*) FROM objective c WHERE c.parent_id = o.id) AS children,
    (SELECT COUNT(*) FROM objective c WHERE c.parent_id = o.id AND c.status = 'done') AS children_done,
    (SELECT GROUP_CONCAT(d.needs_id) FROM dependency d JOIN objective n ON n.id = d.needs_id
      WHERE d.objective_id = o.id AND n.status <> 'done') AS waits_for
    FROM objective o JOIN repository r ON r.id = o.repository_id LEFT JOIN session s ON s.id = o.session_id";

#[derive(sqlx::FromRow)]
struct CardRow {
    id: i64,
    version: i64,
    title: String,
    kind: String,
    gate: String,
    status: String,
    sub_state: Option<String>,
    attention: Option<String>,
    attention_note: String,
    came_from: Option<String>,
    hold: bool,
    delegate: bool,
    priority: i64,
    position: i64,
    criteria_count: i64,
    locked: bool,
    rounds: i64,
    rounds_total: i64,
    run_failures: i64,
    start_failures: i64,
    review_errors: i64,
    plan_failures: i64,
    max_rounds: i64,
    agent: String,
    labels: String,
    session_id: Option<String>,
    delivered: bool,
    passed: bool,
    round_marks: String,
    criteria_met: i64,
    criteria_failed: i64,
    cost_usd_micros: i64,
    since: i64,
    parent_id: Option<i64>,
    repo: String,
    account: Option<String>,
    role: Option<String>,
    activity: Option<String>,
    children: i64,
    children_done: i64,
    waits_for: Option<String>,
}

/// Reads a stored word of a closed vocabulary.
pub(crate) fn word<T: std::str::FromStr>(text: &str) -> Result<T>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    text.parse().map_err(|error: T::Err| {
        Error::Internal(anyhow::Error::new(error).context("the database holds an unknown word"))
    })
}

fn optional<T: std::str::FromStr>(text: Option<&str>) -> Result<Option<T>>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    text.map(word).transpose()
}

fn card(row: CardRow) -> Result<CardView> {
    let status: Status = word(&row.status)?;
    let mut rounds: Vec<RoundMark> = row
        .round_marks
        .bytes()
        .map(|mark| if mark == b'P' { RoundMark::Passed } else { RoundMark::Failed })
        .collect();
    if status == Status::AiReview {
        rounds.push(RoundMark::Now);
    }
    Ok(CardView {
        id: ObjectiveId(row.id),
        version: row.version,
        title: row.title,
        kind: word::<Kind>(&row.kind)?,
        status,
        sub_state: optional(row.sub_state.as_deref())?,
        attention: optional(row.attention.as_deref())?,
        attention_note: row.attention_note,
        priority: row.priority as u8,
        position: row.position,
        hold: row.hold,
        repo: row.repo,
        labels: serde_json::from_str(&row.labels)?,
        agent: row.agent,
        account: row.account,
        session: row.session_id.and_then(|id| id.parse::<SessionId>().ok()),
        role: optional(row.role.as_deref())?,
        activity: row.activity.unwrap_or_default(),
        denial: String::new(),
        criteria: row.criteria_count as u32,
        criteria_met: row.criteria_met as u32,
        criteria_failed: row.criteria_failed as u32,
        rounds,
        cost_usd_micros: row.cost_usd_micros,
        since: row.since,
        parent: row.parent_id.map(ObjectiveId),
        children: (row.children as u32, row.children_done as u32),
        waits_for: row
            .waits_for
            .iter()
            .flat_map(|ids| ids.split(','))
            .filter_map(|id| id.parse().ok().map(ObjectiveId))
            .collect(),
        locked: row.locked,
        delivered: row.delivered,
        gate: word::<Gate>(&row.gate)?,
        passed: row.passed,
        came_from: optional(row.came_from.as_deref())?,
        counters: Counters {
            rounds: row.rounds as u32,
            rounds_total: row.rounds_total as u32,
            run_failures: row.run_failures as u32,
            start_failures: row.start_failures as u32,
            review_errors: row.review_errors as u32,
            plan_failures: row.plan_failures as u32,
        },
        max_rounds: row.max_rounds as u32,
        delegate: row.delegate,
    })
}

/// Fields of an objective that lists outside the board show; still no brief.
#[derive(Debug, Clone)]
pub struct ObjectiveFields {
    /// Base branch.
    pub base: String,
    /// The commit the branch started from.
    pub base_commit: Option<String>,
    /// The delivered commit.
    pub head_commit: Option<String>,
    /// Demo script.
    pub script: Option<String>,
    /// Criteria in order.
    pub criteria: Vec<Criterion>,
    /// How it was integrated.
    pub integrated: Option<String>,
    /// Who made it.
    pub creator: String,
    /// ms since 1970.
    pub created_at: i64,
    /// ms since 1970.
    pub updated_at: i64,
}

type FieldsTuple =
    (i64, String, Option<String>, Option<String>, Option<String>, String, Option<String>, String, i64, i64);

/// Words of a text filter as LIKE patterns: at most one, the whole text, with wildcards escaped.
fn like(text: &str) -> String {
    let mut pattern = String::from("%");
    for c in text.chars().take(100) {
        if matches!(c, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}

impl Store {
    pub(crate) async fn card(&self, scope: Scope, id: ObjectiveId) -> Result<CardView> {
        let row: Option<CardRow> =
            sqlx::query_as(AssertSqlSafe(format!("{SELECT} WHERE o.client_id = $1 AND o.id = $2")))
                .bind(scope.client.0)
                .bind(id.0)
                .fetch_optional(&self.read)
                .await?;
        row.map(card).transpose()?.ok_or_else(|| not_here(id))
    }

    /// One lane under a filter, a window of it and the total.
    pub(crate) async fn lane(
        &self,
        scope: Scope,
        status: Status,
        filter: &BoardFilter,
        offset: u32,
        limit: u32,
    ) -> Result<LaneView> {
        // Finished and waiting-for-a-person lanes show the newest first, the others the order of claims.
        let order = match status {
            Status::Done | Status::Cancelled | Status::HumanReview => "o.since DESC, o.id DESC",
            Status::Planning | Status::Queue | Status::Working | Status::AiReview => "o.sort_key, o.id",
        };
        let number: Option<i64> =
            filter.text.as_deref().and_then(|text| text.trim().trim_start_matches('#').parse().ok());
        let text = filter.text.as_deref().map(str::trim).filter(|text| !text.is_empty());
        let condition = "o.client_id = $1 AND o.status = $2 AND ($3 IS NULL OR r.name = $3)
             AND ($4 IS NULL OR o.title LIKE $4 ESCAPE '\\' OR o.id = $5)";
        let rows: Vec<CardRow> = sqlx::query_as(AssertSqlSafe(format!(
            "{SELECT} WHERE {condition} ORDER BY {order} LIMIT $6 OFFSET $7"
        )))
        .bind(scope.client.0)
        .bind(status.as_str())
        .bind(filter.repo.as_deref())
        .bind(text.map(like))
        .bind(number)
        .bind(limit)
        .bind(offset)
        .fetch_all(&self.read)
        .await?;
        let total = if (rows.len() as u32) < limit && offset == 0 {
            rows.len() as u32
        } else {
            let (count,): (i64,) = sqlx::query_as(AssertSqlSafe(format!(
                "SELECT COUNT(*) FROM objective o JOIN repository r ON r.id = o.repository_id WHERE {condition}"
            )))
            .bind(scope.client.0)
            .bind(status.as_str())
            .bind(filter.repo.as_deref())
            .bind(text.map(like))
            .bind(number)
            .fetch_one(&self.read)
            .await?;
            count as u32
        };
        Ok(LaneView { status, total, cards: rows.into_iter().map(card).collect::<Result<_>>()? })
    }

    /// Objectives by number, for lists.
    pub(crate) async fn list(&self, scope: Scope, query: &ListQuery) -> Result<Vec<CardView>> {
        let rows: Vec<CardRow> = sqlx::query_as(AssertSqlSafe(format!(
            "{SELECT} WHERE o.client_id = $1 AND o.id > $2 AND ($3 IS NULL OR o.status = $3)
             AND ($4 IS NULL OR o.parent_id = $4) ORDER BY o.id LIMIT $5"
        )))
        .bind(scope.client.0)
        .bind(query.after.map_or(0, |id| id.0))
        .bind(query.status.map(Status::as_str))
        .bind(query.parent.map(|id| id.0))
        .bind(query.limit.clamp(1, 1000))
        .fetch_all(&self.read)
        .await?;
        rows.into_iter().map(card).collect()
    }

    /// The fields of objectives in a range of numbers.
    pub(crate) async fn fields(
        &self,
        scope: Scope,
        first: ObjectiveId,
        last: ObjectiveId,
    ) -> Result<HashMap<ObjectiveId, ObjectiveFields>> {
        let rows: Vec<FieldsTuple> = sqlx::query_as(
            "SELECT id, base, base_commit, head_commit, script, criteria, integrated, creator, created_at, updated_at
             FROM objective WHERE client_id = $1 AND id BETWEEN $2 AND $3",
        )
        .bind(scope.client.0)
        .bind(first.0)
        .bind(last.0)
        .fetch_all(&self.read)
        .await?;
        rows.into_iter()
            .map(
                |(
                    id,
                    base,
                    base_commit,
                    head_commit,
                    script,
                    criteria,
                    integrated,
                    creator,
                    created_at,
                    updated_at,
                )| {
                    let criteria = serde_json::from_str(&criteria)?;
                    let fields = ObjectiveFields {
                        base,
                        base_commit,
                        head_commit,
                        script,
                        criteria,
                        integrated,
                        creator,
                        created_at,
                        updated_at,
                    };
                    Ok((ObjectiveId(id), fields))
                },
            )
            .collect()
    }

    /// Everything that waits for a person, oldest first.
    pub(crate) async fn needs_you(&self, scope: Scope) -> Result<Vec<CardView>> {
        let rows: Vec<CardRow> = sqlx::query_as(AssertSqlSafe(format!(
            "{SELECT} WHERE o.client_id = $1 AND o.status = 'human_review' ORDER BY o.since, o.id LIMIT 500"
        )))
        .bind(scope.client.0)
        .fetch_all(&self.read)
        .await?;
        rows.into_iter().map(card).collect()
    }
}

/// The one sentence for what is missing or belongs to somebody else.
pub(crate) fn not_here(id: ObjectiveId) -> Error {
    Error::NotFound(format!(
        "#{id} is not here. It does not exist, or it belongs to a client you are not a member of."
    ))
}
