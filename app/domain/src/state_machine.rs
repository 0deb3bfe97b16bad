//! The state machine: `step` says what a trigger does to an objective, or why it does nothing.
//!
//! Every transition of the product goes through [`step`]. It is pure: the caller reads the facts, calls it
//! and stores the result in one transaction that compares the version.

use crate::objective::{
    Attention, Counters, Facts, Gate, Kind, MAX_PLAN_FAILURES, MAX_REVIEW_ERRORS, MAX_RUN_FAILURES,
    MAX_START_FAILURES, Status, SubState,
};
use crate::session::{Outcome, Role};
use crate::verdict::Decision;

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

/// A person wants it next, now.
fn start_next(facts: &Facts) -> Result<Transition, Refused> {
    use Status as S;
    match facts.status {
        S::Queue if facts.hold => refuse("It is on hold. Release the hold first."),
        S::Queue => to(facts, S::Queue, |t| t.first = true),
        S::Planning => refuse("It has no criteria yet. Give criteria, then it goes to the queue."),
        S::Working => refuse("It is being worked on already."),
        S::AiReview => refuse("It is in review. A failed review sends it back by itself."),
        S::HumanReview => refuse("It needs your decision first: reject with findings, or answer."),
        S::Done => refuse("It is done. Reopen it with a reason."),
        S::Cancelled => refuse("It is cancelled. Bring it back to the queue first."),
    }
}

/// A person gives criteria instead of a plan.
fn skip_planning(facts: &Facts) -> Result<Transition, Refused> {
    use Status as S;
    match facts.status {
        S::Planning if facts.criteria == 0 => refuse("It has no criteria. Give at least one first."),
        S::Planning if facts.live => refuse("A session is still running. Stop it first."),
        S::Planning => to(facts, S::Queue, |_| {}),
        S::Queue | S::Working | S::AiReview | S::HumanReview | S::Done | S::Cancelled => {
            refuse("It is not in planning.")
        }
    }
}

/// A person asks for another plan.
fn ask_plan(facts: &Facts) -> Result<Transition, Refused> {
    use Status as S;
    match facts.status {
        S::HumanReview if facts.locked => refuse("Its criteria are locked. Work has begun."),
        S::HumanReview => to(facts, S::Planning, |t| {
            t.counters = fresh(t.counters);
            t.sub_state = Some(SubState::BetweenRuns);
        }),
        S::Planning | S::Queue | S::Working | S::AiReview | S::Done | S::Cancelled => {
            refuse("Another plan can be asked for when a plan is missing.")
        }
    }
}

/// A person rejects or answers: a full new allowance of rounds.
fn send_back(facts: &Facts) -> Result<Transition, Refused> {
    use Status as S;
    match facts.status {
        S::HumanReview if facts.criteria == 0 => {
            refuse("It has no criteria. Give criteria, or ask for another plan.")
        }
        S::HumanReview => to(facts, S::Working, |t| {
            t.counters = fresh(t.counters);
            t.sub_state = Some(SubState::BetweenRuns);
            t.lock = true;
        }),
        S::Planning | S::Queue | S::Working | S::AiReview | S::Done | S::Cancelled => {
            refuse(format!("It is in {}. Only what is in Human review can be decided.", facts.status.label()))
        }
    }
}

/// A person asks for a fresh review.
fn fresh_review(facts: &Facts) -> Result<Transition, Refused> {
    use Status as S;
    match facts.status {
        S::HumanReview if !facts.delivered => refuse("Nothing was delivered that could be reviewed."),
        S::HumanReview => to(facts, S::AiReview, |t| {
            t.counters.review_errors = 0;
            t.counters.start_failures = 0;
            t.sub_state = Some(SubState::BetweenRuns);
        }),
        S::Planning | S::Queue | S::Working | S::AiReview | S::Done | S::Cancelled => {
            refuse("Comes here by itself when the work session delivers.")
        }
    }
}

/// A person reopens what is done.
fn reopen(facts: &Facts) -> Result<Transition, Refused> {
    use Status as S;
    match facts.status {
        S::Done => to(facts, S::Working, |t| {
            t.counters = fresh(t.counters);
            t.sub_state = Some(SubState::BetweenRuns);
            t.lock = true;
            t.false_pass = facts.passed;
        }),
        S::Planning | S::Queue | S::Working | S::AiReview | S::HumanReview | S::Cancelled => {
            refuse("Only what is done can be reopened.")
        }
    }
}

