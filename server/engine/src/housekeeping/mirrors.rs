//! Mirrors: leftovers of registrations that failed, and packing what years of results leave loose.

use std::fs;
use std::path::Path;

use opkit_domain::ids::RepositoryId;

use super::{Found, HALF_MADE, age, names, remove};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::git::failure;
use crate::store::repositories::RepoRow;

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
            if needs_packing(&mirror) {
                self.pack_mirror(&repo, &mirror).await?;
            }
        }
        Ok(())
    }

    async fn pack_mirror(&self, repo: &RepoRow, mirror: &Path) -> Result<()> {
        let text = mirror.to_string_lossy();
        let packed = self.git().quietly(&["--git-dir", &text, "repack", "-q", "-d", "--geometric=2"]).await?;
        if !packed.ok {
            return Err(failure(&packed));
        }
        let check = ["--git-dir", &text, "fsck", "--connectivity-only", "--no-dangling", "--no-progress"];
        let checked = self.git().quietly(&check).await?;
        if checked.ok {
            return Ok(());
        }
        Err(Error::Internal(anyhow::anyhow!(
            "the mirror of {} is damaged: {}. Stop the server, restore the mirror from a backup, or register the \
             repository anew",
            repo.name,
            checked.stderr.chars().take(300).collect::<String>()
        )))
    }
}

fn needs_packing(mirror: &Path) -> bool {
    let count = |dir: &str, wanted: &dyn Fn(&str) -> bool| {
        let entries = fs::read_dir(mirror.join(dir)).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_str().is_some_and(wanted)).count()
    };
    count("objects/pack", &|name| name.ends_with(".pack")) > PACKS || count("objects/17", &|_| true) > LOOSE
}
