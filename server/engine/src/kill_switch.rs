//! The kill switch: while the file `DISABLED` exists, nothing new starts. Fail closed.

use std::fs;
use std::path::Path;

use crate::error::{Error, Result};

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
        Err(_) if reason(path).is_some() => Ok(()),
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
