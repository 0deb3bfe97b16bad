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
            // So far ahead it was written by another clock, and the pause it meant is over or short.
            "UPDATE objective SET not_before = 0 WHERE not_before > $1",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now_ms;

    const HOURS: i64 = 3_600_000;

    async fn number(store: &Store, sql: &'static str) -> i64 {
        sqlx::query_as::<_, (i64,)>(sql).fetch_one(&store.read).await.unwrap().0
    }

    #[tokio::test]
    async fn what_a_clock_that_was_set_back_left_ahead_is_pulled_back() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("opkit.db")).await.unwrap();
        store.ensure_accounts().await.unwrap();
        let now = now_ms();
        // Two hours ago this clock was two hours ahead.
        let ahead = now + 2 * HOURS;
        let rows = format!(
            "INSERT INTO repository (id, client_id, name, source, base, integrate, created_at)
                VALUES (1, 1, 'r', '/r', 'main', 'keep', 0);
             INSERT INTO objective (id, client_id, repository_id, title, goal, brief, kind, gate, status, priority,
                position, sort_key, criteria, criteria_count, max_rounds, base, agent, labels, creator, since,
                created_at, updated_at, not_before, waiting_since)
                VALUES (1, 1, 1, 't', '', '', 'bug', 'ai', 'working', 2, 1, 1, '[]', 0, 3, 'main', 'demo', '[]',
                'anna', 0, 0, 0, {ahead}, {ahead});
             INSERT INTO session (id, client_id, objective_id, role, state, account, agent, actor, round, deadline,
                wall_clock_s, started_at)
                VALUES ('s', 1, 1, 'work', 'starting', 'ccuser-0', 'demo', 'd', 1, {ahead}, 1, 0);
             UPDATE account SET state = 'cooling_down', until_at = {ahead} WHERE name = 'ccuser-1'"
        );
        let mut tx = store.begin().await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(rows)).execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(store.pull_back(now).await.unwrap(), 3);
        assert_eq!(number(&store, "SELECT not_before FROM objective").await, 0);
        assert_eq!(number(&store, "SELECT waiting_since FROM objective").await, now);
        assert_eq!(number(&store, "SELECT deadline FROM session").await, now + 120_000);
        // A limit's end is a time of the provider's clock: two hours are nothing unusual.
        assert_eq!(number(&store, "SELECT until_at FROM account WHERE name = 'ccuser-1'").await, ahead);
        assert_eq!(store.pull_back(now).await.unwrap(), 0, "once");
        store.close().await;
    }
}
