//! The agent: started, read, and judged by how it ended.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context;
use opkit_domain::session::{Outcome, OutputFormat, files};
use rustix::process::Signal;

use super::journal::Journal;
use super::outcome::{Facts, classify};
use super::policy::planted;
use super::record::Mark;
use super::render::{BLUE, BOLD, RED, RESET, Renderer, YELLOW};
use super::steps::{Program, Started};
use super::supervise::{Ended, Lines, Reader, Stop, Watched, input, read_trimmed};
use super::{Runner, Verdict};
use crate::enter::{EnterReport, Entry};
use crate::files::{Durability, replace};

/// An agent that said its result but does not leave gets this long.
const RESULT_GRACE: Duration = Duration::from_secs(10);
/// A longer JSON line is broken; it cannot be read as an event then.
const JSON_LINE_BYTES: usize = 64 << 20;
const PLAIN_LINE_BYTES: usize = 4096;

struct AgentReader {
    entry: Entry,
    /// What `enter` reported, once it has.
    entered: Option<Result<(), String>>,
    proof_path: PathBuf,
    /// The proof, until it is on the disk.
    unwritten: Option<Vec<u8>>,
    renderer: Renderer,
    out: Lines,
    err: Lines,
    result_seen: Option<Instant>,
    /// The guard failed while nobody had asked the session to end.
    broken: Option<String>,
    /// The version of the CLI that was probed.
    expected: Option<String>,
}

impl Reader for AgentReader {
    fn stdout(&mut self, bytes: &[u8], journal: &mut Journal, facts: &mut Facts) {
        journal.transcript(bytes);
        let renderer = &mut self.renderer;
        self.out.feed(bytes, |line| renderer.line(line, &mut journal.record, facts));
    }

    fn stderr(&mut self, bytes: &[u8], journal: &mut Journal, facts: &mut Facts) {
        let renderer = &mut self.renderer;
        self.err.feed(bytes, |line| renderer.stderr(line, &mut journal.record, facts));
    }

    fn end(&mut self, journal: &mut Journal, facts: &mut Facts) {
        let renderer = &mut self.renderer;
        self.out.end(|line| renderer.line(line, &mut journal.record, facts));
        self.err.end(|line| renderer.stderr(line, &mut journal.record, facts));
    }

    fn wants_stop(&mut self, facts: &Facts) -> Option<Stop> {
        self.look_for_proof();
        if let Some(detail) = other_version(self.expected.as_deref(), facts) {
            return Some(Stop { outcome: Outcome::NeverRan, detail });
        }
        self.broken = self.renderer.broken_guard(facts, Instant::now());
        if let Some(why) = &self.broken {
            return Some(Stop { outcome: Outcome::Failed, detail: why.clone() });
        }
        if facts.results > 0 && self.result_seen.get_or_insert_with(Instant::now).elapsed() >= RESULT_GRACE {
            let detail = "The agent finished but did not leave; it was ended.".to_owned();
            return Some(Stop { outcome: Outcome::Finished, detail });
        }
        None
    }

    fn guard_is_broken(&self) -> bool {
        self.broken.is_some()
    }
}

/// Why a CLI of another version than the probed one must not go on.
fn other_version(expected: Option<&str>, facts: &Facts) -> Option<String> {
    let (expected, found) = (expected?, facts.version.as_deref()?);
    (expected != found).then(|| {
        let found = super::clean::plain(found, 40);
        format!(
            "The agent's CLI is version {found}; only {expected} was probed. Run on the machine: opkit doctor --agent"
        )
    })
}

impl AgentReader {
    /// Stores the proof as soon as `enter` has given it.
    fn look_for_proof(&mut self) {
        if self.entered.is_none() {
            self.entered = match self.entry.report() {
                Some(EnterReport::Proof(proof)) => {
                    self.unwritten = serde_json::to_vec_pretty(&proof).ok();
                    Some(Ok(()))
                }
                Some(EnterReport::Refused(reason)) => Some(Err(reason)),
                None => None,
            };
        }
        // Whether an agent ever worked in the worktree is known by this file alone when everything else is gone, so it
        // is on the disk for good. A full disk is tried again.
        if let Some(text) = &self.unwritten
            && replace(&self.proof_path, text, Durability::Synced).is_ok()
        {
            self.unwritten = None;
        }
    }
}

