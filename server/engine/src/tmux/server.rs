//! Which tmux server is an account's: its process, kept beside its socket, so that a lost socket never makes a second.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::clock::boot;
use crate::data_dir::write_atomically;
use crate::error::Result;

/// A tmux server as the kernel knows it. Process numbers are used again; the start time and the boot are not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Server {
    pub(super) pid: i32,
    /// Field 22 of `/proc/PID/stat`, ticks since the machine started.
    pub(super) start_time: u64,
    /// The kernel's id of this run of the machine.
    pub(super) boot: String,
}

impl Server {
    /// The live tmux server with this process number.
    pub(super) fn of(pid: i32) -> Option<Server> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (start_time, state) = start_time(&stat)?;
        // A dead process that nobody reaped yet serves nobody.
        let fits = is_tmux(&stat) && !matches!(state, 'Z' | 'X') && is_as_we_are(pid);
        fits.then(|| Server { pid, start_time, boot: boot() })
    }

    /// What was noted beside a socket, if that very process still lives.
    pub(super) fn recorded(socket: &Path) -> Option<Server> {
        let noted: Server = serde_json::from_slice(&fs::read(note(socket)).ok()?).ok()?;
        (Server::of(noted.pid).as_ref() == Some(&noted)).then_some(noted)
    }

    /// A server that was started for this socket, whatever was noted: a start that was cut off notes nothing.
    pub(super) fn started_for(socket: &Path) -> Option<Server> {
        let mut wanted = b"\0-S\0".to_vec();
        wanted.extend_from_slice(socket.as_os_str().as_bytes());
        wanted.push(0);
        fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let server = Server::of(pid)?;
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            line.windows(wanted.len()).any(|part| part == wanted).then_some(server)
        })
    }

    /// Notes it beside the socket.
    pub(super) fn note(&self, socket: &Path) -> Result<()> {
        write_atomically(&note(socket), &serde_json::to_vec(self)?, 0o600)
    }

    /// Asks it to make its socket again.
    pub(super) fn ask_for_socket(&self) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // It may have ended in this moment; whoever waits for the socket finds out.
            let _ = kill_process(pid, Signal::USR1);
        }
    }
}

fn note(socket: &Path) -> PathBuf {
    socket.with_extension("json")
}

/// The program's name stands in parentheses and may hold anything; what follows the last one is fixed.
fn start_time(stat: &str) -> Option<(u64, char)> {
    let rest = stat.rsplit_once(") ")?.1;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((fields.nth(18)?.parse().ok()?, state))
}

/// A session's process can take any name and any arguments. It cannot take our user, nor, where it is ours, give back
/// the right to new privileges that every session has lost.
fn is_as_we_are(pid: i32) -> bool {
    let marks = |who: &str| {
        let status = fs::read_to_string(format!("/proc/{who}/status")).ok()?;
        let line = |name: &str| status.lines().find(|line| line.starts_with(name)).map(str::to_owned);
        Some((line("Uid:")?, line("NoNewPrivs:")?))
    };
    let ours = marks("self");
    ours.is_some() && marks(&pid.to_string()) == ours
}

/// A server calls itself `tmux: server`; a client that has not forked yet must not be taken for one.
fn is_tmux(stat: &str) -> bool {
    stat.split_once(" (").is_some_and(|(_, rest)| rest.starts_with("tmux: server)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_start_time_behind_a_name_with_parentheses() {
        let stat = "77 (tmux: server) S 1 77 77 0 -1 4194368 1 2 0 0 3 4 0 0 20 0 1 0 987654 1000 200";
        assert_eq!(start_time(stat), Some((987_654, 'S')));
        assert!(is_tmux(stat));
        let other = "78 (a) b) (tmux: server) R 1 77 77 0 -1 4194368 1 2 0 0 3 4 0 0 20 0 1 0 5 1000 200";
        assert_eq!(start_time(other), Some((5, 'R')));
        assert!(!is_tmux(other), "a name that only ends so is somebody else's");
        assert_eq!(start_time("78 (x"), None);
    }

    #[test]
    fn a_process_that_is_no_tmux_is_never_taken_for_the_recorded_one() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("ccuser-0.sock");
        let me = i32::try_from(std::process::id()).unwrap();
        Server { pid: me, start_time: 0, boot: boot() }.note(&socket).unwrap();
        assert_eq!(Server::recorded(&socket), None);
        assert_eq!(Server::started_for(&socket), None);
    }
}
