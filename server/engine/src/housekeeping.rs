//! Reconciliation at start and on a timer, retention, disk budget.

use crate::engine::Engine;
use crate::error::Result;

/// Sets the housekeeping task going.
pub(crate) fn spawn(_engine: Engine) {}

impl Engine {
    /// Compares directories with rows and mends what is provably ours and dead; gives what it found, in sentences.
    pub async fn reconcile(&self) -> Result<Vec<String>> {
        Ok(vec![])
    }
}
