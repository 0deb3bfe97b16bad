//! Everything that a runner writes while output flows: record, pane, transcript, status. Knows a full disk.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use opkit_domain::session::{RunStatus, files};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::clean::clean_into;
use super::outcome::Facts;
use super::pane::Pane;
use super::record::{Mark, Record, append, write_counted};
use super::render::RESET;
use crate::files::{Durability, now_ms, replace};

/// After this the transcript ends with a note.
const TRANSCRIPT_BYTES: u64 = 256 << 20;
/// A disk that stays full this long ends the session.
const FULL_DISK_PATIENCE: Duration = Duration::from_secs(600);
const RETRY_EVERY: Duration = Duration::from_secs(1);
const STATUS_EVERY: Duration = Duration::from_secs(1);
/// How long the end waits for a slow pane.
const LAST_SHOW: Duration = Duration::from_secs(1);

/// The runner's files.
pub(super) struct Journal {
    dir: PathBuf,
    pub(super) record: Record,
    pub(super) pane: Pane,
    /// Settings of the repository that were not loaded.
    pub(super) planted: Vec<String>,
    transcript: File,
    transcript_len: u64,
    transcript_pending: Vec<u8>,
    /// Since when nothing can be written, and why.
    stuck: Option<(Instant, String)>,
    last_try: Instant,
    status: RunStatus,
    status_written: Option<Instant>,
}

impl Journal {
    pub(super) fn open(dir: &Path, record_bytes: u64) -> io::Result<Journal> {
        let transcript = append(&dir.join(files::TRANSCRIPT))?;
        let transcript_len = transcript.metadata()?.len();
        Ok(Journal {
            dir: dir.to_owned(),
            record: Record::open(dir, record_bytes, now_ms())?,
            pane: Pane::open(),
            planted: Vec::new(),
            transcript,
            transcript_len,
            transcript_pending: Vec::new(),
            stuck: None,
            last_try: Instant::now(),
            status: RunStatus::default(),
            status_written: None,
        })
    }

    /// A line of ours.
    pub(super) fn say(&mut self, mark: Mark, lead: &str, text: &str) {
        let mut line = lead.to_owned();
        clean_into(&mut line, text);
        if line.contains('\x1b') {
            line.push_str(RESET);
        }
        self.record.line(mark, &line);
    }

    /// Raw bytes of the agent's standard output.
    pub(super) fn transcript(&mut self, bytes: &[u8]) {
        if self.transcript_len >= TRANSCRIPT_BYTES {
            return;
        }
        self.transcript_pending.extend_from_slice(bytes);
        self.transcript_len += bytes.len() as u64;
        if self.transcript_len >= TRANSCRIPT_BYTES {
            self.transcript_pending.extend_from_slice(
                b"\n{\"type\":\"opkit\",\"note\":\"The transcript ends here: 256 MiB.\"}\n",
            );
        }
    }

    /// Writes everything pending: the record first, then the pane. A failure is kept and tried again.
    pub(super) fn flush(&mut self) {
        let result = self.record.flush(&mut self.pane).and_then(|()| {
            let mut done = 0;
            let result = write_counted(&mut self.transcript, &self.transcript_pending, &mut done);
            self.transcript_pending.drain(..done);
            result
        });
        self.last_try = Instant::now();
        match (result, &self.stuck) {
            (Ok(()), None) => {}
            (Ok(()), Some((since, reason))) => {
                let note =
                    format!("The record could not be written for {} s: {reason}", since.elapsed().as_secs());
                self.stuck = None;
                self.say(Mark::Error, "\x1b[31m", &note);
            }
            (Err(error), None) => {
                self.pane.notice(&cannot_write(&error.to_string()));
                self.stuck = Some((Instant::now(), error.to_string()));
            }
            (Err(_), Some(_)) => {}
        }
    }

    /// Once per turn of the loop: flushes, retries once a second when stuck, repaints.
    pub(super) fn tick(&mut self) {
        self.record.now_ms = now_ms();
        if self.stuck.is_none() || self.last_try.elapsed() >= RETRY_EVERY {
            self.flush();
        }
        self.pane.push();
        if self.pane.repaint_due() {
            let record = &self.record;
            self.pane.repaint(|count| record.last_lines(count).to_vec());
            if let Some((_, reason)) = &self.stuck {
                self.pane.notice(&cannot_write(reason));
            }
        }
    }

    /// While stuck nobody reads the agent: it waits, nothing is lost.
    pub(super) fn is_stuck(&self) -> bool {
        self.stuck.is_some()
    }

    /// The disk has been full too long; the reason.
    pub(super) fn given_up(&self) -> Option<String> {
        let (since, reason) = self.stuck.as_ref()?;
        (since.elapsed() > FULL_DISK_PATIENCE)
            .then(|| format!("The record could not be written for 10 minutes: {reason}"))
    }

    /// Replaces the status file, at most once a second and only when something changed.
    pub(super) fn report(&mut self, agent_pid: u32, facts: &Facts, guard_broken: bool) {
        if self.status_written.is_some_and(|at| at.elapsed() < STATUS_EVERY) {
            return;
        }
        let status = RunStatus {
            agent_pid,
            activity: facts.activity.clone(),
            turns: facts.turns,
            cost_usd_micros: facts.cost_usd_micros,
            denials: facts.denials,
            last_denial: facts.last_denial.clone(),
            guard_broken,
            planted: self.planted.clone(),
        };
        if self.status_written.is_some() && status == self.status {
            return;
        }
        if let Ok(text) = serde_json::to_vec(&status) {
            // A status that cannot be written is written a second later.
            let _ = replace(&self.dir.join(files::STATUS), &text, Durability::Cached);
        }
        self.status = status;
        self.status_written = Some(Instant::now());
    }

    /// The status after the agent's end, whenever the last one was.
    pub(super) fn report_now(&mut self, facts: &Facts, guard_broken: bool) {
        self.status_written = None;
        self.report(0, facts, guard_broken);
    }

    /// Gives the pane a moment to take what it has not taken yet.
    pub(super) fn show_the_rest(&mut self) {
        let start = Instant::now();
        self.tick();
        while start.elapsed() < LAST_SHOW {
            let pause = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            match self.pane.wants_room() {
                Some(pane) => {
                    // An error only means that the pane is not waited for.
                    let _ = poll(&mut [PollFd::from_borrowed_fd(pane, PollFlags::OUT)], Some(&pause));
                }
                None if self.pane.next_wake().is_some() => std::thread::sleep(Duration::from_millis(100)),
                None => return,
            }
            self.tick();
        }
    }
}

fn cannot_write(reason: &str) -> String {
    format!("\x1b[31mThe record cannot be written: {reason}. The agent waits.\x1b[0m\n")
}
