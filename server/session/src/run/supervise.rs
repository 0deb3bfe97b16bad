//! Watches one child: its output, its limits, requests to stop, and its end with everything it started.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use opkit_domain::session::{Outcome, StopRequest, files};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitStatus, kill_process, kill_process_group};

use super::Runner;
use super::journal::Journal;
use super::outcome::{Exit, Facts};
use super::processes;

/// How often `stop.json` and the limits are looked at.
const TICK: Duration = Duration::from_millis(250);
/// Silence after the end until pipes that somebody else holds are given up.
const PIPES_AFTER_END: Duration = Duration::from_secs(2);
const READ_BYTES: usize = 64 << 10;

/// Why a session is ended by somebody other than its agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stop {
    pub(super) outcome: Outcome,
    /// One sentence, with who asked.
    pub(super) detail: String,
}

/// Where a child's bytes go.
pub(super) trait Reader {
    /// Bytes of standard output.
    fn stdout(&mut self, bytes: &[u8], journal: &mut Journal, facts: &mut Facts);
    /// Bytes of standard error.
    fn stderr(&mut self, bytes: &[u8], journal: &mut Journal, facts: &mut Facts);
    /// No more bytes will come.
    fn end(&mut self, journal: &mut Journal, facts: &mut Facts);
    /// A reason, found in the output, to end the child.
    fn wants_stop(&mut self, facts: &Facts) -> Option<Stop>;
    /// The reason was a guard that does not answer.
    fn guard_is_broken(&self) -> bool {
        false
    }
}

/// A child to watch.
pub(super) struct Watched {
    pub(super) pid: Pid,
    pub(super) stdout: Option<OwnedFd>,
    pub(super) stderr: Option<OwnedFd>,
    /// Seconds until it is ended as timed out.
    pub(super) time: Option<Duration>,
    /// Time without a byte until it is ended.
    pub(super) idle: Option<Duration>,
    pub(super) max_output: u64,
    /// A file of ours that takes the output: its size counts too.
    pub(super) output_file: Option<PathBuf>,
    /// Sent first; without it the end begins with TERM.
    pub(super) polite: Option<Signal>,
    /// Requests to stop are for this child too (not for collecting).
    pub(super) stoppable: bool,
    /// This is the agent: its pid is reported.
    pub(super) is_agent: bool,
}

/// How the child ended.
#[derive(Default)]
pub(super) struct Ended {
    pub(super) exit: Exit,
    pub(super) timed_out: bool,
    pub(super) too_much: bool,
    /// Why it was ended, if it was.
    pub(super) stop: Option<Stop>,
    /// Processes it left behind, killed.
    pub(super) left: usize,
    /// Processes that could not be killed.
    pub(super) survivors: usize,
}

/// How far the end has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Asked(Instant),
    Terminated(Instant),
    Killed,
}

struct Watch<'a> {
    child: Watched,
    reader: &'a mut dyn Reader,
    ended: Ended,
    phase: Phase,
    started: Instant,
    last_byte: Instant,
    bytes: u64,
    exited: bool,
    /// Since when nothing of it is alive.
    gone: Option<Instant>,
    buffer: Vec<u8>,
}

impl Runner {
    /// Watches `child` until it and everything it started are gone.
    pub(super) fn supervise(&mut self, child: Watched, reader: &mut dyn Reader) -> Ended {
        let now = Instant::now();
        let mut watch = Watch {
            child,
            reader,
            ended: Ended::default(),
            phase: Phase::Running,
            started: now,
            last_byte: now,
            bytes: 0,
            exited: false,
            gone: None,
            buffer: vec![0; READ_BYTES],
        };
        while !watch.is_over() {
            self.wait_for_something(&mut watch);
            self.signals.drain_child_signals();
            processes::reap(|pid, status| watch.reaped(pid, status));
            if watch.exited && watch.phase != Phase::Killed {
                let killed = processes::kill_all(&self.signals, |pid, status| watch.reaped(pid, status));
                watch.ended.left = killed.count;
                watch.ended.survivors = killed.survivors;
                watch.phase = Phase::Killed;
            }
            self.look_for_stop(&mut watch);
            watch.advance(&self.spec.limits, &self.signals);
            self.journal.tick();
            if watch.phase == Phase::Killed && !self.journal.is_stuck() {
                watch.let_go();
            }
            let agent_pid =
                if watch.child.is_agent { watch.child.pid.as_raw_nonzero().get().unsigned_abs() } else { 0 };
            self.journal.report(agent_pid, &self.facts, self.guard_broken);
        }
        watch.reader.end(&mut self.journal, &mut self.facts);
        self.journal.tick();
        watch.ended
    }

