//! The floor: set-up, verify command and checks, in a place of their own.

use std::path::{Path, PathBuf};

use opkit_domain::objective::Gate;
use opkit_domain::session::{Floor, FloorCommand, FloorWhen, Role, Step};

use super::spec::{Places, step};
use crate::engine::Engine;
use crate::error::Result;
use crate::store::objectives::Objective;
use crate::store::repositories::RepoRow;
use crate::store::sessions::SessionRow;

/// Seconds for a check or the verify command.
const FLOOR_TIMEOUT_S: u64 = 600;

impl Engine {
    pub(super) fn floor(
        &self,
        row: &SessionRow,
        objective: &Objective,
        repo: &RepoRow,
        places: &Places,
    ) -> Result<Option<Floor>> {
        let command = |title: &str, criterion, text: &str| FloorCommand {
            title: title.to_owned(),
            criterion,
            command: text.to_owned(),
            timeout_s: FLOOR_TIMEOUT_S,
        };
        let mut commands = Vec::new();
        let checks =
            objective.criteria.iter().enumerate().filter_map(|(at, c)| Some((at, c, c.check.as_deref()?)));
        commands.extend(repo.verify.as_deref().map(|text| command("verify", None, text)));
        commands.extend(checks.map(|(at, criterion, check)| command(&criterion.text, Some(at), check)));
        if commands.is_empty() {
            return Ok(None);
        }
        if let Some(setup) = &repo.setup {
            commands.insert(0, command("set-up", None, setup));
        }
        if row.role == Role::Review {
            // Set-up, verify and checks run the worker's code. It gets an export and a home of its own, and nothing
            // of what the reviewer reads or writes afterwards.
            let [cwd, home] = self.floor_places(row);
            let write = vec![cwd.clone(), home.clone()];
            let text = |path: &Path| path.to_string_lossy().into_owned();
            let unpack = Step { extra_write: write.clone(), ..self.unpack_into(row, &cwd) };
            let mut clear = step(
                "Clearing the export of the checks",
                &home,
                &["/usr/bin/find", &text(&cwd), &text(&home), "-mindepth", "1", "-delete"],
            );
            clear.extra_write = write.clone();
            clear.may_fail = true;
            return Ok(Some(Floor {
                when: FloorWhen::BeforeAgent,
                prepare: vec![unpack],
                env: [("HOME", &home), ("TMPDIR", &home), ("OPKIT_SCRATCH", &home), ("OPKIT_WORKTREE", &cwd)]
                    .map(|(name, path)| (name.to_owned(), text(path)))
                    .to_vec(),
                cwd,
                commands,
                write: Some(write),
                clear: vec![clear],
            }));
        }
        if objective.facts.gate != Gate::None {
            return Ok(None);
        }
        // The agent knows these names and may have put something there; its processes are gone.
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let [export, home] =
            ["floor", "floor-home"].map(|name| places.scratch.join(format!("{name}-{}", row.id.short())));
        let git = text(self.git().program());
        let clear = |title: &str| {
            step(title, &places.scratch, &["/bin/rm", "-rf", "--", &text(&export), &text(&home)])
        };
        let prepare = vec![
            clear("Clearing the place of the checks"),
            step("Making a home for the checks", &places.scratch, &["/bin/mkdir", "--", &text(&home)]),
            step(
                "Exporting the delivered commit",
                &places.scratch,
                &[
                    &git,
                    "clone",
                    "-q",
                    "--shared",
                    // What is delivered, whatever the agent left checked out.
                    "--branch",
                    &objective.branch(),
                    "--",
                    &text(&places.cwd),
                    &text(&export),
                ],
            ),
        ];
        // Configuration that the agent left in its own home must not answer for the commit.
        let env = [("HOME", &home), ("TMPDIR", &home), ("OPKIT_WORKTREE", &export)];
        Ok(Some(Floor {
            when: FloorWhen::AfterAgent,
            prepare,
            env: env.map(|(name, path)| (name.to_owned(), text(path))).to_vec(),
            clear: vec![Step { may_fail: true, ..clear("Clearing the export of the checks") }],
            cwd: export,
            commands,
            write: None,
        }))
    }

    /// Export and home of a review's floor.
    pub(super) fn floor_places(&self, row: &SessionRow) -> [PathBuf; 2] {
        ["floor", "floor-home"].map(|name| self.dirs().review(&row.id).join(name))
    }
}
