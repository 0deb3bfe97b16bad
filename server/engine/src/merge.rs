//! `merge`: the commit is made in the mirror and pushed into the registered repository, never by force.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::git::{failure, short};
use crate::repository::owner_of;
use crate::store::objectives::Objective;

/// How often a base that moved meanwhile is fetched and merged again.
const TRIES: u32 = 3;

impl Engine {
    /// Merges the delivered commit into its base branch in the registered repository.
    pub(crate) async fn merge(&self, objective: &Objective) -> Result<String> {
        let repo = self.repo_row(objective.scope, objective.repo).await?;
        let mirror = self.dirs().mirror(repo.id());
        let head = objective.head_commit.as_deref().unwrap_or_default();
        let base_ref = format!("refs/heads/{}", objective.base);
        let _turn = self.repo_turn(repo.id()).await;
        let mut last = String::new();
        for _ in 0..TRIES {
            self.fetch_source(&mirror, &repo.source).await?;
            let base = self.commit_of(&mirror, &base_ref).await?.ok_or_else(|| {
                Error::Conflict(format!("The base branch {} is gone from the repository.", objective.base))
            })?;
            let reachable =
                self.git().run(&mirror, &["merge-base", "--is-ancestor", head, &base], 100).await?;
            if reachable.ok {
                return Ok(format!(
                    "Merged into {}: {} is part of it.",
                    objective.base,
                    &head[..12.min(head.len())]
                ));
            }
            let commit = self.merge_commit(&mirror, objective, &base, head).await?;
            match self.push(&repo.source, &mirror, &commit, &base_ref).await? {
                Pushed::Yes => {
                    self.git().must(&mirror, &["update-ref", &base_ref, &commit]).await?;
                    return Ok(format!(
                        "Merged into {} as {}.",
                        objective.base,
                        &commit[..12.min(commit.len())]
                    ));
                }
                Pushed::Moved(why) => last = why,
            }
        }
        Err(Error::Conflict(format!("The base branch {} kept moving: {last}", objective.base)))
    }

    /// The merge commit, or the base's fast-forward where there is nothing to merge.
    async fn merge_commit(
        &self,
        mirror: &std::path::Path,
        objective: &Objective,
        base: &str,
        head: &str,
    ) -> Result<String> {
        let tree = self
            .git()
            .run(mirror, &["merge-tree", "--write-tree", "--name-only", base, head], 1 << 20)
            .await?;
        if tree.status == Some(1) {
            let text = tree.text();
            let files: Vec<String> =
                text.lines().skip(1).take_while(|line| !line.is_empty()).map(short).collect();
            return Err(Error::Conflict(format!(
                "Merging into {} conflicts in {}.",
                objective.base,
                if files.is_empty() { "some files".into() } else { files.join(", ") }
            )));
        }
        if !tree.ok {
            return Err(failure(&tree));
        }
        let tree_id = tree.text().lines().next().unwrap_or_default().to_owned();
        let message =
            format!("Merge obj/{}: {}\n\nObjective: #{}", objective.id, objective.title, objective.id);
        self.git().must(mirror, &["commit-tree", &tree_id, "-p", base, "-p", head, "-m", &message]).await
    }

    async fn push(
        &self,
        source: &str,
        mirror: &std::path::Path,
        commit: &str,
        base_ref: &str,
    ) -> Result<Pushed> {
        let owner = owner_of(source)?;
        let refspec = format!("{commit}:{base_ref}");
        let mirror_text = mirror.to_string_lossy();
        let safe_mirror = format!("safe.directory={mirror_text}");
        let args = [
            "-c",
            &safe_mirror,
            "--git-dir",
            &mirror_text,
            "push",
            "--porcelain",
            // The receiving side is told by its own command line: configuration given with -c does not cross.
            "--receive-pack=git -c core.hooksPath=/dev/null -c receive.denyCurrentBranch=updateInstead receive-pack",
            "--",
            source,
            &refspec,
        ];
        let output = self.git().as_owner(owner, &args).await?;
        if output.ok {
            return Ok(Pushed::Yes);
        }
        let text = format!("{}\n{}", output.text(), output.stderr);
        if text.contains("fetch first") || text.contains("non-fast-forward") || text.contains("stale info") {
            return Ok(Pushed::Moved("somebody pushed meanwhile".into()));
        }
        if text.contains("unstaged changes")
            || text.contains("uncommitted changes")
            || text.contains("not up-to-date")
        {
            return Err(Error::Conflict(format!(
                "The checked-out {} in the registered repository has changes that are not committed. Commit or \
                 stash them, then integrate again.",
                base_ref.trim_start_matches("refs/heads/")
            )));
        }
        let last =
            output.stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
        Err(Error::Conflict(format!("The repository refused the merge: {}", short(last))))
    }
}

enum Pushed {
    Yes,
    Moved(String),
}
