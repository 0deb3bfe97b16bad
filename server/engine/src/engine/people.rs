//! Who may come in: owner, users, tokens, browser logins; and the audit of what they do.

use opkit_domain::access::{Access, Actor};
use opkit_domain::ids::UserId;

use super::Engine;
use crate::error::{Error, Result};
use crate::store::people::UserRow;

impl Engine {
    /// There is an owner.
    pub async fn has_owner(&self) -> Result<bool> {
        self.0.store.has_owner().await
    }

    /// Makes the first owner.
    pub async fn create_owner(&self, name: &str, password_hash: &str) -> Result<UserRow> {
        let name = name.trim();
        let fits = !name.is_empty()
            && name.len() <= 60
            && name.chars().all(|c| c.is_alphanumeric() || "-_.@".contains(c));
        if !fits {
            return Err(Error::BadInput(
                "A login name has up to 60 letters, digits, dots, dashes, underscores or @.".into(),
            ));
        }
        self.0.store.create_owner(name, password_hash).await
    }

    /// A user by login name.
    pub async fn user_by_name(&self, name: &str) -> Result<Option<UserRow>> {
        self.0.store.user_by_name(name).await
    }

    /// A user by number.
    pub async fn user(&self, id: UserId) -> Result<Option<UserRow>> {
        self.0.store.user(id).await
    }

    /// Stores a token's hash.
    pub async fn create_token(
        &self,
        actor: &Actor,
        token_hash: &str,
        prefix: &str,
        for_actor: &str,
        scope_word: &str,
    ) -> Result<()> {
        if actor.access < Access::Admin {
            return Err(Error::Forbidden("Making tokens needs the admin role.".into()));
        }
        let access = match scope_word {
            "operate" => Access::Operator,
            "read" => Access::Viewer,
            other => {
                return Err(Error::BadInput(format!(
                    "“{}” is not a token scope. Use operate or read.",
                    crate::git::short(other)
                )));
            }
        };
        let name = for_actor.trim();
        if name.is_empty() || name.len() > 60 || name.chars().any(char::is_control) {
            return Err(Error::BadInput(
                "Name who uses the token, with --actor, in up to 60 characters.".into(),
            ));
        }
        self.0.store.create_token(actor, token_hash, prefix, name, access).await
    }

    /// The actor behind a token's hash.
    pub async fn token(&self, token_hash: &str) -> Result<Option<Actor>> {
        self.0.store.token(token_hash).await
    }

    /// A browser login's record.
    pub async fn login_load(&self, id: &str, now_ms: i64) -> Result<Option<String>> {
        self.0.store.login_load(id, now_ms).await
    }

    /// Stores a browser login.
    pub async fn login_save(&self, id: &str, data: &str, expires_ms: i64) -> Result<()> {
        self.0.store.login_save(id, data, expires_ms).await
    }

    /// Ends a browser login.
    pub async fn login_delete(&self, id: &str) -> Result<()> {
        self.0.store.login_delete(id).await
    }

    /// Appends to the audit.
    pub async fn audit(
        &self,
        actor: &Actor,
        action: &str,
        target: &str,
        detail: serde_json::Value,
    ) -> Result<()> {
        self.0.store.audit(actor.scope, &actor.name, action, target, &detail).await
    }
}
