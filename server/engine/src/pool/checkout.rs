//! Making a checkout: a clone that borrows the mirror's objects, files of one commit, an owner, a branch.

use std::fs;
use std::path::Path;

use opkit_domain::session::Identity;

use super::own_uid;
use crate::data_dir::{give, mode};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::git::{Output, failure};
use crate::store::repositories::RepoRow;

/// Whether somebody waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// A start does.
    Now,
    /// Nobody does: whatever people do goes first.
    Ahead,
}

/// Settings of the checkout itself. Another owner changes every file's ctime and uid; without these git would read
/// all files anew to find that nothing changed.
const CLONE: &[&str] = &[
    "clone",
    "-q",
    "--shared",
    "--no-tags",
    "--no-checkout",
    "-c",
    "core.checkStat=minimal",
    "-c",
    "core.trustctime=false",
    "--",
];

/// git writes no more files at once than this, whatever the machine has.
const MOST_WORKERS: usize = 4;

impl Engine {
    async fn checkout_git(&self, args: &[&str], pace: Pace) -> Result<Output> {
        let output = match pace {
            Pace::Now => self.git().as_owner(None, args).await?,
            Pace::Ahead => self.git().quietly(args).await?,
        };
        if output.ok { Ok(output) } else { Err(failure(&output)) }
    }

    /// Makes `dir` a checkout of `commit` that belongs to `identity`, closed for everybody else.
    pub(super) async fn make_checkout(
        &self,
        dir: &Path,
        repo: &RepoRow,
        commit: &str,
        identity: Option<&Identity>,
        pace: Pace,
    ) -> Result<()> {
        let mirror = self.dirs().mirror(repo.id());
        let (mirror, dir_text) = (mirror.to_string_lossy(), dir.to_string_lossy());
        // Branches are files: `put_on_branch` writes one.
        let mut args = vec!["-c", "init.defaultRefFormat=files"];
        args.extend(CLONE);
        args.extend([&*mirror, &*dir_text]);
        self.checkout_git(&args, pace).await?;
        mode(dir, 0o700)?;
        self.switch_checkout(dir, commit, pace).await?;
        // Whoever takes it is in a hurry: the place of an objective's branch is made here.
        fs::create_dir_all(dir.join(".git/refs/heads/obj"))?;
        give_tree(dir, own_uid(), identity).await
    }

    /// Checks another commit out. Nothing but this service ever wrote into `dir`.
    pub(super) async fn switch_checkout(&self, dir: &Path, commit: &str, pace: Pace) -> Result<()> {
        let git_dir = dir.join(".git");
        let (git_dir, tree) = (git_dir.to_string_lossy(), dir.to_string_lossy());
        let workers = format!("checkout.workers={}", workers());
        let args = ["-c", &workers, "--git-dir", &git_dir, "--work-tree", &tree];
        let args = [&args[..], &["checkout", "-q", "--detach", commit, "--"]].concat();
        self.checkout_git(&args, pace).await.map(|_| ())
    }

    /// Brings an entry to a newer commit, with the mirror's branches as they are now.
    pub(super) async fn refresh_checkout(
        &self,
        dir: &Path,
        was: u32,
        commit: &str,
        identity: Option<&Identity>,
    ) -> Result<()> {
        let git_dir = dir.join(".git");
        let git_dir = git_dir.to_string_lossy();
        let fetch = ["--git-dir", &git_dir, "fetch", "-q", "--no-tags", "--prune", "origin"];
        self.checkout_git(&fetch, Pace::Ahead).await?;
        self.switch_checkout(dir, commit, Pace::Ahead).await?;
        give_tree(dir, was, identity).await
    }
}

/// How many processes write files. More than one costs less altogether, too: soon after a large tree was deleted, ext4
/// looks past every freed inode for the next new file, and workers begin at different places.
fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MOST_WORKERS)
}

/// Gives a tree that this service made, and nobody else reached, to its user.
pub(super) async fn give_tree(dir: &Path, was: u32, identity: Option<&Identity>) -> Result<()> {
    let Some(identity) = identity.cloned() else { return Ok(()) };
    let dir = dir.to_owned();
    tokio::task::spawn_blocking(move || crate::hand_over::change_owner(&dir, &[own_uid(), was], &identity))
        .await
        .map_err(|error| Error::Internal(error.into()))?
}

/// Puts a checkout of `commit` on a branch without starting git: two small files instead of reading the index of
/// twenty thousand.
pub(super) fn put_on_branch(
    dir: &Path,
    branch: &str,
    commit: &str,
    identity: Option<&Identity>,
) -> Result<()> {
    let git = dir.join(".git");
    let mut place = git.join("refs/heads");
    let (above, name) = branch.rsplit_once('/').unwrap_or(("", branch));
    for part in above.split('/').filter(|part| !part.is_empty()) {
        place.push(part);
        if !place.is_dir() {
            fs::create_dir(&place)?;
            give(&place, identity)?;
        }
    }
    let file = place.join(name);
    fs::write(&file, format!("{commit}\n"))?;
    give(&file, identity)?;
    // An existing file keeps its owner.
    fs::write(git.join("HEAD"), format!("ref: refs/heads/{branch}\n"))?;
    Ok(())
}
