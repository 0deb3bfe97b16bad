//! The task that makes checkouts ahead: one at a time, behind everything that people wait for.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use opkit_domain::account_pool::{Wish, choose};
use opkit_domain::ids::RepositoryId;
use opkit_domain::session::Identity;

use super::checkout::Pace;
use super::{DEFAULT_SIZE, Mark, Place, own_uid};
use crate::engine::Engine;
use crate::error::Result;
use crate::housekeeping::{at_leisure, blocks, remove_tree};
use crate::store::repositories::RepoRow;

/// Somebody always wakes it; this is for what nobody thought of.
const PERIOD: Duration = Duration::from_secs(600);
/// How often a refill looks whether the starts before it are done.
const QUIET: Duration = Duration::from_millis(200);
/// A repository whose checkout failed is tried again after this.
const AFTER_FAILURE: Duration = Duration::from_secs(60);

/// Sets the refill task going.
pub(crate) fn spawn(engine: Engine) {
    tokio::spawn(async move {
        while !engine.draining() {
            // What starts goes first, whole: git beside it would cost it more than a later refill costs anybody.
            while engine.something_starts() {
                tokio::time::sleep(QUIET).await;
            }
            let fine = match engine.refill().await {
                Ok(()) => {
                    engine.tasks().ok("warm pool");
                    true
                }
                Err(error) => {
                    engine.tasks().failed("warm pool", &error);
                    false
                }
            };
            let pause = if fine { PERIOD } else { AFTER_FAILURE };
            if tokio::time::timeout(pause, engine.pool().wake.notified()).await.is_err() {
                engine.pool().look();
            }
        }
    });
}

/// What one look at a repository did.
enum Did {
    Something,
    Nothing,
}

