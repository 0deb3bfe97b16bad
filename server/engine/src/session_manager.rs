//! Launching and stopping sessions. A launch needs a permit, and only a claim gives one.

mod probe;
mod spec;

use std::ffi::OsStr;
use std::fs;

use opkit_domain::ids::SessionId;
use opkit_domain::session::{Outcome, Role, StopRequest, files};
use sha2::{Digest, Sha256};

pub(crate) use probe::{Runner, kill_leftovers, runner};
pub(crate) use spec::TAKE_BRANCH;

use crate::data_dir::{give, mode, own_dir, write_atomically};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::store::objectives::Objective;
use crate::store::sessions::{SessionRow, mark_stopping};

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
        let objective = self.store().objective(row.scope, row.objective).await?;
        self.make_directories(&row, &objective)?;
        let dir = self.dirs().session(id);
        if !dir.join(files::SPEC).exists() {
            let spec = self.build_spec(&row, &objective).await?;
            write_atomically(&dir.join(files::SPEC), &serde_json::to_vec_pretty(&spec)?, 0o600)?;
        }
        let socket = self.dirs().tmux_socket(&row.account);
        let argv: [&OsStr; 3] = [self.runner().as_os_str(), OsStr::new("run"), dir.as_os_str()];
        let window = self.tmux().open(&socket, objective.id, &argv).await?;
        tracing::info!(session.id = %id, objective.id = %objective.id, account = row.account, window, "session launched");
        Ok(())
    }

    /// Directories of the session and its objective, each with its owner.
    fn make_directories(&self, row: &SessionRow, objective: &Objective) -> Result<()> {
        let identity = self.identity();
        let session = self.dirs().session(&row.id);
        fs::create_dir_all(&session)?;
        mode(&session, 0o700)?;
        let policy = self.dirs().policy(&row.id);
        fs::create_dir_all(&policy)?;
        mode(&policy, 0o755)?;
        if row.role == Role::Review {
            let review = self.dirs().review(&row.id);
            fs::create_dir_all(&review)?;
            mode(&review, 0o711)?;
            for name in ["tree", "out", "home"] {
                own_dir(&review.join(name), identity)?;
            }
            return Ok(());
        }
        let work = self.dirs().work(objective.id);
        fs::create_dir_all(work.join("state"))?;
        mode(&work, 0o711)?;
        mode(&work.join("state"), 0o711)?;
        for dir in [
            self.dirs().worktree(objective.id),
            self.dirs().memory(objective.id),
            self.dirs().scratch(objective.id),
            self.dirs().state(objective.id, row.role),
        ] {
            own_dir(&dir, identity)?;
        }
        Ok(())
    }

    /// Asks a session to end: the request is a file, so that it survives every restart.
    pub(crate) async fn ask_to_stop(&self, id: &SessionId, outcome: Outcome, by: &str) -> Result<()> {
        let mut tx = self.store().begin().await?;
        mark_stopping(&mut tx, id).await?;
        tx.commit().await?;
        let dir = self.dirs().session(id);
        fs::create_dir_all(&dir)?;
        mode(&dir, 0o700)?;
        let stop = dir.join(files::STOP);
        if !stop.exists() {
            let request = StopRequest { outcome, by: by.to_owned() };
            write_atomically(&stop, &serde_json::to_vec(&request)?, 0o600)?;
        }
        self.feed_wake().notify_one();
        self.poll_wake().notify_one();
        Ok(())
    }
}

/// Hands a freshly written file to the agents' user.
pub(crate) fn hand_over(engine: &Engine, path: &std::path::Path, bytes: &[u8], bits: u32) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    // The directory is the agent's own: never follow what it may have put there.
    let _ = fs::remove_file(path);
    let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(bits).open(path)?;
    file.write_all(bytes)?;
    give(path, engine.identity())
}
