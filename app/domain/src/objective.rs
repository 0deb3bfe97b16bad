//! Objectives: types, statuses, attention reasons, criteria and the counters that bound every loop.

use serde::{Deserialize, Serialize};

use crate::ids::words;

words!(
    /// The type of an objective. It can only be raised: task → bug → project.
    Kind {
        /// Small, low-risk work: no review.
        Task = "task",
        /// Reviewed by the machine.
        Bug = "bug",
        /// Planned, reviewed by the machine, signed by a person.
        Project = "project",
    }
);

words!(
    /// How much review stands between the work and *done*.
    Gate {
        /// Only the floor.
        None = "none",
        /// The machine's reviewer.
        Ai = "ai",
        /// The machine's reviewer, then a person.
        AiHuman = "ai_human",
    }
);

impl Kind {
    /// The review that the type asks for at least.
    pub fn gate(self) -> Gate {
        match self {
            Kind::Task => Gate::None,
            Kind::Bug => Gate::Ai,
            Kind::Project => Gate::AiHuman,
        }
    }
}

words!(
    /// The seven stored statuses; each is a lane of the board.
    Status {
        /// Waits for a plan, or for a person's criteria.
        Planning = "planning",
        /// Waits for its turn.
        Queue = "queue",
        /// A work session runs, or something it waits for.
        Working = "working",
        /// The reviewer grades it, or it waits for a reviewer.
        AiReview = "ai_review",
        /// Needs a person.
        HumanReview = "human_review",
        /// Finished.
        Done = "done",
        /// Ended early.
        Cancelled = "cancelled",
    }
);

impl Status {
    /// The name people see.
    pub fn label(self) -> &'static str {
        match self {
            Status::Planning => "Planning",
            Status::Queue => "Queue",
            Status::Working => "Working",
            Status::AiReview => "AI review",
            Status::HumanReview => "Human review",
            Status::Done => "Done",
            Status::Cancelled => "Cancelled",
        }
    }

    /// Nothing follows by itself.
    pub fn is_final(self) -> bool {
        matches!(self, Status::Done | Status::Cancelled)
    }
}

words!(
    /// Why a *working*, *planning* or *ai_review* objective has no session at the moment.
    SubState {
        /// The cap is full.
        WaitingSlot = "waiting_slot",
        /// No account is free, or the last one hit a limit.
        WaitingAccount = "waiting_account",
        /// A delegator waits for a child to end.
        WaitingChildren = "waiting_children",
        /// The next session starts as soon as it is claimed.
        BetweenRuns = "between_runs",
    }
);

words!(
    /// Why an objective in *human_review* needs a person.
    Attention {
        /// Passed; a person signs.
        SignOff = "sign_off",
        /// The agent says what it lacks.
        Blocked = "blocked",
        /// Failed as often as allowed.
        RetriesExhausted = "retries_exhausted",
        /// The reviewer failed to give a verdict.
        ReviewError = "review_error",
        /// Sessions ended badly as often as allowed.
        SessionLost = "session_lost",
        /// The budget is used up.
        BudgetExhausted = "budget_exhausted",
        /// No account could take it for a day.
        NoAccount = "no_account",
        /// Planning gave no valid plan.
        PlanMissing = "plan_missing",
        /// The delivered branch is not what was worked on.
        Tampered = "tampered",
        /// It cannot be merged as it stands.
        Conflict = "conflict",
        /// Sessions could not be started.
        StartFailed = "start_failed",
        /// A person or stop-all stopped it.
        Stopped = "stopped",
        /// The agent finished without delivering anything.
        NoDeliverable = "no_deliverable",
    }
);

impl Attention {
    /// The words on the card.
    pub fn label(self) -> &'static str {
        match self {
            Attention::SignOff => "Sign off",
            Attention::Blocked => "Blocked",
            Attention::RetriesExhausted => "Retries exhausted",
            Attention::ReviewError => "Review error",
            Attention::SessionLost => "Session lost",
            Attention::BudgetExhausted => "Budget exhausted",
            Attention::NoAccount => "No account",
            Attention::PlanMissing => "Plan missing",
            Attention::Tampered => "Tampered",
            Attention::Conflict => "Merge conflict",
            Attention::StartFailed => "Start failed",
            Attention::Stopped => "Stopped",
            Attention::NoDeliverable => "Nothing delivered",
        }
    }

    /// It was stopped or lost on the way, not judged: it can go on where it was.
    pub fn is_resumable(self) -> bool {
        match self {
            Attention::Stopped
            | Attention::SessionLost
            | Attention::StartFailed
            | Attention::NoAccount
            | Attention::BudgetExhausted
            | Attention::ReviewError => true,
            Attention::SignOff
            | Attention::Blocked
            | Attention::RetriesExhausted
            | Attention::PlanMissing
            | Attention::Tampered
            | Attention::Conflict
            | Attention::NoDeliverable => false,
        }
    }

    /// Shown in the failed colour; the others are decisions that wait.
    pub fn is_failure(self) -> bool {
        match self {
            Attention::SignOff | Attention::Stopped | Attention::Conflict | Attention::PlanMissing => false,
            Attention::Blocked
            | Attention::RetriesExhausted
            | Attention::ReviewError
            | Attention::SessionLost
            | Attention::BudgetExhausted
            | Attention::NoAccount
            | Attention::Tampered
            | Attention::StartFailed
            | Attention::NoDeliverable => true,
        }
    }
}

