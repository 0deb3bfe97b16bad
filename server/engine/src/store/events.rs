//! Events: one row for everything that happened, numbered per client; the outbox beside them.

use opkit_domain::access::Scope;
use opkit_domain::ids::{ObjectiveId, SessionId};
use opkit_domain::objective::Status;
use opkit_domain::view::EventView;

use super::{Store, Tx};
use crate::clock::now_ms;
use crate::error::Result;

/// What an event row says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewEvent<'a> {
    pub(crate) objective: ObjectiveId,
    pub(crate) kind: &'a str,
    pub(crate) from: Option<Status>,
    pub(crate) to: Option<Status>,
    pub(crate) trigger: &'a str,
    pub(crate) actor: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) session: Option<&'a SessionId>,
}

/// Appends an event with the client's next number.
pub(crate) async fn append(tx: &mut Tx, scope: Scope, event: NewEvent<'_>) -> Result<()> {
    sqlx::query(
        "UPDATE client SET seq = seq + 1 WHERE id = $1;
         INSERT INTO event (client_id, seq, at, objective_id, kind, from_status, to_status, trigger_name, actor,
                            reason, session_id)
         SELECT $1, seq, $2, $3, $4, $5, $6, $7, $8, $9, $10 FROM client WHERE id = $1",
    )
    .bind(scope.client.0)
    .bind(now_ms())
    .bind(event.objective.0)
    .bind(event.kind)
    .bind(event.from.map(Status::as_str))
    .bind(event.to.map(Status::as_str))
    .bind(event.trigger)
    .bind(event.actor)
    .bind(event.reason)
    .bind(event.session.map(SessionId::as_str))
    .execute(&mut **tx)
    .await?;
    Ok(())
}

type EventTuple = (i64, i64, String, Option<String>, Option<String>, String, String, String, Option<String>);

fn view(row: EventTuple) -> EventView {
    let (seq, at, kind, from, to, trigger, actor, reason, session) = row;
    EventView {
        seq,
        at,
        kind,
        from: from.and_then(|word| word.parse().ok()),
        to: to.and_then(|word| word.parse().ok()),
        trigger,
        actor,
        reason,
        session: session.and_then(|id| id.parse().ok()),
    }
}

impl Store {
    /// The number of the client's last event.
    pub(crate) async fn seq(&self, scope: Scope) -> Result<i64> {
        let (seq,): (i64,) = sqlx::query_as("SELECT seq FROM client WHERE id = $1")
            .bind(scope.client.0)
            .fetch_one(&self.read)
            .await?;
        Ok(seq)
    }

    /// Events of one objective, ascending.
    pub(crate) async fn events(
        &self,
        scope: Scope,
        id: ObjectiveId,
        after: i64,
        limit: u32,
    ) -> Result<Vec<EventView>> {
        let rows: Vec<EventTuple> = sqlx::query_as(
            "SELECT seq, at, kind, from_status, to_status, trigger_name, actor, reason, session_id FROM event
             WHERE client_id = $1 AND objective_id = $2 AND seq > $3 ORDER BY seq LIMIT $4",
        )
        .bind(scope.client.0)
        .bind(id.0)
        .bind(after)
        .bind(limit.clamp(1, 5000))
        .fetch_all(&self.read)
        .await?;
        Ok(rows.into_iter().map(view).collect())
    }

    /// The newest events of one objective, newest first.
    pub(crate) async fn last_events(
        &self,
        scope: Scope,
        id: ObjectiveId,
        limit: u32,
    ) -> Result<Vec<EventView>> {
        let rows: Vec<EventTuple> = sqlx::query_as(
            "SELECT seq, at, kind, from_status, to_status, trigger_name, actor, reason, session_id FROM event
             WHERE client_id = $1 AND objective_id = $2 ORDER BY seq DESC LIMIT $3",
        )
        .bind(scope.client.0)
        .bind(id.0)
        .bind(limit)
        .fetch_all(&self.read)
        .await?;
        Ok(rows.into_iter().map(view).collect())
    }

    /// Which objectives changed after a number: (number, objective), ascending, at most `limit`.
    pub(crate) async fn changes(
        &self,
        scope: Scope,
        after: i64,
        limit: u32,
    ) -> Result<Vec<(i64, ObjectiveId)>> {
        let rows: Vec<(i64, i64)> = sqlx::query_as(
            "SELECT seq, objective_id FROM event WHERE client_id = $1 AND seq > $2 ORDER BY seq LIMIT $3",
        )
        .bind(scope.client.0)
        .bind(after)
        .bind(limit)
        .fetch_all(&self.read)
        .await?;
        Ok(rows.into_iter().map(|(seq, id)| (seq, ObjectiveId(id))).collect())
    }
}
