//! The one-time set-up link: a random token in memory, kept as a hash, worth nothing once an owner exists.

use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

/// Issued at start while there is no owner.
#[derive(Default)]
pub(crate) struct SetupToken {
    hash: Mutex<Option<[u8; 32]>>,
}

impl SetupToken {
    /// Makes a new token; an earlier one is worth nothing from now on.
    pub(crate) fn issue(&self) -> String {
        let token = hex::encode(rand::random::<[u8; 24]>());
        let hash = Sha256::digest(token.as_bytes()).into();
        *self.hash.lock().unwrap_or_else(PoisonError::into_inner) = Some(hash);
        token
    }

    /// Whether this is the token. Takes the same time for any wrong one.
    pub(crate) fn fits(&self, token: &str) -> bool {
        let given: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let hash = self.hash.lock().unwrap_or_else(PoisonError::into_inner);
        hash.is_some_and(|hash| hash.iter().zip(given).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0)
    }

    /// The token has done its work.
    pub(crate) fn forget(&self) {
        *self.hash.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_token_fits_until_it_is_forgotten() {
        let setup = SetupToken::default();
        assert!(!setup.fits(""));
        let first = setup.issue();
        assert!(setup.fits(&first) && !setup.fits("x"));
        let second = setup.issue();
        assert!(setup.fits(&second) && !setup.fits(&first));
        setup.forget();
        assert!(!setup.fits(&second));
    }
}
