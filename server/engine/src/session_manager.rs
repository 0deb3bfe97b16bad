//! Launching and stopping sessions. A launch needs a permit, and only a claim gives one.

mod floor;
mod login;
mod place;
mod policy;
mod probe;
mod spec;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use opkit_domain::ids::SessionId;
use opkit_domain::session::{Identity, Outcome, StopRequest, files};
use sha2::{Digest, Sha256};

pub(crate) use probe::{Runner, began, runner};
pub(crate) use spec::TAKE_BRANCH;

use crate::data_dir::{give, mode, write_atomically, write_quickly};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::store::objectives::Objective;
use crate::store::repositories::RepoRow;
use crate::store::sessions::{SessionRow, mark_stopping};

/// A start that takes longer than this waits on, and lets the next one begin.
const START_TURN: std::time::Duration = std::time::Duration::from_secs(1);

/// Proof that a claim took slot, account and objective for this session.
#[derive(Debug)]
pub(crate) struct LaunchPermit {
    session: SessionId,
}

impl LaunchPermit {
    /// Given by the claim's transaction.
    pub(crate) fn of_claim(session: SessionId) -> LaunchPermit {
        LaunchPermit { session }
    }

    /// Given again by the poller for a session that was claimed and never got its runner.
    pub(crate) fn again(row: &SessionRow) -> LaunchPermit {
        LaunchPermit { session: row.id.clone() }
    }
}

/// What is stored of a session's token.
pub(crate) fn token_hash(token: &str) -> String {
    hex::encode(Sha256::digest(token.as_bytes()))
}

