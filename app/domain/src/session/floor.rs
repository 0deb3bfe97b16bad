//! The floor: what is run without an agent on what was delivered, and its result.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Step;

/// One command of the floor. It always runs as `/bin/sh -c COMMAND` behind the wall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloorCommand {
    /// "set-up", "verify" or the criterion's text.
    pub title: String,
    /// Index of the criterion it checks; none for set-up and verify.
    pub criterion: Option<usize>,
    /// The command line.
    pub command: String,
    /// Seconds until it counts as failed.
    pub timeout_s: u64,
}

/// When the floor runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FloorWhen {
    /// Before the agent (reviews); red means that no agent starts.
    BeforeAgent,
    /// After the agent has delivered (tasks).
    AfterAgent,
}

/// The floor: set-up, verify command and checks on a fresh export of the delivered commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    /// Before or after the agent.
    pub when: FloorWhen,
    /// Steps that make the export.
    pub prepare: Vec<Step>,
    /// Where the commands run.
    pub cwd: PathBuf,
    /// The commands in order.
    pub commands: Vec<FloorCommand>,
    /// What the commands may write in; none = what the session may. A reviewer's own places are closed to them,
    /// because they run code of the worker's.
    #[serde(default)]
    pub write: Option<Vec<PathBuf>>,
    /// Variables of the commands beside those of the session.
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// Steps that clear the export away; what they cannot is left.
    #[serde(default)]
    pub clear: Vec<Step>,
}

/// The result of one floor command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloorCommandResult {
    /// As in the command.
    pub title: String,
    /// As in the command.
    pub criterion: Option<usize>,
    /// As in the command.
    pub command: String,
    /// Exit status; none when killed by a signal or by time.
    pub status: Option<i32>,
    /// Ended by the time limit.
    pub timed_out: bool,
    /// The last 8 KiB of standard output and error, lossy UTF-8 without control characters but newline and tab.
    pub output: String,
    /// Milliseconds it took.
    pub ms: u64,
}

impl FloorCommandResult {
    /// Exit status 0 in time.
    pub fn green(&self) -> bool {
        self.status == Some(0) && !self.timed_out
    }
}

/// The floor as a whole (`floor.json` in the session directory, and a copy for the reviewer).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct FloorResult {
    /// Could not even be prepared: the reason.
    pub error: Option<String>,
    /// One entry for each command that ran; a failed set-up skips the rest.
    pub commands: Vec<FloorCommandResult>,
}

impl FloorResult {
    /// Every command exited 0.
    pub fn green(&self) -> bool {
        self.error.is_none() && self.commands.iter().all(FloorCommandResult::green)
    }
}
