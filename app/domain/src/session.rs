//! Sessions: one run of an agent for one objective in one role, and the files that a runner leaves.

mod floor;
mod probe;
mod record;
mod wall;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::ids::{ObjectiveId, SessionId, words};

pub use floor::{Floor, FloorCommand, FloorCommandResult, FloorResult, FloorWhen};
pub use probe::{AgentProbe, ProbeCheck, ProbeReport};
pub use record::{IndexLine, SEGMENT_BYTES};
use wall::enforced;
pub use wall::{OLDEST_LANDLOCK, ProofLine, SYSTEM_READS, WallMode, WallProof, WallSpec};

words!(
    /// What a session is for.
    Role {
        /// Writes the plan and the criteria.
        Plan = "plan",
        /// Does the work in the worktree.
        Work = "work",
        /// Grades the deliverable.
        Review = "review",
        /// Spawns and judges children.
        Delegate = "delegate",
    }
);

words!(
    /// Where a session is in its life.
    SessionState {
        /// Claimed; the runner has not taken its lock yet.
        Starting = "starting",
        /// The runner holds its lock.
        Running = "running",
        /// Asked to end.
        Stopping = "stopping",
        /// Over, with an outcome.
        Ended = "ended",
    }
);

words!(
    /// How a session ended.
    Outcome {
        /// The agent said it is done, without an error.
        Finished = "finished",
        /// The agent reported that it needs a person.
        Blocked = "blocked",
        /// The agent ended with an error or without a result.
        Failed = "failed",
        /// The agent used all its turns.
        TurnLimit = "turn_limit",
        /// The wall clock or the idle limit ended it.
        TimedOut = "timed_out",
        /// The account's quota is used up until a reset.
        UsageLimited = "usage_limited",
        /// The provider is overloaded; the same account may try again.
        Overloaded = "overloaded",
        /// The account's credential was refused.
        AuthFailed = "auth_failed",
        /// The money or turn budget of the objective is used up.
        Budget = "budget",
        /// A person (or stop-all) stopped it.
        Stopped = "stopped",
        /// A signal from outside ended the agent.
        Killed = "killed",
        /// The runner vanished without an exit file.
        Lost = "lost",
        /// Nothing of the agent ever ran.
        NeverRan = "never_ran",
    }
);

/// A program to run, always an argument array, never a shell line (the floor's `sh -c` is the exception).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What people see in the record: "Making the worktree".
    pub title: String,
    /// Program (absolute path) and arguments.
    pub argv: Vec<String>,
    /// Working directory; must exist.
    pub cwd: PathBuf,
    /// Added to the session's environment for this step.
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// File (opened by the runner, outside the wall) that becomes standard input; none = empty.
    #[serde(default)]
    pub stdin: Option<PathBuf>,
    /// File in the session directory that takes standard output; none = shown in the record.
    #[serde(default)]
    pub stdout: Option<PathBuf>,
    /// Seconds until it is killed.
    pub timeout_s: u64,
    /// Bytes of output after which it is killed.
    pub max_output: u64,
    /// A failure of this step does not end the session.
    #[serde(default)]
    pub may_fail: bool,
    /// Write access beyond the session's own places, for this step only.
    #[serde(default)]
    pub extra_write: Vec<PathBuf>,
}

/// Whom a session's processes run as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Numeric user; never 0.
    pub uid: u32,
    /// Numeric primary group; never 0.
    pub gid: u32,
    /// Supplementary groups (the slot's group in *os-users*).
    pub groups: Vec<u32>,
}

/// Limits that the runner enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// Whole session, seconds.
    pub wall_clock_s: u64,
    /// Seconds without a byte from the agent.
    pub idle_s: u64,
    /// Bytes kept in the record; the oldest segments go first.
    pub record_bytes: u64,
    /// Seconds after the agent's polite interrupt.
    pub interrupt_s: u64,
    /// Seconds after TERM, then KILL.
    pub term_s: u64,
}

