//! The kill switch: while the file `DISABLED` exists, nothing new starts. Fail closed.

use std::fs;
use std::path::Path;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::store::sessions::SessionRow;

/// Why nothing may start, or none. Anything but "the file is not there" counts as set.
pub(crate) fn reason(path: &Path) -> Option<String> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => Some(format!("The kill switch cannot be read ({error}), so nothing starts.")),
        Ok(_) => {
            let text = fs::read_to_string(path).unwrap_or_default();
            let text: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
            Some(if text.trim().is_empty() { "Everything is stopped.".into() } else { text })
        }
    }
}

/// Sets it. What is set already, in whatever form, stays set.
pub(crate) fn set(path: &Path, text: &str) -> Result<()> {
    match crate::data_dir::write_atomically(path, text.as_bytes(), 0o644) {
        // A full disk often still has room for a name, and an empty file is a switch that is set.
        Err(_) if reason(path).is_some() || fs::File::create(path).is_ok() => Ok(()),
        result => result,
    }
}

/// Lifts it.
pub(crate) fn lift(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::Refused(format!(
            "The kill switch {} cannot be removed: {error}. Remove it by hand.",
            path.display()
        ))),
        Ok(()) | Err(_) => Ok(()),
    }
}

impl Engine {
    /// A guard that fails stops every new start of its agent, until a person enables again.
    pub(crate) fn guard_is_broken(&self, agent: &str) -> bool {
        self.broken_guards().contains_key(agent)
    }

    /// Notes a guard that failed; kept over restarts.
    pub(crate) async fn note_broken_guard(&self, row: &SessionRow) -> Result<()> {
        if self.guard_is_broken(&row.agent) {
            return Ok(());
        }
        let sentence = format!(
            "The guard of {} failed in session {}: no new {} session starts. Look at `opkit doctor`, then run \
             `opkit enable`.",
            row.agent,
            row.id.short(),
            row.agent,
        );
        self.store().set_broken_guard(&row.agent, Some(&sentence)).await?;
        let detail = serde_json::json!({ "agent": row.agent, "session": row.id });
        self.store().audit(row.scope, "state poller", "guard_broken", &row.agent, &detail).await?;
        tracing::error!(session.id = %row.id, agent = row.agent, "the guard failed");
        self.broken_guards().insert(row.agent.clone(), sentence);
        self.changed();
        Ok(())
    }

    /// Lets agents start again whose guard had failed.
    pub(crate) async fn mend_guards(&self) -> Result<()> {
        let agents: Vec<String> = self.broken_guards().keys().cloned().collect();
        for agent in agents {
            self.store().set_broken_guard(&agent, None).await?;
            self.broken_guards().remove(&agent);
        }
        Ok(())
    }
}
