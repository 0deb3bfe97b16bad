//! The wall: what the kernel lets a session do, and the proof that it holds.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::ids::words;

/// The oldest Landlock that makes an enforced wall: before it signals are not scoped, so that a session could end
/// others, and without root the service itself. Linux 6.12 has it.
pub const OLDEST_LANDLOCK: u32 = 6;

words!(
    /// Whether the kernel's wall is up.
    WallMode {
        /// Refuses to start when it cannot be put up completely.
        Enforced = "enforced",
        /// Only the guard; shown in red.
        HookOnly = "hook_only",
    }
);

/// The mode that holds where none is named: files of an older build.
pub(super) fn enforced() -> WallMode {
    WallMode::Enforced
}

/// What the kernel lets a session do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WallSpec {
    /// Enforced or hook only.
    pub mode: WallMode,
    /// Directories and files below which writing is allowed.
    pub write: Vec<PathBuf>,
    /// Directories and files that can be read and executed; none = reads are not restricted.
    pub read: Option<Vec<PathBuf>>,
    /// Refuse `socket(AF_UNIX)` and io_uring with seccomp (*homes* mode).
    pub block_unix_sockets: bool,
    /// Each must refuse to be created and written, tried at each start.
    pub prove_no_write: Vec<PathBuf>,
    /// Each must refuse to be opened for reading.
    pub prove_no_read: Vec<PathBuf>,
    /// Each (a UNIX socket) must refuse a connection.
    pub prove_no_connect: Vec<PathBuf>,
}

/// What every session may read of the machine. Missing ones are skipped.
/// One list for the product and for the attack table that tries it.
pub const SYSTEM_READS: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/proc",
    "/sys/devices/system/cpu",
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/run/systemd/resolve",
];

/// The proof that `enter` gives at a start, stored as `proof.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WallProof {
    /// "enforced" or "hook_only".
    pub mode: WallMode,
    /// The Landlock ABI in force, 0 without.
    pub landlock_abi: u32,
    /// seccomp socket filter in force.
    pub seccomp: bool,
    /// The user the session runs as.
    pub uid: u32,
    /// One line for each attempt: what was tried and how the kernel answered.
    pub tried: Vec<ProofLine>,
}

/// One forbidden thing that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofLine {
    /// "write", "read" or "connect".
    pub what: String,
    /// The path.
    pub path: PathBuf,
    /// "EACCES", "EPERM", ... or "allowed" (which refuses the start, unless the mode is `hook_only`).
    pub answer: String,
}
