//! What was tried of an agent's CLI before its sessions may start, and what follows when it fails.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opkit_domain::access::{Access, Actor};
use opkit_domain::session::ProbeReport;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;

use crate::agents::{claude_probe, readable};
use crate::clock::now_ms;
use crate::data_dir::mode;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::housekeeping::{at_leisure, remove_tree};
use crate::store::Store;

/// The one agent whose CLI is not ours.
const AGENT: &str = "claude";
/// Its name on the health page.
const TASK: &str = "agent probe";
/// The setting that keeps what was found.
const SETTING: &str = "probed.claude";
/// A program that was replaced is seen at the latest after this.
const PERIOD: Duration = Duration::from_secs(5);
/// A probe that could not be made is tried again after this.
const AFTER_FAILURE: Duration = Duration::from_secs(60);
/// Each case has its own limit; this is for a probe that hangs all the same.
const PATIENCE: Duration = Duration::from_secs(900);

/// What one probe found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probed {
    /// The version that the CLI says it is; empty when it never said one.
    pub version: String,
    /// When, ms since 1970.
    pub at_ms: i64,
    /// The program as the operator names it.
    pub program: String,
    /// The program's file, the guard's build and the mode: what another result could come from.
    pub of: String,
    /// One for each promise that sessions rely on.
    pub cases: Vec<ProbedCase>,
}

/// One promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbedCase {
    /// "A guard that leaves with status 1 lets nothing through".
    pub name: String,
    /// It was kept.
    pub fine: bool,
    /// What was seen instead, one line; empty when it was kept.
    pub detail: String,
}

impl Probed {
    /// Every promise was kept.
    pub fn holds(&self) -> bool {
        !self.version.is_empty() && !self.cases.is_empty() && self.cases.iter().all(|case| case.fine)
    }

    /// "Claude Code 2.1.197".
    pub fn name(&self) -> String {
        match self.version.as_str() {
            "" => "Claude Code of an unknown version".into(),
            version => format!("Claude Code {version}"),
        }
    }

    /// "Claude Code 2.1.197: probed on 2026-12-01, 8 of 8 as they must be".
    pub fn summary(&self) -> String {
        let day = OffsetDateTime::from_unix_timestamp(self.at_ms / 1000)
            .map_or_else(|_| "an unknown day".to_owned(), |time| time.date().to_string());
        let fine = self.cases.iter().filter(|case| case.fine).count();
        format!("{}: probed on {day}, {fine} of {} as they must be", self.name(), self.cases.len())
    }

    /// Why nothing of it starts, if so.
    fn objection(&self) -> Option<String> {
        if self.holds() {
            return None;
        }
        let seen = match self.cases.iter().find(|case| !case.fine) {
            Some(case) => format!("“{}” was not kept ({})", case.name, case.detail),
            None => "it did not say its version".into(),
        };
        Some(format!(
            "{} failed its probe, and no session of it starts: {seen}. Install another version, or try again \
             with: opkit doctor --agent",
            self.name()
        ))
    }
}

/// What is known of the agent's CLI now.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    state: Mutex<State>,
    /// One probe at a time: each takes more than one processor.
    turn: tokio::sync::Mutex<()>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    known: Option<Probed>,
    /// A probe is under way.
    busy: bool,
    /// A session met something that the last probe did not.
    doubted: bool,
    /// The last probe could not be made, and when.
    trouble: Option<(String, Instant)>,
}

