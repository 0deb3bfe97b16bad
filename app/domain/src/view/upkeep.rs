//! What the data directory holds, what was kept of worktrees, and for how long.

use serde::{Deserialize, Serialize};

use super::DiffView;
use crate::ids::SessionId;

/// What was kept of a worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptView {
    /// Number.
    pub id: i64,
    /// The session at whose end it was kept.
    pub session: Option<SessionId>,
    /// ms since 1970.
    pub at: i64,
    /// The snapshot's commit in the rescue repository.
    pub commit: String,
    /// What it changes against the commit that the session stood on, without hunks.
    pub files: DiffView,
    /// Sentences about what else was kept, and what did not fit.
    pub notes: Vec<String>,
    /// It is brought back: the objective's sessions find it on the branch `rescue/<number>`.
    pub restored: bool,
    /// Its time was over and it is gone.
    pub dropped: bool,
    /// When it will be dropped, ms since 1970.
    pub until: i64,
}

/// What the data directory holds, in bytes as the disk counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DiskUse {
    /// Mirrors of repositories.
    pub mirrors: u64,
    /// Worktrees, memory and scratch of objectives.
    pub work: u64,
    /// Checkouts made ahead.
    pub pool: u64,
    /// Exports of reviewers.
    pub review: u64,
    /// What was kept.
    pub rescue: u64,
    /// Records and transcripts of sessions.
    pub records: u64,
    /// Database and the rest.
    pub other: u64,
    /// What mirrors, worktrees, checkouts made ahead, exports and what was kept may use together.
    pub budget: u64,
    /// Free bytes where the data is.
    pub free: u64,
    /// When it was counted, ms since 1970.
    pub at: i64,
}

/// How long things are kept, and how much room they may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upkeep {
    /// Checkouts made ahead for each repository that has no number of its own.
    pub warm_pool: u32,
    /// Megabytes for mirrors, worktrees, checkouts made ahead, exports and what was kept; none = a fifth of the disk.
    pub disk_budget_mb: Option<u64>,
    /// Days after which the worktree of a finished objective is cleared.
    pub worktree_days: u32,
    /// Days after which what was kept of a worktree is dropped.
    pub rescue_days: u32,
    /// Days after which the record and the transcript of a session are deleted.
    pub record_days: u32,
}

/// Changes to [`Upkeep`]; absent = unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditUpkeep {
    /// Checkouts made ahead.
    #[serde(default)]
    pub warm_pool: Option<u32>,
    /// Megabytes; 0 = a fifth of the disk.
    #[serde(default)]
    pub disk_budget_mb: Option<u64>,
    /// Days.
    #[serde(default)]
    pub worktree_days: Option<u32>,
    /// Days.
    #[serde(default)]
    pub rescue_days: Option<u32>,
    /// Days.
    #[serde(default)]
    pub record_days: Option<u32>,
}

impl DiskUse {
    /// What counts against the budget.
    #[must_use]
    pub fn counted(&self) -> u64 {
        self.mirrors + self.work + self.pool + self.review + self.rescue
    }

    /// More than the budget allows.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.counted() > self.budget
    }
}
