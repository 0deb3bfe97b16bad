//! The warm pool: checkouts made ahead of time, so that a start is a rename.
//!
//! An entry is the service's until it is taken: nobody else can reach `<data>/pool`. Its files already belong to the
//! user who will work in it. What stands there without its marker, or from before the machine went down, is thrown
//! away. A start that finds nothing makes its own by the same code, one at a time a repository, and whatever is being
//! made ahead then gives way.

mod checkout;
mod refill;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use opkit_domain::ids::RepositoryId;
use opkit_domain::session::Identity;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::data_dir::{mode, write_atomically};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::store::repositories::RepoRow;

pub(crate) use refill::spawn;

/// Checkouts made ahead when nobody says otherwise.
pub(crate) const DEFAULT_SIZE: u32 = 2;
/// More than this is a mistake.
pub(crate) const LARGEST: u32 = 50;

/// What is ready, and who waits.
pub(crate) struct Pool {
    root: PathBuf,
    boot: String,
    shelves: Mutex<HashMap<RepositoryId, Shelf>>,
    /// Starts that wait for a checkout.
    waiting: AtomicU32,
    /// A start waits: what is made ahead gives way.
    hurry: Notify,
    /// Something was taken, or a base may have moved.
    wake: Notify,
    /// Where; none = everywhere.
    wanted: Mutex<Option<HashSet<RepositoryId>>>,
    /// What people should know of a base: the commit, and sentences.
    notes: Mutex<HashMap<RepositoryId, (String, Vec<String>)>>,
    /// Left half made by the process before; deleted when there is time.
    dead: Mutex<Vec<PathBuf>>,
}

#[derive(Default)]
struct Shelf {
    ready: Vec<Entry>,
    /// What the last one took.
    bytes: u64,
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// A checkout made ahead.
#[derive(Debug, Clone)]
struct Entry {
    dir: PathBuf,
    mark: Mark,
}

/// Stands beside a finished entry.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mark {
    /// The commit that is checked out.
    commit: String,
    /// Whose files they are.
    uid: u32,
    /// Bytes on the disk.
    bytes: u64,
    /// The machine's start that it was made in: files written before a power cut cannot be trusted.
    boot: String,
}

/// A start that waits for its checkout, for as long as it lives.
struct Waiting<'a>(&'a Pool);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.0.waiting.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.wake.notify_one();
        }
    }
}

