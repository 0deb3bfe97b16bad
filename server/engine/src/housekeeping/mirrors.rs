//! Mirrors: leftovers of registrations that failed, and packing what years of results leave loose.

use std::fs;
use std::path::Path;

use opkit_domain::ids::RepositoryId;

use super::{Found, HALF_MADE, age, names, remove};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::git::{Git, failure};

/// Packs beyond which a mirror is repacked.
const PACKS: usize = 20;
/// Loose objects of one of 256 directories beyond which it is; as many as git's own housekeeping bears.
const LOOSE: usize = 27;

impl Engine {
    pub(super) async fn look_at_mirrors(&self, found: &mut Found) -> Result<()> {
        let repos = self.store().all_repos().await?;
        let is_known = |name: &str| {
            let id = name.strip_suffix(".git").and_then(|id| id.parse().ok());
            id.is_some_and(|id| repos.iter().any(|repo| repo.id() == RepositoryId(id)))
        };
        for place in ["mirrors", "rescue"] {
            let root = self.dirs().root.join(place);
            for name in names(&root)? {
                let dir = root.join(&name);
                if is_known(&name) || (place == "rescue" && name == "restore") {
                    continue;
                }
                if place == "mirrors" && name.starts_with("new-") {
                    if age(&dir) > HALF_MADE {
                        remove(dir).await?;
                        found.mended(format!("mirrors/{name} was left half made, and is removed."));
                    }
                    continue;
                }
                found.unknown(place, &name, "repository");
            }
        }
        for name in names(&self.dirs().root.join("pool"))? {
            if name != "trash" && name.parse::<i64>().is_err() {
                found.unknown("pool", &name, "repository");
            }
        }
        for name in names(&self.dirs().root.join("run"))? {
            let file = self.dirs().root.join("run").join(&name);
            if name.starts_with("handover-") && age(&file) > HALF_MADE {
                let _ = fs::remove_file(file);
            }
        }
        Ok(())
    }

    /// Packs what is loose. Nothing is ever pruned from a mirror: every checkout borrows its objects, and what no
    /// branch names any more may be what somebody's work stands on. So this needs no turn: whoever fetches meanwhile
    /// adds, and this takes nothing away.
    pub(super) async fn tend_mirrors(&self) -> Result<()> {
        for repo in self.store().all_repos().await? {
            let mirror = self.dirs().mirror(repo.id());
            if needs_packing(&mirror)
                && let Some(why) = pack(self.git(), &mirror).await?
            {
                return Err(Error::Refused(format!(
                    "The mirror of {} is damaged: {why}. Stop the server and restore the mirror from a backup, or \
                     register the repository anew.",
                    repo.name
                )));
            }
        }
        Ok(())
    }
}

/// Packs a mirror and looks whether everything that it names is there; an inner sentence says that it is not.
async fn pack(git: &Git, mirror: &Path) -> Result<Option<String>> {
    let text = mirror.to_string_lossy();
    let packed = git.quietly(&["--git-dir", &text, "repack", "-q", "-d", "--geometric=2"]).await?;
    if !packed.ok {
        return Err(failure(&packed));
    }
    let check = ["--git-dir", &text, "fsck", "--connectivity-only", "--no-dangling", "--no-progress"];
    let checked = git.quietly(&check).await?;
    Ok((!checked.ok).then(|| checked.stderr.chars().take(300).collect()))
}

fn needs_packing(mirror: &Path) -> bool {
    let count = |dir: &str, wanted: &dyn Fn(&str) -> bool| {
        let entries = fs::read_dir(mirror.join(dir)).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_str().is_some_and(wanted)).count()
    };
    count("objects/pack", &|name| name.ends_with(".pack")) > PACKS || count("objects/17", &|_| true) > LOOSE
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects")]
mod tests {
    use super::*;

    /// Commits to `source`, by the command line that needs no worktree.
    async fn commit(git: &Git, source: &Path, number: u32) -> String {
        let tree = git.must(source, &["mktree", "--missing"]).await.unwrap();
        let message = format!("number {number}");
        let head =
            git.run(source, &["rev-parse", "--verify", "--quiet", "refs/heads/main"], 100).await.unwrap();
        let mut args = vec!["commit-tree", &tree, "-m", &message];
        let parent = head.text();
        if head.ok {
            args.extend(["-p", &parent]);
        }
        let commit = git.must(source, &args).await.unwrap();
        git.must(source, &["update-ref", "refs/heads/main", &commit]).await.unwrap();
        commit
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn packing_beside_fetches_loses_nothing_that_was_ever_there() {
        let dir = tempfile::tempdir().unwrap();
        let (source, mirror) = (dir.path().join("source.git"), dir.path().join("mirror.git"));
        let git = Git::find().unwrap();
        for path in [&source, &mirror] {
            git.as_owner(None, &["init", "-q", "--bare", &path.to_string_lossy()]).await.unwrap();
        }
        // One that no branch names any more: somebody's work may stand on it.
        let lost = commit(&git, &mirror, 0).await;
        git.must(&mirror, &["update-ref", "-d", "refs/heads/main"]).await.unwrap();
        let fetches = async {
            let mut all = Vec::new();
            for number in 1..=25 {
                all.push(commit(&git, &source, number).await);
                let refspec = format!("refs/heads/main:refs/heads/obj/{number}");
                let args = ["fetch", "-q", "--no-tags", "--", &source.to_string_lossy(), &refspec];
                git.must(&mirror, &args).await.unwrap();
            }
            all
        };
        let packs = async {
            for _ in 0..5 {
                assert_eq!(pack(&git, &mirror).await.unwrap(), None);
            }
        };
        let (mut all, ()) = tokio::join!(fetches, packs);
        assert_eq!(pack(&git, &mirror).await.unwrap(), None);
        all.push(lost);
        for commit in all {
            assert_eq!(git.must(&mirror, &["cat-file", "-t", &commit]).await.unwrap(), "commit");
        }
        let packs = fs::read_dir(mirror.join("objects/pack")).unwrap().flatten();
        assert!(packs.filter(|entry| entry.path().extension().is_some_and(|e| e == "pack")).count() >= 1);
    }
}
