//! Looks at a runner without touching it: its lock, and whatever processes it left.

use std::fs;
use std::path::Path;

use opkit_domain::ids::SessionId;
use opkit_domain::session::files;
use rustix::process::{Flock, FlockType, Pid};

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

/// Kills every process that carries a session's mark in its environment. Gives how many there were.
///
/// A runner that was killed cannot clean up; its agent's processes still carry `OPKIT_SESSION`.
pub(crate) fn kill_leftovers(id: &SessionId) -> usize {
    let mark = format!("OPKIT_SESSION={id}");
    let Ok(processes) = fs::read_dir("/proc") else { return 0 };
    let mut killed = 0;
    for entry in processes.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        let marked = environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes());
        if marked && let Some(pid) = Pid::from_raw(pid) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            killed += 1;
        }
    }
    killed
}
