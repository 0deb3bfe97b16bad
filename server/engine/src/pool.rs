//! The warm pool: checkouts made ahead of time, so that a start is a branch switch.

use std::path::Path;

use opkit_domain::session::Identity;

use crate::engine::Engine;
use crate::error::Result;
use crate::store::repositories::RepoRow;

/// Sets the refill task going.
pub(crate) fn spawn(_engine: Engine) {}

impl Engine {
    /// Moves a ready checkout onto `target`, an empty directory or none, and gives it to `identity`, closed for
    /// everybody else. False when there was none and none could be made.
    pub(crate) async fn take_checkout(
        &self,
        _repo: &RepoRow,
        _base_commit: &str,
        _identity: Option<&Identity>,
        _target: &Path,
    ) -> Result<bool> {
        Ok(false)
    }
}