impl Probes {
    /// With what an earlier server found.
    pub(crate) async fn load(store: &Store) -> Result<Probes> {
        let text = store.setting(SETTING).await?;
        // What is not understood was written by another build: then it is probed again.
        let known = text.and_then(|text| serde_json::from_str(&text).ok());
        Ok(Probes { state: Mutex::new(State { known, ..State::default() }), ..Probes::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The last probe is of this very program, and nobody doubts it.
    fn current(&self, stamp: &str) -> Option<&Probed> {
        self.known.as_ref().filter(|known| known.of == stamp && !self.doubted)
    }

    /// Why nothing of the agent starts, if so.
    fn hold(&self, stamp: &str) -> Option<String> {
        if let Some(known) = self.current(stamp) {
            return known.objection();
        }
        if self.busy {
            let text = "Claude Code is being probed. Its sessions start when it keeps what they rely on; this takes \
                        about half a minute.";
            return Some(text.into());
        }
        if let Some((sentence, _)) = &self.trouble {
            return Some(sentence.clone());
        }
        let what =
            if self.known.is_some() { "has changed since it was probed" } else { "was not probed yet" };
        Some(format!("Claude Code {what}. The server does it by itself, or run: opkit doctor --agent"))
    }

    fn due(&self, stamp: &str) -> bool {
        let waits = self.trouble.as_ref().is_some_and(|(_, at)| at.elapsed() < AFTER_FAILURE);
        !self.busy && !waits && self.current(stamp).is_none()
    }
}

/// Sets the task going that probes a program which was not probed yet.
pub(crate) fn spawn(engine: Engine) {
    if engine.agents().claude().is_none() {
        return;
    }
    // A failure may have been the machine's: a new start is a new chance.
    let mut state = engine.probes().state();
    state.doubted = state.known.as_ref().is_some_and(|known| !known.holds());
    drop(state);
    tokio::spawn(async move {
        while !engine.draining() {
            let looked = engine.probe_if_due().await;
            // As long as the agent is held, the task says so, not only in the turn that found it.
            match (engine.agent_hold(AGENT).map(Error::Refused), looked) {
                (Some(error), _) | (None, Err(error)) => engine.tasks().failed(TASK, &error),
                (None, Ok(())) => engine.tasks().ok(TASK),
            }
            // Either is a reason to look.
            let _ = tokio::time::timeout(PERIOD, engine.probes().wake.notified()).await;
        }
    });
}

impl Engine {
    /// What the last probe of an agent found; none when there was none, or when the agent needs none.
    pub fn probed(&self, agent: &str) -> Option<Probed> {
        if agent == AGENT { self.probes().state().known.clone() } else { None }
    }

    /// Why no session of an agent starts, if so.
    pub(crate) fn agent_hold(&self, agent: &str) -> Option<String> {
        let program = self.agents().claude().filter(|_| agent == AGENT)?;
        let stamp = self.probe_stamp(program);
        self.probes().state().hold(&stamp)
    }

    /// The version that a session may meet; none = the agent is ours. Refused while the agent is held.
    pub(crate) fn probed_version(&self, agent: &str) -> Result<Option<String>> {
        match self.agent_hold(agent) {
            Some(sentence) => Err(Error::Refused(sentence)),
            None => Ok(self.probed(agent).map(|known| known.version)),
        }
    }

    /// A session ended before its agent did anything: perhaps the program is not what was probed.
    pub(crate) fn doubt_probe(&self, agent: &str) {
        if agent == AGENT && self.agents().claude().is_some() {
            self.probes().state().doubted = true;
            self.probes().wake.notify_one();
        }
    }

    /// The line of `doctor`; none without the agent.
    pub(crate) fn probe_line(&self) -> Option<(bool, String)> {
        self.agents().claude()?;
        match self.agent_hold(AGENT) {
            Some(sentence) => Some((false, sentence)),
            None => self.probed(AGENT).map(|known| (true, known.summary())),
        }
    }

    /// Probes the agent's CLI now, and stores what is found.
    pub async fn probe_agent(&self, actor: &Actor) -> Result<Probed> {
        if actor.access < Access::Admin {
            return Err(Error::Forbidden("Probing the agent needs the admin role.".into()));
        }
        let _turn = self.probes().turn.lock().await;
        self.probe_and_store(actor).await
    }

    async fn probe_if_due(&self) -> Result<()> {
        let Some(program) = self.agents().claude() else { return Ok(()) };
        let stamp = self.probe_stamp(program);
        if !self.probes().state().due(&stamp) {
            return Ok(());
        }
        let _turn = self.probes().turn.lock().await;
        let actor = Actor::system(TASK);
        let first = self.probe_and_store(&actor).await?;
        if !first.holds() {
            // Once more: a machine that is too busy fails it too.
            self.probe_and_store(&actor).await?;
        }
        Ok(())
    }

    /// For whoever has the turn.
    async fn probe_and_store(&self, actor: &Actor) -> Result<Probed> {
        let _busy = Busy::begin(self);
        let result = match self.run_probe().await {
            Ok(probed) => self.store_probed(actor, &probed).await.map(|()| probed),
            Err(error) => Err(error),
        };
        let mut state = self.probes().state();
        match &result {
            Ok(probed) => {
                let (agent, version) = (AGENT, &probed.version);
                match probed.objection() {
                    None => tracing::info!(agent, version, "the agent's CLI was probed"),
                    Some(why) => tracing::warn!(agent, version, why, "the agent's CLI failed its probe"),
                }
                *state = State { known: Some(probed.clone()), ..State::default() };
            }
            Err(error) => {
                if let Error::Internal(inner) = error {
                    tracing::error!(agent = AGENT, error = format!("{inner:#}"), "a probe could not be made");
                }
                let why = error.to_string();
                let sentence = format!(
                    "Claude Code could not be probed, and no session of it starts: {}. It is tried again every \
                     minute; now: opkit doctor --agent",
                    why.trim_end_matches('.')
                );
                state.trouble = Some((sentence, Instant::now()));
            }
        }
        result
    }

    async fn store_probed(&self, actor: &Actor, probed: &Probed) -> Result<()> {
        self.store().set_setting(actor, SETTING, &serde_json::to_string(probed)?).await
    }

    /// Runs `opkit-session probe` to its end. Its places are below `<data>/probe`.
    async fn run_probe(&self) -> Result<Probed> {
        let program = self.agents().claude().ok_or_else(|| {
            Error::Refused(
                "Claude Code is not set up here. Start the server with OPKIT_CLAUDE=/path/to/claude.".into(),
            )
        })?;
        readable(program, self.identity())?;
        // Before it runs: a program that is replaced meanwhile is probed again.
        let of = self.probe_stamp(program);
        let dir = self.probe_dir().await?;
        let spec = serde_json::to_vec(&claude_probe(program, self.wall_mode())?)?;
        let output = run(self.runner(), &dir, &spec).await?;
        let report: ProbeReport = serde_json::from_slice(&output.stdout).map_err(|_| {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
            Error::Refused(last.chars().filter(|c| !c.is_control()).take(300).collect())
        })?;
        let case = |check: opkit_domain::session::ProbeCheck| ProbedCase {
            name: check.what,
            fine: check.holds,
            detail: check.detail,
        };
        Ok(Probed {
            version: report.version,
            at_ms: now_ms(),
            program: program.display().to_string(),
            of,
            cases: report.checks.into_iter().map(case).collect(),
        })
    }

    /// An empty place for a probe, without what an earlier one left.
    async fn probe_dir(&self) -> Result<PathBuf> {
        let dir = self.dirs().root.join("probe");
        let old = dir.clone();
        at_leisure(move || remove_tree(&old)).await??;
        fs::create_dir(&dir)?;
        mode(&dir, 0o711)?;
        Ok(dir)
    }

    /// Changes whenever the program, our guard or the mode does. A program that is not there has a stamp of its own.
    fn probe_stamp(&self, program: &Path) -> String {
        let file = program.canonicalize().and_then(|real| Ok((fs::metadata(&real)?, real)));
        let file = match file {
            Ok((meta, real)) => format!(
                "{} {} {} {}.{}",
                real.display(),
                meta.ino(),
                meta.size(),
                meta.ctime(),
                meta.ctime_nsec()
            ),
            Err(error) => format!("{}: {error}", program.display()),
        };
        let build = self.runner().parent().and_then(Path::file_name).unwrap_or_default();
        format!("{file} | {} | {}", build.to_string_lossy(), self.wall_mode())
    }
}

/// Says that a probe is under way, for as long as it lives.
struct Busy<'a>(&'a Engine);

impl Busy<'_> {
    fn begin(engine: &Engine) -> Busy<'_> {
        engine.probes().state().busy = true;
        engine.changed();
        Busy(engine)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.probes().state().busy = false;
        // The dispatcher may go on, and pages take the banner away.
        self.0.changed();
    }
}

