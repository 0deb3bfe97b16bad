//! Users, browser logins, API tokens, settings, audit.

use opkit_domain::access::{Access, Actor, Scope};
use opkit_domain::ids::{ClientId, UserId};

use super::{Store, Tx};
use crate::clock::now_ms;
use crate::error::{Error, Result};

/// A person who can log in.
#[derive(Debug, Clone)]
pub struct UserRow {
    /// Number.
    pub id: UserId,
    /// Login name.
    pub name: String,
    /// The server's argon2 string.
    pub password_hash: String,
    /// Role.
    pub access: Access,
    /// Client.
    pub client: ClientId,
}

type UserTuple = (i64, String, String, String, i64);

fn user_row((id, name, password_hash, access, client): UserTuple) -> UserRow {
    UserRow {
        id: UserId(id),
        name,
        password_hash,
        access: access.parse().unwrap_or(Access::Viewer),
        client: ClientId(client),
    }
}

impl Store {
    pub(crate) async fn has_owner(&self) -> Result<bool> {
        let (count,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM app_user WHERE access = 'owner'")
            .fetch_one(&self.read)
            .await?;
        Ok(count > 0)
    }

    /// Makes the first owner; refused when there is one.
    pub(crate) async fn create_owner(&self, name: &str, password_hash: &str) -> Result<UserRow> {
        let mut tx = self.begin().await?;
        let made = sqlx::query(
            "INSERT INTO app_user (client_id, name, password_hash, access, created_at)
             SELECT 1, $1, $2, 'owner', $3 WHERE NOT EXISTS (SELECT 1 FROM app_user WHERE access = 'owner')",
        )
        .bind(name)
        .bind(password_hash)
        .bind(now_ms())
        .execute(&mut *tx)
        .await?;
        if made.rows_affected() == 0 {
            return Err(Error::Refused(
                "There is an owner already. Log in, or ask the owner for an account.".into(),
            ));
        }
        let id = UserId(made.last_insert_rowid());
        let scope = Scope { client: ClientId::DEFAULT };
        audit_in(&mut tx, scope, name, "owner_created", name, &serde_json::json!({})).await?;
        tx.commit().await?;
        Ok(UserRow {
            id,
            name: name.to_owned(),
            password_hash: password_hash.to_owned(),
            access: Access::Owner,
            client: ClientId::DEFAULT,
        })
    }

    pub(crate) async fn user_by_name(&self, name: &str) -> Result<Option<UserRow>> {
        let row: Option<UserTuple> =
            sqlx::query_as("SELECT id, name, password_hash, access, client_id FROM app_user WHERE name = $1")
                .bind(name)
                .fetch_optional(&self.read)
                .await?;
        Ok(row.map(user_row))
    }

    pub(crate) async fn user(&self, id: UserId) -> Result<Option<UserRow>> {
        let row: Option<UserTuple> =
            sqlx::query_as("SELECT id, name, password_hash, access, client_id FROM app_user WHERE id = $1")
                .bind(id.0)
                .fetch_optional(&self.read)
                .await?;
        Ok(row.map(user_row))
    }

    pub(crate) async fn create_token(
        &self,
        by: &Actor,
        hash: &str,
        prefix: &str,
        actor: &str,
        access: Access,
    ) -> Result<()> {
        let mut tx = self.begin().await?;
        sqlx::query(
            "INSERT INTO api_token (hash, client_id, prefix, actor, access, created_by, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(hash)
        .bind(by.scope.client.0)
        .bind(prefix)
        .bind(actor)
        .bind(access.as_str())
        .bind(&by.name)
        .bind(now_ms())
        .execute(&mut *tx)
        .await?;
        let detail = serde_json::json!({ "prefix": prefix, "access": access });
        audit_in(&mut tx, by.scope, &by.name, "token_created", actor, &detail).await?;
        tx.commit().await?;
        Ok(())
    }

    pub(crate) async fn token(&self, hash: &str) -> Result<Option<Actor>> {
        let row: Option<(String, String, i64)> = sqlx::query_as(
            "SELECT actor, access, client_id FROM api_token WHERE hash = $1 AND revoked_at IS NULL",
        )
        .bind(hash)
        .fetch_optional(&self.read)
        .await?;
        Ok(row.map(|(name, access, client)| Actor {
            name,
            scope: Scope { client: ClientId(client) },
            access: access.parse().unwrap_or(Access::Viewer),
        }))
    }

    pub(crate) async fn login_load(&self, id: &str, now_ms: i64) -> Result<Option<String>> {
        let row: Option<(String,)> =
            sqlx::query_as("SELECT data FROM login_session WHERE id = $1 AND expires_at > $2")
                .bind(id)
                .bind(now_ms)
                .fetch_optional(&self.read)
                .await?;
        Ok(row.map(|(data,)| data))
    }

    pub(crate) async fn login_save(&self, id: &str, data: &str, expires_ms: i64) -> Result<()> {
        let mut tx = self.begin().await?;
        sqlx::query(
            "INSERT INTO login_session (id, data, expires_at) VALUES ($1, $2, $3)
             ON CONFLICT (id) DO UPDATE SET data = excluded.data, expires_at = excluded.expires_at",
        )
        .bind(id)
        .bind(data)
        .bind(expires_ms)
        .execute(&mut *tx)
        .await?;
        sqlx::query("DELETE FROM login_session WHERE expires_at < $1")
            .bind(now_ms())
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(())
    }

    pub(crate) async fn login_delete(&self, id: &str) -> Result<()> {
        let mut tx = self.begin().await?;
        sqlx::query("DELETE FROM login_session WHERE id = $1").bind(id).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(())
    }

    pub(crate) async fn audit(
        &self,
        scope: Scope,
        actor: &str,
        action: &str,
        target: &str,
        detail: &serde_json::Value,
    ) -> Result<()> {
        let mut tx = self.begin().await?;
        audit_in(&mut tx, scope, actor, action, target, detail).await?;
        tx.commit().await?;
        Ok(())
    }

    pub(crate) async fn setting(&self, name: &str) -> Result<Option<String>> {
        let row: Option<(String,)> = sqlx::query_as("SELECT value FROM setting WHERE name = $1")
            .bind(name)
            .fetch_optional(&self.read)
            .await?;
        Ok(row.map(|(value,)| value))
    }

    /// Agents whose guard failed, with the sentence for people.
    pub(crate) async fn broken_guards(&self) -> Result<std::collections::BTreeMap<String, String>> {
        let rows: Vec<(String, String)> =
            sqlx::query_as("SELECT name, value FROM setting WHERE name LIKE 'guard_broken.%'")
                .fetch_all(&self.read)
                .await?;
        let agent = |name: String| name.trim_start_matches("guard_broken.").to_owned();
        Ok(rows.into_iter().map(|(name, text)| (agent(name), text)).collect())
    }

    /// Notes that an agent's guard failed, or that it is mended.
    pub(crate) async fn set_broken_guard(&self, agent: &str, sentence: Option<&str>) -> Result<()> {
        let mut tx = self.begin().await?;
        sqlx::query("DELETE FROM setting WHERE name = $1")
            .bind(format!("guard_broken.{agent}"))
            .execute(&mut *tx)
            .await?;
        if let Some(sentence) = sentence {
            sqlx::query("INSERT INTO setting (name, value) VALUES ($1, $2)")
                .bind(format!("guard_broken.{agent}"))
                .bind(sentence)
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await?;
        Ok(())
    }

    pub(crate) async fn set_setting(&self, by: &Actor, name: &str, value: &str) -> Result<()> {
        let mut tx = self.begin().await?;
        sqlx::query(
            "INSERT INTO setting (name, value) VALUES ($1, $2)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )
        .bind(name)
        .bind(value)
        .execute(&mut *tx)
        .await?;
        let detail = serde_json::json!({ "value": value });
        audit_in(&mut tx, by.scope, &by.name, "setting_changed", name, &detail).await?;
        tx.commit().await?;
        Ok(())
    }
}

/// Appends to the audit inside a use case's transaction.
pub(crate) async fn audit_in(
    tx: &mut Tx,
    scope: Scope,
    actor: &str,
    action: &str,
    target: &str,
    detail: &serde_json::Value,
) -> Result<()> {
    sqlx::query(
        "INSERT INTO audit (client_id, at, actor, action, target, detail) VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(scope.client.0)
    .bind(now_ms())
    .bind(actor)
    .bind(action)
    .bind(target)
    .bind(detail.to_string())
    .execute(&mut **tx)
    .await?;
    Ok(())
}