words!(
    /// Where a delivered branch goes.
    Integration {
        /// The branch stays in the mirror.
        Keep = "keep",
        /// Into the base branch of the registered repository.
        Merge = "merge",
    }
);

/// One acceptance criterion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Criterion {
    /// What must be true.
    pub text: String,
    /// A command line whose exit status 0 means met; runs behind the wall.
    #[serde(default)]
    pub check: Option<String>,
}

/// Counters that survive restarts and bound every loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Failed rounds in the present allowance; a person's decision gives a new allowance.
    pub rounds: u32,
    /// Failed rounds ever.
    pub rounds_total: u32,
    /// Work sessions that ended badly since the last good one.
    pub run_failures: u32,
    /// Starts that failed since the last good one.
    pub start_failures: u32,
    /// Reviews without a valid verdict since the last valid one.
    pub review_errors: u32,
    /// Planning sessions without a valid plan.
    pub plan_failures: u32,
}

/// Sessions that may end badly before a person is asked.
pub const MAX_RUN_FAILURES: u32 = 3;
/// Starts that may fail before a person is asked.
pub const MAX_START_FAILURES: u32 = 5;
/// Reviews that may fail before a person is asked.
pub const MAX_REVIEW_ERRORS: u32 = 3;
/// Plans that may fail before a person is asked.
pub const MAX_PLAN_FAILURES: u32 = 2;
/// Failed rounds before a person is asked, unless the objective says otherwise.
pub const DEFAULT_MAX_ROUNDS: u32 = 3;

/// What the rules need to know of an objective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The type.
    pub kind: Kind,
    /// The review that applies: the type's, raised by the objective or the installation.
    pub gate: Gate,
    /// Where it is.
    pub status: Status,
    /// What it waits for.
    pub sub_state: Option<SubState>,
    /// Why it needs a person.
    pub attention: Option<Attention>,
    /// Kept from starting by a person.
    pub hold: bool,
    /// Number of criteria.
    pub criteria: u32,
    /// Criteria are locked once a work session was claimed.
    pub locked: bool,
    /// A delegator.
    pub delegate: bool,
    /// A commit of `obj/<id>` is in the mirror.
    pub delivered: bool,
    /// A session is live.
    pub live: bool,
    /// The last verdict was a pass, by machine or person.
    pub passed: bool,
    /// Status before *cancelled* or *human_review*, to go back to.
    pub came_from: Option<Status>,
    /// Counters.
    pub counters: Counters,
    /// Failed rounds before a person is asked.
    pub max_rounds: u32,
}

/// The longest title, in characters.
pub const MAX_TITLE: usize = 200;
/// The longest brief, in bytes.
pub const MAX_BRIEF: usize = 200_000;
/// The most criteria.
pub const MAX_CRITERIA: usize = 50;
/// The longest criterion or check, in bytes.
pub const MAX_CRITERION: usize = 4_000;

/// Text that was refused, with what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadText(pub String);

/// Checks a title and gives it back trimmed. Titles are plain text of one line.
pub fn title(text: &str) -> Result<String, BadText> {
    let text = text.trim();
    if text.is_empty() {
        return Err(BadText("The title is empty. Say in a few words what shall be true afterwards.".into()));
    }
    let count = text.chars().count();
    if count > MAX_TITLE {
        return Err(BadText(format!(
            "The title has {count} characters, {MAX_TITLE} at most. Put the rest into the brief."
        )));
    }
    if text.chars().any(char::is_control) {
        return Err(BadText(
            "The title contains control characters or line breaks. Remove them, or use the brief.".into(),
        ));
    }
    if text.chars().any(invisible) {
        return Err(BadText(
            "The title contains invisible or direction-changing characters. Remove them.".into(),
        ));
    }
    Ok(text.to_owned())
}

/// Characters that show nothing or turn the text around: a card could look empty, or like another one.
fn invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// Checks a longer text: a brief, a message, findings.
pub fn long_text(what: &str, text: &str) -> Result<String, BadText> {
    if text.len() > MAX_BRIEF {
        return Err(BadText(format!(
            "The {what} has {} bytes, {MAX_BRIEF} at most. Attach the rest as a file in the repository.",
            text.len()
        )));
    }
    if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r')) {
        return Err(BadText(format!("The {what} contains control characters. Remove them.")));
    }
    Ok(text.replace("\r\n", "\n").replace('\r', "\n"))
}

/// Checks a list of criteria.
pub fn criteria(list: &[Criterion]) -> Result<Vec<Criterion>, BadText> {
    if list.len() > MAX_CRITERIA {
        return Err(BadText(format!(
            "{} criteria, {MAX_CRITERIA} at most. Split the objective.",
            list.len()
        )));
    }
    list.iter()
        .enumerate()
        .map(|(at, criterion)| {
            let text = long_text("criterion", criterion.text.trim())?;
            let check = criterion.check.as_deref().map(str::trim).filter(|check| !check.is_empty());
            if text.is_empty() {
                return Err(BadText(format!("Criterion {} is empty. Say what must be true.", at + 1)));
            }
            if text.len() > MAX_CRITERION || check.is_some_and(|check| check.len() > MAX_CRITERION) {
                return Err(BadText(format!("Criterion {} is longer than {MAX_CRITERION} bytes.", at + 1)));
            }
            let check = check.map(|check| long_text("check", check)).transpose()?;
            Ok(Criterion { text, check })
        })
        .collect()
}
