//! What the end of a session does.

use super::{Product, Refused, Transition, needs_person, refuse, to};
use crate::objective::{
    Attention, Counters, Facts, Gate, MAX_PLAN_FAILURES, MAX_REVIEW_ERRORS, MAX_RUN_FAILURES,
    MAX_START_FAILURES, Status, SubState,
};
use crate::session::{Outcome, Role};
use crate::verdict::Decision;

/// The table of how a session can end.
pub(super) fn ended(
    facts: &Facts,
    role: Role,
    outcome: Outcome,
    product: Product,
) -> Result<Transition, Refused> {
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

/// A session did its job: failures of the past no longer count.
fn good_run(counters: Counters) -> Counters {
    Counters { run_failures: 0, start_failures: 0, ..counters }
}
