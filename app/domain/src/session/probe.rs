//! The probe of an agent's CLI: what it is told, and what it found.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::wall::{WallMode, enforced};

/// What `opkit-session probe` reads on standard input: how sessions start an agent's CLI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentProbe {
    /// Program (absolute) and arguments, as in [`AgentSpec`](super::AgentSpec); what follows `--settings` and
    /// `--session-id` is the probe's own.
    pub argv: Vec<String>,
    /// The CLI's settings as JSON, with the guard as `PreToolUse` hook; the probe puts its own guards there.
    pub settings: String,
    /// Its environment, beside its places, the model's address and a key.
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// The wall it is tried behind.
    #[serde(default = "enforced")]
    pub mode: WallMode,
    /// What every session may read, beside its own places.
    #[serde(default)]
    pub read: Vec<PathBuf>,
}

/// What the probe found, printed as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// The version that the CLI says it is; empty when it said nothing.
    pub version: String,
    /// One for each promise of the CLI that sessions rely on.
    pub checks: Vec<ProbeCheck>,
}

impl ProbeReport {
    /// Every promise holds.
    pub fn holds(&self) -> bool {
        !self.version.is_empty() && !self.checks.is_empty() && self.checks.iter().all(|check| check.holds)
    }
}

/// One promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeCheck {
    /// "A guard that leaves with status 1 lets nothing through".
    pub what: String,
    /// It was kept.
    pub holds: bool,
    /// What was seen instead, one line; empty when it holds.
    pub detail: String,
}
