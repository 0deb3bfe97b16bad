//! The runner: one session from its lock to its exit file, on our side of the wall.
//!
//! Order: lock, record, prepare, floor of a review, agent, floor of a task, nothing alive, collect, nothing
//! alive, exit file. The lock says that the runner lives, the exit file how the session ended.

mod agent;
mod clean;
mod events;
mod journal;
mod outcome;
mod pane;
mod policy;
pub(crate) mod processes;
mod record;
mod render;
mod reset;
mod signals;
mod steps;
mod supervise;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::Context;
use opkit_domain::ids::SessionId;
use opkit_domain::session::{EXIT_LOCK_TAKEN, ExitFile, FloorResult, FloorWhen, Outcome, RunSpec, files};
use rustix::fs::FlockOperation;

use self::journal::Journal;
use self::outcome::{Exit, Facts};
use self::record::Mark;
use self::render::{BOLD, DIM, GREEN, RED, RESET};
use self::signals::{Signals, Window};
use self::steps::StepFailure;
use self::supervise::Stop;
use crate::files::{Durability, now_ms, replace};

/// The server opens the window while it writes the launch record. One that takes longer than this is gone.
const SPEC_PATIENCE: Duration = Duration::from_secs(10);
/// How often a runner looks for its launch record as long as a start usually takes, and afterwards.
const LOOK_SOON: Duration = Duration::from_micros(200);
const USUAL_START: Duration = Duration::from_millis(50);
const LOOK_LATER: Duration = Duration::from_millis(5);
/// A disk that stays full this long keeps the exit file from being written.
const EXIT_FILE_PATIENCE: Duration = Duration::from_secs(600);

/// One session.
struct Runner {
    dir: PathBuf,
    spec: RunSpec,
    /// This program, which is `enter` too.
    program: PathBuf,
    journal: Journal,
    signals: Signals,
    window: Window,
    facts: Facts,
    /// The first request or limit that ends the session.
    stop: Option<Stop>,
    guard_broken: bool,
    /// The policy's fingerprint before the first step.
    policy_start: Option<String>,
    started: Instant,
    started_at: i64,
}

/// What the exit file will say.
struct Verdict {
    outcome: Outcome,
    detail: String,
    exit: Exit,
    floor: Option<FloorResult>,
}

impl Verdict {
    fn new(outcome: Outcome, detail: impl Into<String>) -> Verdict {
        Verdict { outcome, detail: detail.into(), exit: Exit::default(), floor: None }
    }
}

/// Runs the session of `dir` to its end.
pub(crate) fn run(dir: &Path) -> ExitCode {
    let lock = match take_lock(dir) {
        Ok(Some(lock)) => lock,
        Ok(None) => return ExitCode::from(u8::try_from(EXIT_LOCK_TAKEN).unwrap_or(75)),
        Err(error) => {
            eprintln!("opkit-session run: {}: {error}", dir.display());
            return ExitCode::FAILURE;
        }
    };
    if dir.join(files::EXIT).exists() {
        // Launched again after its end: the exit file stands.
        return ExitCode::SUCCESS;
    }
    match Runner::open(dir, &lock) {
        Ok(Some(mut runner)) => runner.run(),
        // Its lock file stays empty: nothing ran, and the server launches it again or knows why not.
        Ok(None) => ExitCode::SUCCESS,
        Err(error) => {
            let reason = format!("The runner could not start: {error:#}");
            eprintln!("opkit-session run: {reason}");
            never_ran(dir, &reason);
            ExitCode::FAILURE
        }
    }
}

/// The lock file stays open until the process ends: closing any descriptor of it frees a record lock.
fn take_lock(dir: &Path) -> io::Result<Option<File>> {
    let path = dir.join(files::LOCK);
    let lock =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match rustix::fs::fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    Ok(Some(lock))
}

/// Waits for the launch record. None when it was called off, or when nobody writes it.
fn await_spec(dir: &Path) -> io::Result<Option<Vec<u8>>> {
    let start = Instant::now();
    loop {
        match fs::read(dir.join(files::SPEC)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            read => return read.map(Some),
        }
        let waited = start.elapsed();
        let over = [files::CALLED_OFF, files::STOP].iter().any(|name| dir.join(name).exists());
        if over || waited > SPEC_PATIENCE {
            return Ok(None);
        }
        std::thread::sleep(if waited < USUAL_START { LOOK_SOON } else { LOOK_LATER });
    }
}

/// Says in the lock file that this session ran.
fn began(mut lock: &File) -> io::Result<()> {
    lock.set_len(0)?;
    write!(lock, "{}", std::process::id())
}