words!(
    /// How the runner reads an agent's output.
    OutputFormat {
        /// Claude Code's stream-json; the demo agent speaks the same.
        ClaudeStreamJson = "claude_stream_json",
        /// Plain lines; exit status 0 is "finished".
        Plain = "plain",
    }
);

/// The agent's own program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// Adapter name, shown to people: "demo", "claude".
    pub name: String,
    /// Program (absolute) and arguments.
    pub argv: Vec<String>,
    /// How its output is read.
    pub format: OutputFormat,
    /// Signal number of the polite interrupt (2 = SIGINT).
    pub polite_signal: i32,
}

/// `spec.json` in a session's directory: all that `opkit-session run` needs. It holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSpec {
    /// The run id.
    pub session: SessionId,
    /// The objective.
    pub objective: ObjectiveId,
    /// The role.
    pub role: Role,
    /// Title line of the record: plain text, already cleaned.
    pub banner: String,
    /// Steps before the agent; the first that fails ends the session as `never_ran`.
    pub prepare: Vec<Step>,
    /// The agent.
    pub agent: AgentSpec,
    /// The agent's working directory.
    pub cwd: PathBuf,
    /// The agent's standard input: the context document.
    pub context: PathBuf,
    /// The whole environment of everything that is started.
    pub env: Vec<(String, String)>,
    /// Variables whose value is the trimmed content of a 0600 file, given to the agent alone.
    pub secret_env: Vec<(String, PathBuf)>,
    /// User to become; none = stay (a service that is not root).
    pub identity: Option<Identity>,
    /// The wall.
    pub wall: WallSpec,
    /// Processes that its user may have at once. Counts per user, so only for a user of the account's own.
    #[serde(default)]
    pub processes: Option<u64>,
    /// Directory of the policy the agent runs under (guard policy, CLI settings, git configuration). The runner
    /// compares what is in it before the first step and after the last.
    #[serde(default)]
    pub policy: Option<PathBuf>,
    /// The version of the agent's CLI that was probed and keeps its promises; another one is stopped before its
    /// first call. None: any version.
    #[serde(default)]
    pub agent_version: Option<String>,
    /// Limits.
    pub limits: RunLimits,
    /// The floor, if this session has one.
    pub floor: Option<Floor>,
    /// Directory that gets a copy of `floor.json`, owned by the service, readable by the agent.
    pub floor_copy: Option<PathBuf>,
    /// Steps after every process of the agent is gone: snapshot and result bundles.
    pub collect: Vec<Step>,
    /// The start of the machine (the kernel's boot id) that it was written in. After a power cut neither this file nor
    /// those it names can be trusted.
    #[serde(default)]
    pub boot: String,
}

/// A request to end, written by the server as `stop.json` in the session directory (renamed into place).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRequest {
    /// The outcome that the exit file shall carry: `stopped` or `budget`.
    pub outcome: Outcome,
    /// Who asked: "owner", "stop-all by anna".
    pub by: String,
}

/// `exit.json`: the runner's last word, written atomically.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitFile {
    /// The run id.
    pub session: SessionId,
    /// How it ended. Never `lost` (only the server can say that).
    pub outcome: Outcome,
    /// One sentence for people: why, and who ended it.
    pub detail: String,
    /// The agent's exit status.
    pub status: Option<i32>,
    /// The signal that killed the agent.
    pub signal: Option<i32>,
    /// Milliseconds since 1970.
    pub started_at: i64,
    /// Milliseconds since 1970.
    pub ended_at: i64,
    /// Turns the agent reports.
    pub turns: u32,
    /// Cost the agent reports, millionths of a dollar.
    pub cost_usd_micros: i64,
    /// When a usage limit ends, milliseconds since 1970.
    pub reset_at: Option<i64>,
    /// The agent's final text, at most 4,000 characters.
    pub summary: String,
    /// The floor, if one ran.
    pub floor: Option<FloorResult>,
    /// Names of collect steps that failed, with the reason.
    pub collect_failed: Vec<String>,
    /// Calls that the guard denied.
    pub denials: u32,
    /// Bytes written to the record in total.
    pub record_len: u64,
    /// SHA-256 over the policy before the first step, hexadecimal; none without a policy.
    #[serde(default)]
    pub policy_start: Option<String>,
    /// The same after the last step; none when it could not be read any more.
    #[serde(default)]
    pub policy_end: Option<String>,
    /// The two differ: somebody changed the policy while it was in force.
    #[serde(default)]
    pub tampered: bool,
    /// Settings of the repository that would change the agent's behaviour and were not loaded.
    #[serde(default)]
    pub planted: Vec<String>,
    /// The guard failed to answer; the session was stopped for it.
    #[serde(default)]
    pub guard_broken: bool,
}

