//! Looks at a runner without touching it: its lock.

use std::fs;
use std::path::Path;

use opkit_domain::session::files;
use rustix::process::{Flock, FlockType};

/// Whether a runner lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    /// It holds its lock; its process id.
    Alive(u32),
    /// Nobody holds the lock.
    Free,
}

/// Asks the kernel who holds the lock; never takes it, so a runner that starts now is not disturbed.
pub(crate) fn runner(session_dir: &Path) -> Runner {
    let Ok(file) = fs::File::open(session_dir.join(files::LOCK)) else { return Runner::Free };
    match rustix::process::fcntl_getlk(&file, &Flock::from(FlockType::WriteLock)) {
        Ok(Some(lock)) => Runner::Alive(lock.pid.map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs())),
        Ok(None) | Err(_) => Runner::Free,
    }
}
