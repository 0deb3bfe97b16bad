//! Rows for the benches; compiled only with the feature `bench`.

use super::Store;
use crate::clock::now_ms;
use crate::error::Result;

impl Store {
    /// Fills the queue of one repository with objectives of realistic size, in one transaction.
    pub(crate) async fn seed(&self, objectives: i64) -> Result<()> {
        let mut tx = self.begin().await?;
        sqlx::query(
            "INSERT INTO repository (id, client_id, name, source, base, integrate, created_at)
             VALUES (1, 1, 'bench', '/nowhere', 'main', 'keep', 0) ON CONFLICT DO NOTHING",
        )
        .execute(&mut *tx)
        .await?;
        let brief = "A brief of realistic length. ".repeat(14);
        for number in 0..objectives {
            let position = (number + 1) << 16;
            sqlx::query(
                "INSERT INTO objective (client_id, repository_id, title, goal, brief, kind, gate, status, priority,
                    position, sort_key, criteria, criteria_count, max_rounds, base, base_commit, agent, labels,
                    creator, since, created_at, updated_at)
                 VALUES (1, 1, $1, '', $2, 'bug', 'ai', 'queue', 0, $3, $4, $5, 1, 3, 'main', 'abc', 'demo', '[]',
                    'bench', $6, $6, $6)",
            )
            .bind(format!("Objective number {number}"))
            .bind(&brief)
            .bind(position)
            .bind(super::order::sort_key(0, position))
            .bind(r#"[{"text":"It is so","check":"true"}]"#)
            .bind(now_ms())
            .execute(&mut *tx)
            .await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// Ends every live session and puts its objective back, so that a slot is free again.
    pub(crate) async fn free_slots(&self) -> Result<()> {
        let mut tx = self.begin().await?;
        sqlx::query(
            "UPDATE objective SET status = 'queue', session_id = NULL
                WHERE id IN (SELECT objective_id FROM session WHERE state <> 'ended');
             UPDATE session SET state = 'ended' WHERE state <> 'ended'",
        )
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(())
    }
}

impl crate::Engine {
    /// Fills the queue for a bench.
    pub async fn bench_seed(&self, objectives: i64) -> Result<()> {
        self.store().seed(objectives).await
    }

    /// One dispatch decision per free slot; gives how many were made.
    pub async fn bench_decide(&self) -> Result<usize> {
        Ok(self.fill_slots().await?.len())
    }

    /// Frees what was claimed.
    pub async fn bench_free(&self) -> Result<()> {
        self.store().free_slots().await
    }
}
