//! Sessions: one run of an agent for one objective in one role, and the files that a runner leaves.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::ids::{ObjectiveId, SessionId, words};

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

/// The oldest Landlock that makes an enforced wall: before it signals are not scoped, so that a session could end
/// others, and without root the service itself. Linux 6.12 has it.
pub const OLDEST_LANDLOCK: u32 = 6;

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

words!(
    /// Whether the kernel's wall is up.
    WallMode {
        /// Refuses to start when it cannot be put up completely.
        Enforced = "enforced",
        /// Only the guard; shown in red.
        HookOnly = "hook_only",
    }
);

/// The mode that holds where none is named: files of an older build.
fn enforced() -> WallMode {
    WallMode::Enforced
}

/// What the kernel lets a session do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WallSpec {
    /// Enforced or hook only.
    pub mode: WallMode,
    /// Directories and files below which writing is allowed.
    pub write: Vec<PathBuf>,
    /// Directories and files that can be read and executed; none = reads are not restricted.
    pub read: Option<Vec<PathBuf>>,
    /// Refuse `socket(AF_UNIX)` and io_uring with seccomp (*homes* mode).
    pub block_unix_sockets: bool,
    /// Each must refuse to be created and written, tried at each start.
    pub prove_no_write: Vec<PathBuf>,
    /// Each must refuse to be opened for reading.
    pub prove_no_read: Vec<PathBuf>,
    /// Each (a UNIX socket) must refuse a connection.
    pub prove_no_connect: Vec<PathBuf>,
}

/// What every session may read of the machine. Missing ones are skipped.
/// One list for the product and for the attack table that tries it.
pub const SYSTEM_READS: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/proc",
    "/sys/devices/system/cpu",
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/run/systemd/resolve",
];

/// The proof that `enter` gives at a start, stored as `proof.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WallProof {
    /// "enforced" or "hook_only".
    pub mode: WallMode,
    /// The Landlock ABI in force, 0 without.
    pub landlock_abi: u32,
    /// seccomp socket filter in force.
    pub seccomp: bool,
    /// The user the session runs as.
    pub uid: u32,
    /// One line for each attempt: what was tried and how the kernel answered.
    pub tried: Vec<ProofLine>,
}

/// One forbidden thing that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofLine {
    /// "write", "read" or "connect".
    pub what: String,
    /// The path.
    pub path: PathBuf,
    /// "EACCES", "EPERM", ... or "allowed" (which refuses the start, unless the mode is `hook_only`).
    pub answer: String,
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

/// What `opkit-session probe` reads on standard input: how sessions start an agent's CLI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentProbe {
    /// Program (absolute) and arguments, as in [`AgentSpec`]; what follows `--settings` and `--session-id` is the
    /// probe's own.
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

/// Size of a record segment, bytes. A segment's file name is its first offset, 16 decimal digits, then `.seg`.
pub const SEGMENT_BYTES: u64 = 4 << 20;

/// One line of the record's index: `offset ms kind lines`, separated by one space.
///
/// `offset` is a byte offset into the record at a line start, `ms` the milliseconds since 1970, `lines` the
/// number of lines before `offset`. Kinds: `d` data, `m` a mark (a step began), `x` segments before
/// `offset` were dropped, `e` an error line, `c` a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexLine {
    /// Byte offset of a line start.
    pub offset: u64,
    /// Milliseconds since 1970.
    pub ms: i64,
    /// The kind's letter.
    pub kind: char,
    /// Lines before the offset.
    pub lines: u64,
}

impl IndexLine {
    /// Reads one line; none for anything malformed (a torn last line, say).
    pub fn parse(text: &str) -> Option<IndexLine> {
        let mut words = text.split(' ');
        let line = IndexLine {
            offset: words.next()?.parse().ok()?,
            ms: words.next()?.parse().ok()?,
            kind: words.next()?.chars().next()?,
            lines: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(line)
    }
}

impl std::fmt::Display for IndexLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {} {}", self.offset, self.ms, self.kind, self.lines)
    }
}
