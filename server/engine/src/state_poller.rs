//! The state poller: compares rows, runner locks and exit files, and feeds what it finds to the rules.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use notify::{RecursiveMode, Watcher};
use opkit_domain::event::Feed;
use opkit_domain::ids::SessionId;
use opkit_domain::session::{ExitFile, Outcome, RunStatus, SessionState, files};

use crate::clock::now_ms;
use crate::engine::Engine;
use crate::error::Result;
use crate::session_manager::{LaunchPermit, Runner, began, runner};
use crate::store::events::{NewEvent, append};
use crate::store::people::audit_in;
use crate::store::sessions::{SessionRow, mark_running};

/// How often everything is looked at without a hint.
const PERIOD: Duration = Duration::from_millis(1000);
/// Live lines reach the database at most this often a session.
const NOTE_EVERY: Duration = Duration::from_secs(5);
/// A runner needs a moment between its window's start and its lock.
const LOCK_GRACE: Duration = Duration::from_secs(5);
/// An ended session that could not be settled is tried again after this.
const SETTLE_AGAIN: Duration = Duration::from_secs(3);
/// Until then a launch's agent may still be on its way to its first instruction.
const LAUNCH_ECHO: Duration = Duration::from_millis(500);

/// What changes within this time is looked at together.
const TOGETHER: Duration = Duration::from_millis(40);
/// As long as sessions are being launched a look waits, but no longer than this.
const BURST: Duration = Duration::from_millis(240);

/// What the poller remembers of a session between two looks; all of it can be lost.
#[derive(Default)]
struct Seen {
    noted: Option<Instant>,
    last: RunStatus,
    watched: bool,
    proof_stored: bool,
    /// Denials that are events already, and when the last was; none before the first look.
    denials: Option<(u32, Instant)>,
}

/// A session that is being settled, for as long as this lives: a panic must not keep it so for ever.
struct Settling {
    engine: Engine,
    id: SessionId,
}

impl Drop for Settling {
    fn drop(&mut self) {
        self.engine.settling().remove(&self.id);
    }
}

impl Engine {
    /// Notes that a launch begins; false when one is under way.
    pub(crate) fn launching(&self, id: &SessionId) -> bool {
        let mut launches = self.launches();
        if launches.get(id) == Some(&None) {
            return false;
        }
        launches.insert(id.clone(), None);
        true
    }

    pub(crate) fn launched(&self, id: &SessionId) {
        self.launches().insert(id.clone(), Some(Instant::now()));
    }

    /// A launch is under way, or its agent has hardly begun.
    pub(crate) fn something_starts(&self) -> bool {
        self.launches().values().any(|at| at.is_none_or(|at| at.elapsed() < LAUNCH_ECHO))
    }

    fn launch_is_under_way(&self) -> bool {
        self.launches().values().any(Option::is_none)
    }

    fn launches_now(&self, id: &SessionId) -> bool {
        self.launches().get(id) == Some(&None)
    }

    /// A launch is under way, or was so recently that its runner may not hold its lock yet.
    fn launch_is_fresh(&self, id: &SessionId) -> bool {
        match self.launches().get(id) {
            Some(None) => true,
            Some(Some(at)) => at.elapsed() < LOCK_GRACE,
            None => false,
        }
    }
}

/// Sets the task going. The first complete pass makes the server ready.
pub(crate) fn spawn(engine: Engine) {
    tokio::spawn(async move {
        let mut seen: HashMap<SessionId, Seen> = HashMap::new();
        let wake = engine.clone();
        // File events make it fast; the timer makes it right.
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| event.paths.iter().any(|path| matters(path))) {
                wake.poll_wake().notify_one();
            }
        })
        .ok();
        loop {
            match engine.poll_once(&mut seen, watcher.as_mut()).await {
                Ok(()) => {
                    engine.tasks().ok("state poller");
                    if !engine.is_ready() {
                        engine.set_ready();
                        if let Err(error) = engine.store().open_readers().await {
                            tracing::warn!(%error, "the database's readers are not open yet");
                        }
                    }
                }
                Err(error) => engine.tasks().failed("state poller", &error),
            }
            let _ = tokio::time::timeout(PERIOD, engine.poll_wake().notified()).await;
            // Many files change together: one look serves them all. In a burst of starts it would only slow them down.
            let woken = Instant::now();
            tokio::time::sleep(TOGETHER).await;
            while engine.launch_is_under_way() && woken.elapsed() < BURST {
                tokio::time::sleep(TOGETHER).await;
            }
        }
    });
}

/// Files whose change is news; a flood in the transcript is not.
fn matters(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    [files::EXIT, files::LOCK, files::STATUS, files::PROOF].contains(&name)
}