    fn wait_for_something(&mut self, watch: &mut Watch<'_>) {
        let journal = &mut self.journal;
        // After giving up on the disk the pipes are only emptied, so that nothing blocks the end.
        let discard = journal.given_up().is_some();
        let reading = !journal.is_stuck() || discard;
        let timeout =
            if journal.is_stuck() { TICK } else { journal.pane.next_wake().unwrap_or(TICK).min(TICK) };
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(timeout.subsec_nanos()) };
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        let mut places = [None; 3];
        let streams = [watch.child.stdout.as_ref(), watch.child.stderr.as_ref()];
        for (place, stream) in places.iter_mut().zip(streams) {
            if let Some(stream) = stream.filter(|_| reading) {
                *place = Some(fds.len());
                fds.push(PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN));
            }
        }
        if let Some(pane) = journal.pane.wants_room() {
            fds.push(PollFd::from_borrowed_fd(pane, PollFlags::OUT));
        }
        if poll(&mut fds, Some(&timeout)).is_err() {
            return;
        }
        let ready = places.map(|place| place.is_some_and(|at| !fds[at].revents().is_empty()));
        drop(fds);
        journal.record.now_ms = crate::files::now_ms();
        if !reading {
            watch.last_byte = Instant::now();
        }
        if ready[0] {
            watch.read_stdout(journal, &mut self.facts, discard);
        }
        if ready[1] {
            watch.read_stderr(journal, &mut self.facts, discard);
        }
    }

    /// Whoever asks first is named.
    fn look_for_stop(&mut self, watch: &mut Watch<'_>) {
        if self.signals.take_hang_up() {
            self.journal.pane.close();
            self.window.hang_up();
        }
        if !watch.child.stoppable || watch.exited {
            return;
        }
        if self.stop.is_none() {
            self.stop = self.request().or_else(|| self.limit(watch));
        }
        if watch.ended.stop.is_none() {
            watch.ended.stop = self.stop.clone().or_else(|| watch.reader.wants_stop(&self.facts));
            // Told at once, not at the end: until then it may take the whole polite way.
            self.guard_broken |= watch.reader.guard_is_broken();
        }
    }

    /// A request from outside: the server, the window, a signal.
    pub(super) fn request(&mut self) -> Option<Stop> {
        let stop = |outcome, detail: &str| Some(Stop { outcome, detail: detail.to_owned() });
        if let Ok(text) = fs::read(self.dir.join(files::STOP)) {
            let request = serde_json::from_slice(&text).unwrap_or(StopRequest {
                outcome: Outcome::Stopped,
                by: "a stop request that could not be read".to_owned(),
            });
            return stop(request.outcome, &format!("Stopped by {}.", request.by));
        }
        if !self.dir.exists() {
            return stop(Outcome::Stopped, "Its session directory is gone.");
        }
        if self.window.closed_by_a_person() {
            return stop(Outcome::Stopped, "Stopped by somebody who closed the window.");
        }
        if self.signals.take_interrupt() {
            return stop(Outcome::Stopped, "Stopped by somebody who pressed Ctrl-C in the window.");
        }
        if self.signals.take_terminate() {
            return stop(Outcome::Killed, "A TERM signal from outside ended the session.");
        }
        None
    }

    fn limit(&self, watch: &Watch<'_>) -> Option<Stop> {
        let stop = |outcome, detail| Some(Stop { outcome, detail });
        if let Some(reason) = self.journal.given_up() {
            return stop(Outcome::Failed, reason);
        }
        if self.started.elapsed() >= Duration::from_secs(self.spec.limits.wall_clock_s) {
            return stop(
                Outcome::TimedOut,
                format!("The time limit of {} s is over.", self.spec.limits.wall_clock_s),
            );
        }
        let idle = watch.child.idle?;
        if watch.last_byte.elapsed() >= idle {
            return stop(Outcome::TimedOut, format!("Nothing came from the agent for {} s.", idle.as_secs()));
        }
        None
    }
}

