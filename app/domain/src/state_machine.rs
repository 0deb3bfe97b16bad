//! The state machine: `step` says what a trigger does to an objective, or why it does nothing.
//!
//! Every transition of the product goes through [`step`]. It is pure: the caller reads the facts, calls it
//! and stores the result in one transaction that compares the version.

mod ended;
mod person;

use crate::objective::{Attention, Counters, Facts, Kind, Status, SubState};
use crate::session::{Outcome, Role};
use crate::verdict::Decision;

use ended::ended;
use person::{
    approve, ask_plan, cancel, fresh_review, reopen, restore, resume, send_back, skip_planning, start_next,
};

/// What the server found when a session had ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Product {
    /// Nothing that counts.
    Nothing,
    /// Work: a commit beyond the base and a real ARTIFACT.md (delegator: a synthesis).
    Deliverable,
    /// The floor was red.
    RedFloor,
    /// Review: a checked verdict.
    Verdict(Decision),
    /// Plan: a valid plan with criteria.
    Plan,
    /// Delegator: it waits for its children.
    Waits,
}

/// An input of the state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trigger {
    /// The dispatcher took slot, account and objective for a session of this role.
    Claimed(Role),
    /// A session ended.
    SessionEnded(Role, Outcome, Product),
    /// It waits because the cap is full.
    NoSlot,
    /// It waits because no account is free.
    NoAccountFree,
    /// It has waited for an account for a day.
    NoAccountForADay,
    /// A child ended; a delegator that waits wakes.
    ChildEnded,
    /// The branch cannot be merged.
    MergeConflict,
    /// The delivered branch is not what was worked on.
    Tampered,
    /// The budget is used up.
    BudgetUsedUp,
    /// A person wants it next, now.
    StartNext,
    /// A person skips planning; criteria are given.
    SkipPlanning,
    /// A person asks for another plan.
    AskPlan,
    /// A person accepts it; `reason` = a reason was recorded.
    Approve {
        /// A reason was recorded.
        reason: bool,
    },
    /// A person rejects it with findings.
    Reject,
    /// A person answers a blocker.
    Answer,
    /// A person starts again what was stopped or lost.
    Resume,
    /// A person asks for a fresh review.
    FreshReview,
    /// A person reopens it with a reason.
    Reopen,
    /// A person cancels it.
    Cancel,
    /// A person brings it back.
    Restore,
}

impl Trigger {
    /// The word in event rows.
    pub fn name(self) -> &'static str {
        match self {
            Trigger::Claimed(_) => "claimed",
            Trigger::SessionEnded(..) => "session_ended",
            Trigger::NoSlot => "no_slot",
            Trigger::NoAccountFree => "no_account_free",
            Trigger::NoAccountForADay => "no_account_for_a_day",
            Trigger::ChildEnded => "child_ended",
            Trigger::MergeConflict => "merge_conflict",
            Trigger::Tampered => "tampered",
            Trigger::BudgetUsedUp => "budget_used_up",
            Trigger::StartNext => "start_next",
            Trigger::SkipPlanning => "skip_planning",
            Trigger::AskPlan => "ask_plan",
            Trigger::Approve { .. } => "approve",
            Trigger::Reject => "reject",
            Trigger::Answer => "answer",
            Trigger::Resume => "resume",
            Trigger::FreshReview => "fresh_review",
            Trigger::Reopen => "reopen",
            Trigger::Cancel => "cancel",
            Trigger::Restore => "restore",
        }
    }
}

/// What a trigger does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// Status afterwards (may be the same).
    pub to: Status,
    /// Sub-state afterwards.
    pub sub_state: Option<SubState>,
    /// Attention afterwards; set exactly when `to` is human_review.
    pub attention: Option<Attention>,
    /// Where to go back to.
    pub came_from: Option<Status>,
    /// Counters afterwards.
    pub counters: Counters,
    /// The criteria lock now.
    pub lock: bool,
    /// It becomes first in its lane.
    pub first: bool,
    /// The live session has to be stopped.
    pub stop_session: bool,
    /// Something that had passed the gate was wrong.
    pub false_pass: bool,
    /// The parent gets a child-complete event.
    pub wakes_parent: bool,
}