/// What the runner reports while it runs (`status.json`, replaced at most every second).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct RunStatus {
    /// Process id of the agent (as seen by the runner), 0 before it runs.
    pub agent_pid: u32,
    /// The live line: a verb or a count first, at most 120 characters.
    pub activity: String,
    /// Turns so far.
    pub turns: u32,
    /// Cost so far, millionths of a dollar.
    pub cost_usd_micros: i64,
    /// Calls denied so far.
    pub denials: u32,
    /// The last denial, for the card.
    pub last_denial: Option<String>,
    /// The guard failed to answer a call.
    pub guard_broken: bool,
    /// Settings of the repository that would change the agent's behaviour and were not loaded.
    #[serde(default)]
    pub planted: Vec<String>,
}

/// The policy the guard decides by, a file the agent can read and not write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardPolicy {
    /// The worktree (or the review directory's `tree`).
    pub worktree: PathBuf,
    /// Every directory below which writing is allowed (canonical).
    pub write: Vec<PathBuf>,
    /// Tools that may be used at all.
    pub tools: Vec<String>,
    /// Whether a kernel wall stands behind the guard; without one it denies what is not clear.
    #[serde(default = "enforced")]
    pub mode: WallMode,
    /// The operator's own hooks, argument arrays: asked after the guard allowed a call; each can deny it.
    #[serde(default)]
    pub operator_hooks: Vec<Vec<String>>,
}

/// Names of files in a session's directory.
pub mod files {
    /// [`super::RunSpec`].
    pub const SPEC: &str = "spec.json";
    /// What becomes of [`SPEC`], or stands in its place, when nothing may come of a launch any more.
    pub const CALLED_OFF: &str = "spec.called-off.json";
    /// Held exclusively (a POSIX record lock on the whole file) while the runner lives. Its content is the runner's
    /// pid as soon as it has its launch record; while it is empty nothing of the session ran.
    pub const LOCK: &str = "lock";
    /// [`super::ExitFile`].
    pub const EXIT: &str = "exit.json";
    /// [`super::StopRequest`].
    pub const STOP: &str = "stop.json";
    /// [`super::RunStatus`].
    pub const STATUS: &str = "status.json";
    /// [`super::WallProof`].
    pub const PROOF: &str = "proof.json";
    /// [`super::FloorResult`].
    pub const FLOOR: &str = "floor.json";
    /// The context document.
    pub const CONTEXT: &str = "context.md";
    /// The agent's own JSON lines, as they came.
    pub const TRANSCRIPT: &str = "transcript.jsonl";
    /// Directory of the record's segments.
    pub const RECORD: &str = "record";
    /// The record's index inside [`RECORD`].
    pub const INDEX: &str = "index";
    /// The bundle with `obj/<id>`.
    pub const RESULT_BUNDLE: &str = "result.bundle";
    /// The bundle with everything uncommitted.
    pub const RESCUE_BUNDLE: &str = "rescue.bundle";
}

/// The exit status with which a runner leaves when another one holds the lock.
pub const EXIT_LOCK_TAKEN: i32 = 75;
