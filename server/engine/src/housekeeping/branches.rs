//! Branches against rows: what was delivered is in the mirror under its name, and nothing else is there.

use std::collections::HashMap;

use opkit_domain::ids::ObjectiveId;

use super::Found;
use crate::engine::Engine;
use crate::error::Result;
use crate::store::repositories::RepoRow;

impl Engine {
    pub(super) async fn look_at_branches(&self, found: &mut Found) -> Result<()> {
        for repo in self.store().all_repos().await? {
            let delivered = self.store().delivered(repo.id()).await?;
            let branches = self.result_branches(&repo).await?;
            for id in branches.keys().filter(|id| !id.parse().is_ok_and(|id| delivered.contains_key(&id))) {
                let known = match id.parse() {
                    Ok(id) => self.store().kept(id).await?.is_some(),
                    Err(_) => false,
                };
                if !known {
                    let name = format!("obj/{id}");
                    found.unknown(&format!("The mirror of {}: the branch", repo.name), &name, "objective");
                }
            }
            for (id, commit) in &delivered {
                if !branches.contains_key(&id.to_string()) {
                    self.bring_branch_back(&repo, ObjectiveId(*id), commit, found).await?;
                }
            }
        }
        Ok(())
    }

    /// `obj/*` of a mirror: what follows the slash, and its commit.
    async fn result_branches(&self, repo: &RepoRow) -> Result<HashMap<String, String>> {
        let format = "--format=%(objectname) %(refname:strip=3)";
        let args = ["for-each-ref", format, "refs/heads/obj"];
        let list = self.git().must(&self.dirs().mirror(repo.id()), &args).await?;
        let lines = list.lines().filter_map(|line| line.split_once(' '));
        Ok(lines.map(|(commit, name)| (name.to_owned(), commit.to_owned())).collect())
    }

    async fn bring_branch_back(
        &self,
        repo: &RepoRow,
        id: ObjectiveId,
        commit: &str,
        found: &mut Found,
    ) -> Result<()> {
        let mirror = self.dirs().mirror(repo.id());
        let _turn = self.repo_turn(repo.id()).await;
        if self.commit_of(&mirror, commit).await?.is_none() {
            found.lost(format!(
                "The delivered commit of #{id} is not in the mirror of {} any more. Restore the mirror from a \
                 backup, or let the objective be worked on again.",
                repo.name
            ));
            return Ok(());
        }
        let branch = format!("refs/heads/obj/{id}");
        // Only if it is still missing: a result that arrives now is newer.
        let nothing = "0".repeat(commit.len());
        self.git().must(&mirror, &["update-ref", &branch, commit, &nothing]).await?;
        found.mended(format!("The branch obj/{id} was missing in the mirror of {}, and is back.", repo.name));
        Ok(())
    }
}