impl Pool {
    /// Reads what an earlier process left ready.
    pub(crate) fn open(data: &Path) -> Result<Pool> {
        let root = data.join("pool");
        fs::create_dir_all(root.join("trash"))?;
        mode(&root, 0o700)?;
        let pool = Pool {
            root,
            boot: crate::clock::boot(),
            shelves: Mutex::default(),
            waiting: AtomicU32::new(0),
            hurry: Notify::new(),
            wake: Notify::new(),
            wanted: Mutex::new(None),
            notes: Mutex::default(),
            dead: Mutex::default(),
        };
        for entry in fs::read_dir(&pool.root)?.flatten() {
            if let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                pool.load(RepositoryId(id), &entry.path())?;
            }
        }
        pool.dead().extend(fs::read_dir(pool.root.join("trash"))?.flatten().map(|entry| entry.path()));
        Ok(pool)
    }

    fn load(&self, id: RepositoryId, dir: &Path) -> Result<()> {
        let mut ready = Vec::new();
        for entry in fs::read_dir(dir)?.flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "ready" || extension == "new") {
                if !path.with_extension("").is_dir() {
                    let _ = fs::remove_file(&path);
                }
                continue;
            }
            match self.marked(&path) {
                Some(mark) => ready.push(Entry { dir: path, mark }),
                None => {
                    let _ = fs::remove_file(marker(&path));
                    self.dead().push(path);
                }
            }
        }
        let mut shelves = self.shelves();
        let shelf = shelves.entry(id).or_default();
        shelf.bytes = ready.last().map_or(0, |entry: &Entry| entry.mark.bytes);
        shelf.ready = ready;
        Ok(())
    }

    fn marked(&self, dir: &Path) -> Option<Mark> {
        let mark: Mark = serde_json::from_slice(&fs::read(marker(dir)).ok()?).ok()?;
        (mark.boot == self.boot && dir.join(".git/HEAD").is_file()).then_some(mark)
    }

    fn shelves(&self) -> std::sync::MutexGuard<'_, HashMap<RepositoryId, Shelf>> {
        self.shelves.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn dead(&self) -> std::sync::MutexGuard<'_, Vec<PathBuf>> {
        self.dead.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// What people should know of each base.
    pub(crate) fn notes(&self) -> std::sync::MutexGuard<'_, HashMap<RepositoryId, (String, Vec<String>)>> {
        self.notes.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// How many are ready.
    pub(crate) fn ready(&self, id: RepositoryId) -> u32 {
        self.shelves().get(&id).map_or(0, |shelf| shelf.ready.len() as u32)
    }

    /// Whose files they are, of those that are ready.
    fn owners(&self, id: RepositoryId) -> Vec<u32> {
        self.shelves().get(&id).map_or(vec![], |shelf| shelf.ready.iter().map(|e| e.mark.uid).collect())
    }

    /// The refill task looks at what it put off.
    pub(crate) fn go_on(&self) {
        if self.wanted().as_ref().is_none_or(|some| !some.is_empty()) {
            self.wake.notify_one();
        }
    }

    /// The commit that new work starts from; the refill task looks soon if something is older.
    pub(crate) fn base_is(&self, id: RepositoryId, commit: &str) {
        let is_stale = |shelf: &Shelf| shelf.ready.iter().any(|entry| entry.mark.commit != commit);
        if self.shelves().get(&id).is_some_and(is_stale) {
            self.look_at(id);
        }
    }

    /// The refill task looks at everything soon.
    pub(crate) fn look(&self) {
        *self.wanted() = None;
        self.wake.notify_one();
    }

    /// The refill task looks at one repository soon.
    fn look_at(&self, id: RepositoryId) {
        self.mark(id);
        self.wake.notify_one();
    }

    /// The refill task looks at one repository when somebody wakes it.
    fn mark(&self, id: RepositoryId) {
        if let Some(some) = self.wanted().as_mut() {
            some.insert(id);
        }
    }

    fn wanted(&self) -> std::sync::MutexGuard<'_, Option<HashSet<RepositoryId>>> {
        self.wanted.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        self.hurry.notify_waiters();
        Waiting(self)
    }

    fn somebody_waits(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    async fn turn(&self, id: RepositoryId) -> tokio::sync::OwnedMutexGuard<()> {
        let turn = self.shelves().entry(id).or_default().turn.clone();
        turn.lock_owned().await
    }

    /// Takes the entry that costs least: same commit and user, same commit, same user, any.
    fn take(&self, id: RepositoryId, commit: &str, uid: u32) -> Option<Entry> {
        self.take_by(id, |mark| Some((mark.commit != commit, mark.uid != uid)))
    }

    fn take_by<K: Ord>(&self, id: RepositoryId, cost: impl Fn(&Mark) -> Option<K>) -> Option<Entry> {
        let entry = {
            let mut shelves = self.shelves();
            let ready = &mut shelves.get_mut(&id)?.ready;
            let costs = ready.iter().enumerate().filter_map(|(at, entry)| Some((cost(&entry.mark)?, at)));
            let (_, at) = costs.min()?;
            ready.swap_remove(at)
        };
        // First the marker: whatever happens from here on, the rest is not mistaken for a finished one.
        let _ = fs::remove_file(marker(&entry.dir));
        Some(entry)
    }

    /// Gives a finished checkout its name and its marker.
    fn put(&self, id: RepositoryId, dir: &Path, mark: Mark) -> Result<()> {
        let named = self.root.join(format!("{id}/{}", uuid::Uuid::new_v4().simple()));
        fs::rename(dir, &named)?;
        write_atomically(&marker(&named), &serde_json::to_vec(&mark)?, 0o600)?;
        let mut shelves = self.shelves();
        let shelf = shelves.entry(id).or_default();
        shelf.bytes = mark.bytes;
        shelf.ready.push(Entry { dir: named, mark });
        Ok(())
    }

    /// A place for a checkout that is being made.
    fn place(&self, id: RepositoryId) -> Result<Place> {
        let shelf = self.root.join(id.to_string());
        fs::create_dir_all(&shelf)?;
        Ok(Place { dir: shelf.join(format!("new-{}", uuid::Uuid::new_v4().simple())), kept: false })
    }

    /// Moves a directory out of everybody's way at once; it is deleted when there is time.
    pub(crate) fn discard(&self, dir: &Path) -> Result<()> {
        let bin = self.root.join(format!("trash/{}", uuid::Uuid::new_v4().simple()));
        // Moving a directory rewrites its `..`, which its own mode may forbid.
        if fs::symlink_metadata(dir)?.is_dir() {
            mode(dir, 0o700)?;
        }
        fs::rename(dir, &bin)?;
        self.dead().push(bin);
        self.wake.notify_one();
        Ok(())
    }
}