/// A person ends it early.
fn cancel(facts: &Facts) -> Result<Transition, Refused> {
    use Status as S;
    match facts.status {
        S::Done => refuse("It is done. Reopen it if it was wrong."),
        S::Cancelled => refuse("It is cancelled already."),
        S::Planning | S::Queue | S::Working | S::AiReview | S::HumanReview => to(facts, S::Cancelled, |t| {
            t.came_from = Some(facts.status);
            t.stop_session = facts.live;
            t.wakes_parent = true;
        }),
    }
}

/// A person brings it back, at most to the queue.
fn restore(facts: &Facts) -> Result<Transition, Refused> {
    use Status as S;
    match facts.status {
        S::Cancelled if facts.live => refuse("Its session is still being stopped. Wait a moment."),
        S::Cancelled => {
            let back =
                if facts.kind == Kind::Project && facts.criteria == 0 { S::Planning } else { S::Queue };
            to(facts, back, |t| t.counters = fresh(t.counters))
        }
        S::Planning | S::Queue | S::Working | S::AiReview | S::HumanReview | S::Done => {
            refuse("Only what is cancelled can be brought back.")
        }
    }
}

fn approve(facts: &Facts, reason: bool) -> Result<Transition, Refused> {
    use Status as S;
    match facts.status {
        S::HumanReview if facts.live => refuse("A session is still running. Stop it first."),
        S::HumanReview if !facts.delivered => {
            refuse("Nothing was delivered that could be accepted. Reject it with findings, or cancel it.")
        }
        S::HumanReview if facts.passed || reason => to(facts, S::Done, |t| t.wakes_parent = true),
        S::HumanReview => {
            refuse("The reviewer has not passed this. Give a reason to accept it all the same.")
        }
        S::AiReview if !facts.delivered => refuse("Nothing was delivered that could be accepted."),
        S::AiReview if reason => to(facts, S::Done, |t| {
            t.stop_session = facts.live;
            t.wakes_parent = true;
        }),
        S::AiReview => refuse("The review is not finished. Give a reason to override it."),
        S::Planning | S::Queue => {
            refuse("Nothing was done yet. It gets to Done by a passed review or a person.")
        }
        S::Working => refuse("It is being worked on. It gets to Done by a passed review or a person."),
        S::Done => refuse("It is done already."),
        S::Cancelled => refuse("It is cancelled. Bring it back to the queue first."),
    }
}

