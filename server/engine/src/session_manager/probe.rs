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

/// A runner had its launch record, or an agent came through the wall. One that came before its record leaves the
/// lock file empty and is launched again.
pub(crate) fn began(session_dir: &Path) -> bool {
    let long = fs::symlink_metadata(session_dir.join(files::LOCK)).is_ok_and(|meta| meta.len() > 0);
    long || fs::symlink_metadata(session_dir.join(files::PROOF)).is_ok()
}

/// Asks the kernel who holds the lock; never takes it, so a runner that starts now is not disturbed.
pub(crate) fn runner(session_dir: &Path) -> Runner {
    let Ok(file) = fs::File::open(session_dir.join(files::LOCK)) else { return Runner::Free };
    match rustix::process::fcntl_getlk(&file, &Flock::from(FlockType::WriteLock)) {
        Ok(Some(lock)) => Runner::Alive(lock.pid.map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs())),
        Ok(None) | Err(_) => Runner::Free,
    }
}
