//! The pool of agent accounts: rows, states, OS users, and what they were used for.

use std::collections::HashMap;

use opkit_domain::access::{Actor, Scope};
use opkit_domain::view::{AccountFailure, AccountSession};
use serde_json::json;

use super::people::audit_in;
use super::{Store, Tx};
use crate::clock::now_ms;
use crate::error::{Error, Result};

/// An account as it is stored; a cool-down that is over counts as available.
#[derive(Debug, Clone)]
pub(crate) struct AccountRow {
    pub(crate) name: String,
    /// Sessions at most, as the operator set it.
    limit: u32,
    pub(crate) state: String,
    pub(crate) reason: String,
    pub(crate) until: Option<i64>,
    pub(crate) os_user: Option<String>,
    pub(crate) git_name: Option<String>,
    pub(crate) git_email: Option<String>,
    /// Its only credential is a login directory.
    pub(crate) login_only: bool,
    pub(crate) live: u32,
}

impl AccountRow {
    /// Sessions at most, now.
    pub(crate) fn limit(&self) -> u32 {
        if self.login_only { self.limit.min(1) } else { self.limit }
    }

    pub(crate) fn available(&self) -> bool {
        self.state == "available"
    }
}

/// What an account was used for by one client.
#[derive(Debug, Clone, Default)]
pub(crate) struct AccountUse {
    pub(crate) sessions: Vec<AccountSession>,
    pub(crate) cost_usd_micros: i64,
    pub(crate) last_failure: Option<AccountFailure>,
}

/// An account to be added or brought up to date.
#[derive(Debug, Clone)]
pub(crate) struct AccountPatch<'a> {
    pub(crate) name: &'a str,
    pub(crate) os_user: Option<&'a str>,
    pub(crate) git_name: Option<&'a str>,
    pub(crate) git_email: Option<&'a str>,
}

type Tuple =
    (String, i64, String, String, Option<i64>, Option<String>, Option<String>, Option<String>, bool, i64);

fn account_row(row: Tuple, now: i64) -> AccountRow {
    let (name, limit, state, reason, until, os_user, git_name, git_email, login_only, live) = row;
    let over = state == "cooling_down" && until.is_some_and(|until| until <= now);
    AccountRow {
        name,
        limit: limit as u32,
        state: if over { "available".into() } else { state },
        reason: if over { String::new() } else { reason },
        until: until.filter(|_| !over),
        os_user,
        git_name,
        git_email,
        login_only,
        live: live as u32,
    }
}

