//! What people tell an objective, and what is told on about it.

use opkit_domain::access::Scope;
use opkit_domain::ids::{ObjectiveId, SessionId};
use opkit_domain::view::MessageView;

use super::super::{Store, Tx};
use crate::clock::now_ms;
use crate::error::Result;

impl Store {
    pub(crate) async fn messages(&self, scope: Scope, id: ObjectiveId) -> Result<Vec<MessageView>> {
        let rows: Vec<(i64, String, String, Option<String>)> = sqlx::query_as(
            "SELECT at, actor, text, delivered_session FROM message WHERE client_id = $1 AND objective_id = $2
             ORDER BY id DESC LIMIT 200",
        )
        .bind(scope.client.0)
        .bind(id.0)
        .fetch_all(&self.read)
        .await?;
        Ok(rows
            .into_iter()
            .map(|(at, actor, text, session)| MessageView {
                at,
                actor,
                text,
                delivered_to: session.and_then(|id| id.parse().ok()),
            })
            .collect())
    }

    /// Messages that no session has got, oldest first: (number, actor, text).
    pub(crate) async fn open_messages(&self, id: ObjectiveId) -> Result<Vec<(i64, String, String)>> {
        Ok(sqlx::query_as(
            "SELECT id, actor, text FROM message WHERE objective_id = $1 AND delivered_session IS NULL ORDER BY id",
        )
        .bind(id.0)
        .fetch_all(&self.read)
        .await?)
    }

    /// Something of the outbox is open.
    pub(crate) async fn outbox_waits(&self) -> Result<bool> {
        let (any,): (bool,) = sqlx::query_as("SELECT EXISTS (SELECT 1 FROM outbox WHERE done_at IS NULL)")
            .fetch_one(&self.read)
            .await?;
        Ok(any)
    }
}

/// A person's message for the next session.
pub(crate) async fn add_message(
    tx: &mut Tx,
    actor: &opkit_domain::access::Actor,
    id: ObjectiveId,
    text: &str,
) -> Result<()> {
    sqlx::query("INSERT INTO message (client_id, objective_id, at, actor, text) VALUES ($1, $2, $3, $4, $5)")
        .bind(actor.scope.client.0)
        .bind(id.0)
        .bind(now_ms())
        .bind(&actor.name)
        .bind(text)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Marks messages as delivered to a session: up to and including this number.
pub(crate) async fn mark_delivered(
    tx: &mut Tx,
    id: ObjectiveId,
    up_to: i64,
    session: &SessionId,
) -> Result<()> {
    sqlx::query(
        "UPDATE message SET delivered_session = $3
         WHERE objective_id = $1 AND id <= $2 AND delivered_session IS NULL",
    )
    .bind(id.0)
    .bind(up_to)
    .bind(session.as_str())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Something that must follow.
pub(crate) async fn outbox(
    tx: &mut Tx,
    scope: Scope,
    kind: &str,
    id: ObjectiveId,
    payload: &str,
) -> Result<()> {
    sqlx::query(
        "INSERT INTO outbox (client_id, kind, objective_id, payload, created_at) VALUES ($1, $2, $3, $4, $5)",
    )
    .bind(scope.client.0)
    .bind(kind)
    .bind(id.0)
    .bind(payload)
    .bind(now_ms())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Open outbox rows: (row, client, kind, objective, payload).
pub(crate) type OutboxRow = (i64, i64, String, i64, String);

/// Reads the next open outbox rows.
pub(crate) async fn open_outbox(tx: &mut Tx) -> Result<Vec<OutboxRow>> {
    Ok(sqlx::query_as(
        "SELECT id, client_id, kind, objective_id, payload FROM outbox WHERE done_at IS NULL ORDER BY id LIMIT 100",
    )
    .fetch_all(&mut **tx)
    .await?)
}

/// Marks an outbox row as done.
pub(crate) async fn close_outbox(tx: &mut Tx, row: i64) -> Result<()> {
    sqlx::query("UPDATE outbox SET done_at = $2 WHERE id = $1")
        .bind(row)
        .bind(now_ms())
        .execute(&mut **tx)
        .await?;
    Ok(())
}
