//! A card. It is static: what changes is rendered anew, and the live line is written in place.

use std::sync::Arc;

use leptos::prelude::*;
use opkit_domain::objective::{Status, SubState};
use opkit_domain::view::CardView;

use crate::format;
use crate::pages::accounts::local_time;
use crate::ui::clock;
use crate::ui::icons::{drawn, icon12, icon14, kind_label, kind_mark, role_pulse};
use crate::ui::parts::{denied, denied_short, note_after, priority, rounds, ticks, told_by};

/// Draws one. `until` = when the first account comes back by itself, if none is free.
pub(crate) fn card(card: &Arc<CardView>, until: Signal<Option<i64>>) -> AnyView {
    let id = card.id.to_string();
    view! {
        <article
            class="card"
            class:is-hold=card.hold
            data-card=id.clone()
            data-version=card.version.to_string()
            aria-label=format!("#{id} {}, {}", card.title, kind_label(card.kind))
        >
            {top(card)}
            <h3 class="card-title">
                <a href=format!("/objective/{id}") data-open="" draggable="false">
                    {card.title.clone()}
                </a>
            </h3>
            {live(card)}
            {children(card)}
            {meta(card)}
            {note(card, until)}
            <button
                class="card-move"
                type="button"
                data-move=""
                aria-haspopup="menu"
                aria-label=format!("Move #{id} to another lane")
                title="Move to (M)"
            >
                {icon14("move")}
            </button>
        </article>
    }
    .into_any()
}

fn top(card: &CardView) -> AnyView {
    let waits = card.waits_for.first().map(|first| {
        let title = format::waits_for(*first);
        view! {
            <span class="row card-dep" title=title>
                {icon12("link")}
                <span class="id">{format!("#{first}")}</span>
            </span>
        }
    });
    view! {
        <div class="card-top">
            <span class="row" title=kind_label(card.kind)>
                {kind_mark(card.kind)}
            </span>
            <span class="id">{format!("#{}", card.id)}</span>
            {card
                .hold
                .then(|| {
                    view! {
                        <span class="row card-dep" title="On hold">
                            {icon12("pause")}
                            "hold"
                        </span>
                    }
                })}
            {waits}
            <span class="sp"></span>
            {priority(card.priority)}
            {clock::age("age", card.since)}
        </div>
    }
    .into_any()
}

fn live(card: &CardView) -> Option<AnyView> {
    card.session.as_ref()?;
    let line = if card.activity.is_empty() { "Starting".to_owned() } else { card.activity.clone() };
    Some(
        view! {
            <p class="card-live">
                <i class=role_pulse(card.role)></i>
                <span class="trunc" data-activity="">
                    {line}
                </span>
            </p>
        }
        .into_any(),
    )
}

fn children(card: &CardView) -> Option<AnyView> {
    let (total, done) = card.children;
    if total == 0 {
        return None;
    }
    let left = total.saturating_sub(done);
    Some(
        view! {
            <div class="card-meta" title=format!("{done} of {total} children done")>
                {icon12("tree")}
                <span class="bar">
                    <i class="d" style=format!("flex:{done}")></i>
                    <i class="q" style=format!("flex:{left}")></i>
                </span>
                <span class="num">{format!("{done} / {total}")}</span>
            </div>
        }
        .into_any(),
    )
}

fn meta(card: &CardView) -> AnyView {
    let running = card.session.is_some();
    let who = if running {
        card.account
            .as_ref()
            .map_or_else(|| card.agent.clone(), |account| format!("{} · {account}", card.agent))
    } else if card.labels.is_empty() {
        card.repo.clone()
    } else {
        format!("{}, {}", card.repo, card.labels.join(", "))
    };
    let judged = card.criteria_met + card.criteria_failed > 0;
    let show_ticks =
        !running && (card.status == Status::Queue || (card.status == Status::HumanReview && judged));
    let costs = card.cost_usd_micros > 0 || running;
    view! {
        <div class="card-meta">
            <span class=if running { "who trunc" } else { "trunc" } title=card.repo.clone()>
                {who}
            </span>
            <span class="sp"></span>
            {show_ticks.then(|| ticks(card))}
            {rounds(&card.rounds)}
            {costs.then(|| view! { <span class="cost" data-cost="">{format::money(card.cost_usd_micros)}</span> })}
        </div>
    }
    .into_any()
}