async fn run(runner: &Path, dir: &Path, spec: &[u8]) -> Result<std::process::Output> {
    let mut child = tokio::process::Command::new(runner)
        .arg("probe")
        .env_clear()
        .env("PATH", crate::programs::PATH)
        .env("TMPDIR", dir)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let work = async {
        if let Some(mut input) = child.stdin.take() {
            input.write_all(spec).await?;
        }
        child.wait_with_output().await
    };
    // A probe whose reader is gone ends everything it started, then itself.
    tokio::time::timeout(PATIENCE, work)
        .await
        .map_err(|_| Error::Refused(format!("it did not end within {} minutes", PATIENCE.as_secs() / 60)))?
        .map_err(Error::from)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects")]
mod tests {
    use super::*;

    fn probed(of: &str, fine: bool) -> Probed {
        let detail = if fine { String::new() } else { "a call ran".to_owned() };
        let case = ProbedCase { name: "A guard that crashes lets nothing through".into(), fine, detail };
        Probed {
            version: "2.1.197".into(),
            at_ms: 1_796_083_200_000,
            program: "/opt/claude".into(),
            of: of.into(),
            cases: vec![case],
        }
    }

    #[test]
    fn an_agent_waits_until_this_very_program_was_probed() {
        let mut state = State::default();
        assert!(state.hold("one").unwrap().contains("was not probed yet") && state.due("one"));
        state.busy = true;
        assert!(state.hold("one").unwrap().contains("is being probed") && !state.due("one"));
        state = State { known: Some(probed("one", true)), ..State::default() };
        assert!(state.hold("one").is_none() && !state.due("one"));
        // Somebody looks again by hand: what is known holds meanwhile.
        state.busy = true;
        assert!(state.hold("one").is_none());
        state.busy = false;
        assert!(state.hold("two").unwrap().contains("has changed") && state.due("two"));
        state.doubted = true;
        assert!(state.hold("one").is_some() && state.due("one"));
    }

    #[test]
    fn a_failed_probe_holds_the_agent_and_names_the_case() {
        let state = State { known: Some(probed("one", false)), ..State::default() };
        let why = state.hold("one").unwrap();
        assert!(
            why.contains("2.1.197") && why.contains("that crashes") && why.contains("a call ran"),
            "{why}"
        );
        assert!(why.ends_with("opkit doctor --agent"), "{why}");
        assert!(!state.due("one"), "a person decides when it is tried again");
        let silent = Probed { version: String::new(), ..probed("one", true) };
        assert!(!silent.holds() && silent.objection().unwrap().contains("unknown version"));
        assert!(!Probed { cases: vec![], ..probed("one", true) }.holds());
    }

    #[test]
    fn a_probe_that_could_not_be_made_waits_before_the_next() {
        let trouble = Some(("It could not.".to_owned(), Instant::now()));
        let mut state = State { trouble, ..State::default() };
        assert_eq!(state.hold("one").unwrap(), "It could not.");
        assert!(!state.due("one"));
        let long_ago = Instant::now().checked_sub(AFTER_FAILURE).unwrap();
        state.trouble = Some((String::new(), long_ago));
        assert!(state.due("one"));
    }

    #[test]
    fn the_summary_is_one_line() {
        let text = probed("one", true).summary();
        assert_eq!(text, "Claude Code 2.1.197: probed on 2026-12-01, 1 of 1 as they must be");
    }
}
