//! Every process of the session: found by parentage below this subreaper, killed until none is left.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};

use super::signals::Signals;

/// After this long, processes that do not die are named and left (a hung disk, say).
const PATIENCE: Duration = Duration::from_secs(60);

/// How often the nearest processes are killed before the whole tree is looked at again.
const CHAIN_ROUNDS: usize = 50;

/// A descendant; a zombie is listed too, because other threads of it may still run.
pub(crate) struct Descendant {
    pub(crate) pid: Pid,
    zombie: bool,
}

/// All descendants of this process. Orphans come to us, so none can leave the tree.
pub(crate) fn descendants() -> Vec<Descendant> {
    let mut children: HashMap<i32, Vec<(i32, bool)>> = HashMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        if let Some((parent, zombie)) = parent_of(pid) {
            children.entry(parent).or_default().push((pid, zombie));
        }
    }
    let mut found = Vec::new();
    let mut left = vec![rustix::process::getpid().as_raw_nonzero().get()];
    while let Some(parent) = left.pop() {
        for (pid, zombie) in children.remove(&parent).unwrap_or_default() {
            found.extend(Pid::from_raw(pid).map(|pid| Descendant { pid, zombie }));
            left.push(pid);
        }
    }
    found
}

/// The parent, and whether the process only waits to be reaped.
fn parent_of(pid: i32) -> Option<(i32, bool)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, so read from its end.
    let mut words = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let state = words.next()?;
    let parent = words.next()?.parse().ok()?;
    Some((parent, state == "Z" || state == "X"))
}

/// Reaps all that have ended; calls `ended` for each.
pub(super) fn reap(mut ended: impl FnMut(Pid, WaitStatus)) {
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        ended(pid, status);
    }
}

/// Whether anything is left to wait for. Asking reaps, too, so whoever ended is told on.
fn has_children(mut ended: impl FnMut(Pid, WaitStatus)) -> bool {
    match wait(WaitOptions::NOHANG) {
        Err(rustix::io::Errno::CHILD) => false,
        Ok(Some((pid, status))) => {
            ended(pid, status);
            true
        }
        Ok(None) | Err(_) => true,
    }
}

/// Our own children as the kernel lists them now. Whatever loses its parent becomes one.
fn children() -> Vec<Pid> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    lists
        .flat_map(|list| {
            list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()
        })
        .filter_map(Pid::from_raw)
        .collect()
}

/// Kills the nearest ones again and again without a pause: a chain of processes that fork and leave is never in a
/// list of everything, but each of its links becomes our child.
fn kill_chains(mut ended: impl FnMut(Pid, WaitStatus)) {
    for _ in 0..CHAIN_ROUNDS {
        let near = children();
        if near.is_empty() {
            return;
        }
        for pid in near {
            let _ = kill_process(pid, Signal::KILL);
        }
        reap(&mut ended);
    }
}

/// What was left and had to be killed.
#[derive(Default)]
pub(super) struct Killed {
    /// Processes that were killed.
    pub(super) count: usize,
    /// They did not die in time.
    pub(super) survivors: usize,
}

/// Kills every descendant until the kernel says that no child is left.
pub(super) fn kill_all(signals: &Signals, mut ended: impl FnMut(Pid, WaitStatus)) -> Killed {
    let start = Instant::now();
    let mut seen = HashSet::new();
    loop {
        let living = descendants();
        for Descendant { pid, zombie } in &living {
            if !zombie {
                seen.insert(*pid);
            }
            // It may be gone by now, which is what we want.
            let _ = kill_process(*pid, Signal::KILL);
        }
        reap(&mut ended);
        kill_chains(&mut ended);
        if !has_children(&mut ended) {
            return Killed { count: seen.len(), survivors: 0 };
        }
        if start.elapsed() > PATIENCE {
            // Something is left, whether or not the list had it alive.
            let survivors = living.iter().filter(|left| !left.zombie).count().max(1);
            return Killed { count: seen.len(), survivors };
        }
        // Wakes at the next SIGCHLD; the short limit covers children that are not ours yet.
        let mut fds = [PollFd::new(signals, PollFlags::IN)];
        let pause = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        let _ = poll(&mut fds, Some(&pause));
        signals.drain_child_signals();
    }
}