fn note(card: &CardView, until: Signal<Option<i64>>) -> Option<AnyView> {
    if card.session.is_some() && !card.denial.is_empty() {
        return Some(denial(&card.denial));
    }
    if let Some(attention) = card.attention.filter(|_| card.status == Status::HumanReview) {
        let (class, mark) = if attention.is_failure() {
            ("card-note f", drawn("st", "s-failed"))
        } else {
            ("card-note n", drawn("st", "s-needs"))
        };
        let note = told_by(&card.attention_note);
        return Some(
            view! {
                <p class=class title=note.clone()>
                    {mark}
                    <span class="trunc">
                        {attention.label()} " "
                        <span class="rest">{note_after(attention.label(), &note).to_owned()}</span>
                    </span>
                </p>
            }
            .into_any(),
        );
    }
    if let Some(first) = card.waits_for.first().filter(|_| card.status == Status::Queue) {
        return Some(waiting(format::waits_for(*first)));
    }
    if card.session.is_some() || card.hold || card.status.is_final() || card.status == Status::HumanReview {
        return None;
    }
    if card.sub_state == Some(SubState::WaitingAccount) {
        return Some(waiting_for_account(until));
    }
    if card.status == Status::Queue {
        return None;
    }
    let text = match (card.sub_state, card.status) {
        (Some(SubState::WaitingChildren), _) => "Waiting for children",
        (_, Status::AiReview) => "Waiting for a reviewer",
        (Some(SubState::WaitingSlot | SubState::BetweenRuns), Status::Planning)
        | (None, Status::Planning) => {
            if card.criteria == 0 {
                "Waiting for criteria"
            } else {
                "Waiting for you: queue it"
            }
        }
        (Some(SubState::WaitingSlot), _) => "Waiting for a slot",
        (Some(SubState::BetweenRuns | SubState::WaitingAccount) | None, _) => "Next session starts soon",
    };
    Some(waiting(text.to_owned()))
}

/// What the guard denied last: path and rule. It may take three lines; the timeline has the rest.
fn denial(text: &str) -> AnyView {
    view! {
        <p class="card-note f is-tall" title=denied(text).to_owned() data-denial="">
            {drawn("st", "s-failed")}
            <span>"Denied " <span class="rest">{denied_short(text).to_owned()}</span></span>
        </p>
    }
    .into_any()
}

fn waiting_for_account(until: Signal<Option<i64>>) -> AnyView {
    view! {
        <p class="card-note q" data-waits-account="">
            {icon14("clock")}
            <span class="trunc">
                {move || match until.get() {
                    Some(until) => view! { "No account until " {local_time(until)} }.into_any(),
                    None => "Waiting for an account".into_any(),
                }}
            </span>
        </p>
    }
    .into_any()
}

fn waiting(text: String) -> AnyView {
    view! {
        <p class="card-note q is-tall">
            {icon14("clock")}
            <span>{text}</span>
        </p>
    }
    .into_any()
}

/// Writes the live line and the cost into a card that stands in the page.
pub(crate) fn write_live(card: &CardView) {
    write(card, "data-activity", &card.activity);
    write(card, "data-cost", &format::money(card.cost_usd_micros));
}

fn write(card: &CardView, what: &str, text: &str) {
    let found = document().query_selector(&format!("[data-card=\"{}\"] [{what}]", card.id)).ok().flatten();
    if let Some(node) = found.and_then(|element| element.first_child()) {
        node.set_node_value(Some(text));
    }
}
