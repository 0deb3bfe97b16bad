//! A session's place: directories with their owners, a checkout or an export, and doors that open for one slot.

use std::fs;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};

use opkit_domain::session::{Identity, Role, files};

use crate::data_dir::{mode, own_dir};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::pool::Ahead;
use crate::state_poller::read_json;
use crate::store::objectives::Objective;
use crate::store::repositories::RepoRow;
use crate::store::sessions::SessionRow;

/// What a session's place needs before the session can begin.
pub(super) struct PlacePlan {
    /// A launch record of an earlier launch is there.
    recorded: bool,
    identity: Option<Identity>,
    /// It needs a checkout of its own.
    fresh: bool,
    /// The one that was made ahead for it.
    ahead: Option<Ahead>,
    /// Nothing of it can take long: the window need not wait for it.
    pub(super) is_quick: bool,
}

/// The commit that work starts from.
fn base_of(objective: &Objective) -> &str {
    objective.head_commit.as_deref().or(objective.base_commit.as_deref()).unwrap_or_default()
}

/// The user who must become the owner of one of these directories; none when each is theirs or does not exist yet.
fn foreign<'a>(leafs: &[PathBuf], identity: Option<&'a Identity>) -> Option<&'a Identity> {
    let theirs = |leaf: &PathBuf, identity: &Identity| {
        fs::symlink_metadata(leaf).is_ok_and(|meta| meta.uid() != identity.uid)
    };
    identity.filter(|identity| leafs.iter().any(|leaf| theirs(leaf, identity)))
}

impl Engine {
    /// The session's own directory, without what an earlier launch left half done; and what its place still needs.
    pub(super) fn plan_place(
        &self,
        row: &SessionRow,
        objective: &Objective,
        repo: &RepoRow,
    ) -> Result<PlacePlan> {
        let session = self.dirs().session(&row.id);
        fs::create_dir_all(&session)?;
        mode(&session, 0o700)?;
        let recorded = keep_whole(&session.join(files::SPEC))?;
        // Of a launch that failed, and whose end could not be stored either.
        let called_off = session.join(files::CALLED_OFF);
        if called_off.exists() {
            fs::remove_file(called_off)?;
        }
        let identity = self.identity_of(row)?;
        let review = row.role == Role::Review;
        let fresh = !review && !objective.worktree_ready && !recorded;
        let ahead =
            if fresh { self.reserve_checkout(repo, base_of(objective), identity.as_ref()) } else { None };
        let is_quick = match &ahead {
            Some(ahead) => ahead.fits,
            None => !review && !fresh && foreign(&self.leafs(row, objective).1, identity.as_ref()).is_none(),
        };
        Ok(PlacePlan { recorded, identity, fresh, ahead, is_quick })
    }

    /// Directories of the session and its objective, each with its owner, a checkout, an export. Nothing of the
    /// session runs yet: whatever the place holds is handed over first, and only then its door is opened for the
    /// session's slot.
    pub(super) async fn make_place(
        &self,
        row: &SessionRow,
        objective: &Objective,
        repo: &RepoRow,
        plan: &mut PlacePlan,
    ) -> Result<()> {
        let policy = self.dirs().policy(&row.id);
        fs::create_dir_all(&policy)?;
        mode(&policy, 0o755)?;
        let (place, leafs) = self.leafs(row, objective);
        fs::create_dir_all(&place)?;
        self.shut(&place)?;
        if plan.fresh {
            self.fresh_worktree(objective, repo, plan.identity.as_ref(), plan.ahead.take()).await?;
        }
        if let Some(identity) = foreign(&leafs, plan.identity.as_ref()) {
            self.hand_over(leafs.clone(), identity.clone()).await?;
        }
        for leaf in &leafs {
            own_dir(leaf, plan.identity.as_ref())?;
        }
        match row.role {
            Role::Review if !plan.recorded => self.prepare_review(row, objective, repo).await?,
            Role::Review => {}
            Role::Plan | Role::Work | Role::Delegate => self.open_for(&place.join("state"), row)?,
        }
        self.open_for(&place, row)
    }

    /// Gives what other users' sessions left there to this one.
    async fn hand_over(&self, leafs: Vec<PathBuf>, identity: Identity) -> Result<()> {
        let known = self.known_users().await?;
        tokio::task::spawn_blocking(move || {
            let theirs = |leaf: &&PathBuf| foreign(std::slice::from_ref(*leaf), Some(&identity)).is_some();
            let mut leafs = leafs.iter().filter(theirs);
            leafs.try_for_each(|leaf| crate::hand_over::change_owner(leaf, &known, &identity))
        })
        .await
        .map_err(|error| Error::Internal(error.into()))?
    }

    /// Clears what a start that failed left, and takes a checkout that was made ahead. Without one the session makes
    /// its own.
    async fn fresh_worktree(
        &self,
        objective: &Objective,
        repo: &RepoRow,
        identity: Option<&Identity>,
        ahead: Option<Ahead>,
    ) -> Result<()> {
        let worktree = self.dirs().worktree(objective.id);
        if worktree.exists() {
            self.pool().discard(&worktree)?;
        }
        self.take_checkout(repo, base_of(objective), identity, ahead, &worktree).await
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
                lchown(dir, None, Some(group))?;
                mode(dir, 0o710)
            }
            None => mode(dir, 0o700),
        }
    }

    /// Closes a directory to everybody but the service.
    fn shut(&self, dir: &Path) -> Result<()> {
        mode(dir, 0o700)?;
        match self.has_slots() {
            true => Ok(lchown(dir, None, Some(0))?),
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
}

/// Whether a launch record is there. What was written before a power cut may be empty or torn, the record and whatever
/// it names: it is written again then, and goes before a window opens, because a runner takes what it finds.
fn keep_whole(record: &Path) -> Result<bool> {
    /// As much of the record as is needed here; reading it reads all of the file.
    #[derive(serde::Deserialize)]
    struct Written {
        #[serde(default)]
        boot: String,
    }
    let whole = read_json::<Written>(record).is_some_and(|written| written.boot == crate::clock::boot());
    if !whole && record.exists() {
        fs::remove_file(record)?;
    }
    Ok(whole)
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
        let now = format!("{{\"boot\":\"{}\"}}", crate::clock::boot());
        fs::write(&record, &now).unwrap();
        assert!(keep_whole(&record).unwrap() && record.exists(), "launching twice is the same launch");
        for torn in ["", "{\"session\":", "{\"boot\":\"before the power cut\"}"] {
            fs::write(&record, torn).unwrap();
            assert!(!keep_whole(&record).unwrap());
            assert!(!record.exists(), "{torn:?} is left for the runner");
        }
    }
}