fn resume(facts: &Facts) -> Result<Transition, Refused> {
    use Status as S;
    match facts.status {
        S::HumanReview => match facts.attention {
            Some(
                Attention::Stopped
                | Attention::SessionLost
                | Attention::StartFailed
                | Attention::NoAccount
                | Attention::BudgetExhausted
                | Attention::ReviewError,
            ) => {
                let back = match facts.came_from {
                    Some(S::Planning) if !facts.locked => S::Planning,
                    Some(S::AiReview) if facts.delivered => S::AiReview,
                    Some(S::Planning | S::Queue | S::Working | S::AiReview | S::HumanReview)
                    | Some(S::Done | S::Cancelled)
                    | None => S::Working,
                };
                to(facts, back, |t| {
                    t.counters.run_failures = 0;
                    t.counters.start_failures = 0;
                    t.counters.review_errors = 0;
                    t.sub_state = Some(SubState::BetweenRuns);
                })
            }
            Some(
                Attention::SignOff
                | Attention::Blocked
                | Attention::RetriesExhausted
                | Attention::PlanMissing
                | Attention::Tampered
                | Attention::Conflict
                | Attention::NoDeliverable,
            )
            | None => refuse("It was not stopped. Approve it, reject it with findings, or answer."),
        },
        S::Planning | S::Queue | S::Working | S::AiReview | S::Done | S::Cancelled => {
            refuse("Only what was stopped or lost can be resumed.")
        }
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

/// The table of how a session can end.
fn ended(facts: &Facts, role: Role, outcome: Outcome, product: Product) -> Result<Transition, Refused> {
    let fits = match role {
        Role::Plan => Status::Planning,
        Role::Work | Role::Delegate => Status::Working,
        Role::Review => Status::AiReview,
    };
    if facts.status != fits {
        return refuse(format!("It is in {} and no longer waits for this session.", facts.status.label()));
    }
    match outcome {
        Outcome::Finished => match role {
            Role::Plan => plan_finished(facts, product),
            Role::Work | Role::Delegate => work_finished(facts, product),
            Role::Review => review_finished(facts, product),
        },
        Outcome::Blocked => needs_person(facts, Attention::Blocked),
        Outcome::Failed | Outcome::TimedOut | Outcome::TurnLimit | Outcome::Killed | Outcome::Lost => {
            match role {
                Role::Review => review_error(facts),
                Role::Plan | Role::Work | Role::Delegate => {
                    again(facts, Attention::SessionLost, MAX_RUN_FAILURES, |c| &mut c.run_failures)
                }
            }
        }
        Outcome::UsageLimited | Outcome::Overloaded | Outcome::AuthFailed => {
            to(facts, facts.status, |t| t.sub_state = Some(SubState::WaitingAccount))
        }
        Outcome::Budget => needs_person(facts, Attention::BudgetExhausted),
        Outcome::Stopped => needs_person(facts, Attention::Stopped),
        Outcome::NeverRan => {
            again(facts, Attention::StartFailed, MAX_START_FAILURES, |c| &mut c.start_failures)
        }
    }
}

fn plan_finished(facts: &Facts, product: Product) -> Result<Transition, Refused> {
    match product {
        Product::Plan if facts.criteria > 0 => {
            to(facts, Status::Queue, |t| t.counters = good_run(t.counters))
        }
        Product::Plan
        | Product::Nothing
        | Product::Deliverable
        | Product::RedFloor
        | Product::Verdict(_)
        | Product::Waits => again(facts, Attention::PlanMissing, MAX_PLAN_FAILURES, |c| &mut c.plan_failures),
    }
}

fn work_finished(facts: &Facts, product: Product) -> Result<Transition, Refused> {
    match product {
        Product::Deliverable => match facts.gate {
            Gate::None => to(facts, Status::Done, |t| {
                t.counters = good_run(t.counters);
                t.wakes_parent = true;
            }),
            Gate::Ai | Gate::AiHuman => to(facts, Status::AiReview, |t| {
                t.counters = good_run(t.counters);
                t.sub_state = Some(SubState::BetweenRuns);
            }),
        },
        Product::RedFloor => failed_round(facts, Attention::RetriesExhausted),
        Product::Waits if facts.delegate => to(facts, Status::Working, |t| {
            t.counters = good_run(t.counters);
            t.sub_state = Some(SubState::WaitingChildren);
        }),
        Product::Nothing | Product::Waits | Product::Plan | Product::Verdict(_) => {
            failed_round(facts, Attention::NoDeliverable)
        }
    }
}

fn review_finished(facts: &Facts, product: Product) -> Result<Transition, Refused> {
    match product {
        Product::Verdict(Decision::Pass) => match facts.gate {
            Gate::None | Gate::Ai => to(facts, Status::Done, |t| {
                t.counters.review_errors = 0;
                t.wakes_parent = true;
            }),
            Gate::AiHuman => needs_person(facts, Attention::SignOff),
        },
        Product::Verdict(Decision::Fail) | Product::RedFloor => {
            failed_round(facts, Attention::RetriesExhausted)
        }
        Product::Verdict(Decision::Blocked) => needs_person(facts, Attention::Blocked),
        Product::Nothing | Product::Deliverable | Product::Plan | Product::Waits => review_error(facts),
    }
}

/// A round failed: again, or a person.
fn failed_round(facts: &Facts, at_the_end: Attention) -> Result<Transition, Refused> {
    let mut counters = good_run(facts.counters);
    counters.review_errors = 0;
    counters.rounds += 1;
    counters.rounds_total += 1;
    let mut transition = if counters.rounds >= facts.max_rounds.max(1) {
        needs_person(facts, at_the_end)?
    } else {
        to(facts, Status::Working, |t| t.sub_state = Some(SubState::BetweenRuns))?
    };
    transition.counters = counters;
    Ok(transition)
}

fn review_error(facts: &Facts) -> Result<Transition, Refused> {
    again(facts, Attention::ReviewError, MAX_REVIEW_ERRORS, |c| &mut c.review_errors)
}

/// The same again in the same place, with a counter of its own and a bound.
fn again(
    facts: &Facts,
    at_the_end: Attention,
    bound: u32,
    counter: impl Fn(&mut Counters) -> &mut u32,
) -> Result<Transition, Refused> {
    let mut counters = facts.counters;
    *counter(&mut counters) += 1;
    let over = *counter(&mut counters) >= bound;
    let mut transition = if over {
        needs_person(facts, at_the_end)?
    } else {
        to(facts, facts.status, |t| t.sub_state = Some(SubState::BetweenRuns))?
    };
    transition.counters = counters;
    Ok(transition)
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

/// A person decided: a full new allowance. The total is kept.
fn fresh(counters: Counters) -> Counters {
    Counters { rounds_total: counters.rounds_total, ..Counters::default() }
}

/// A session did its job: failures of the past no longer count.
fn good_run(counters: Counters) -> Counters {
    Counters { run_failures: 0, start_failures: 0, ..counters }
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
