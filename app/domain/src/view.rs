//! What the pages show: the values that cross the wire, complete and without secrets.

use serde::{Deserialize, Serialize};

use crate::ids::{ObjectiveId, RepositoryId, SessionId, words};
use crate::objective::{Attention, Counters, Criterion, Gate, Integration, Kind, Status, SubState};
use crate::session::{FloorResult, Outcome, Role, SessionState, WallProof};
use crate::verdict::Verdict;

/// One failed or passed round, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoundMark {
    /// Failed: square.
    Failed,
    /// Passed: round.
    Passed,
    /// Being reviewed.
    Now,
}

/// A card of the board. It never carries a brief.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CardView {
    /// The objective.
    pub id: ObjectiveId,
    /// Rises with every change of the row; an older card never replaces a newer one.
    pub version: i64,
    /// One line of plain text.
    pub title: String,
    /// Type.
    pub kind: Kind,
    /// Lane.
    pub status: Status,
    /// What it waits for.
    pub sub_state: Option<SubState>,
    /// Why it needs a person.
    pub attention: Option<Attention>,
    /// A few words behind the attention label.
    pub attention_note: String,
    /// 0 (none) to 4 (highest).
    pub priority: u8,
    /// Order in the lane, ascending.
    pub position: i64,
    /// Kept from starting.
    pub hold: bool,
    /// Repository name.
    pub repo: String,
    /// Labels.
    pub labels: Vec<String>,
    /// Agent name.
    pub agent: String,
    /// Account of the live session.
    pub account: Option<String>,
    /// The live session.
    pub session: Option<SessionId>,
    /// Its role.
    pub role: Option<Role>,
    /// Its live line.
    pub activity: String,
    /// The last call that the running session's guard denied: path and rule; empty without one.
    pub denial: String,
    /// Number of criteria.
    pub criteria: u32,
    /// Criteria met in the last review.
    pub criteria_met: u32,
    /// Criteria not met in the last review.
    pub criteria_failed: u32,
    /// Review rounds.
    pub rounds: Vec<RoundMark>,
    /// Cost so far, millionths of a dollar.
    pub cost_usd_micros: i64,
    /// When it came to its status, ms since 1970.
    pub since: i64,
    /// Parent.
    pub parent: Option<ObjectiveId>,
    /// Children: total and done.
    pub children: (u32, u32),
    /// Objectives that must be done first and are not.
    pub waits_for: Vec<ObjectiveId>,
    /// Criteria are locked.
    pub locked: bool,
    /// A commit was delivered.
    pub delivered: bool,
    /// The review that applies.
    pub gate: Gate,
    /// The last verdict was a pass.
    pub passed: bool,
    /// Where a *cancelled* or *human_review* card came from.
    pub came_from: Option<Status>,
    /// Counters, for the rules.
    pub counters: Counters,
    /// Failed rounds before a person is asked.
    pub max_rounds: u32,
    /// A delegator.
    pub delegate: bool,
}

impl CardView {
    /// What the rules need to know, so that the page can say before a drop what it would do.
    pub fn facts(&self) -> crate::objective::Facts {
        crate::objective::Facts {
            kind: self.kind,
            gate: self.gate,
            status: self.status,
            sub_state: self.sub_state,
            attention: self.attention,
            hold: self.hold,
            criteria: self.criteria,
            locked: self.locked,
            delegate: self.delegate,
            delivered: self.delivered,
            live: self.session.is_some(),
            passed: self.passed,
            came_from: self.came_from,
            counters: self.counters,
            max_rounds: self.max_rounds,
        }
    }
}

/// A lane: the first cards and how many there are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LaneView {
    /// The status.
    pub status: Status,
    /// Cards in the lane under the filter.
    pub total: u32,
    /// The first of them, in order (done and cancelled: newest first).
    pub cards: Vec<CardView>,
}

