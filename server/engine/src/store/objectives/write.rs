//! New objectives, changes to them, what they need, and keys against writing one twice.

use opkit_domain::access::Scope;
use opkit_domain::ids::ObjectiveId;
use opkit_domain::objective::{Criterion, Gate, Kind, Status};

use super::super::order::sort_key;
use super::super::{Store, Tx};
use super::{Objective, was_as_read};
use crate::clock::now_ms;
use crate::error::{Error, Result};

/// A new objective row.
pub(crate) struct NewRow<'a> {
    pub(crate) repository: i64,
    pub(crate) parent: Option<ObjectiveId>,
    pub(crate) title: &'a str,
    pub(crate) goal: &'a str,
    pub(crate) brief: &'a str,
    pub(crate) kind: Kind,
    pub(crate) gate: Gate,
    pub(crate) status: Status,
    pub(crate) hold: bool,
    pub(crate) priority: u8,
    pub(crate) criteria: &'a [Criterion],
    pub(crate) max_rounds: u32,
    pub(crate) base: &'a str,
    pub(crate) base_commit: &'a str,
    pub(crate) agent: &'a str,
    pub(crate) script: Option<&'a str>,
    pub(crate) labels: &'a [String],
    pub(crate) creator: &'a str,
    pub(crate) now: i64,
}

/// Inserts an objective; its position leaves room for others between it and its neighbours.
pub(crate) async fn insert(tx: &mut Tx, scope: Scope, row: &NewRow<'_>) -> Result<ObjectiveId> {
    let made = sqlx::query(
        "INSERT INTO objective (client_id, repository_id, parent_id, title, goal, brief, kind, gate, status, hold,
            priority, position, sort_key, criteria, criteria_count, max_rounds, base, base_commit, agent, script,
            labels, creator, since, created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, 0, $12, $13, $14, $15, $16, $17, $18, $19, $20,
            $21, $21, $21)",
    )
    .bind(scope.client.0)
    .bind(row.repository)
    .bind(row.parent.map(|id| id.0))
    .bind(row.title)
    .bind(row.goal)
    .bind(row.brief)
    .bind(row.kind.as_str())
    .bind(row.gate.as_str())
    .bind(row.status.as_str())
    .bind(row.hold)
    .bind(row.priority)
    .bind(serde_json::to_string(row.criteria)?)
    .bind(row.criteria.len() as i64)
    .bind(row.max_rounds)
    .bind(row.base)
    .bind(row.base_commit)
    .bind(row.agent)
    .bind(row.script)
    .bind(serde_json::to_string(row.labels)?)
    .bind(row.creator)
    .bind(row.now)
    .execute(&mut **tx)
    .await?;
    let id = made.last_insert_rowid();
    let position = id << 16;
    sqlx::query("UPDATE objective SET position = $2, sort_key = $3 WHERE id = $1")
        .bind(id)
        .bind(position)
        .bind(sort_key(row.priority, position))
        .execute(&mut **tx)
        .await?;
    Ok(ObjectiveId(id))
}

/// Stores an edit; compares the version.
pub(crate) async fn store_edit(tx: &mut Tx, before: &Objective, after: &Objective) -> Result<()> {
    let done = sqlx::query(
        "UPDATE objective SET title = $3, goal = $4, brief = $5, criteria = $6, criteria_count = $7, priority = $8,
            sort_key = CASE WHEN priority = $8 THEN sort_key ELSE $9 END, hold = $10, kind = $11, gate = $12,
            labels = $13, agent = $14, script = $15, max_rounds = $16, updated_at = $17, version = version + 1
         WHERE id = $1 AND version = $2",
    )
    .bind(before.id.0)
    .bind(before.version)
    .bind(&after.title)
    .bind(&after.goal)
    .bind(&after.brief)
    .bind(serde_json::to_string(&after.criteria)?)
    .bind(after.criteria.len() as i64)
    .bind(after.priority)
    .bind(sort_key(after.priority, before.position))
    .bind(after.facts.hold)
    .bind(after.facts.kind.as_str())
    .bind(after.facts.gate.as_str())
    .bind(serde_json::to_string(&after.labels)?)
    .bind(&after.agent)
    .bind(&after.script)
    .bind(after.facts.max_rounds)
    .bind(now_ms())
    .execute(&mut **tx)
    .await?;
    was_as_read(&done, before)
}

/// "This one first, then that one."
pub(crate) async fn add_dependency(tx: &mut Tx, id: ObjectiveId, needs: ObjectiveId) -> Result<()> {
    sqlx::query("INSERT INTO dependency (objective_id, needs_id) VALUES ($1, $2) ON CONFLICT DO NOTHING")
        .bind(id.0)
        .bind(needs.0)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Forgets what an objective waits for.
pub(crate) async fn clear_dependencies(tx: &mut Tx, id: ObjectiveId) -> Result<()> {
    sqlx::query("DELETE FROM dependency WHERE objective_id = $1").bind(id.0).execute(&mut **tx).await?;
    Ok(())
}

/// Whether one objective waits for another, directly or through others.
pub(crate) async fn waits_on(tx: &mut Tx, id: ObjectiveId, other: ObjectiveId) -> Result<bool> {
    let (found,): (bool,) = sqlx::query_as(
        "WITH RECURSIVE chain (id) AS (
            SELECT needs_id FROM dependency WHERE objective_id = $1
            UNION SELECT d.needs_id FROM dependency d JOIN chain ON d.objective_id = chain.id)
         SELECT EXISTS (SELECT 1 FROM chain WHERE id = $2)",
    )
    .bind(id.0)
    .bind(other.0)
    .fetch_one(&mut **tx)
    .await?;
    Ok(found)
}

/// Remembers which objective an idempotency key made.
pub(crate) async fn remember_key(
    tx: &mut Tx,
    actor: &opkit_domain::access::Actor,
    key: &str,
    id: ObjectiveId,
) -> Result<()> {
    if key.is_empty() || key.len() > 200 {
        return Err(Error::BadInput("An idempotency key has 1 to 200 characters.".into()));
    }
    let stored = sqlx::query(
        "INSERT INTO idempotency (client_id, actor, key, objective_id, created_at) VALUES ($1, $2, $3, $4, $5)",
    )
    .bind(actor.scope.client.0)
    .bind(&actor.name)
    .bind(key)
    .bind(id.0)
    .bind(now_ms())
    .execute(&mut **tx)
    .await;
    match stored {
        // The same call came twice at once, and the other one was first.
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
            Err(Error::Conflict("The same call is being answered already.".into()))
        }
        Err(error) => Err(error.into()),
        Ok(_) => Ok(()),
    }
}

impl Store {
    /// The objective that an earlier call with this key made.
    pub(crate) async fn idempotent(
        &self,
        actor: &opkit_domain::access::Actor,
        key: &str,
    ) -> Result<Option<ObjectiveId>> {
        let row: Option<(i64,)> = sqlx::query_as(
            "SELECT objective_id FROM idempotency WHERE client_id = $1 AND actor = $2 AND key = $3",
        )
        .bind(actor.scope.client.0)
        .bind(&actor.name)
        .bind(key)
        .fetch_optional(&self.read)
        .await?;
        Ok(row.map(|(id,)| ObjectiveId(id)))
    }
}
