//! Login sessions in the engine's database, for tower-sessions; ended ones close their sockets.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::Value;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use tokio::sync::watch;
use tower_sessions::session::{Id, Record};
use tower_sessions::session_store::{Error, Result, SessionStore};

use super::Door;
use opkit_engine::now_ms;

/// Record key: when the person logged in, ms since 1970.
pub(super) const BORN: &str = "born";
/// Record key: last use, ms since 1970; written at most every five minutes.
pub(super) const SEEN: &str = "seen";
/// Record key: the user.
pub(super) const USER: &str = "user";
/// However busy it is, a login ends after this.
pub(super) const LONGEST_MS: i64 = 30 * 24 * 3600 * 1000;

/// Ids of logins that ended lately. A request that was under way cannot bring one of them back, and open
/// sockets look here when `changed` fires.
#[derive(Debug)]
pub(crate) struct EndedLogins {
    ids: Mutex<HashMap<String, Instant>>,
    changed: watch::Sender<u64>,
}

impl Default for EndedLogins {
    fn default() -> Self {
        EndedLogins { ids: Mutex::default(), changed: watch::Sender::new(0) }
    }
}

impl EndedLogins {
    const KEPT: Duration = Duration::from_secs(3600);

    fn add(&self, key: String) {
        let now = Instant::now();
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        ids.retain(|_, at| now.duration_since(*at) < Self::KEPT);
        ids.insert(key, now);
        drop(ids);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Whether this login ended lately.
    pub(crate) fn contains(&self, key: &str) -> bool {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).contains_key(key)
    }

    /// Fires after each end.
    pub(crate) fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

/// What the database calls a login: a hash, so that a stolen copy of it opens nothing.
pub(super) fn key(id: &Id) -> String {
    hex::encode(Sha256::digest(id.to_string().as_bytes()))
}

/// The store behind the session layer.
#[derive(Clone)]
pub(super) struct LoginStore(pub(super) Door);

impl fmt::Debug for LoginStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoginStore")
    }
}

fn backend(error: opkit_engine::Error) -> Error {
    Error::Backend(format!("{error:?}"))
}

#[async_trait]
impl SessionStore for LoginStore {
    async fn create(&self, record: &mut Record) -> Result<()> {
        // 128 random bits do not collide.
        self.save(record).await
    }

    async fn save(&self, record: &Record) -> Result<()> {
        let key = key(&record.id);
        if self.0.ended().contains(&key) {
            return Ok(());
        }
        let idle_end = record.expiry_date.unix_timestamp().saturating_mul(1000);
        let born = record.data.get(BORN).and_then(Value::as_i64).unwrap_or_else(now_ms);
        let expires = idle_end.min(born.saturating_add(LONGEST_MS));
        let data = serde_json::to_string(&serde_json::json!({"data": record.data, "expires": expires}))
            .map_err(|error| Error::Encode(error.to_string()))?;
        self.0.engine().login_save(&key, &data, expires).await.map_err(backend)
    }

    async fn load(&self, id: &Id) -> Result<Option<Record>> {
        let key = key(id);
        if self.0.ended().contains(&key) {
            return Ok(None);
        }
        let Some(text) = self.0.engine().login_load(&key, now_ms()).await.map_err(backend)? else {
            return Ok(None);
        };
        let mut value: Value =
            serde_json::from_str(&text).map_err(|error| Error::Decode(error.to_string()))?;
        let expires = value["expires"].as_i64().unwrap_or(0);
        if expires <= now_ms() {
            return Ok(None);
        }
        let data = serde_json::from_value(value["data"].take()).map_err(|e| Error::Decode(e.to_string()))?;
        let expiry_date = OffsetDateTime::from_unix_timestamp(expires / 1000)
            .map_err(|error| Error::Decode(error.to_string()))?;
        Ok(Some(Record { id: *id, data, expiry_date }))
    }

    async fn delete(&self, id: &Id) -> Result<()> {
        let key = key(id);
        // First, so that a request under way cannot save it again behind the deletion.
        self.0.ended().add(key.clone());
        self.0.engine().login_delete(&key).await.map_err(backend)
    }
}