/// `<entry>.ready`: beside the checkout, never in it.
fn marker(dir: &Path) -> PathBuf {
    dir.with_extension("ready")
}

/// A checkout made ahead that a start has taken; deleted if it is not used.
pub(crate) struct Ahead {
    place: Place,
    mark: Mark,
    /// Commit and user are right already: nothing of it takes long.
    pub(crate) fits: bool,
}

/// A checkout that is being made; deleted if it is not kept.
struct Place {
    dir: PathBuf,
    kept: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.kept && self.dir.exists() {
            let dir = std::mem::take(&mut self.dir);
            std::thread::spawn(move || crate::housekeeping::remove_tree(&dir));
        }
    }
}

impl Engine {
    /// Takes a ready checkout for a start, the one that costs least.
    pub(crate) fn reserve_checkout(
        &self,
        repo: &RepoRow,
        commit: &str,
        identity: Option<&Identity>,
    ) -> Option<Ahead> {
        let uid = identity.map_or_else(own_uid, |identity| identity.uid);
        let Entry { dir, mark } = self.pool().take(repo.id(), commit, uid)?;
        // Used or not, it is missing from now on.
        self.pool().look_at(repo.id());
        Some(Ahead {
            fits: mark.commit == commit && mark.uid == uid,
            place: Place { dir, kept: false },
            mark,
        })
    }

    /// Moves a checkout onto `target`, an empty directory or none, and gives it to `identity`, closed for everybody
    /// else. It stands on the objective's branch at `commit`. Without one made ahead it makes one, in turn.
    pub(crate) async fn take_checkout(
        &self,
        repo: &RepoRow,
        commit: &str,
        identity: Option<&Identity>,
        ahead: Option<Ahead>,
        target: &Path,
    ) -> Result<()> {
        let branch = branch_of(target)?;
        if let Some(Ahead { mut place, mark, .. }) = ahead {
            match self.hand_out(&place.dir, &mark, commit, &branch, identity).await {
                Ok(()) => return settle_in(&mut place, target),
                Err(error) => {
                    tracing::warn!(%error, repository = repo.name, "a checkout made ahead could not be used");
                }
            }
        }
        self.pool().mark(repo.id());
        // The card is at work already, and a checkout takes seconds.
        self.feed_wake().notify_one();
        let _waiting = self.pool().wait();
        let _turn = self.pool().turn(repo.id()).await;
        let mut place = self.pool().place(repo.id())?;
        self.make_checkout(&place.dir, repo, commit, identity, checkout::Pace::Now).await?;
        checkout::put_on_branch(&place.dir, &branch, commit, identity)?;
        settle_in(&mut place, target)
    }

