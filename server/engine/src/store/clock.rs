//! Rows that a clock which was set back left in the future.

use super::Store;
use crate::error::Result;

/// No pause between two tries is longer: the overload's quarter of an hour, with some room.
const LONGEST_PAUSE_MS: i64 = 20 * 60_000;
/// A start has two minutes.
const LONGEST_START_MS: i64 = 120_000;
/// Limits of providers come back within a week; five weeks are no pause but a wrong clock.
const LONGEST_COOL_DOWN_MS: i64 = 35 * 24 * 3_600_000;

/// What was written a moment ago by this very clock is no sign of another.
const SLACK_MS: i64 = 60_000;

impl Store {
    /// Shortens every wait that is longer than it can be; gives how many there were.
    pub(crate) async fn pull_back(&self, now: i64) -> Result<u64> {
        let limits =
            [LONGEST_PAUSE_MS, 0, LONGEST_START_MS, LONGEST_COOL_DOWN_MS].map(|longest| now + longest);
        let [pause, waiting, start, cool] = limits.map(|limit| limit + SLACK_MS);
        // Nearly always nothing: the writer is not taken for that.
        let (any,): (bool,) = sqlx::query_as(
            "SELECT EXISTS (SELECT 1 FROM objective WHERE status IN ('queue', 'working', 'ai_review')
                            AND (not_before > $1 OR waiting_since > $2))
                 OR EXISTS (SELECT 1 FROM session WHERE state <> 'ended' AND deadline > $3)
                 OR EXISTS (SELECT 1 FROM account WHERE until_at > $4)",
        )
        .bind(pause)
        .bind(waiting)
        .bind(start)
        .bind(cool)
        .fetch_one(&self.read)
        .await?;
        if !any {
            return Ok(0);
        }
        let mut tx = self.begin().await?;
        let mut rows = 0;
        for (statement, limit) in [
            "UPDATE objective SET not_before = $1 WHERE not_before > $1",
            "UPDATE objective SET waiting_since = $1 WHERE waiting_since > $1",
            "UPDATE session SET deadline = $1 WHERE state <> 'ended' AND deadline > $1",
            "UPDATE account SET until_at = $1 WHERE until_at > $1",
        ]
        .into_iter()
        .zip(limits)
        {
            rows += sqlx::query(statement).bind(limit).execute(&mut *tx).await?.rows_affected();
        }
        tx.commit().await?;
        Ok(rows)
    }
}
