//! The order of cards within a lane and priority.

use opkit_domain::ids::ObjectiveId;

use super::Tx;
use super::objectives::{Objective, get};
use crate::clock::now_ms;
use crate::error::{Error, Result};

/// Priority and position in one number: lower first.
pub(crate) fn sort_key(priority: u8, position: i64) -> i64 {
    (i64::from(4 - priority.min(4)) << 52) | (position & ((1 << 52) - 1))
}

/// A position right before another card of the same lane and priority; none when there is no number left.
async fn between(tx: &mut Tx, card: &Objective, below: i64) -> Result<Option<i64>> {
    let (above,): (Option<i64>,) = sqlx::query_as(
        "SELECT MAX(position) FROM objective WHERE client_id = $1 AND status = $2 AND priority = $3
         AND position < $4 AND id <> $5",
    )
    .bind(card.scope.client.0)
    .bind(card.facts.status.as_str())
    .bind(card.priority)
    .bind(below)
    .bind(card.id.0)
    .fetch_one(&mut **tx)
    .await?;
    let above = above.unwrap_or(0);
    Ok((below - above > 1).then_some((above + below) / 2))
}

/// Gives the cards of a lane and priority new positions with room between them, in the order that they have.
async fn spread(tx: &mut Tx, card: &Objective) -> Result<()> {
    sqlx::query(
        "UPDATE objective SET position = turn.n << 16,
            sort_key = CASE WHEN sort_key < 0 THEN sort_key ELSE ((4 - priority) << 52) | (turn.n << 16) END
         FROM (SELECT id AS card, ROW_NUMBER() OVER (ORDER BY position, id) AS n FROM objective
               WHERE client_id = $1 AND status = $2 AND priority = $3) turn
         WHERE objective.id = turn.card",
    )
    .bind(card.scope.client.0)
    .bind(card.facts.status.as_str())
    .bind(card.priority)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Puts a card before another of the same lane and priority, or last.
pub(crate) async fn reorder(tx: &mut Tx, card: &Objective, before: Option<ObjectiveId>) -> Result<()> {
    let key = match before {
        Some(other) => {
            let other = get(tx, card.scope, other).await?;
            if other.facts.status != card.facts.status {
                return Err(Error::Refused("The two cards are not in the same lane.".into()));
            }
            if other.priority != card.priority {
                return Err(Error::Refused(format!(
                    "The queue goes by priority first. #{} has priority {}, #{} has {}.",
                    other.id, other.priority, card.id, card.priority
                )));
            }
            match between(tx, card, other.position).await? {
                Some(key) => key,
                // So many cards were put here that no number is left in between.
                None => {
                    spread(tx, card).await?;
                    let other = get(tx, card.scope, other.id).await?;
                    between(tx, card, other.position).await?.unwrap_or(other.position)
                }
            }
        }
        None => {
            let (last,): (Option<i64>,) = sqlx::query_as(
                "SELECT MAX(position) FROM objective WHERE client_id = $1 AND status = $2 AND priority = $3",
            )
            .bind(card.scope.client.0)
            .bind(card.facts.status.as_str())
            .bind(card.priority)
            .fetch_one(&mut **tx)
            .await?;
            last.unwrap_or(0) + (1 << 16)
        }
    };
    sqlx::query(
        "UPDATE objective SET position = $2, sort_key = $3, updated_at = $4, version = version + 1 WHERE id = $1",
    )
    .bind(card.id.0)
    .bind(key)
    .bind(sort_key(card.priority, key))
    .bind(now_ms())
    .execute(&mut **tx)
    .await?;
    Ok(())
}