/// A trigger that does nothing here, with a sentence that says why and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

fn refuse<T>(sentence: impl Into<String>) -> Result<T, Refused> {
    Err(Refused(sentence.into()))
}

/// Applies a trigger.
pub fn step(facts: &Facts, trigger: Trigger) -> Result<Transition, Refused> {
    use Status as S;
    match trigger {
        Trigger::Claimed(role) => claimed(facts, role),
        Trigger::SessionEnded(role, outcome, product) => ended(facts, role, outcome, product),
        Trigger::NoSlot => wait(facts, SubState::WaitingSlot),
        Trigger::NoAccountFree => wait(facts, SubState::WaitingAccount),
        Trigger::NoAccountForADay => match facts.status {
            S::Planning | S::Working | S::AiReview => needs_person(facts, Attention::NoAccount),
            S::Queue | S::HumanReview | S::Done | S::Cancelled => refuse("It does not wait for an account."),
        },
        Trigger::ChildEnded => match facts.status {
            S::Working if facts.sub_state == Some(SubState::WaitingChildren) => {
                to(facts, S::Working, |t| t.sub_state = Some(SubState::BetweenRuns))
            }
            S::Planning | S::Queue | S::Working | S::AiReview | S::HumanReview | S::Done | S::Cancelled => {
                refuse("It does not wait for children.")
            }
        },
        Trigger::MergeConflict => match facts.status {
            S::Working | S::AiReview | S::HumanReview => needs_person(facts, Attention::Conflict),
            S::Planning | S::Queue | S::Done | S::Cancelled => refuse("It is not being merged."),
        },
        Trigger::Tampered => match facts.status {
            S::Working | S::AiReview => needs_person(facts, Attention::Tampered),
            S::Planning | S::Queue | S::HumanReview | S::Done | S::Cancelled => {
                refuse("It has no delivery in progress.")
            }
        },
        Trigger::BudgetUsedUp => match facts.status {
            S::Planning | S::Working | S::AiReview => needs_person(facts, Attention::BudgetExhausted),
            S::Queue | S::HumanReview | S::Done | S::Cancelled => refuse("It is not running."),
        },
        Trigger::StartNext => start_next(facts),
        Trigger::SkipPlanning => skip_planning(facts),
        Trigger::AskPlan => ask_plan(facts),
        Trigger::Approve { reason } => approve(facts, reason),
        Trigger::Reject | Trigger::Answer => send_back(facts),
        Trigger::Resume => resume(facts),
        Trigger::FreshReview => fresh_review(facts),
        Trigger::Reopen => reopen(facts),
        Trigger::Cancel => cancel(facts),
        Trigger::Restore => restore(facts),
    }
}

fn claimed(facts: &Facts, role: Role) -> Result<Transition, Refused> {
    use Status as S;
    if facts.live {
        return refuse("It has a live session already.");
    }
    match (facts.status, role) {
        (S::Queue, Role::Work | Role::Delegate) if facts.hold => refuse("It is on hold."),
        (S::Queue, Role::Work | Role::Delegate) if facts.criteria == 0 && facts.kind != Kind::Task => {
            refuse("It has no criteria.")
        }
        (S::Queue, Role::Work | Role::Delegate) => to(facts, S::Working, |t| t.lock = true),
        (S::Working, Role::Work | Role::Delegate) if facts.sub_state == Some(SubState::WaitingChildren) => {
            refuse("It waits for its children.")
        }
        (S::Working, Role::Work | Role::Delegate) => to(facts, S::Working, |t| t.lock = true),
        (S::AiReview, Role::Review) => to(facts, S::AiReview, |_| {}),
        (S::Planning, Role::Plan) => to(facts, S::Planning, |_| {}),
        (S::Queue, Role::Plan | Role::Review)
        | (S::Working, Role::Plan | Role::Review)
        | (S::AiReview, Role::Plan | Role::Work | Role::Delegate)
        | (S::Planning, Role::Work | Role::Review | Role::Delegate)
        | (
            S::HumanReview | S::Done | S::Cancelled,
            Role::Plan | Role::Work | Role::Review | Role::Delegate,
        ) => refuse(format!("A {role} session does not fit {}.", facts.status.label())),
    }
}

