//! The tmux pane: shown after the record, never waited for.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

/// Further behind than this, the pane is not fed but repainted later.
const BEHIND_BYTES: usize = 64 << 10;
const REPAINT_LINES: usize = 200;
const QUIET: Duration = Duration::from_millis(100);
const REPAINT_EVERY: Duration = Duration::from_millis(400);

/// Standard output, re-opened without blocking.
pub(super) struct Pane {
    out: Option<File>,
    queue: Vec<u8>,
    written: usize,
    behind: bool,
    last_shown: Instant,
    last_repaint: Instant,
}

impl Pane {
    /// Re-opens standard output: `O_NONBLOCK` on the inherited descriptor would change standard input too.
    pub(super) fn open() -> Pane {
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let out = OpenOptions::new().append(true).custom_flags(flags).open("/proc/self/fd/1").ok();
        let now = Instant::now();
        Pane { out, queue: Vec::new(), written: 0, behind: false, last_shown: now, last_repaint: now }
    }

    /// The window is gone.
    pub(super) fn close(&mut self) {
        self.out = None;
        self.queue.clear();
        self.written = 0;
        self.behind = false;
    }

    /// Shows bytes that are in the record.
    pub(super) fn show(&mut self, bytes: &[u8]) {
        if self.out.is_none() || bytes.is_empty() {
            return;
        }
        self.last_shown = Instant::now();
        if self.behind {
            return;
        }
        if self.waiting() + bytes.len() > BEHIND_BYTES {
            self.queue.clear();
            self.written = 0;
            self.behind = true;
            return;
        }
        self.queue.extend_from_slice(bytes);
        self.push();
    }

    /// Shows something that is not in the record, even when behind.
    pub(super) fn notice(&mut self, text: &str) {
        if self.out.is_some() {
            self.queue.extend_from_slice(text.as_bytes());
            self.push();
        }
    }

    fn waiting(&self) -> usize {
        self.queue.len() - self.written
    }

    /// Writes what the pane takes now.
    pub(super) fn push(&mut self) {
        while let Some(out) = &mut self.out
            && self.written < self.queue.len()
        {
            match out.write(&self.queue[self.written..]) {
                Ok(count) if count > 0 => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(_) | Err(_) => return self.close(),
            }
        }
        self.queue.clear();
        self.written = 0;
    }

    /// The descriptor to poll for room, if there is something to write.
    pub(super) fn wants_room(&self) -> Option<BorrowedFd<'_>> {
        let out = self.out.as_ref()?;
        (self.waiting() > 0).then(|| out.as_fd())
    }

    /// How long until a repaint could be due.
    pub(super) fn next_wake(&self) -> Option<Duration> {
        self.behind.then_some(QUIET)
    }

    /// Whether the pane should be repainted now.
    pub(super) fn repaint_due(&self) -> bool {
        self.behind && (self.last_shown.elapsed() >= QUIET || self.last_repaint.elapsed() >= REPAINT_EVERY)
    }

    /// Clears the pane and shows the last lines of the record.
    pub(super) fn repaint(&mut self, last_lines: impl Fn(usize) -> Vec<u8>) {
        self.behind = false;
        self.last_repaint = Instant::now();
        // CAN ends a sequence that was cut in two.
        self.queue.extend_from_slice(b"\x18\x1b[0m\x1b[H\x1b[2J");
        let lines = last_lines(REPAINT_LINES);
        self.queue.extend_from_slice(&lines[lines.len().saturating_sub(BEHIND_BYTES)..]);
        self.push();
    }
}