    /// Makes an entry what its taker needs: commit, branch, owner.
    async fn hand_out(
        &self,
        dir: &Path,
        mark: &Mark,
        commit: &str,
        branch: &str,
        identity: Option<&Identity>,
    ) -> Result<()> {
        if mark.commit != commit {
            self.switch_checkout(dir, commit, checkout::Pace::Now).await?;
        }
        if mark.commit != commit || identity.is_some_and(|identity| identity.uid != mark.uid) {
            checkout::give_tree(dir, mark.uid, identity).await?;
        }
        checkout::put_on_branch(dir, branch, commit, identity)
    }
}

fn settle_in(place: &mut Place, target: &Path) -> Result<()> {
    fs::rename(&place.dir, target)?;
    place.kept = true;
    Ok(())
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// `obj/42` for `…/cc-worktree-42`.
fn branch_of(target: &Path) -> Result<String> {
    let name = target.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name.strip_prefix("cc-worktree-").map(str::parse::<i64>) {
        Some(Ok(id)) => Ok(format!("obj/{id}")),
        _ => Err(Error::Internal(anyhow::anyhow!("{} is not a worktree's path", target.display()))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects")]
mod tests {
    use super::*;

    fn mark(pool: &Pool, commit: &str, uid: u32) -> Mark {
        Mark { commit: commit.into(), uid, bytes: 1, boot: pool.boot.clone() }
    }

    fn checkout(pool: &Pool, id: RepositoryId) -> PathBuf {
        let mut place = pool.place(id).unwrap();
        fs::create_dir_all(place.dir.join(".git")).unwrap();
        fs::write(place.dir.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        place.kept = true;
        place.dir.clone()
    }

    #[test]
    fn the_cheapest_is_taken_first_and_only_whole_ones_survive_a_restart() {
        let data = tempfile::tempdir().unwrap();
        let id = RepositoryId(7);
        let pool = Pool::open(data.path()).unwrap();
        for (commit, uid) in [("old", 1), ("new", 2), ("new", 1), ("old", 3)] {
            pool.put(id, &checkout(&pool, id), mark(&pool, commit, uid)).unwrap();
        }
        let other_boot = Mark { boot: "before the power cut".into(), ..mark(&pool, "new", 1) };
        pool.put(id, &checkout(&pool, id), other_boot).unwrap();
        let half = checkout(&pool, id);
        drop(pool);
        let pool = Pool::open(data.path()).unwrap();
        assert_eq!(pool.ready(id), 4);
        assert!(pool.dead().contains(&half) && pool.dead().len() == 2, "{:?}", pool.dead());
        let mut order = Vec::new();
        while let Some(entry) = pool.take(id, "new", 1) {
            assert!(!marker(&entry.dir).exists());
            order.push((entry.mark.commit, entry.mark.uid));
        }
        let first: Vec<(&str, u32)> = order.iter().take(3).map(|(c, u)| (c.as_str(), *u)).collect();
        assert_eq!(first, [("new", 1), ("new", 2), ("old", 1)]);
        assert_eq!(Pool::open(data.path()).unwrap().ready(id), 0);
    }

    #[test]
    fn what_is_discarded_is_gone_from_its_place_at_once() {
        let data = tempfile::tempdir().unwrap();
        let pool = Pool::open(data.path()).unwrap();
        let dir = data.path().join("work");
        fs::create_dir_all(dir.join("deep")).unwrap();
        mode(&dir, 0o500).unwrap();
        pool.discard(&dir).unwrap();
        assert!(!dir.exists() && pool.dead().len() == 1);
    }

    #[test]
    fn a_worktree_names_its_branch() {
        assert_eq!(branch_of(Path::new("/d/work/42/cc-worktree-42")).unwrap(), "obj/42");
        assert!(branch_of(Path::new("/d/work/42/scratch")).is_err());
    }
}