fn wait(facts: &Facts, why: SubState) -> Result<Transition, Refused> {
    use Status as S;
    match facts.status {
        S::Planning | S::Working | S::AiReview
            if !facts.live && facts.sub_state != Some(SubState::WaitingChildren) =>
        {
            to(facts, facts.status, |t| t.sub_state = Some(why))
        }
        S::Planning | S::Working | S::AiReview | S::Queue | S::HumanReview | S::Done | S::Cancelled => {
            refuse("It does not wait for a session.")
        }
    }
}

fn needs_person(facts: &Facts, attention: Attention) -> Result<Transition, Refused> {
    to(facts, Status::HumanReview, |t| {
        t.attention = Some(attention);
        t.came_from = if facts.status == Status::HumanReview { facts.came_from } else { Some(facts.status) };
        t.stop_session = facts.live;
        t.wakes_parent = true;
    })
}

fn to(facts: &Facts, status: Status, change: impl FnOnce(&mut Transition)) -> Result<Transition, Refused> {
    let mut transition = Transition {
        to: status,
        sub_state: None,
        attention: None,
        came_from: None,
        counters: facts.counters,
        lock: facts.locked,
        first: false,
        stop_session: false,
        false_pass: false,
        wakes_parent: false,
    };
    change(&mut transition);
    Ok(transition)
}

/// What dropping a card on a lane means: the trigger it gives, or why it cannot be dropped there.
pub fn drag(facts: &Facts, target: Status) -> Result<Trigger, Refused> {
    use Status as S;
    let trigger = match target {
        S::Planning => match facts.status {
            S::HumanReview => Trigger::AskPlan,
            S::Cancelled => Trigger::Restore,
            S::Planning | S::Queue | S::Working | S::AiReview | S::Done => {
                return refuse("Only projects without criteria are planned, before the work begins.");
            }
        },
        S::Queue => match facts.status {
            S::Planning => Trigger::SkipPlanning,
            S::Cancelled => Trigger::Restore,
            S::Queue => return refuse("It is in the queue already."),
            S::Working => return refuse("It is being worked on. Cancel it first, then bring it back."),
            S::AiReview => return refuse("It is in review. A failed review sends it back to Working."),
            S::HumanReview => {
                return refuse("It needs your decision: approve, reject with findings, or answer.");
            }
            S::Done => return refuse("It is done. Reopen it with a reason on its page."),
        },
        S::Working => Trigger::StartNext,
        S::AiReview => Trigger::FreshReview,
        S::HumanReview => return refuse("Comes here by itself when a person is needed."),
        S::Done => Trigger::Approve { reason: false },
        S::Cancelled => Trigger::Cancel,
    };
    let transition = step(facts, trigger)?;
    let lands = transition.to == target || trigger == Trigger::StartNext;
    if lands { Ok(trigger) } else { refuse(format!("It would go to {}.", transition.to.label())) }
}

/// The role of the session that an objective wants now, if any.
pub fn wanted(facts: &Facts) -> Option<Role> {
    if facts.live {
        return None;
    }
    match facts.status {
        Status::Queue if facts.hold => None,
        Status::Queue => Some(if facts.delegate { Role::Delegate } else { Role::Work }),
        Status::Working => match facts.sub_state {
            Some(SubState::WaitingChildren) => None,
            Some(SubState::WaitingSlot | SubState::WaitingAccount | SubState::BetweenRuns) | None => {
                Some(if facts.delegate { Role::Delegate } else { Role::Work })
            }
        },
        Status::AiReview => Some(Role::Review),
        // Planning sessions come later: until then a person gives the criteria.
        Status::Planning | Status::HumanReview | Status::Done | Status::Cancelled => None,
    }
}