/// An exit file for a session whose spec could not even be read; its directory is named by its id.
fn never_ran(dir: &Path, reason: &str) {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    if let Ok(session) = SessionId::from_str(&name) {
        let now = now_ms();
        let exit = exit_file(session, Verdict::new(Outcome::NeverRan, reason), &Facts::default(), now);
        if let Ok(text) = serde_json::to_vec(&exit) {
            // The caller reports the reason on standard error as well.
            let _ = replace(&dir.join(files::EXIT), &text, Durability::Synced);
        }
    }
}

fn exit_file(session: SessionId, verdict: Verdict, facts: &Facts, started_at: i64) -> ExitFile {
    let said = facts.result.as_ref().and_then(|result| result.result.as_deref()).unwrap_or(&facts.last_text);
    let summary: String = clean::plain_lines(said.as_bytes()).chars().take(4000).collect();
    ExitFile {
        session,
        outcome: verdict.outcome,
        detail: verdict.detail,
        status: verdict.exit.status,
        signal: verdict.exit.signal,
        started_at,
        ended_at: now_ms(),
        turns: facts.turns,
        cost_usd_micros: facts.cost_usd_micros,
        reset_at: (verdict.outcome == Outcome::UsageLimited).then(|| facts.reset_at(now_ms())).flatten(),
        summary,
        floor: verdict.floor,
        collect_failed: Vec::new(),
        denials: facts.denials,
        record_len: 0,
        policy_start: None,
        policy_end: None,
        tampered: false,
        planted: Vec::new(),
        guard_broken: false,
    }
}

impl Runner {
    /// None without a launch record.
    fn open(dir: &Path, lock: &File) -> anyhow::Result<Option<Runner>> {
        let dir = fs::canonicalize(dir)?;
        let started_at = now_ms();
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let signals = Signals::listen()?;
        let tmux = std::env::var("TMUX").ok();
        let window = Window::watch(tmux.as_deref());
        let Some(text) = await_spec(&dir).context("its spec cannot be read")? else { return Ok(None) };
        began(lock)?;
        let spec: RunSpec = serde_json::from_slice(&text).context("its spec is not valid")?;
        let journal = Journal::open(&dir, spec.limits.record_bytes).context("the record cannot be opened")?;
        Ok(Some(Runner {
            program: std::env::current_exe()?,
            journal,
            signals,
            window,
            facts: Facts::default(),
            stop: None,
            guard_broken: false,
            policy_start: None,
            started: Instant::now(),
            started_at,
            dir,
            spec,
        }))
    }

    fn run(&mut self) -> ExitCode {
        let role = self.spec.role;
        let banner = format!(
            "{}{RESET} {DIM}{role} by {}, session {}",
            self.spec.banner,
            self.spec.agent.name,
            self.spec.session.short()
        );
        self.journal.record.now_ms = now_ms();
        self.journal.say(Mark::Step, BOLD, &banner);
        let mut verdict = match self.read_policy() {
            Ok(()) => self.work(),
            Err(error) => Verdict::new(Outcome::NeverRan, format!("The policy cannot be read: {error}.")),
        };
        self.kill_the_rest(&mut verdict);
        let failed = self.collect();
        self.kill_the_rest(&mut verdict);
        let policy_end = self.compare_policy(&mut verdict);
        self.say_end(&verdict);
        self.write_exit_file(verdict, failed, policy_end)
    }

    /// The policy as it is before anything of the session runs.
    fn read_policy(&mut self) -> io::Result<()> {
        self.policy_start = self.spec.policy.as_deref().map(policy::fingerprint).transpose()?;
        Ok(())
    }

    /// The policy as it is after everything, and a word if it is another one: the outcome stays, people are told.
    fn compare_policy(&mut self, verdict: &mut Verdict) -> Option<String> {
        self.policy_start.as_ref()?;
        let end = self.spec.policy.as_deref().and_then(|dir| policy::fingerprint(dir).ok());
        if end != self.policy_start {
            let stop = if verdict.detail.ends_with(['.', '\n']) { "" } else { "." };
            verdict.detail.push_str(&format!("{stop} The policy changed while it ran."));
            self.journal.say(Mark::Error, RED, "The policy changed while it ran.");
        }
        end
    }

