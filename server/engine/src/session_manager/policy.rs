//! The policy of a session: files that its agent may read and not write.

use std::fs;
use std::path::Path;

use opkit_domain::session::{GuardPolicy, Role};

use super::give_file;
use super::spec::Places;
use crate::agents::claude_settings;
use crate::data_dir::write_quickly;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::store::objectives::Objective;
use crate::store::repositories::RepoRow;
use crate::store::sessions::SessionRow;

/// `<data>/agents/<agent>/hooks.json`: programs of the operator that may deny a call.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct OperatorHooks {
    pre_tool_use: Vec<Vec<String>>,
}

/// The operator's own hooks. A file that is not understood lets nothing start.
fn operator_hooks(root: &Path, agent: &str) -> Result<Vec<Vec<String>>> {
    let file = root.join("agents").join(agent).join("hooks.json");
    let text = match fs::read(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(error.into()),
    };
    let hooks: OperatorHooks = serde_json::from_slice(&text).map_err(|error| {
        Error::Refused(format!("The hooks in {} are not understood: {error}.", file.display()))
    })?;
    let fits = |argv: &Vec<String>| argv.first().is_some_and(|program| program.starts_with('/'));
    if hooks.pre_tool_use.iter().all(fits) {
        Ok(hooks.pre_tool_use)
    } else {
        Err(Error::Refused(format!(
            "Each hook in {} begins with the absolute path of a program.",
            file.display()
        )))
    }
}

impl Engine {
    /// What the agent may read and not write: guard policy, Claude settings, git configuration; and its token.
    pub(super) fn write_policy(
        &self,
        row: &SessionRow,
        objective: &Objective,
        repo: &RepoRow,
        places: &Places,
    ) -> Result<()> {
        let policy = GuardPolicy {
            worktree: places.cwd.clone(),
            write: places.write.clone(),
            mode: self.wall_mode(),
            operator_hooks: operator_hooks(&self.dirs().root, &row.agent)?,
            tools: ["Bash", "Edit", "MultiEdit", "Write", "Read", "Glob", "Grep", "TodoWrite"]
                .map(str::to_owned)
                .to_vec(),
        };
        let file = places.policy.join("policy.json");
        write_quickly(&file, &serde_json::to_vec_pretty(&policy)?, 0o644)?;
        let settings = places.policy.join("settings.json");
        write_quickly(&settings, &serde_json::to_vec_pretty(&claude_settings(self.runner(), &file))?, 0o444)?;
        let git = format!(
            "[safe]\n\tdirectory = {}\n[core]\n\thooksPath = {}\n[init]\n\tdefaultBranch = main\n[gc]\n\tauto = 0\n\
             [maintenance]\n\tauto = false\n[advice]\n\tdetachedHead = false\n[commit]\n\tgpgSign = false\n",
            config_value(&self.dirs().mirror(repo.id())),
            config_value(&self.dirs().root.join("bin/hooks")),
        );
        let config = places.policy.join("gitconfig");
        write_quickly(&config, git.as_bytes(), 0o644)?;
        if row.role != Role::Review {
            let token = self.session_token(&row.id)?;
            let file = self.dirs().state(objective.id, row.role).join("token");
            give_file(&file, token.as_bytes(), 0o600, self.identity_of(row)?.as_ref())?;
        }
        Ok(())
    }
}

/// A path as a git configuration value.
fn config_value(path: &Path) -> String {
    format!("\"{}\"", path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\""))
}