impl Engine {
    async fn poll_once(
        &self,
        seen: &mut HashMap<SessionId, Seen>,
        mut watcher: Option<&mut notify::RecommendedWatcher>,
    ) -> Result<()> {
        let rows = self.store().live_sessions().await?;
        let alive: HashSet<SessionId> = rows.iter().map(|row| row.id.clone()).collect();
        seen.retain(|id, _| {
            let keep = alive.contains(id);
            if !keep && let Some(watcher) = watcher.as_deref_mut() {
                let _ = watcher.unwatch(&self.dirs().session(id));
            }
            keep
        });
        self.live_lines().retain(|id, _| alive.contains(id));
        // A claim may be younger than the list: a launch under way is never forgotten, and a fresh one not yet.
        self.launches().retain(|id, at| alive.contains(id) || at.is_none_or(|at| at.elapsed() < LOCK_GRACE));
        for row in rows {
            let dir = self.dirs().session(&row.id);
            let entry = seen.entry(row.id.clone()).or_default();
            if !entry.watched
                && dir.exists()
                && let Some(watcher) = watcher.as_deref_mut()
            {
                entry.watched = watcher.watch(&dir, RecursiveMode::NonRecursive).is_ok();
            }
            if let Err(error) = self.look_at(&row, &dir, entry).await {
                tracing::error!(session.id = %row.id, error = format!("{error:?}"), "a session could not be looked at");
                self.tasks().failed("state poller", &error);
            }
        }
        self.deliver_outbox().await
    }

    /// One session: ended, running, starting or lost.
    async fn look_at(&self, row: &SessionRow, dir: &Path, seen: &mut Seen) -> Result<()> {
        if let Some(exit) = read_json::<ExitFile>(&dir.join(files::EXIT)) {
            // The exit file is the runner's last word, but its lock says when it is really gone.
            if runner(dir) == Runner::Free {
                return self.settle_later(row, exit);
            }
        }
        if row.state == SessionState::Stopping && !dir.join(files::STOP).exists() {
            // The server died, or the disk was full, between the row and the file.
            self.write_stop(&row.id, Outcome::Stopped, "the board")?;
        }
        match runner(dir) {
            Runner::Alive(pid) => self.note_running(row, dir, pid, seen).await,
            Runner::Free => {
                // It may have ended between the two looks.
                if let Some(exit) = read_json::<ExitFile>(&dir.join(files::EXIT)) {
                    return self.settle_later(row, exit);
                }
                // A row that says `running` is a witness too, whatever a power cut left of the lock file.
                let ran = row.state == SessionState::Running || began(dir);
                if row.state == SessionState::Starting || !ran {
                    return self.start_again(row).await;
                }
                if self.launch_is_fresh(&row.id) {
                    return Ok(());
                }
                self.settle_lost(row).await
            }
        }
    }

    /// Settles beside the poller, which must not wait for git; once at a time for each session.
    fn settle_later(&self, row: &SessionRow, exit: ExitFile) -> Result<()> {
        if !self.settling().insert(row.id.clone()) {
            return Ok(());
        }
        let (engine, row) = (self.clone(), row.clone());
        let settling = Settling { engine: self.clone(), id: row.id.clone() };
        tokio::spawn(async move {
            let _settling = settling;
            let turn = engine.settle_turns().acquire().await;
            let settled = engine.settle(&row, exit).await;
            drop(turn);
            match settled {
                Ok(()) => engine.tasks().ok("settle"),
                Err(error) => {
                    tracing::error!(session.id = %row.id, error = format!("{error:?}"), "an ended session could not be settled");
                    engine.tasks().failed("settle", &error);
                    // What is in the way needs its time to go.
                    tokio::time::sleep(SETTLE_AGAIN).await;
                }
            }
        });
        Ok(())
    }

    /// Claimed and without a runner: launch it again until its deadline.
    async fn start_again(&self, row: &SessionRow) -> Result<()> {
        if row.state == SessionState::Stopping && !self.launches_now(&row.id) {
            return self.settle_stopped_before_start(row).await;
        }
        if self.launch_is_fresh(&row.id) {
            return Ok(());
        }
        if now_ms() > row.deadline {
            return self.settle_never_ran(&row.id, "The session did not start within two minutes.").await;
        }
        if began(&self.dirs().session(&row.id)) {
            // It has no exit file: it ran, and it is gone.
            return self.settle_lost(row).await;
        }
        self.launch_again(row);
        Ok(())
    }

    fn launch_again(&self, row: &SessionRow) {
        let (engine, permit) = (self.clone(), LaunchPermit::again(row));
        tokio::spawn(async move { engine.launch(permit).await });
    }