impl Watch<'_> {
    fn is_over(&self) -> bool {
        let survivors = self.ended.survivors > 0;
        self.exited
            && self.phase == Phase::Killed
            && (survivors || self.child.stdout.is_none() && self.child.stderr.is_none())
    }

    fn reaped(&mut self, pid: Pid, status: WaitStatus) {
        if pid == self.child.pid {
            self.exited = true;
            self.ended.exit = Exit { status: status.exit_status(), signal: status.terminating_signal() };
        }
    }

    fn read_stdout(&mut self, journal: &mut Journal, facts: &mut Facts, discard: bool) {
        let Some(count) = fill(&mut self.child.stdout, &mut self.buffer) else { return };
        self.took(count);
        if !discard {
            self.reader.stdout(&self.buffer[..count], journal, facts);
        }
    }

    fn read_stderr(&mut self, journal: &mut Journal, facts: &mut Facts, discard: bool) {
        let Some(count) = fill(&mut self.child.stderr, &mut self.buffer) else { return };
        self.took(count);
        if !discard {
            self.reader.stderr(&self.buffer[..count], journal, facts);
        }
    }

    fn took(&mut self, count: usize) {
        self.last_byte = Instant::now();
        self.bytes += count as u64;
    }

    /// Applies the child's own limits and goes on with the end, step by step.
    fn advance(&mut self, limits: &opkit_domain::session::RunLimits, signals: &super::signals::Signals) {
        if self.exited {
            return;
        }
        let file = self.child.output_file.as_ref().and_then(|path| fs::metadata(path).ok());
        self.ended.too_much |= self.bytes + file.map_or(0, |meta| meta.len()) > self.child.max_output;
        self.ended.timed_out |= self.child.time.is_some_and(|time| self.started.elapsed() >= time);
        let must_end = self.ended.stop.is_some() || self.ended.too_much || self.ended.timed_out;
        let passed = |since: Instant, seconds| since.elapsed() >= Duration::from_secs(seconds);
        match (self.phase, self.child.polite) {
            (Phase::Running, Some(signal)) if must_end => {
                // It may have ended in this very moment; then it is reaped next.
                let _ = kill_process(self.child.pid, signal);
                self.phase = Phase::Asked(Instant::now());
            }
            (Phase::Running, None) if must_end => self.terminate(),
            (Phase::Asked(since), _) if passed(since, limits.interrupt_s) => self.terminate(),
            (Phase::Terminated(since), _) if passed(since, limits.term_s) => {
                let killed = processes::kill_all(signals, |pid, status| self.reaped(pid, status));
                self.ended.survivors = killed.survivors;
                // Nothing is left to wait for, or it does not die: either way nobody reports its end any more.
                self.exited = true;
                self.phase = Phase::Killed;
            }
            _ => {}
        }
    }

    /// Whoever still holds a pipe of a child that is gone is no part of the session (a service of the machine that it
    /// asked, say), and is not waited for.
    fn let_go(&mut self) {
        let since = *self.gone.get_or_insert_with(Instant::now);
        if since.elapsed() > PIPES_AFTER_END && self.last_byte.elapsed() > PIPES_AFTER_END {
            (self.child.stdout, self.child.stderr) = (None, None);
        }
    }

    fn terminate(&mut self) {
        // The group exists only after `enter` made its session; before that the process alone.
        let _ = kill_process_group(self.child.pid, Signal::TERM);
        let _ = kill_process(self.child.pid, Signal::TERM);
        self.phase = Phase::Terminated(Instant::now());
    }
}

