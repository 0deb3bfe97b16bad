//! The task that makes checkouts ahead: one at a time, behind everything that people wait for.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

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
/// A repository whose checkout failed is tried again after this.
const AFTER_FAILURE: Duration = Duration::from_secs(60);

/// Sets the refill task going.
pub(crate) fn spawn(engine: Engine) {
    tokio::spawn(async move {
        while !engine.draining() {
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
        if self.draining() || self.pool().somebody_waits() {
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
            return self.giving_way(repo, self.make_ahead(repo, &commit)).await;
        }
        let is_stale = |mark: &Mark| (mark.commit != commit).then_some(());
        match self.pool().take_by(repo.id(), is_stale) {
            Some(entry) => self.giving_way(repo, self.refresh(repo, entry.dir, entry.mark, &commit)).await,
            None => Ok(Did::Nothing),
        }
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

    async fn make_ahead(&self, repo: &RepoRow, commit: &str) -> Result<()> {
        let identity = self.next_user(repo.id()).await?;
        let mut place = self.pool().place(repo.id())?;
        self.make_checkout(&place.dir, repo, commit, identity.as_ref(), Pace::Ahead).await?;
        self.shelve(repo, &mut place, commit, identity.as_ref()).await
    }

    async fn refresh(&self, repo: &RepoRow, dir: PathBuf, mark: Mark, commit: &str) -> Result<()> {
        let mut place = Place { dir, kept: false };
        let identity = match self.identity() {
            Some(agent) => Some(Identity { uid: mark.uid, gid: agent.gid, groups: vec![] }),
            None => None,
        };
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

    /// The user with the fewest entries, of those that sessions will run as.
    async fn next_user(&self, id: RepositoryId) -> Result<Option<Identity>> {
        let Some(agent) = self.identity() else { return Ok(None) };
        let mut users = Vec::new();
        for name in self.store().users_to_come().await? {
            match name {
                None => users.push(agent.uid),
                Some(name) => users.extend(crate::os_users::lookup(&name)?.map(|user| user.uid)),
            }
        }
        let shelves = self.pool().shelves();
        let count = |uid: u32| {
            shelves.get(&id).map_or(0, |shelf| shelf.ready.iter().filter(|e| e.mark.uid == uid).count())
        };
        let uid = users.into_iter().min_by_key(|uid| count(*uid)).unwrap_or(agent.uid);
        Ok(Some(Identity { uid, gid: agent.gid, groups: vec![] }))
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