impl Store {
    /// Makes the default accounts, once.
    pub(crate) async fn ensure_accounts(&self) -> Result<()> {
        let mut tx = self.begin().await?;
        for number in 0..5 {
            insert(&mut tx, &format!("ccuser-{number}"), 5).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// Every account, by name.
    pub(crate) async fn accounts(&self) -> Result<Vec<AccountRow>> {
        let rows: Vec<Tuple> = sqlx::query_as(
            "SELECT a.name, a.session_limit, a.state, a.reason, a.until_at, a.os_user, a.git_name, a.git_email,
                    a.login_only,
                    (SELECT COUNT(*) FROM session s WHERE s.account = a.name AND s.state <> 'ended')
             FROM account a ORDER BY a.name",
        )
        .fetch_all(&self.read)
        .await?;
        let now = now_ms();
        Ok(rows.into_iter().map(|row| account_row(row, now)).collect())
    }

    /// One account.
    pub(crate) async fn account(&self, name: &str) -> Result<AccountRow> {
        let found = self.accounts().await?.into_iter().find(|account| account.name == name);
        found.ok_or_else(|| no_account(name))
    }

    /// Live sessions, cost and the last failure of each account, as far as they are the client's.
    pub(crate) async fn account_use(&self, scope: Scope) -> Result<HashMap<String, AccountUse>> {
        let mut all: HashMap<String, AccountUse> = HashMap::new();
        let costs: Vec<(String, i64)> = sqlx::query_as(
            "SELECT account, SUM(cost_usd_micros) FROM session WHERE client_id = $1 GROUP BY account",
        )
        .bind(scope.client.0)
        .fetch_all(&self.read)
        .await?;
        for (account, cost) in costs {
            all.entry(account).or_default().cost_usd_micros = cost;
        }
        let live: Vec<(String, String, i64, String)> = sqlx::query_as(
            "SELECT account, id, objective_id, role FROM session WHERE client_id = $1 AND state <> 'ended'
             ORDER BY started_at, id",
        )
        .bind(scope.client.0)
        .fetch_all(&self.read)
        .await?;
        for (account, id, objective, role) in live {
            if let (Ok(session), Ok(role)) = (id.parse(), role.parse()) {
                let objective = opkit_domain::ids::ObjectiveId(objective);
                all.entry(account).or_default().sessions.push(AccountSession { session, objective, role });
            }
        }
        // How a session ended when the account, its agent or the machine had a part in it.
        let failures: Vec<(String, String, String, i64)> = sqlx::query_as(
            "SELECT account, outcome, detail, ended_at FROM
                (SELECT account, outcome, detail, ended_at,
                        ROW_NUMBER() OVER (PARTITION BY account ORDER BY ended_at DESC, id) AS n
                 FROM session WHERE client_id = $1 AND ended_at IS NOT NULL AND outcome IN ('usage_limited',
                    'overloaded', 'auth_failed', 'failed', 'timed_out', 'killed', 'lost', 'never_ran')) newest
             WHERE n = 1",
        )
        .bind(scope.client.0)
        .fetch_all(&self.read)
        .await?;
        for (account, outcome, detail, at) in failures {
            if let Ok(outcome) = outcome.parse() {
                all.entry(account).or_default().last_failure = Some(AccountFailure { outcome, detail, at });
            }
        }
        Ok(all)
    }

    /// Adds an account; refused when the name or its OS user is taken.
    pub(crate) async fn add_account(&self, by: &Actor, new: &AccountPatch<'_>, limit: u32) -> Result<()> {
        let mut tx = self.begin().await?;
        user_is_free(&mut tx, new).await?;
        if !insert(&mut tx, new.name, limit).await? {
            return Err(Error::Conflict(format!("There is an account {} already.", new.name)));
        }
        update(&mut tx, new).await?;
        let detail = json!({ "os_user": new.os_user, "limit": limit });
        audit_in(&mut tx, by.scope, &by.name, "account_added", new.name, &detail).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Gives an account its OS user and, where it has none, its git identity. Gives whether anything changed.
    /// While sessions of the account live their user stays what it is: the change is refused.
    pub(crate) async fn provision_account(&self, by: &Actor, new: &AccountPatch<'_>) -> Result<bool> {
        let mut tx = self.begin().await?;
        user_is_free(&mut tx, new).await?;
        let mut changed = insert(&mut tx, new.name, 5).await?;
        let (has_user, live): (bool, i64) = sqlx::query_as(
            "SELECT os_user IS NOT NULL,
                    (SELECT COUNT(*) FROM session s WHERE s.account = $1 AND s.state <> 'ended')
             FROM account WHERE name = $1",
        )
        .bind(new.name)
        .fetch_one(&mut *tx)
        .await?;
        if !has_user && live > 0 {
            return Err(Error::Refused(
                "its live sessions run as another user. Provision again when they have ended".into(),
            ));
        }
        changed |= update(&mut tx, new).await?;
        if changed {
            let detail = json!({ "os_user": new.os_user });
            audit_in(&mut tx, by.scope, &by.name, "account_provisioned", new.name, &detail).await?;
        }
        tx.commit().await?;
        Ok(changed)
    }

    /// Disables or enables an account for a person. Live sessions go on.
    pub(crate) async fn set_account_state(
        &self,
        by: &Actor,
        name: &str,
        state: &str,
        reason: &str,
    ) -> Result<()> {
        let mut tx = self.begin().await?;
        let before: Option<(String,)> = sqlx::query_as("SELECT state FROM account WHERE name = $1")
            .bind(name)
            .fetch_optional(&mut *tx)
            .await?;
        let Some((before,)) = before else { return Err(no_account(name)) };
        sqlx::query("UPDATE account SET state = $2, reason = $3, until_at = NULL WHERE name = $1")
            .bind(name)
            .bind(state)
            .bind(reason)
            .execute(&mut *tx)
            .await?;
        let detail = json!({ "from": before, "to": state });
        audit_in(&mut tx, by.scope, &by.name, "account_state", name, &detail).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Changes how many sessions an account takes at once.
    pub(crate) async fn set_account_limit(&self, by: &Actor, name: &str, limit: u32) -> Result<()> {
        let mut tx = self.begin().await?;
        let done = sqlx::query("UPDATE account SET session_limit = $2 WHERE name = $1")
            .bind(name)
            .bind(limit)
            .execute(&mut *tx)
            .await?;
        if done.rows_affected() == 0 {
            return Err(no_account(name));
        }
        audit_in(&mut tx, by.scope, &by.name, "account_limit", name, &json!({ "limit": limit })).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Notes whether a login directory is an account's only credential.
    pub(crate) async fn set_login_only(&self, name: &str, login_only: bool) -> Result<()> {
        let mut tx = self.begin().await?;
        sqlx::query("UPDATE account SET login_only = $2 WHERE name = $1")
            .bind(name)
            .bind(login_only)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(())
    }
}

fn no_account(name: &str) -> Error {
    Error::NotFound(format!("There is no account “{}”. See: opkit accounts list", crate::git::short(name)))
}

async fn insert(tx: &mut Tx, name: &str, limit: u32) -> Result<bool> {
    let made = sqlx::query(
        "INSERT INTO account (name, session_limit, state) VALUES ($1, $2, 'available')
         ON CONFLICT (name) DO NOTHING",
    )
    .bind(name)
    .bind(limit)
    .execute(&mut **tx)
    .await?;
    Ok(made.rows_affected() > 0)
}

/// Two accounts of one user would not be separate from each other.
async fn user_is_free(tx: &mut Tx, new: &AccountPatch<'_>) -> Result<()> {
    let taken: Option<(String,)> =
        sqlx::query_as("SELECT name FROM account WHERE os_user = $1 AND name <> $2")
            .bind(new.os_user)
            .bind(new.name)
            .fetch_optional(&mut **tx)
            .await?;
    match taken {
        Some((account,)) => Err(Error::Refused(format!(
            "The OS user {} belongs to account {account}. Each account needs one of its own.",
            new.os_user.unwrap_or_default()
        ))),
        None => Ok(()),
    }
}

/// Fills what is empty; what is there stays.
async fn update(tx: &mut Tx, new: &AccountPatch<'_>) -> Result<bool> {
    let done = sqlx::query(
        "UPDATE account SET os_user = COALESCE(os_user, $2), git_name = COALESCE(git_name, $3),
                git_email = COALESCE(git_email, $4)
         WHERE name = $1 AND ((os_user IS NULL AND $2 IS NOT NULL) OR (git_name IS NULL AND $3 IS NOT NULL)
                OR (git_email IS NULL AND $4 IS NOT NULL))",
    )
    .bind(new.name)
    .bind(new.os_user)
    .bind(new.git_name)
    .bind(new.git_email)
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Puts an account into a state that a session's end calls for. What a person disabled stays disabled, and a
/// usage limit does not hide that a login is needed.
pub(crate) async fn set_state(
    tx: &mut Tx,
    name: &str,
    state: &str,
    reason: &str,
    until: Option<i64>,
) -> Result<()> {
    sqlx::query(
        "UPDATE account SET state = $2, reason = $3, until_at = $4
         WHERE name = $1 AND state <> 'disabled' AND (state <> 'needs_login' OR $2 <> 'cooling_down')",
    )
    .bind(name)
    .bind(state)
    .bind(reason)
    .bind(until)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_a_session_does_not_undo_what_a_person_decided() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("opkit.db")).await.unwrap();
        store.ensure_accounts().await.unwrap();
        let owner = Actor::system("owner");
        let ends = async |state: &str, until: Option<i64>| {
            let mut tx = store.begin().await.unwrap();
            set_state(&mut tx, "ccuser-0", state, "a limit", until).await.unwrap();
            tx.commit().await.unwrap();
            store.account("ccuser-0").await.unwrap().state
        };
        let soon = now_ms() + 60_000;
        assert_eq!(ends("cooling_down", Some(soon)).await, "cooling_down");
        assert_eq!(ends("cooling_down", Some(now_ms() - 1)).await, "available", "it is over");
        assert_eq!(ends("needs_login", None).await, "needs_login");
        assert_eq!(ends("cooling_down", Some(soon)).await, "needs_login");
        store.set_account_state(&owner, "ccuser-0", "disabled", "by owner").await.unwrap();
        assert_eq!(ends("cooling_down", Some(soon)).await, "disabled");
        assert_eq!(ends("needs_login", None).await, "disabled");
        store.set_account_state(&owner, "ccuser-0", "available", "").await.unwrap();
        assert_eq!(store.account("ccuser-0").await.unwrap().state, "available");
    }
}
