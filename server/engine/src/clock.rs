//! The only place that reads the wall clock, and what is done when somebody sets it back.
//!
//! Within a process durations are measured by `Instant`, which no one can set. What must survive a restart is a time
//! of the wall clock in a row; set back by two hours, a pause of seconds would last two hours more. So every row that
//! lies further ahead than it ever can is pulled back to the longest it may be.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::engine::Engine;

/// How often rows are compared with the clock.
const PERIOD: Duration = Duration::from_secs(10);

/// Milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// The kernel's id of this run of the machine.
pub(crate) fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Pulls back what a clock that was set back left in the future.
pub(crate) fn spawn(engine: Engine) {
    tokio::spawn(async move {
        loop {
            match engine.store().pull_back(now_ms()).await {
                Ok(0) => engine.tasks().ok("clock"),
                Ok(rows) => {
                    tracing::warn!(rows, "the clock was set back: waiting times were shortened");
                    engine.tasks().ok("clock");
                    engine.changed();
                }
                Err(error) => engine.tasks().failed("clock", &error),
            }
            tokio::time::sleep(PERIOD).await;
        }
    });
}
