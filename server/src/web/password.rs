//! Password hashes: argon2id off the runtime, two at a time, with a short queue.

use std::sync::{Arc, OnceLock};

use anyhow::anyhow;
use argon2::Argon2;
use argon2::password_hash::rand_core::OsRng;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use tokio::sync::Semaphore;

/// Longer ones, in bytes, are refused before anything is computed.
const LONGEST: usize = 800;
/// The longest password of a new user, in characters.
const LONGEST_NEW: usize = 200;
/// The shortest password of a new user, in characters.
const SHORTEST: usize = 10;

/// Hashes and checks.
pub(crate) struct Hasher {
    /// A running hash holds one; it travels into the blocking job, so an aborted request frees nothing early.
    running: Arc<Semaphore>,
    /// Running and waiting together. More than that is refused at once.
    admitted: Arc<Semaphore>,
    /// Checked for unknown names, so that they take as long as known ones. Made beside the start, not before it.
    dummy: Arc<OnceLock<String>>,
}

/// Too many wait already.
#[derive(Debug)]
pub(crate) struct Busy;

impl Hasher {
    pub(crate) fn new() -> Hasher {
        let dummy = Arc::new(OnceLock::new());
        let early = dummy.clone();
        std::thread::spawn(move || early.get_or_init(dummy_hash).len());
        Hasher { running: Arc::new(Semaphore::new(2)), admitted: Arc::new(Semaphore::new(22)), dummy }
    }

    /// Whether `password` belongs to `hash`; without a hash the answer is no, after the same work.
    pub(crate) async fn verify(&self, password: String, hash: Option<String>) -> Result<bool, Busy> {
        let known = hash.is_some();
        let dummy = self.dummy.clone();
        let fits = self
            .off_the_runtime(move || {
                let hash = hash.unwrap_or_else(|| dummy.get_or_init(dummy_hash).clone());
                password.len() <= LONGEST
                    && PasswordHash::new(&hash).is_ok_and(|hash| {
                        Argon2::default().verify_password(password.as_bytes(), &hash).is_ok()
                    })
            })
            .await?;
        Ok(fits && known)
    }

    /// The hash to store.
    pub(crate) async fn hash(&self, password: String) -> Result<anyhow::Result<String>, Busy> {
        self.off_the_runtime(move || hash_now(&password)).await
    }

    async fn off_the_runtime<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let admitted = self.admitted.clone().try_acquire_owned().map_err(|_| Busy)?;
        let permit = self.running.clone().acquire_owned().await.map_err(|_| Busy)?;
        tokio::task::spawn_blocking(move || {
            let result = job();
            drop((permit, admitted));
            result
        })
        .await
        .map_err(|_| Busy)
    }
}

fn dummy_hash() -> String {
    hash_now(&hex::encode(rand::random::<[u8; 16]>())).unwrap_or_default()
}

/// Hashes on this thread; for the command line and for start-up.
pub(crate) fn hash_now(password: &str) -> anyhow::Result<String> {
    let salt = SaltString::generate(&mut OsRng);
    Argon2::default()
        .hash_password(password.as_bytes(), &salt)
        .map(|hash| hash.to_string())
        .map_err(|error| anyhow!("the password could not be hashed: {error}"))
}

/// Checks the name and password of a new user; the error is the set-up page's code word and a sentence.
pub(crate) fn check_new(name: &str, password: &str) -> Result<(), (&'static str, String)> {
    let good = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    if name.is_empty() || name.chars().count() > 40 || !name.chars().all(good) {
        let text = "The name is not valid. Use 1 to 40 letters, digits, dots, dashes or underscores.";
        return Err(("name", text.into()));
    }
    let length = password.chars().count();
    if length < SHORTEST {
        return Err(("short", format!("The password is too short. Use at least {SHORTEST} characters.")));
    }
    if length > LONGEST_NEW {
        return Err(("long", format!("The password is too long. Use at most {LONGEST_NEW} characters.")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_hash_fits_its_password_only() {
        let hasher = Hasher::new();
        let hash = hasher.hash("correct horse".into()).await.unwrap().unwrap();
        assert!(hash.starts_with("$argon2id$"));
        assert!(hasher.verify("correct horse".into(), Some(hash.clone())).await.unwrap());
        assert!(!hasher.verify("correct hors".into(), Some(hash)).await.unwrap());
        assert!(!hasher.verify("correct horse".into(), None).await.unwrap());
    }

    #[test]
    fn new_names_and_passwords() {
        assert!(check_new("anna", "long enough").is_ok());
        assert_eq!(check_new("", "long enough").unwrap_err().0, "name");
        assert_eq!(check_new("a b", "long enough").unwrap_err().0, "name");
        assert_eq!(check_new("anna", "too short").unwrap_err().0, "short");
        assert_eq!(check_new("anna", &"x".repeat(201)).unwrap_err().0, "long");
    }
}
