//! What the pages show: the values that cross the wire, complete and without secrets.

mod accounts;
mod board;
mod diff;
mod edit;
mod upkeep;

use serde::{Deserialize, Serialize};

use crate::ids::{ObjectiveId, RepositoryId, SessionId};
use crate::objective::{Criterion, Integration, Status};
use crate::session::{FloorResult, Outcome, Role, SessionState, WallProof};
use crate::verdict::Verdict;

pub use accounts::{AccountFailure, AccountSession, AccountView, Credential, PoolView};
pub use board::{BoardFilter, BoardView, CardView, LaneView, RoundMark, WipView};
pub use diff::{DiffFile, DiffHunk, DiffLine, DiffView};
pub use edit::{EditObjective, NewObjective};
pub use upkeep::{DiskUse, EditUpkeep, KeptView, Upkeep};

/// A registered repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepoView {
    /// Its number.
    pub id: RepositoryId,
    /// Its name.
    pub name: String,
    /// Path or URL as registered.
    pub source: String,
    /// Base branch.
    pub base: String,
    /// Command that runs once in a new worktree.
    pub setup: Option<String>,
    /// Verify command.
    pub verify: Option<String>,
    /// Default integration.
    pub integrate: Integration,
    /// Checkouts made ahead; none = the installation's number.
    pub pool: Option<u32>,
    /// Checkouts that are ready now.
    pub ready: u32,
    /// What its base holds that works differently here: submodules, large files kept elsewhere.
    pub notes: Vec<String>,
    /// Objectives that use it.
    pub objectives: u32,
}

/// A session, for lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionView {
    /// Run id.
    pub id: SessionId,
    /// Objective.
    pub objective: ObjectiveId,
    /// Its title.
    pub objective_title: String,
    /// Role.
    pub role: Role,
    /// State.
    pub state: SessionState,
    /// Outcome once ended.
    pub outcome: Option<Outcome>,
    /// One sentence on the outcome.
    pub detail: String,
    /// Account.
    pub account: String,
    /// Agent adapter.
    pub agent: String,
    /// Who or what caused it.
    pub actor: String,
    /// Process id of the runner while it lives.
    pub pid: Option<u32>,
    /// The wall's proof, once given.
    pub confinement: Option<WallProof>,
    /// ms since 1970.
    pub started_at: i64,
    /// ms since 1970.
    pub ended_at: Option<i64>,
    /// Turns.
    pub turns: u32,
    /// Cost, millionths of a dollar.
    pub cost_usd_micros: i64,
    /// Live line.
    pub activity: String,
    /// Round it belongs to, from 1.
    pub round: u32,
    /// Wall clock limit, seconds.
    pub wall_clock_s: u64,
    /// Calls denied by the guard.
    pub denials: u32,
    /// SHA-256 over the policy the agent ran under, once it has ended.
    #[serde(default)]
    pub policy: Option<String>,
    /// The policy was another one at the end.
    #[serde(default)]
    pub policy_changed: bool,
    /// Settings that the worktree brought along and that were not loaded.
    #[serde(default)]
    pub planted: Vec<String>,
}

/// One review with its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReviewView {
    /// The reviewing session.
    pub session: SessionId,
    /// Round, from 1.
    pub round: u32,
    /// The commit that was graded.
    pub commit: String,
    /// ms since 1970.
    pub at: i64,
    /// The verdict; none for a review error.
    pub verdict: Option<Verdict>,
    /// The floor.
    pub floor: Option<FloorResult>,
    /// Why there is no verdict.
    pub error: Option<String>,
    /// What the reviewer could see.
    pub visible: Vec<String>,
}

/// One line of the timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventView {
    /// Number, rising per client.
    pub seq: i64,
    /// ms since 1970.
    pub at: i64,
    /// created, moved, edited, session, message, progress, review, integrated, ...
    pub kind: String,
    /// Status before.
    pub from: Option<Status>,
    /// Status after.
    pub to: Option<Status>,
    /// What caused it.
    pub trigger: String,
    /// Who caused it: "owner", "dispatcher", "session 5c1e7a2e".
    pub actor: String,
    /// A sentence.
    pub reason: String,
    /// The session.
    pub session: Option<SessionId>,
}

/// A message of a person to an objective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageView {
    /// ms since 1970.
    pub at: i64,
    /// Who wrote it.
    pub actor: String,
    /// The text.
    pub text: String,
    /// The session that got it.
    pub delivered_to: Option<SessionId>,
}

/// An objective's page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObjectiveView {
    /// The card.
    pub card: CardView,
    /// One line.
    pub goal: String,
    /// Markdown.
    pub brief: String,
    /// Criteria in order.
    pub criteria: Vec<Criterion>,
    /// Base branch.
    pub base: String,
    /// The commit the branch started from.
    pub base_commit: Option<String>,
    /// `obj/42`.
    pub branch: String,
    /// The delivered commit.
    pub head_commit: Option<String>,
    /// Demo script, if the agent is the demo.
    pub script: Option<String>,
    /// What the last failed round or person found.
    pub findings: Vec<String>,
    /// Reviews, oldest first.
    pub reviews: Vec<ReviewView>,
    /// Sessions, newest first.
    pub sessions: Vec<SessionView>,
    /// Events, newest first.
    pub events: Vec<EventView>,
    /// Messages, newest first.
    pub messages: Vec<MessageView>,
    /// ARTIFACT.md of the last session.
    pub artifact: Option<String>,
    /// NOTES.md of the last session.
    pub notes: Option<String>,
    /// Default integration of the repository.
    pub integrate: Integration,
    /// How it was integrated.
    pub integrated: Option<String>,
    /// ms since 1970.
    pub created_at: i64,
    /// Who made it.
    pub creator: String,
    /// Children.
    pub children: Vec<CardView>,
    /// Server time.
    pub now: i64,
}

/// A background task on the health page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskView {
    /// Name.
    pub name: String,
    /// Last run, ms since 1970.
    pub last_run: Option<i64>,
    /// "ok" or the error.
    pub result: String,
    /// Fine: the last run went well, and it was not too long ago.
    pub ok: bool,
    /// How often it runs, seconds; none = when there is something to do.
    pub period_s: Option<u64>,
    /// It has missed its turns.
    pub stale: bool,
}

/// The health page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HealthView {
    /// Version and build id.
    pub version: String,
    /// "homes: sessions run as opkit-agent".
    pub mode: String,
    /// The wall: "enforced, Landlock ABI 7".
    pub wall: String,
    /// Accounts.
    pub accounts: Vec<AccountView>,
    /// Background tasks.
    pub tasks: Vec<TaskView>,
    /// Free bytes where the data is.
    pub disk_free: u64,
    /// What takes room; none until it was counted.
    pub disk: Option<DiskUse>,
    /// Slots.
    pub wip: WipView,
    /// Lines of doctor: (fine, text).
    pub checks: Vec<(bool, String)>,
    /// Server time.
    pub now: i64,
}
