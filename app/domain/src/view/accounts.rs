//! The pool of accounts and what each of them is doing.

use serde::{Deserialize, Serialize};

use crate::ids::{ObjectiveId, SessionId, words};
use crate::session::{Outcome, Role};

/// An account of the pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountView {
    /// `ccuser-0`.
    pub name: String,
    /// available, cooling_down, needs_login, disabled.
    pub state: String,
    /// Why.
    pub reason: String,
    /// ms since 1970, for cooling_down.
    pub until: Option<i64>,
    /// Live sessions.
    pub live: u32,
    /// Sessions at most, now: one for an account that works from a login directory.
    pub limit: u32,
    /// The OS user its sessions run as, with its number.
    pub runs_as: String,
    /// Its own OS user; none = it shares the installation's (mode homes).
    pub os_user: Option<String>,
    /// Where it gets its credential from.
    pub credential: Credential,
    /// Author of its commits; none = the account's name.
    pub git_name: Option<String>,
    /// Address of the author; none = one that leads nowhere.
    pub git_email: Option<String>,
    /// Live sessions of the client that asks.
    pub sessions: Vec<AccountSession>,
    /// Cost of all sessions of the client that asks, millionths of a dollar.
    pub cost_usd_micros: i64,
    /// The last session of the client that asks which did not end by itself.
    pub last_failure: Option<AccountFailure>,
}

words!(
    /// Where an account's credential comes from.
    Credential {
        /// A key file of its own.
        OwnKey = "own_key",
        /// The installation's key file.
        SharedKey = "shared_key",
        /// A login in its home: one session at a time, never a review of its own work.
        Login = "login",
        /// Nowhere: only the demo agent runs.
        None = "none",
    }
);

impl Credential {
    /// In words.
    pub fn label(self) -> &'static str {
        match self {
            Credential::OwnKey => "own key",
            Credential::SharedKey => "shared key",
            Credential::Login => "login, one session at a time",
            Credential::None => "none",
        }
    }
}

/// A live session of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountSession {
    /// Run id.
    pub session: SessionId,
    /// Its objective.
    pub objective: ObjectiveId,
    /// Its role.
    pub role: Role,
}

/// How a session of an account failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountFailure {
    /// The outcome.
    pub outcome: Outcome,
    /// One sentence.
    pub detail: String,
    /// ms since 1970.
    pub at: i64,
}

/// The pool of accounts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolView {
    /// The account mode in force, in words.
    pub mode: String,
    /// The server can make OS users: it runs as root.
    pub can_provision: bool,
    /// Accounts by name.
    pub accounts: Vec<AccountView>,
    /// When all of them are unavailable: the first that comes back by itself, ms since 1970.
    pub until: Option<i64>,
    /// Server time.
    pub now: i64,
}
