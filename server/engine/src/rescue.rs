//! What was kept of worktrees: listing it, a patch for people, and bringing it back to the objective's sessions.
//!
//! What comes back does so as a branch of the objective's own checkout. It never goes through the mirror: every
//! session of the repository could read it there, and it may hold what nobody meant to publish.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use opkit_domain::access::{Actor, Scope};
use opkit_domain::ids::ObjectiveId;
use opkit_domain::session::Identity;
use opkit_domain::view::{DiffView, KeptView};

use crate::data_dir::{give, mode};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::git::failure;
use crate::store::events::{NewEvent, append};
use crate::store::objectives::{Objective, add_message};
use crate::store::people::audit_in;
use crate::store::rescue::RescueRow;

/// A larger patch is not made; the sentence says what else to do.
const LARGEST_PATCH: usize = 64 << 20;
/// Milliseconds a day.
pub(crate) const DAY_MS: i64 = 86_400_000;

/// A step of the next session that brings something back.
#[derive(Debug)]
pub(crate) struct Restore {
    /// For the record.
    pub(crate) title: String,
    /// git with its arguments, to run in the worktree. It may fail: the session goes on without.
    pub(crate) argv: Vec<String>,
}

impl Engine {
    /// What was kept of an objective's worktree, newest first.
    pub async fn rescues(&self, scope: Scope, id: ObjectiveId) -> Result<Vec<KeptView>> {
        self.store().objective(scope, id).await?;
        let days = self.upkeep().await?.rescue_days;
        let mut list = Vec::new();
        for row in self.store().rescues(scope, id).await? {
            let dropped = row.dropped_at.is_some();
            let (files, notes) = match dropped {
                true => (DiffView::default(), vec![]),
                false => (self.kept_files(&row).await, self.kept_notes(&row).await?),
            };
            list.push(KeptView {
                id: row.id,
                at: row.created_at,
                files,
                restored: !dropped && self.bundle(&row).exists(),
                dropped,
                until: row.created_at + i64::from(days) * DAY_MS,
                session: row.session,
                commit: row.commit,
                notes: [notes, row.left_out].concat(),
            });
        }
        Ok(list)
    }

    async fn kept_files(&self, row: &RescueRow) -> DiffView {
        let rescue = self.dirs().rescue(row.repo);
        match self.diff_between(&rescue, &format!("{}^1", row.commit), &row.commit).await {
            Ok(mut diff) => {
                for file in &mut diff.files {
                    file.hunks.clear();
                }
                diff
            }
            Err(error) => {
                tracing::warn!(%error, name = row.name, "something kept cannot be read");
                DiffView { left_out: Some("it cannot be read".into()), ..DiffView::default() }
            }
        }
    }

    /// What the snapshot says of itself below its title.
    async fn kept_notes(&self, row: &RescueRow) -> Result<Vec<String>> {
        let args = ["log", "-1", "--no-show-signature", "--format=%b", &row.commit, "--"];
        let body = self.git().run(&self.dirs().rescue(row.repo), &args, 4096).await?.text();
        let lines =
            body.lines().map(|line| line.chars().filter(|c| !c.is_control()).take(300).collect::<String>());
        Ok(lines.filter(|line| !line.trim().is_empty()).take(10).collect())
    }

    /// What was kept as a patch that `git apply` takes.
    pub async fn rescue_patch(&self, scope: Scope, id: ObjectiveId, kept: i64) -> Result<Vec<u8>> {
        let row = self.still_kept(scope, id, kept).await?;
        let base = format!("{}^1", row.commit);
        let args =
            ["diff", "--binary", "--no-ext-diff", "--no-textconv", "--no-color", &base, &row.commit, "--"];
        let output = self.git().run(&self.dirs().rescue(row.repo), &args, LARGEST_PATCH).await?;
        if output.cut {
            return Err(Error::Refused(
                "The patch is larger than 64 MB. Bring the files back to the objective's next session instead."
                    .into(),
            ));
        }
        if output.ok { Ok(output.stdout) } else { Err(failure(&output)) }
    }