impl Engine {
    async fn refill(&self) -> Result<()> {
        self.bury().await?;
        let repos = self.store().all_repos().await?;
        self.forget_others(&repos)?;
        self.tmux_ahead(&repos).await?;
        let mut failed = None;
        let wanted = self.pool().wanted().replace(HashSet::new());
        let is_wanted = |repo: &&RepoRow| wanted.as_ref().is_none_or(|some| some.contains(&repo.id()));
        for repo in repos.iter().filter(is_wanted) {
            loop {
                match self.refill_one(repo).await {
                    Ok(Did::Something) => {}
                    Ok(Did::Nothing) => break,
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Deletes what was thrown away.
    async fn bury(&self) -> Result<()> {
        loop {
            let Some(dir) = self.pool().dead().pop() else { return Ok(()) };
            at_leisure(move || remove_tree(&dir)).await??;
        }
    }

    /// Entries of repositories that are registered no more.
    fn forget_others(&self, repos: &[RepoRow]) -> Result<()> {
        let known = |id: &RepositoryId| repos.iter().any(|repo| repo.id() == *id);
        let others: Vec<RepositoryId> =
            self.pool().shelves().keys().filter(|id| !known(id)).copied().collect();
        for id in others {
            while let Some(entry) = self.pool().take_by(id, |_| Some(())) {
                self.pool().discard(&entry.dir)?;
            }
        }
        Ok(())
    }

    /// How many checkouts of a repository are made ahead.
    pub(crate) async fn pool_size(&self, repo: &RepoRow) -> Result<u32> {
        let size = match repo.pool {
            Some(size) => size,
            None => self.store().number("warm_pool").await?.unwrap_or(i64::from(DEFAULT_SIZE)),
        };
        Ok(u32::try_from(size).unwrap_or(0).min(super::LARGEST))
    }

    async fn refill_one(&self, repo: &RepoRow) -> Result<Did> {
        if self.draining() || self.pool().somebody_waits() || self.something_starts() {
            self.pool().mark(repo.id());
            return Ok(Did::Nothing);
        }
        let base = format!("refs/heads/{}", repo.base);
        let Some(commit) = self.commit_of(&self.dirs().mirror(repo.id()), &base).await? else {
            return Ok(Did::Nothing);
        };
        self.note_base(repo.id(), &commit).await?;
        let (size, have) = (self.pool_size(repo).await?, self.pool().ready(repo.id()));
        if have > size || (have > 0 && !self.room_in_pool(0)) {
            if let Some(entry) = self.pool().take_by(repo.id(), |_| Some(())) {
                self.pool().discard(&entry.dir)?;
            }
            return Ok(Did::Something);
        }
        if have < size {
            let one = self.pool().shelves().get(&repo.id()).map_or(0, |shelf| shelf.bytes);
            if !self.room_in_pool(one) {
                return Ok(Did::Nothing);
            }
            return self.giving_way(repo, self.make_ahead(repo, &commit, size)).await;
        }
        let is_stale = |mark: &Mark| (mark.commit != commit).then_some(());
        match self.pool().take_by(repo.id(), is_stale) {
            Some(entry) => self.giving_way(repo, self.refresh(repo, entry.dir, entry.mark, &commit)).await,
            None => self.hand_on(repo, size).await,
        }
    }

    /// Gives an entry that none of the next starts can take as it is to the user of one that can.
    async fn hand_on(&self, repo: &RepoRow, size: u32) -> Result<Did> {
        let wanted = self.users_in_turn(size).await?;
        let (Some(to), Some(from)) = compare(&self.pool().owners(repo.id()), &wanted) else {
            return Ok(Did::Nothing);
        };
        let of_this_user = |mark: &Mark| (mark.uid == from).then_some(());
        let Some(entry) = self.pool().take_by(repo.id(), of_this_user) else { return Ok(Did::Nothing) };
        let identity = self.plain_identity(to);
        let mut place = Place { dir: entry.dir, kept: false };
        super::checkout::give_tree(&place.dir, entry.mark.uid, identity.as_ref()).await?;
        self.pool().put(repo.id(), &place.dir, Mark { uid: to, ..entry.mark })?;
        place.kept = true;
        Ok(Did::Something)
    }

    fn plain_identity(&self, uid: u32) -> Option<Identity> {
        self.identity().map(|agent| Identity { uid, gid: agent.gid, groups: vec![] })
    }

    /// Drops the work, and with it git, as soon as a start waits for a checkout.
    async fn giving_way(&self, repo: &RepoRow, work: impl Future<Output = Result<()>>) -> Result<Did> {
        let mut hurry = std::pin::pin!(self.pool().hurry.notified());
        hurry.as_mut().enable();
        if !self.pool().somebody_waits() {
            tokio::select! {
                done = work => return done.map(|()| Did::Something),
                () = hurry => {}
            }
        }
        self.pool().mark(repo.id());
        Ok(Did::Nothing)
    }

    async fn make_ahead(&self, repo: &RepoRow, commit: &str, size: u32) -> Result<()> {
        let wanted = self.users_in_turn(size).await?;
        let next = compare(&self.pool().owners(repo.id()), &wanted).0;
        let identity = match next {
            Some(uid) => self.plain_identity(uid),
            None => self.identity().cloned(),
        };
        let mut place = self.pool().place(repo.id())?;
        self.make_checkout(&place.dir, repo, commit, identity.as_ref(), Pace::Ahead).await?;
        self.shelve(repo, &mut place, commit, identity.as_ref()).await
    }

    async fn refresh(&self, repo: &RepoRow, dir: PathBuf, mark: Mark, commit: &str) -> Result<()> {
        let mut place = Place { dir, kept: false };
        let identity = self.plain_identity(mark.uid);
        self.refresh_checkout(&place.dir, mark.uid, commit, identity.as_ref()).await?;
        self.shelve(repo, &mut place, commit, identity.as_ref()).await
    }

    async fn shelve(
        &self,
        repo: &RepoRow,
        place: &mut Place,
        commit: &str,
        identity: Option<&Identity>,
    ) -> Result<()> {
        let dir = place.dir.clone();
        let bytes = at_leisure(move || blocks(&dir)).await?;
        let uid = identity.map_or_else(own_uid, |identity| identity.uid);
        let mark = Mark { commit: commit.to_owned(), uid, bytes, boot: self.pool().boot.clone() };
        self.pool().put(repo.id(), &place.dir, mark)?;
        place.kept = true;
        tracing::info!(repository = repo.name, commit, "a checkout was made ahead");
        Ok(())
    }

    /// Starts the tmux servers of accounts whose turn is next: the first start on an account is as quick as others.
    async fn tmux_ahead(&self, repos: &[RepoRow]) -> Result<()> {
        let mut most = 0;
        for repo in repos {
            most = most.max(self.pool_size(repo).await?);
        }
        let accounts: BTreeSet<String> =
            self.in_turn(most).await?.into_iter().map(|(account, _)| account).collect();
        for account in accounts {
            let is_off = crate::kill_switch::reason(&self.dirs().kill_switch()).is_some();
            if is_off || self.draining() || self.something_starts() {
                break;
            }
            if let Err(error) = self.tmux().start_ahead(&self.dirs().tmux_socket(&account)).await {
                // The next start on it fails with the same sentence, where somebody reads it.
                tracing::warn!(account, %error, "no tmux server was started ahead");
            }
        }
        Ok(())
    }

    /// Whom the next starts will run as. Empty when everything runs as the service's own user.
    async fn users_in_turn(&self, count: u32) -> Result<Vec<u32>> {
        Ok(self.in_turn(count).await?.into_iter().filter_map(|(_, uid)| uid).collect())
    }

    /// The accounts of the next starts, by the rule of claims, if nothing ends meanwhile, and whom each runs as:
    /// nobody where everything runs as the service's own user.
    async fn in_turn(&self, count: u32) -> Result<Vec<(String, Option<u32>)>> {
        let agent = self.identity().map(|agent| agent.uid);
        let users = crate::os_users::uids()?;
        let (mut loads, mut uids) = (Vec::new(), HashMap::new());
        for (load, user) in self.store().loads().await? {
            let uid = match user.filter(|_| agent.is_some()) {
                None => agent,
                Some(name) => match users.get(&name) {
                    Some(uid) => Some(*uid),
                    None => continue,
                },
            };
            uids.insert(load.name.clone(), uid);
            loads.push(load);
        }
        let mut turns = Vec::new();
        for _ in 0..count {
            if choose(self.account_policy(), &loads, Wish::None).is_none() {
                // All are full or rest: for when they are not.
                loads.iter_mut().for_each(|load| (load.available, load.live) = (true, 0));
            }
            let Some(name) = choose(self.account_policy(), &loads, Wish::None).map(|load| load.name.clone())
            else {
                break;
            };
            loads.iter_mut().filter(|load| load.name == name).for_each(|load| load.live += 1);
            let uid = uids.get(&name).copied().flatten();
            turns.push((name, uid));
        }
        Ok(turns)
    }

    /// Disk floor and budget leave room for so many bytes more.
    fn room_in_pool(&self, more: u64) -> bool {
        if self.disk_is_low() {
            return false;
        }
        let shelves = self.pool().shelves();
        let all: u64 = shelves.values().flat_map(|shelf| &shelf.ready).map(|entry| entry.mark.bytes).sum();
        // The pool is counted as it is now, the rest as it was when somebody last looked.
        self.disk_known().is_none_or(|disk| disk.counted() - disk.pool + all + more <= disk.budget)
    }
}

/// Compares the owners of what is ready with the users of the next starts: the first user who finds nothing of their
/// own, and an owner whose entry nobody will take.
fn compare(ready: &[u32], wanted: &[u32]) -> (Option<u32>, Option<u32>) {
    let mut left = ready.to_vec();
    let mut missing = None;
    for uid in wanted {
        match left.iter().position(|owner| owner == uid) {
            Some(at) => drop(left.swap_remove(at)),
            None => missing = missing.or(Some(*uid)),
        }
    }
    (missing, left.first().copied())
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn entries_are_matched_with_the_next_users() {
        assert_eq!(compare(&[], &[1, 2]), (Some(1), None));
        assert_eq!(compare(&[2, 1], &[1, 2]), (None, None));
        assert_eq!(compare(&[1, 1], &[1, 2]), (Some(2), Some(1)));
        assert_eq!(compare(&[3], &[]), (None, Some(3)));
    }
}
