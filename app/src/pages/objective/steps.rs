//! The path of an objective: the statuses of its type, with the time spent in each.

use leptos::prelude::*;
use opkit_domain::objective::{Kind, Status};
use opkit_domain::view::{ObjectiveView, RoundMark};

use crate::format;
use crate::ui::clock::{ago, lasting};
use crate::ui::icons::{drawn, status_mark};

/// Draws the path.
pub(crate) fn path(view: &ObjectiveView) -> AnyView {
    let now = view.card.status;
    let list = statuses(view);
    let at = list.iter().position(|status| *status == now).unwrap_or(0);
    let steps = list
        .iter()
        .enumerate()
        .map(|(index, status)| {
            let time = time_in(view, *status);
            let is_now = *status == now;
            let is_over = index < at && !passed_over(view, *status);
            let is_past = is_over || (is_now && *status == Status::Done);
            let mark = if is_past {
                drawn("st c-done", "s-done")
            } else if is_now {
                status_mark(*status)
            } else {
                drawn("st c-queue", "s-queue")
            };
            let class = match (is_now, is_past, *status) {
                (true, _, Status::HumanReview) => "step is-now is-needs",
                (true, _, _) => "step is-now",
                (false, true, _) => "step",
                (false, false, _) => "step is-next",
            };
            let fact = if is_now { fact_now(view, *status) } else { fact(view, *status, time).into_any() };
            view! {
                <li class=class aria-current=is_now.then_some("step") data-step=status.as_str()>
                    <b>{mark} {status.label()}</b>
                    <span class="meta">{fact}</span>
                </li>
            }
        })
        .collect_view();
    view! {
        <ol class="stepper" aria-label="Status">
            {steps}
        </ol>
    }
    .into_any()
}

/// What the path of this objective has: its type's statuses, and where it is.
fn statuses(view: &ObjectiveView) -> Vec<Status> {
    let card = &view.card;
    let was = |status: Status| {
        card.status == status
            || view.events.iter().any(|event| event.to == Some(status) || event.from == Some(status))
    };
    Status::ALL
        .iter()
        .copied()
        .filter(|status| match status {
            Status::Planning => was(Status::Planning),
            Status::Queue | Status::Working => true,
            Status::AiReview => card.kind != Kind::Task || was(Status::AiReview),
            Status::HumanReview => card.kind == Kind::Project || was(Status::HumanReview),
            Status::Done => card.status != Status::Cancelled,
            Status::Cancelled => card.status == Status::Cancelled,
        })
        .collect()
}

/// Nobody reviewed what went from Working to a person: a step that never was gets no tick.
fn passed_over(view: &ObjectiveView, status: Status) -> bool {
    match status {
        Status::Working => view.sessions.is_empty(),
        Status::AiReview => view.reviews.is_empty() && view.card.rounds.is_empty(),
        Status::Planning | Status::Queue | Status::HumanReview | Status::Done | Status::Cancelled => false,
    }
}

/// All the time spent in a status, from the events.
fn time_in(view: &ObjectiveView, status: Status) -> Option<i64> {
    let mut since: Option<i64> = None;
    let mut total = None::<i64>;
    for event in view.events.iter().rev() {
        let Some(to) = event.to else { continue };
        if event.from == Some(to) && since.is_some() == (to == status) {
            continue;
        }
        if to == status {
            since.get_or_insert(event.at);
        } else if let Some(start) = since.take() {
            total = Some(total.unwrap_or(0) + event.at - start);
        }
    }
    if let Some(start) = since {
        total = Some(total.unwrap_or(0) + (view.now - start).max(0));
    }
    total
}

/// About the step it stands at: the time there ticks.
fn fact_now(view: &ObjectiveView, status: Status) -> AnyView {
    let card = &view.card;
    let words = match status {
        Status::Done => {
            return match &view.integrated {
                Some(how) => how.clone().into_any(),
                None => ago(card.since),
            };
        }
        Status::Cancelled => return ago(card.since),
        Status::HumanReview => {
            format!("{}, ", card.attention.map_or("you", |attention| attention.label()))
        }
        Status::Queue if card.hold => "on hold, ".to_owned(),
        Status::Queue => match card.waits_for.first() {
            Some(first) => format!("waits for #{first}, "),
            None => "for ".to_owned(),
        },
        Status::Planning | Status::Working | Status::AiReview => "for ".to_owned(),
    };
    view! {
        {words}
        {lasting(card.since, view.now)}
    }
    .into_any()
}

/// About a step that is over or has not come.
fn fact(view: &ObjectiveView, status: Status, time: Option<i64>) -> String {
    let card = &view.card;
    let spent = time.map(format::duration);
    match (status, spent) {
        (Status::AiReview, Some(spent)) => {
            let failed = card.rounds.iter().filter(|round| **round == RoundMark::Failed).count();
            match failed {
                0 => spent,
                1 => format!("failed once, {spent}"),
                n => format!("failed {n} times, {spent}"),
            }
        }
        (_, Some(spent)) => spent,
        (Status::Done, None) => "a branch you can take".into(),
        (Status::HumanReview, None) => "you sign".into(),
        (Status::AiReview, None) => "graded by its criteria".into(),
        (Status::Working, None) => "an agent at work".into(),
        (Status::Queue, None) => "waits for a slot".into(),
        (Status::Planning | Status::Cancelled, None) => String::new(),
    }
}