    /// Everything before the end: prepare, floor, agent, floor.
    fn work(&mut self) -> Verdict {
        for step in self.spec.prepare.clone() {
            if let Some(stop) = self.request() {
                return Verdict::new(stop.outcome, stop.detail);
            }
            match self.step(&step, true) {
                Ok(()) => {}
                Err(StepFailure { stop: Some(stop), .. }) => return Verdict::new(stop.outcome, stop.detail),
                Err(_) if step.may_fail => {}
                Err(failure) => return Verdict::new(Outcome::NeverRan, failure.reason),
            }
        }
        let floor = self.spec.floor.clone();
        let mut result = None;
        if let Some(floor) = floor.as_ref().filter(|floor| floor.when == FloorWhen::BeforeAgent) {
            match self.floor(floor) {
                Ok(floor) if !floor.green() => {
                    let detail = red_floor(&floor);
                    return Verdict { floor: Some(floor), ..Verdict::new(Outcome::Finished, detail) };
                }
                Ok(floor) => result = Some(floor),
                Err(stop) => return Verdict::new(stop.outcome, stop.detail),
            }
        }
        if let Some(stop) = self.request() {
            return Verdict { floor: result, ..Verdict::new(stop.outcome, stop.detail) };
        }
        let mut verdict = self.agent();
        verdict.floor = result;
        if let Some(floor) = floor.filter(|floor| floor.when == FloorWhen::AfterAgent)
            && verdict.outcome == Outcome::Finished
        {
            match self.floor(&floor) {
                Ok(floor) => {
                    if !floor.green() {
                        verdict.detail = red_floor(&floor);
                    }
                    verdict.floor = Some(floor);
                }
                Err(stop) => {
                    verdict.outcome = stop.outcome;
                    verdict.detail = stop.detail;
                }
            }
        }
        verdict
    }

    fn kill_the_rest(&mut self, verdict: &mut Verdict) {
        let killed = processes::kill_all(&self.signals, |_, _| {});
        if killed.survivors > 0 {
            verdict.detail.push_str(&format!(" {} processes could not be killed.", killed.survivors));
        }
    }

    /// Snapshot and result: each step is tried, whatever became of the others.
    fn collect(&mut self) -> Vec<String> {
        let mut failed = Vec::new();
        for step in self.spec.collect.clone() {
            if let Err(failure) = self.step(&step, false) {
                failed.push(failure.reason);
            }
        }
        failed
    }

    fn say_end(&mut self, verdict: &Verdict) {
        let good =
            verdict.outcome == Outcome::Finished && verdict.floor.as_ref().is_none_or(FloorResult::green);
        let (mark, colour) = if good { (Mark::Step, GREEN) } else { (Mark::Error, RED) };
        self.journal.say(Mark::Plain, "", "");
        let first = verdict.detail.lines().next().unwrap_or("");
        self.journal.say(
            mark,
            &format!("{colour}●{RESET} {BOLD}Session ended{RESET} {DIM}{}{RESET} ", verdict.outcome),
            first,
        );
    }

    /// The last word, and the only witness of it: tried for a while on a full disk.
    fn write_exit_file(
        &mut self,
        verdict: Verdict,
        failed: Vec<String>,
        policy_end: Option<String>,
    ) -> ExitCode {
        let start = Instant::now();
        self.journal.flush();
        self.journal.record.sync();
        let mut exit = exit_file(self.spec.session.clone(), verdict, &self.facts, self.started_at);
        exit.collect_failed = failed;
        exit.tampered = policy_end != self.policy_start;
        exit.policy_start = self.policy_start.take();
        exit.policy_end = policy_end;
        exit.planted = std::mem::take(&mut self.journal.planted);
        exit.guard_broken = self.guard_broken;
        loop {
            exit.record_len = self.journal.record.len();
            let written = serde_json::to_vec(&exit)
                .map_err(io::Error::from)
                .and_then(|text| replace(&self.dir.join(files::EXIT), &text, Durability::Synced));
            match written {
                Ok(()) => break,
                // A full disk passes; a directory that somebody deleted does not come back.
                Err(error) if start.elapsed() > EXIT_FILE_PATIENCE || !self.dir.exists() => {
                    eprintln!("opkit-session run: the exit file cannot be written: {error}");
                    return ExitCode::FAILURE;
                }
                Err(_) => std::thread::sleep(Duration::from_secs(1)),
            }
            self.journal.flush();
        }
        self.journal.show_the_rest();
        ExitCode::SUCCESS
    }
}

fn red_floor(floor: &FloorResult) -> String {
    match (&floor.error, floor.commands.iter().find(|command| !command.green())) {
        (Some(error), _) => format!("The checks could not run: {error}"),
        (None, Some(command)) => format!("A check failed: {}", command.title),
        (None, None) => "A check failed.".to_owned(),
    }
}
