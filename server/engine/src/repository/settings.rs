//! What a repository is worked on with: commands, checkouts made ahead, and what its base needs people to know.

use opkit_domain::access::Actor;
use opkit_domain::ids::RepositoryId;
use opkit_domain::objective::long_text;
use opkit_domain::view::RepoView;

use crate::engine::{EditRepo, Engine};
use crate::error::{Error, Result};
use crate::git::short;
use crate::store::people::audit_in;
use crate::store::repositories::{RepoChange, update};

impl Engine {
    /// Changes a repository's commands, integration, or how many checkouts are made ahead.
    pub async fn edit_repo(&self, actor: &Actor, name: &str, edit: EditRepo) -> Result<RepoView> {
        self.operator(actor)?;
        let row = self
            .store()
            .repo_by_name(actor.scope, name)
            .await?
            .ok_or_else(|| Error::NotFound(format!("There is no repository named “{}”.", short(name))))?;
        let setup = command("set-up command", edit.setup.as_deref())?;
        let verify = command("verify command", edit.verify.as_deref())?;
        let change = RepoChange {
            setup: setup.as_ref().map(Option::as_deref),
            verify: verify.as_ref().map(Option::as_deref),
            integrate: edit.integrate,
            pool: edit.pool.as_deref().map(pool_size).transpose()?,
        };
        let mut tx = self.store().begin().await?;
        update(&mut tx, actor.scope, row.id(), &change).await?;
        let detail = serde_json::to_value(&edit)?;
        audit_in(&mut tx, actor.scope, &actor.name, "repository_changed", name, &detail).await?;
        tx.commit().await?;
        self.changed();
        self.pool().look();
        self.repo_view(actor.scope, row.id()).await
    }

    /// Reads from a base what works differently here, once a commit.
    pub(crate) async fn note_base(&self, id: RepositoryId, commit: &str) -> Result<()> {
        if self.pool().notes().get(&id).is_some_and(|(known, _)| known == commit) {
            return Ok(());
        }
        let mirror = self.dirs().mirror(id);
        let mut notes = Vec::new();
        let modules =
            self.git().run(&mirror, &["cat-file", "-e", &format!("{commit}:.gitmodules")], 100).await?;
        if modules.ok {
            notes.push(SUBMODULES.to_owned());
        }
        let pathspec = ":(glob)**/.gitattributes";
        let grep = ["grep", "-q", "-E", "-e", "filter=lfs", commit, "--", pathspec];
        if self.git().run(&mirror, &grep, 100).await?.ok {
            notes.push(LARGE_FILES.to_owned());
        }
        self.pool().notes().insert(id, (commit.to_owned(), notes));
        Ok(())
    }
}

/// What a base with `.gitmodules` means.
const SUBMODULES: &str = "It has submodules. They are not checked out: their directories are empty in worktrees and \
    in reviews. Where they are needed, let the set-up command fetch their content, by other means than git: a review \
    works on an export without history.";
/// What a base with `filter=lfs` means.
const LARGE_FILES: &str = "It keeps large files with Git LFS. They stay pointer files in worktrees, reviews and \
    results: their content is neither fetched nor stored, and a change to it cannot be delivered. Where it is needed, \
    let the set-up command fetch it, by other means than git: a review works on an export without history.";

/// A command that a person gave: none = not given, an inner none = there shall be none.
pub(super) fn command(what: &'static str, given: Option<&str>) -> Result<Option<Option<String>>> {
    let Some(text) = given else { return Ok(None) };
    let text = long_text(what, text.trim())?;
    Ok(Some(Some(text).filter(|text| !text.is_empty())))
}

/// A number of checkouts, or `default`.
fn pool_size(text: &str) -> Result<Option<u32>> {
    let text = text.trim();
    if text.is_empty() || text == "default" {
        return Ok(None);
    }
    match text.parse() {
        Ok(size) if size <= crate::pool::LARGEST => Ok(Some(size)),
        _ => Err(Error::BadInput(format!(
            "The number of checkouts made ahead is 0 to {}, or default.",
            crate::pool::LARGEST
        ))),
    }
}