    /// Brings what was kept back: the objective's next session finds it on a branch of its checkout and is told so.
    pub async fn restore_rescue(&self, actor: &Actor, id: ObjectiveId, kept: i64) -> Result<String> {
        self.operator(actor)?;
        let objective = self.store().objective(actor.scope, id).await?;
        let row = self.still_kept(actor.scope, id, kept).await?;
        if self.bundle(&row).exists() {
            return Err(Error::Conflict(format!("It is brought back already, on the branch rescue/{kept}.")));
        }
        self.make_bundle(&objective, &row).await?;
        let whose = row.session.as_ref().map_or_else(String::new, |id| format!(" of session {}", id.short()));
        let told = format!(
            "What{whose} was not committed is on the branch rescue/{kept} of your checkout. Look at it with \
             `git diff rescue/{kept}~1 rescue/{kept}` and take what is needed with \
             `git restore --source=rescue/{kept} -- PATH`."
        );
        let mut tx = self.store().begin().await?;
        add_message(&mut tx, actor, id, &told).await?;
        let detail = serde_json::json!({ "kept": kept, "ref": row.name, "commit": row.commit });
        audit_in(&mut tx, actor.scope, &actor.name, "rescue_restored", &format!("#{id}"), &detail).await?;
        let event = NewEvent {
            objective: id,
            kind: "message",
            from: None,
            to: None,
            trigger: "rescue_restored",
            actor: &actor.name,
            reason: &format!("What{whose} was not committed comes back on the branch rescue/{kept}."),
            session: None,
        };
        append(&mut tx, actor.scope, event).await?;
        tx.commit().await?;
        self.changed();
        let when = match (objective.facts.status.is_final(), objective.facts.live) {
            (true, _) => "once it is opened again",
            (false, true) => "after the one that runs now",
            (false, false) => "when it starts",
        };
        Ok(format!("#{id}'s next session, {when}, finds it on the branch rescue/{kept}."))
    }

    async fn still_kept(&self, scope: Scope, id: ObjectiveId, kept: i64) -> Result<RescueRow> {
        let row = self.store().rescue(scope, id, kept).await?;
        match row.dropped_at {
            None => Ok(row),
            Some(_) => Err(Error::Refused("Its time was over, and it was dropped.".into())),
        }
    }

    /// Where the bundle of something that is brought back waits, for as long as it is kept.
    pub(crate) fn bundle(&self, row: &RescueRow) -> PathBuf {
        self.dirs().root.join(format!("rescue/restore/{}-{}.bundle", row.objective, row.id))
    }

    async fn make_bundle(&self, objective: &Objective, row: &RescueRow) -> Result<()> {
        let bundle = self.bundle(row);
        if let Some(dir) = bundle.parent() {
            fs::create_dir_all(dir)?;
            mode(dir, 0o700)?;
        }
        let temporary = bundle.with_extension("new");
        let rescue = self.dirs().rescue(row.repo);
        let mut args = vec!["bundle".to_owned(), "create".into(), "-q".into(), "-".into(), row.name.clone()];
        // Every checkout has the base; more than that is not certain.
        args.extend(objective.base_commit.as_ref().map(|base| format!("^{base}")));
        let made = self.git().to_file(&rescue, &args, &temporary).await;
        if made.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        made?;
        Ok(fs::rename(temporary, bundle)?)
    }

    /// The steps that bring back what people asked for. Nothing of the objective runs yet: the bundles are put into
    /// its scratch directory, where its user can read them.
    pub(crate) async fn restores(
        &self,
        objective: &Objective,
        identity: Option<&Identity>,
    ) -> Result<Vec<Restore>> {
        let mut steps = Vec::new();
        for row in self.store().rescues(objective.scope, objective.id).await? {
            let bundle = self.bundle(&row);
            if !bundle.exists() {
                continue;
            }
            let place = self.dirs().scratch(objective.id).join(format!("rescue-{}.bundle", row.id));
            let (to, owner) = (place.clone(), identity.cloned());
            tokio::task::spawn_blocking(move || copy_for(&bundle, &to, owner.as_ref()))
                .await
                .map_err(|error| Error::Internal(error.into()))??;
            steps.push(Restore {
                title: format!("Bringing back rescue/{}", row.id),
                argv: vec![
                    self.git().program().to_string_lossy().into_owned(),
                    "fetch".into(),
                    "-q".into(),
                    "--no-tags".into(),
                    "--".into(),
                    place.to_string_lossy().into_owned(),
                    // Not forced: what a session did on that branch stays.
                    format!("{}:refs/heads/rescue/{}", row.name, row.id),
                ],
            });
        }
        Ok(steps)
    }
}

/// Copies a file of ours into a directory of the agents' user, never through what may stand there.
fn copy_for(from: &Path, to: &Path, identity: Option<&Identity>) -> Result<()> {
    crate::housekeeping::remove_tree(to)?;
    let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(to)?;
    std::io::copy(&mut fs::File::open(from)?, &mut file)?;
    give(to, identity)
}
