//! What follows when a session is over: collect its results, then one transaction for session, objective and event.

mod finish;
mod found;

use std::fs;
use std::time::{Duration, Instant};

use opkit_domain::ids::SessionId;
use opkit_domain::session::{ExitFile, Outcome, Role, RunStatus, files};

use crate::engine::Engine;
use crate::error::Result;
use crate::session_manager::{Runner, runner};
use crate::state_poller::read_json;
use crate::store::sessions::SessionRow;
use found::Found;

/// A runner without a launch record looks for it all the time, and leaves when it is called off.
const LEAVES: Duration = Duration::from_secs(1);
/// Begin of what an exit file says of an agent that could not be started.
const AGENT_DID_NOT_START: &str = "The agent could not be started";

/// A session with this outcome may have ended before its agent began, in the middle of a set-up.
fn may_precede_agent(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::NeverRan | Outcome::Stopped | Outcome::Killed)
}

impl Engine {
    /// A session with an exit file.
    pub(crate) async fn settle(&self, row: &SessionRow, exit: ExitFile) -> Result<()> {
        if !self.nothing_lives(row)? {
            return Ok(());
        }
        let objective = self.store().objective(row.scope, row.objective).await?;
        let mut outcome = exit.outcome;
        let mut detail = exit.detail.clone();
        if outcome == Outcome::Finished
            && let Some(reason) = &row.blocked_reason
        {
            outcome = Outcome::Blocked;
            detail.clone_from(reason);
        }
        if exit.guard_broken {
            self.note_broken_guard(row).await?;
        }
        // A set-up command that fails says nothing about the agent.
        if outcome == Outcome::NeverRan
            && (self.agent_ran(row) || exit.detail.starts_with(AGENT_DID_NOT_START))
        {
            self.doubt_probe(&row.agent);
        }
        let mut found = Found::plain(outcome, detail);
        found.prepared = self.agent_ran(row) || !may_precede_agent(outcome);
        found.exit = Some(exit);
        if row.role == Role::Review {
            self.find_review(row, &objective, &mut found);
        } else {
            self.find_work(row, &objective, &mut found).await?;
        }
        let kept = found.kept.is_some();
        self.finish(row, found).await?;
        if row.role == Role::Review {
            // The export was the reviewer's to write in and is thrown away; what it saw is stored.
            let export = self.dirs().review(&row.id);
            if export.exists() {
                self.pool().discard(&export)?;
            }
            let _ = fs::remove_file(self.dirs().session(&row.id).join("tree.tar"));
        } else {
            // Only now: a server that dies before the transaction has to find them again.
            let session = self.dirs().session(&row.id);
            let _ = fs::remove_file(session.join(files::RESULT_BUNDLE));
            // One that was refused is the only copy: with it there, the worktree is never cleared.
            if kept {
                let _ = fs::remove_file(session.join(files::RESCUE_BUNDLE));
            }
        }
        Ok(())
    }

    /// A runner that vanished without a word.
    pub(crate) async fn settle_lost(&self, row: &SessionRow) -> Result<()> {
        if !self.nothing_lives(row)? {
            return Ok(());
        }
        let stopped = self.dirs().session(&row.id).join(files::STOP).exists();
        let mut found = if stopped {
            Found::plain(Outcome::Stopped, "It was asked to stop, and its runner vanished.".into())
        } else {
            Found::plain(
                Outcome::Lost,
                "The runner vanished: it was killed, or the machine went down.".into(),
            )
        };
        let status = read_json::<RunStatus>(&self.dirs().session(&row.id).join(files::STATUS));
        found.prepared = self.agent_ran(row) || status.is_some_and(|status| status.agent_pid != 0);
        self.finish(row, found).await
    }

    /// Its agent came through the wall, so its worktree holds work. A runner that is at its checks or snapshots has no
    /// agent any more: only the proof says it then.
    fn agent_ran(&self, row: &SessionRow) -> bool {
        fs::symlink_metadata(self.dirs().session(&row.id).join(files::PROOF)).is_ok()
    }

    /// Kills what is left of a session. The slot is free only when nothing is: otherwise the poller looks again.
    fn nothing_lives(&self, row: &SessionRow) -> Result<bool> {
        if self.kill_leftovers(row) > 0 {
            self.poll_wake().notify_one();
            return Ok(false);
        }
        self.close_place(row)?;
        self.take_login_back(row)?;
        Ok(true)
    }

    /// Takes the launch record away from a runner that may still come: a window can open long after we gave up.
    /// One that waits for its record leaves at once.
    async fn call_off(&self, row: &SessionRow) -> Result<bool> {
        let dir = self.dirs().session(&row.id);
        let mark = dir.join(files::CALLED_OFF);
        match fs::rename(dir.join(files::SPEC), &mark) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                fs::create_dir_all(&dir)?;
                crate::data_dir::mode(&dir, 0o700)?;
                fs::File::create(mark)?;
            }
            Err(error) => return Err(error.into()),
        }
        let deadline = Instant::now() + LEAVES;
        while runner(&dir) != Runner::Free && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(runner(&dir) == Runner::Free && self.nothing_lives(row)?)
    }

    /// Nothing of it ever ran.
    pub(crate) async fn settle_never_ran(&self, id: &SessionId, why: &str) -> Result<()> {
        match self.store().session_row(id).await? {
            Some(row) if !self.call_off(&row).await? => Ok(()),
            Some(row) => self.finish(&row, Found::plain(Outcome::NeverRan, why.to_owned())).await,
            None => Ok(()),
        }
    }

    /// A stop that came before the runner.
    pub(crate) async fn settle_stopped_before_start(&self, row: &SessionRow) -> Result<()> {
        if !self.call_off(row).await? {
            return Ok(());
        }
        self.finish(row, Found::plain(Outcome::Stopped, "It was stopped before it started.".into())).await
    }
}