/// Slots in use.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WipView {
    /// The cap in force (the setting, or less when accounts allow less).
    pub cap: u32,
    /// Slots kept for reviews.
    pub reserve: u32,
    /// Live work and delegate sessions.
    pub work: u32,
    /// Live plan sessions.
    pub plan: u32,
    /// Live review sessions.
    pub review: u32,
    /// When the oldest of the queue came there.
    pub oldest_in_queue: Option<i64>,
    /// Objectives that wait for a reviewer.
    pub review_depth: u32,
    /// Objectives in human_review.
    pub needs_you: u32,
    /// Why nothing new starts, if so (kill switch, no account, disk).
    pub stopped: Option<String>,
    /// The kill switch is set: only the machine itself enables again. Other reasons end by themselves.
    #[serde(default)]
    pub disabled: bool,
    /// No account is free, and this is when the first comes back by itself, ms since 1970.
    pub accounts_until: Option<i64>,
}

/// The board as of one event number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoardView {
    /// The event number the page was read at; the socket opens with `after=` this.
    pub seq: i64,
    /// Seven lanes in order.
    pub lanes: Vec<LaneView>,
    /// Slots.
    pub wip: WipView,
    /// Repositories, for the filter and the empty state.
    pub repos: Vec<RepoView>,
    /// Server time, ms since 1970: ages are computed against it until the page has its own clock.
    pub now: i64,
}

/// Filter of the board, as it stands in the URL.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BoardFilter {
    /// Repository name.
    #[serde(default)]
    pub repo: Option<String>,
    /// Words in the title, or `#42`.
    #[serde(default)]
    pub text: Option<String>,
}

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

/// Creates or edits an objective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewObjective {
    /// One line.
    pub title: String,
    /// Repository name.
    pub repo: String,
    /// Type.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Markdown.
    #[serde(default)]
    pub brief: String,
    /// One line.
    #[serde(default)]
    pub goal: String,
    /// Criteria.
    #[serde(default)]
    pub criteria: Vec<Criterion>,
    /// Base branch; none = the repository's.
    #[serde(default)]
    pub base: Option<String>,
    /// 0 to 4.
    #[serde(default)]
    pub priority: u8,
    /// Agent; none = demo.
    #[serde(default)]
    pub agent: Option<String>,
    /// Demo script.
    #[serde(default)]
    pub script: Option<String>,
    /// More review than the type asks for.
    #[serde(default)]
    pub review: Option<Gate>,
    /// Parent.
    #[serde(default)]
    pub parent: Option<ObjectiveId>,
    /// Objectives that must be done first.
    #[serde(default)]
    pub blocked_by: Vec<ObjectiveId>,
    /// Labels.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Do not start yet.
    #[serde(default)]
    pub hold: bool,
    /// Failed rounds before a person is asked.
    #[serde(default)]
    pub max_review_rounds: Option<u32>,
}

/// Changes to an objective; absent = unchanged. Status is not here: moves have their own door.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditObjective {
    /// The version the editor saw; another one is refused.
    #[serde(default)]
    pub version: Option<i64>,
    /// Title.
    #[serde(default)]
    pub title: Option<String>,
    /// Goal.
    #[serde(default)]
    pub goal: Option<String>,
    /// Brief.
    #[serde(default)]
    pub brief: Option<String>,
    /// Criteria; refused once locked.
    #[serde(default)]
    pub criteria: Option<Vec<Criterion>>,
    /// Priority.
    #[serde(default)]
    pub priority: Option<u8>,
    /// Hold.
    #[serde(default)]
    pub hold: Option<bool>,
    /// Type; only raised.
    #[serde(default, rename = "type")]
    pub kind: Option<Kind>,
    /// Review override; only raised.
    #[serde(default)]
    pub review: Option<Gate>,
    /// Labels.
    #[serde(default)]
    pub labels: Option<Vec<String>>,
    /// Agent.
    #[serde(default)]
    pub agent: Option<String>,
    /// Demo script.
    #[serde(default)]
    pub script: Option<String>,
    /// Objectives that must be done first; the whole list anew.
    #[serde(default)]
    pub blocked_by: Option<Vec<ObjectiveId>>,
    /// Failed rounds before a person is asked.
    #[serde(default)]
    pub max_review_rounds: Option<u32>,
}
