//! What a person's triggers do.

use super::{Refused, Transition, refuse, to};
use crate::objective::{Attention, Counters, Facts, Kind, Status, SubState};

/// A person wants it next, now.
pub(super) fn start_next(facts: &Facts) -> Result<Transition, Refused> {
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
pub(super) fn skip_planning(facts: &Facts) -> Result<Transition, Refused> {
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
pub(super) fn ask_plan(facts: &Facts) -> Result<Transition, Refused> {
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
pub(super) fn send_back(facts: &Facts) -> Result<Transition, Refused> {
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
pub(super) fn fresh_review(facts: &Facts) -> Result<Transition, Refused> {
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
pub(super) fn reopen(facts: &Facts) -> Result<Transition, Refused> {
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
pub(super) fn cancel(facts: &Facts) -> Result<Transition, Refused> {
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
pub(super) fn restore(facts: &Facts) -> Result<Transition, Refused> {
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

pub(super) fn approve(facts: &Facts, reason: bool) -> Result<Transition, Refused> {
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

pub(super) fn resume(facts: &Facts) -> Result<Transition, Refused> {
    use Status as S;
    match facts.status {
        S::HumanReview if facts.attention.is_some_and(Attention::is_resumable) => {
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
        S::HumanReview => refuse("It was not stopped. Approve it, reject it with findings, or answer."),
        S::Planning | S::Queue | S::Working | S::AiReview | S::Done | S::Cancelled => {
            refuse("Only what was stopped or lost can be resumed.")
        }
    }
}

/// A person decided: a full new allowance. The total is kept.
fn fresh(counters: Counters) -> Counters {
    Counters { rounds_total: counters.rounds_total, ..Counters::default() }
}