impl Engine {
    /// A session's token: derived from a secret of the installation, so that a second launch gets the same.
    pub(crate) fn session_token(&self, id: &SessionId) -> Result<String> {
        let file = self.dirs().root.join("keys/session-secret");
        let secret = match fs::read(&file) {
            Ok(secret) => secret,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let mut secret = [0u8; 32];
                rand::fill(&mut secret);
                write_atomically(&file, &secret, 0o600)?;
                secret.to_vec()
            }
            Err(error) => return Err(error.into()),
        };
        let mut hash = Sha256::new();
        hash.update(&secret);
        hash.update(id.as_str().as_bytes());
        hash.update(&secret);
        Ok(hex::encode(hash.finalize()))
    }

    /// Starts a claimed session. A failure ends it as `never_ran`; its counter bounds the tries.
    pub(crate) async fn launch(&self, permit: LaunchPermit) {
        let id = permit.session;
        if !self.launching(&id) {
            return;
        }
        let result = self.launch_inner(&id).await;
        self.launched(&id);
        self.feed_wake().notify_one();
        self.pool().go_on();
        if let Err(error) = result {
            let sentence = match &error {
                Error::Internal(inner) => {
                    tracing::error!(session.id = %id, error = format!("{inner:#}"), "a session could not be started");
                    "The session could not be started; the server's log says why.".to_owned()
                }
                Error::NotFound(_)
                | Error::Refused(_)
                | Error::Conflict(_)
                | Error::BadInput(_)
                | Error::Forbidden(_) => error.to_string(),
            };
            if let Err(error) = self.settle_never_ran(&id, &sentence).await {
                tracing::error!(session.id = %id, %error, "a failed start could not be stored");
            }
        }
        self.poll_wake().notify_one();
    }

    async fn launch_inner(&self, id: &SessionId) -> Result<()> {
        let Some(row) = self.store().session_row(id).await? else { return Ok(()) };
        // Set after the claim, by hand or by stop-all: it holds back what has not begun.
        if crate::kill_switch::reason(&self.dirs().kill_switch()).is_some() {
            return self.settle_stopped_before_start(&row).await;
        }
        let mut objective = self.store().objective(row.scope, row.objective).await?;
        // Somebody may have removed it by hand since housekeeping looked.
        objective.worktree_ready &= self.worktree_stands(objective.id);
        let repo = self.repo_row(row.scope, objective.repo).await?;
        let mut plan = self.plan_place(&row, &objective, &repo)?;
        let quick = plan.is_quick;
        if !quick {
            self.make_place(&row, &objective, &repo, &mut plan).await?;
        }
        // Two at a time from here: a burst of starts would only slow each of them down.
        let turn = self.start_turns().acquire().await.map_err(|closed| Error::Internal(closed.into()))?;
        let dir = self.dirs().session(id);
        let socket = self.dirs().tmux_socket(&row.account);
        let argv: [&OsStr; 3] = [self.runner().as_os_str(), OsStr::new("run"), dir.as_os_str()];
        let mut opening = std::pin::pin!(self.tmux().open(&socket, objective.id, &argv));
        // tmux and the runner take as long to begin as the launch record takes to be written: the runner waits for it.
        let record = async {
            if quick {
                self.make_place(&row, &objective, &repo, &mut plan).await?;
            }
            self.write_record(&row, &objective, &repo).await
        };
        let (written, opened) = tokio::join!(record, tokio::time::timeout(START_TURN, &mut opening));
        // Whoever settles this calls it off: a runner that waits, or comes late, leaves.
        written?;
        let window = match opened {
            Ok(window) => window?,
            // A tmux server that hangs holds up its own account only.
            Err(_) => {
                drop(turn);
                opening.await?
            }
        };
        tracing::info!(session.id = %id, objective.id = %objective.id, account = row.account, window, "session launched");
        Ok(())
    }

    /// The launch record. One that is there is kept, so that launching twice is the same launch.
    async fn write_record(&self, row: &SessionRow, objective: &Objective, repo: &RepoRow) -> Result<()> {
        let file = self.dirs().session(&row.id).join(files::SPEC);
        if file.exists() {
            return Ok(());
        }
        let spec = self.build_spec(row, objective, repo).await?;
        write_quickly(&file, &serde_json::to_vec_pretty(&spec)?, 0o600)
    }

    /// Asks a session to end.
    pub(crate) async fn ask_to_stop(&self, id: &SessionId, outcome: Outcome, by: &str) -> Result<()> {
        // The request first: it ends the session even when the database cannot be written.
        self.write_stop(id, outcome, by)?;
        if let Err(error) = self.note_stopping(id).await {
            // The session ends all the same; its row follows when it is settled.
            tracing::warn!(session.id = %id, %error, "a session that was asked to end is not noted yet");
        }
        self.feed_wake().notify_one();
        Ok(())
    }

    async fn note_stopping(&self, id: &SessionId) -> Result<()> {
        let mut tx = self.store().begin().await?;
        mark_stopping(&mut tx, id).await?;
        Ok(tx.commit().await?)
    }

    /// The request to end is a file, so that it survives every restart.
    pub(crate) fn write_stop(&self, id: &SessionId, outcome: Outcome, by: &str) -> Result<()> {
        let dir = self.dirs().session(id);
        fs::create_dir_all(&dir)?;
        mode(&dir, 0o700)?;
        let stop = dir.join(files::STOP);
        if !stop.exists() {
            let request = StopRequest { outcome, by: by.to_owned() };
            let written = write_atomically(&stop, &serde_json::to_vec(&request)?, 0o600);
            // A full disk often still has room for a name, and an empty request is one.
            if written.is_err() && fs::File::create(&stop).is_err() {
                return written;
            }
        }
        self.poll_wake().notify_one();
        Ok(())
    }
}

/// Writes a file that belongs to a session's user.
pub(crate) fn give_file(path: &Path, bytes: &[u8], bits: u32, identity: Option<&Identity>) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    // The directory is the agent's own: never follow what it may have put there.
    crate::housekeeping::remove_tree(path)?;
    let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(bits).open(path)?;
    file.write_all(bytes)?;
    give(path, identity)
}
