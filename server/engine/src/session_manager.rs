//! Launching and stopping sessions. A launch needs a permit, and only a claim gives one.

mod login;
mod probe;
mod spec;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use opkit_domain::ids::SessionId;
use opkit_domain::session::{Identity, Outcome, Role, RunSpec, StopRequest, files};
use sha2::{Digest, Sha256};

pub(crate) use probe::{Runner, began, runner};
pub(crate) use spec::TAKE_BRANCH;

use crate::data_dir::{give, mode, own_dir, write_atomically, write_quickly};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::state_poller::read_json;
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
        self.make_place(&row, &objective, &repo).await?;
        // Two at a time from here: a burst of starts would only slow each of them down.
        let turn = self.start_turns().acquire().await.map_err(|closed| Error::Internal(closed.into()))?;
        let dir = self.dirs().session(id);
        let socket = self.dirs().tmux_socket(&row.account);
        let argv: [&OsStr; 3] = [self.runner().as_os_str(), OsStr::new("run"), dir.as_os_str()];
        let mut opening = std::pin::pin!(self.tmux().open(&socket, objective.id, &argv));
        // tmux and the runner take as long to begin as the launch record takes to be written: the runner waits for it.
        let record = self.write_record(&row, &objective, &repo);
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

    /// What can take long: directories of the session and its objective, each with its owner, a checkout, an export.
    /// Nothing of the session runs yet: whatever the place holds is handed over first, and only then its door is
    /// opened for the session's slot.
    async fn make_place(&self, row: &SessionRow, objective: &Objective, repo: &RepoRow) -> Result<()> {
        let session = self.dirs().session(&row.id);
        fs::create_dir_all(&session)?;
        mode(&session, 0o700)?;
        let recorded = keep_whole(&session.join(files::SPEC))?;
        // Of a launch that failed, and whose end could not be stored either.
        let called_off = session.join(files::CALLED_OFF);
        if called_off.exists() {
            fs::remove_file(called_off)?;
        }
        let policy = self.dirs().policy(&row.id);
        fs::create_dir_all(&policy)?;
        mode(&policy, 0o755)?;
        let (place, leafs) = self.leafs(row, objective);
        fs::create_dir_all(&place)?;
        self.shut(&place)?;
        let identity = self.identity_of(row)?;
        if row.role != Role::Review && !objective.worktree_ready && !recorded {
            self.fresh_worktree(objective, repo, identity.as_ref()).await?;
        }
        let before = if identity.is_some() { self.known_users().await? } else { vec![] };
        tokio::task::spawn_blocking({
            let leafs = leafs.clone();
            move || leafs.iter().try_for_each(|leaf| own_dir(leaf, identity.as_ref(), &before))
        })
        .await
        .map_err(|error| Error::Internal(error.into()))??;
        match row.role {
            Role::Review if !recorded => self.prepare_review(row, objective, repo).await?,
            Role::Review => {}
            Role::Plan | Role::Work | Role::Delegate => self.open_for(&place.join("state"), row)?,
        }
        self.open_for(&place, row)
    }

    /// Clears what a start that failed left, and takes a checkout that was made ahead. Without one the session makes
    /// its own.
    async fn fresh_worktree(
        &self,
        objective: &Objective,
        repo: &RepoRow,
        identity: Option<&Identity>,
    ) -> Result<()> {
        let worktree = self.dirs().worktree(objective.id);
        if worktree.exists() {
            self.pool().discard(&worktree)?;
        }
        let base = objective.head_commit.as_deref().or(objective.base_commit.as_deref()).unwrap_or_default();
        self.take_checkout(repo, base, identity, &worktree).await?;
        Ok(())
    }

    /// The place of a session, and the directories in it that its user owns.
    fn leafs(&self, row: &SessionRow, objective: &Objective) -> (PathBuf, Vec<PathBuf>) {
        if row.role == Role::Review {
            let review = self.dirs().review(&row.id);
            let mut leafs = ["tree", "out", "home"].map(|name| review.join(name)).to_vec();
            leafs.extend(self.floor_places(row));
            return (review, leafs);
        }
        let leafs = vec![
            self.dirs().worktree(objective.id),
            self.dirs().memory(objective.id),
            self.dirs().scratch(objective.id),
            self.dirs().state(objective.id, row.role),
        ];
        (self.dirs().work(objective.id), leafs)
    }

    /// Users whose files may stand in a worktree: everybody that sessions run as.
    async fn known_users(&self) -> Result<Vec<u32>> {
        let mut known: Vec<u32> = self.identity().map(|identity| identity.uid).into_iter().collect();
        let users = crate::os_users::uids()?;
        known.extend(self.store().os_users().await?.iter().filter_map(|name| users.get(name)));
        // Checkouts made ahead belong to the service.
        known.push(rustix::process::geteuid().as_raw());
        Ok(known)
    }

    /// Lets a session, and nobody else, pass through a directory of the service.
    fn open_for(&self, dir: &Path, row: &SessionRow) -> Result<()> {
        match self.slot_group(row.slot) {
            Some(group) => {
                std::os::unix::fs::lchown(dir, None, Some(group))?;
                mode(dir, 0o710)
            }
            None => mode(dir, 0o700),
        }
    }

    /// Closes a directory to everybody but the service.
    fn shut(&self, dir: &Path) -> Result<()> {
        mode(dir, 0o700)?;
        match self.has_slots() {
            true => Ok(std::os::unix::fs::lchown(dir, None, Some(0))?),
            false => Ok(()),
        }
    }

    /// Closes an objective's place once nothing of its session is alive.
    pub(crate) fn close_place(&self, row: &SessionRow) -> Result<()> {
        let place = match row.role {
            Role::Review => self.dirs().review(&row.id),
            Role::Plan | Role::Work | Role::Delegate => self.dirs().work(row.objective),
        };
        if place.exists() { self.shut(&place) } else { Ok(()) }
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

/// Whether a launch record is there. A power cut can leave an empty or a torn one: it goes before a window opens,
/// because a runner takes what it finds.
fn keep_whole(record: &Path) -> Result<bool> {
    let whole = read_json::<RunSpec>(record).is_some();
    if !whole && record.exists() {
        fs::remove_file(record)?;
    }
    Ok(whole)
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects")]
mod tests {
    use super::*;

    #[test]
    fn what_a_power_cut_left_of_a_launch_record_is_gone_before_a_runner_looks() {
        let dir = tempfile::tempdir().unwrap();
        let record = dir.path().join(files::SPEC);
        assert!(!keep_whole(&record).unwrap());
        for torn in ["", "{\"session\":"] {
            fs::write(&record, torn).unwrap();
            assert!(!keep_whole(&record).unwrap());
            assert!(!record.exists(), "{torn:?} is left for the runner");
        }
    }
}