/// Reads once; none at the end of the stream, which is then closed.
fn fill(stream: &mut Option<OwnedFd>, buffer: &mut [u8]) -> Option<usize> {
    let file = stream.as_ref()?;
    match rustix::io::read(file, buffer) {
        Ok(count) if count > 0 => Some(count),
        Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => None,
        Ok(_) | Err(_) => {
            *stream = None;
            None
        }
    }
}

/// Splits a stream into lines; an unfinished line waits for its end, or for `force` bytes.
pub(super) struct Lines {
    held: Vec<u8>,
    scanned: usize,
    force: usize,
}

impl Lines {
    pub(super) fn new(force: usize) -> Lines {
        Lines { held: Vec::new(), scanned: 0, force }
    }

    /// Calls `line` for each whole line, without its line break.
    pub(super) fn feed(&mut self, bytes: &[u8], mut line: impl FnMut(&[u8])) {
        let mut rest = bytes;
        if self.held.is_empty() {
            // The usual case: whole lines straight from the buffer.
            while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
                line(&rest[..at]);
                rest = &rest[at + 1..];
            }
            self.held.extend_from_slice(rest);
            self.scanned = self.held.len();
        } else {
            self.held.extend_from_slice(rest);
            let mut from = 0;
            while let Some(at) = self.held[self.scanned..].iter().position(|byte| *byte == b'\n') {
                let end = self.scanned + at;
                line(&self.held[from..end]);
                from = end + 1;
                self.scanned = from;
            }
            self.held.drain(..from);
            self.scanned = self.held.len();
        }
        while self.held.len() > self.force {
            let at = break_before(&self.held, self.force);
            line(&self.held[..at]);
            self.held.drain(..at);
            self.scanned = self.held.len();
        }
    }

    /// The last line, which has no line break.
    pub(super) fn end(&mut self, mut line: impl FnMut(&[u8])) {
        if !self.held.is_empty() {
            line(&self.held);
        }
        self.held.clear();
        self.scanned = 0;
    }
}

/// Not inside a UTF-8 character.
fn break_before(bytes: &[u8], limit: usize) -> usize {
    (limit.saturating_sub(3)..=limit).rev().find(|at| bytes[*at] & 0xc0 != 0x80).unwrap_or(limit).max(1)
}

/// Opens a step's standard input, or nothing.
pub(super) fn input(path: Option<&PathBuf>) -> io::Result<std::process::Stdio> {
    match path {
        None => Ok(std::process::Stdio::null()),
        Some(path) => fs::File::open(path).map(Into::into),
    }
}

/// Reads a small file; for secrets.
pub(super) fn read_trimmed(path: &PathBuf) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(1 << 20).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_the_bytes_are_cut() {
        let text = "one\ntwo äöü\n\nthree".as_bytes();
        for size in 1..text.len() {
            let mut lines = Lines::new(4096);
            let mut got = Vec::new();
            for piece in text.chunks(size) {
                lines.feed(piece, |line| got.push(String::from_utf8_lossy(line).into_owned()));
            }
            lines.end(|line| got.push(String::from_utf8_lossy(line).into_owned()));
            assert_eq!(got, ["one", "two äöü", "", "three"], "in pieces of {size}");
        }
    }

    #[test]
    fn an_endless_line_is_broken_between_characters() {
        let mut lines = Lines::new(10);
        let mut got = Vec::new();
        lines.feed("ä".repeat(20).as_bytes(), |line| got.push(line.to_vec()));
        lines.end(|line| got.push(line.to_vec()));
        assert_eq!(got.concat(), "ä".repeat(20).as_bytes());
        assert!(got.iter().all(|line| line.len() <= 10 && std::str::from_utf8(line).is_ok()));
    }
}