impl Runner {
    /// Runs the agent to its end.
    pub(super) fn agent(&mut self) -> Verdict {
        self.journal.say(Mark::Plain, "", "");
        let name = self.spec.agent.name.clone();
        self.journal.say(Mark::Step, &format!("{BLUE}●{RESET} {BOLD}Start{RESET} "), &name);
        "Start the agent".clone_into(&mut self.facts.activity);
        self.look_for_planted();
        let format = self.spec.agent.format;
        let Started { pid, stdout, stderr, entry } = match self.start_agent() {
            Ok(started) => started,
            Err(error) => return self.never_ran(&format!("{error:#}")),
        };
        let mut reader = AgentReader {
            entry,
            entered: None,
            proof_path: self.dir.join(files::PROOF),
            unwritten: None,
            renderer: Renderer::new(format, &self.spec.cwd.to_string_lossy()),
            out: Lines::new(match format {
                OutputFormat::ClaudeStreamJson => JSON_LINE_BYTES,
                OutputFormat::Plain => PLAIN_LINE_BYTES,
            }),
            err: Lines::new(PLAIN_LINE_BYTES),
            result_seen: None,
            broken: None,
            expected: self.spec.agent_version.clone(),
        };
        if let Some(stdout) = &stdout {
            // A wider pipe lets a burst pass while the disk is busy; refused above the user's share, which is fine.
            let _ = rustix::pipe::fcntl_setpipe_size(stdout, 1 << 20);
        }
        let watched = Watched {
            pid,
            stdout,
            stderr,
            time: None,
            idle: Some(Duration::from_secs(self.spec.limits.idle_s)),
            max_output: u64::MAX,
            output_file: None,
            polite: Signal::from_named_raw(self.spec.agent.polite_signal).or(Some(Signal::INT)),
            stoppable: true,
            is_agent: true,
        };
        let mut ended = self.supervise(watched, &mut reader);
        if ended.stop.as_ref().is_none_or(|stop| stop.outcome == Outcome::Finished)
            && let Some(detail) = other_version(reader.expected.as_deref(), &self.facts)
        {
            // Quicker than our look: what a program did that was never probed must not count.
            ended.stop = Some(Stop { outcome: Outcome::NeverRan, detail });
        }
        if ended.stop.as_ref().is_none_or(|stop| stop.outcome == Outcome::Finished) {
            // It may have been quicker than our look. A hook that a stop interrupted is not broken.
            reader.broken = reader.renderer.broken_guard(&self.facts, Instant::now());
        }
        let broken = reader.broken.take();
        self.guard_broken = broken.is_some();
        self.journal.report_now(&self.facts, self.guard_broken);
        reader.look_for_proof();
        match (reader.entered, &ended.stop) {
            (Some(Ok(())), _) | (_, Some(_)) => self.judge(ended, broken),
            (Some(Err(reason)), None) => self.never_ran(&reason),
            (None, None) => self.never_ran("it was ended before it began"),
        }
    }

    /// Names settings in the worktree that would change the agent if they were loaded.
    fn look_for_planted(&mut self) {
        self.journal.planted = planted(&self.spec.cwd);
        for name in self.journal.planted.clone() {
            let note = format!("Not loaded: {name} (settings of the repository never apply here)");
            self.journal.say(Mark::Plain, YELLOW, &format!("  {note}"));
        }
    }

    fn start_agent(&mut self) -> anyhow::Result<Started> {
        let mut secrets = Vec::new();
        for (name, path) in &self.spec.secret_env {
            let value =
                read_trimmed(path).with_context(|| format!("the secret for {name} cannot be read"))?;
            secrets.push((name.clone(), value));
        }
        let stdin = input(Some(&self.spec.context)).context("the context document cannot be read")?;
        let program = Program {
            argv: self.spec.agent.argv.clone(),
            cwd: self.spec.cwd.clone(),
            extra_env: secrets,
            extra_write: &[],
            only_write: None,
        };
        self.start(program, stdin, Stdio::piped())
    }

    fn never_ran(&mut self, reason: &str) -> Verdict {
        self.journal.say(Mark::Error, &format!("  {RED}"), reason);
        Verdict::new(Outcome::NeverRan, format!("The agent could not be started: {reason}"))
    }

    fn judge(&self, ended: Ended, broken_guard: Option<String>) -> Verdict {
        let session = self.spec.session.as_str();
        let (mut outcome, mut detail) = classify(&self.facts, ended.exit, self.spec.agent.format, session);
        match ended.stop {
            // The grace after a result is no reason of its own: the result decides.
            Some(stop) if stop.outcome == Outcome::Finished && outcome != Outcome::Finished => {}
            Some(stop) => {
                outcome = stop.outcome;
                detail = stop.detail;
            }
            None => {}
        }
        if let Some(why) = broken_guard.filter(|_| outcome == Outcome::Finished) {
            // It was quicker than our look: what it did unguarded must not count.
            (outcome, detail) = (Outcome::Failed, why);
        }
        if ended.left > 0 {
            let what = if ended.left == 1 { "process it left was" } else { "processes it left were" };
            detail.push_str(&format!(" {} {what} killed.", ended.left));
        }
        if ended.survivors > 0 {
            detail.push_str(&format!(" {} processes could not be killed.", ended.survivors));
        }
        Verdict { exit: ended.exit, ..Verdict::new(outcome, detail) }
    }
}