    async fn note_running(&self, row: &SessionRow, dir: &Path, pid: u32, seen: &mut Seen) -> Result<()> {
        if row.state == SessionState::Starting && !began(dir) {
            // It waits for its launch record. If the server that wrote it died, another launch gives it one.
            if !self.launch_is_fresh(&row.id) {
                self.launch_again(row);
            }
            return Ok(());
        }
        let proof = fs::read_to_string(dir.join(files::PROOF)).ok();
        if row.state == SessionState::Starting || (!seen.proof_stored && proof.is_some()) {
            let mut tx = self.store().begin().await?;
            mark_running(&mut tx, &row.id, pid, proof.as_deref()).await?;
            if row.state == SessionState::Starting {
                if let Ok(text) = fs::read_to_string(dir.join("delivered"))
                    && let Ok(number) = text.trim().parse::<i64>()
                    && number > 0
                {
                    crate::store::objectives::mark_delivered(&mut tx, row.objective, number, &row.id).await?;
                }
                let event = NewEvent {
                    objective: row.objective,
                    kind: "session",
                    from: None,
                    to: None,
                    trigger: "running",
                    actor: "state poller",
                    reason: &format!("The {} session runs.", row.role),
                    session: Some(&row.id),
                };
                append(&mut tx, row.scope, event).await?;
                // The second phase of a launch: the run that was meant is the run that runs.
                let target = format!("#{}", row.objective);
                let detail = serde_json::json!({
                    "session": row.id, "role": row.role, "account": row.account, "phase": "confirmed", "pid": pid,
                });
                audit_in(&mut tx, row.scope, "state poller", "launch", &target, &detail).await?;
                crate::store::objectives::touch(&mut tx, row.objective).await?;
            }
            tx.commit().await?;
            self.feed_wake().notify_one();
            seen.proof_stored = proof.is_some();
        }
        let Some(status) = read_json::<RunStatus>(&dir.join(files::STATUS)) else { return Ok(()) };
        let unnoted = seen.denials.is_some_and(|(known, _)| known < status.denials);
        if status == seen.last && !unnoted {
            return Ok(());
        }
        if status.guard_broken {
            self.note_broken_guard(row).await?;
        }
        self.note_denials(row, &status, seen).await?;
        self.live_lines().insert(row.id.clone(), status.clone());
        let _ = self.feed_sender().send(std::sync::Arc::new(Feed::Activity {
            id: row.objective,
            line: status.activity.clone(),
            cost_usd_micros: status.cost_usd_micros,
        }));
        if seen.noted.is_none_or(|at| at.elapsed() > NOTE_EVERY) {
            self.store()
                .note_activity(
                    &row.id,
                    &status.activity,
                    status.turns,
                    status.cost_usd_micros,
                    status.denials,
                )
                .await?;
            seen.noted = Some(Instant::now());
        }
        seen.last = status;
        Ok(())
    }

    /// What the guard denied goes into the timeline and the audit, at most every few seconds a session.
    async fn note_denials(&self, row: &SessionRow, status: &RunStatus, seen: &mut Seen) -> Result<()> {
        let now = Instant::now();
        let (known, at) = match seen.denials {
            Some(known) => known,
            // A session that an earlier process watched has its events from then.
            None if row.state == SessionState::Running => (status.denials, now),
            None => (0, now.checked_sub(NOTE_EVERY).unwrap_or(now)),
        };
        seen.denials = Some((known, at));
        let new = status.denials.saturating_sub(known);
        let Some(reason) = status.last_denial.as_deref().filter(|_| new > 0) else { return Ok(()) };
        if at.elapsed() < NOTE_EVERY {
            return Ok(());
        }
        let more = if new > 1 { format!(" ({new} denials)") } else { String::new() };
        let reason = format!("{reason}{more}");
        let mut tx = self.store().begin().await?;
        let event = NewEvent {
            objective: row.objective,
            kind: "denied",
            from: None,
            to: None,
            trigger: "denied",
            actor: &format!("session {}", row.id.short()),
            reason: &reason,
            session: Some(&row.id),
        };
        append(&mut tx, row.scope, event).await?;
        let detail = serde_json::json!({ "session": row.id, "reason": reason });
        audit_in(&mut tx, row.scope, "guard", "denial", &format!("#{}", row.objective), &detail).await?;
        crate::store::objectives::touch(&mut tx, row.objective).await?;
        tx.commit().await?;
        seen.denials = Some((status.denials, now));
        self.feed_wake().notify_one();
        Ok(())
    }

    /// Works off what must follow transitions.
    async fn deliver_outbox(&self) -> Result<()> {
        if !self.store().outbox_waits().await? {
            return Ok(());
        }
        let mut tx = self.store().begin().await?;
        for (row, client, kind, objective, _child) in crate::store::objectives::open_outbox(&mut tx).await? {
            if kind == "child_ended" {
                self.wake_delegator(&mut tx, client, objective).await?;
            }
            crate::store::objectives::close_outbox(&mut tx, row).await?;
        }
        tx.commit().await?;
        self.changed();
        Ok(())
    }
}

/// Reads a small JSON file; none when it is missing or torn.
pub(crate) fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
