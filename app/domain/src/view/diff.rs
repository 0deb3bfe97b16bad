//! A diff as files, hunks and lines.

use serde::{Deserialize, Serialize};

/// A diff, bounded on the server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DiffView {
    /// Files in order.
    pub files: Vec<DiffFile>,
    /// Lines added in the whole diff.
    pub added: u32,
    /// Lines removed in the whole diff.
    pub removed: u32,
    /// What was left out, for people: "9,800 more files".
    pub left_out: Option<String>,
}

/// One file of a diff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffFile {
    /// Path, lossy.
    pub path: String,
    /// Old path of a rename.
    pub old_path: Option<String>,
    /// "added", "deleted", "modified", "renamed", "binary".
    pub change: String,
    /// Lines added.
    pub added: u32,
    /// Lines removed.
    pub removed: u32,
    /// Hunks; empty for binary files.
    pub hunks: Vec<DiffHunk>,
    /// Why hunks are missing.
    pub note: Option<String>,
}

/// One hunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffHunk {
    /// `@@ -1,3 +1,4 @@ fn name`.
    pub head: String,
    /// Lines.
    pub lines: Vec<DiffLine>,
}

/// One line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffLine {
    /// ' ', '+' or '-'.
    pub mark: char,
    /// Old line number.
    pub old: Option<u32>,
    /// New line number.
    pub new: Option<u32>,
    /// Text, cut to 400 characters.
    pub text: String,
}
