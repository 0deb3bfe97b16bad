//! The pool of agent accounts.

use opkit_domain::view::AccountView;

use super::{Store, Tx};
use crate::clock::now_ms;
use crate::error::Result;

impl Store {
    /// Makes the default accounts, once.
    pub(crate) async fn ensure_accounts(&self) -> Result<()> {
        let mut tx = self.begin().await?;
        for number in 0..5 {
            sqlx::query(
                "INSERT INTO account (name, session_limit, state) VALUES ($1, 5, 'available')
                 ON CONFLICT (name) DO NOTHING",
            )
            .bind(format!("ccuser-{number}"))
            .execute(&mut *tx)
            .await?;
        }
        tx.commit().await?;
        Ok(())
    }

    pub(crate) async fn accounts(&self, runs_as: &str) -> Result<Vec<AccountView>> {
        let rows: Vec<(String, i64, String, String, Option<i64>, i64)> = sqlx::query_as(
            "SELECT a.name, a.session_limit, a.state, a.reason, a.until_at,
                    (SELECT COUNT(*) FROM session s WHERE s.account = a.name AND s.state <> 'ended')
             FROM account a ORDER BY a.name",
        )
        .fetch_all(&self.read)
        .await?;
        let now = now_ms();
        Ok(rows
            .into_iter()
            .map(|(name, limit, state, reason, until, live)| {
                let over = state == "cooling_down" && until.is_some_and(|until| until <= now);
                AccountView {
                    name,
                    state: if over { "available".into() } else { state },
                    reason: if over { String::new() } else { reason },
                    until: until.filter(|_| !over),
                    live: live as u32,
                    limit: limit as u32,
                    runs_as: runs_as.to_owned(),
                }
            })
            .collect())
    }
}

/// Puts an account into a state.
pub(crate) async fn set_state(
    tx: &mut Tx,
    name: &str,
    state: &str,
    reason: &str,
    until: Option<i64>,
) -> Result<()> {
    sqlx::query("UPDATE account SET state = $2, reason = $3, until_at = $4 WHERE name = $1")
        .bind(name)
        .bind(state)
        .bind(reason)
        .bind(until)
        .execute(&mut **tx)
        .await?;
    Ok(())
}
