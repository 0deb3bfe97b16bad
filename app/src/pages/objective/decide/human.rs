//! The panel of an objective that waits for a person: why, and each answer.

use leptos::prelude::*;
use opkit_domain::objective::Attention;

use super::{Desk, Key, button, cancel, shell, text_field};
use crate::api::objective::Act;
use crate::ui::icons::drawn;
use crate::ui::parts::{capital, told_by};

pub(super) fn human(desk: Desk, key: &Key) -> AnyView {
    let attention = key.attention;
    let head = attention.map_or("Needs you", Attention::label).to_owned();
    let failed = attention.is_some_and(Attention::is_failure);
    let mark = if failed { drawn("st c-failed", "s-failed") } else { drawn("st c-needs", "s-needs") };
    let why = explain(key);
    let is_blocked = attention == Some(Attention::Blocked);
    let resumable = attention.is_some_and(Attention::is_resumable);
    let body = view! {
        <p class="ink2 break" data-why="">
            {why}
        </p>
        {resumable.then(|| button(desk, "btn btn-primary btn-block", "Resume", || Act::Resume))}
        {is_blocked.then(|| answer(desk))}
        {key.delivered.then(|| approve(desk, key))}
        {(!is_blocked && key.criteria > 0).then(|| reject(desk))}
        {key
            .delivered
            .then(|| button(desk, "btn btn-quiet btn-block", "Ask for a fresh review", || Act::FreshReview))}
        {(key.criteria == 0)
            .then(|| {
                view! {
                    <a class="btn btn-block" href=format!("/objective/{}/edit", desk.page.id)>
                        "Give criteria"
                    </a>
                }
            })}
        {cancel(desk)}
    }
    .into_any();
    shell(mark, &head, body)
}

fn explain(key: &Key) -> String {
    let note = told_by(key.note.trim());
    let note = if note.is_empty() { note } else { format!(" {}.", capital(note.trim_end_matches('.'))) };
    let text = match key.attention {
        Some(Attention::SignOff) => {
            return format!(
                "The reviewer passed all criteria in round {}. Your signature finishes the objective.",
                key.rounds.max(1)
            );
        }
        Some(Attention::Blocked) => "The agent says what it lacks. Answer, and it goes on.",
        Some(Attention::RetriesExhausted) => {
            "It failed as often as is allowed. Say what to do differently, or accept it with a reason."
        }
        Some(Attention::ReviewError) => "The reviewer gave no valid verdict, several times.",
        Some(Attention::SessionLost) => "Its sessions ended badly, several times.",
        Some(Attention::BudgetExhausted) => "Its budget is used up.",
        Some(Attention::NoAccount) => "No account could take it for a day.",
        Some(Attention::PlanMissing) => {
            "Planning gave no valid plan. Give criteria yourself, or ask for another plan."
        }
        Some(Attention::Tampered) => {
            "What was delivered is not what was worked on. Look at it before anything else."
        }
        Some(Attention::Conflict) => {
            "It cannot be merged as it stands. Reject it with a hint, or keep the branch."
        }
        Some(Attention::StartFailed) => "Its sessions could not be started.",
        Some(Attention::Stopped) => "It was stopped. Nothing was lost.",
        Some(Attention::NoDeliverable) => "The agent finished without delivering anything.",
        None => "It waits for your decision.",
    };
    format!("{text}{note}")
}

fn answer(desk: Desk) -> AnyView {
    view! {
        {text_field("Your answer", "It stands first in what the next session reads.", "answer", desk.answer)}
        <button
            class="btn btn-primary btn-block"
            type="button"
            data-answer=""
            disabled=move || desk.busy.get() || desk.answer.with(|text| text.trim().is_empty())
            on:click=move |_| desk.run(Act::Answer { text: desk.answer.get_untracked() }, Some(desk.answer))
        >
            "Send the answer"
        </button>
    }
    .into_any()
}

fn choice(desk: Desk, merge: bool, label: String, what: &'static str) -> AnyView {
    view! {
        <label class="opt" class:on=move || desk.merge.get() == merge>
            <input
                class="opt-input"
                type="radio"
                name="integrate"
                value=if merge { "merge" } else { "keep" }
                prop:checked=move || desk.merge.get() == merge
                on:change=move |_| desk.merge.set(merge)
            />
            <span>{label}</span>
            <span class="meta">{what}</span>
        </label>
    }
    .into_any()
}

fn approve(desk: Desk, key: &Key) -> AnyView {
    let passed = key.passed;
    let lacks = move || !passed && desk.reason.with(|text| text.trim().is_empty());
    let label = move || if desk.merge.get() { "Approve and merge" } else { "Approve, keep the branch" };
    let run = move |_| {
        let reason = Some(desk.reason.get_untracked()).filter(|text| !text.trim().is_empty());
        desk.run(Act::Approve { integrate: Some(desk.integration()), reason }, Some(desk.reason));
    };
    let class = if passed { "btn btn-primary btn-block btn-tall" } else { "btn btn-block" };
    view! {
        <div class="opts opts-1" role="radiogroup" aria-label="Where the branch goes">
            {choice(desk, true, format!("Merge into {}", key.base), "In the registered repository")}
            {choice(desk, false, "Keep the branch only".to_owned(), "You take it when you want")}
        </div>
        {(!passed)
            .then(|| {
                text_field("Reason to accept it all the same", "The reviewer has not passed this. The reason is recorded.", "reason", desk.reason)
            })}
        <button class=class type="button" data-approve="" disabled=move || desk.busy.get() || lacks() on:click=run>
            {label}
        </button>
        <div class="rule"></div>
    }
    .into_any()
}

fn reject(desk: Desk) -> AnyView {
    view! {
        {text_field("Findings for the next round", "They stand first in what the next session reads.", "findings", desk.findings)}
        <button
            class="btn btn-danger btn-block"
            type="button"
            data-reject=""
            disabled=move || desk.busy.get() || desk.findings.with(|text| text.trim().is_empty())
            on:click=move |_| desk.run(Act::Reject { findings: desk.findings.get_untracked() }, Some(desk.findings))
        >
            "Reject with findings"
        </button>
    }
    .into_any()
}
