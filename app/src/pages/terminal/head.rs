//! The line over a terminal: whose it is, how it stands, the wall's proof, the way to stop it.

use std::time::Duration;

use leptos::prelude::*;
use leptos::task::spawn_local;
use opkit_domain::session::WallMode;
use opkit_domain::view::SessionView;

use super::is_live;
use super::screen::Signals;
use crate::api::places::stop_session;
use crate::format;
use crate::ui::clock::use_clock;
use crate::ui::icons::{drawn, icon, icon14, role_mark, role_pulse};
use crate::ui::toast::use_toasts;

pub(super) fn head(session: &SessionView, now: i64, shown: Signals) -> AnyView {
    let live = is_live(session);
    let over = move || shown.ended.with(Option::is_some) || !live;
    let pulse = role_pulse(Some(session.role));
    let start = session.started_at;
    let first = session.ended_at.unwrap_or(now) - start;
    let elapsed = RwSignal::new(format::clock(first));
    let clock = use_clock();
    Effect::new(move |_| {
        if let Ok(timer) = set_interval_with_handle(
            move || {
                if live && shown.ended.with_untracked(Option::is_none) {
                    elapsed.set(format::clock(clock.exact() - start));
                }
            },
            Duration::from_secs(1),
        ) {
            on_cleanup(move || timer.clear());
        }
    });
    let (turns, cost) = (session.turns, session.cost_usd_micros);
    let turns = move || shown.status.with(|s| s.as_ref().map_or(turns, |s| s.turns.max(turns)));
    let word = move || if turns() == 1 { " turn" } else { " turns" };
    let cost = move || {
        format::money(shown.status.with(|s| s.as_ref().map_or(cost, |s| s.cost_usd_micros.max(cost))))
    };
    let limit = format::duration(i64::try_from(session.wall_clock_s).unwrap_or(0) * 1000);
    view! {
        <header class="thead">
            <a class="thead-back" href=format!("/objective/{}", session.objective) aria-label="Back to the objective">
                {icon("left")}
            </a>
            {role_mark(session.role)}
            <a class="link mono muted" href=format!("/objective/{}", session.objective)>
                {format!("#{}", session.objective)}
            </a>
            <b class="trunc thead-title">{session.objective_title.clone()}</b>
            <span class="badge" class:badge-working=move || !over() data-state="">
                <i class=pulse class:is-none=over></i>
                {move || if over() { "Ended" } else { "Running" }}
            </span>
            <span class="sp"></span>
            <span class="v mono wide">{format!("{} · {}", session.agent, session.account)}</span>
            <span class="v">
                {icon14("clock")} <b>{move || elapsed.get()}</b> <span class="wide">{format!(" of {limit}")}</span>
            </span>
            <span class="v wide">
                <b>{move || turns().to_string()}</b>
                {word}
            </span>
            <span class="v">
                <b>{cost}</b>
            </span>
            {confined(session)}
            {live.then(|| interrupt(session, shown))}
        </header>
    }
    .into_any()
}

/// Whether the wall stands; pressed, it shows what was tried at the start and how the kernel answered.
fn confined(session: &SessionView) -> AnyView {
    let Some(proof) = &session.confinement else {
        return view! { <span class="v wide">{drawn("i i-14", "shield")} "No proof yet"</span> }.into_any();
    };
    let enforced = proof.mode == WallMode::Enforced;
    let (mark, words) = if enforced {
        ("i i-14 c-done", format!("Confined, {}", format::count(proof.tried.len() as u64, "proof")))
    } else {
        ("i i-14 c-failed", "Guard only".to_owned())
    };
    let (head, text) = if enforced {
        let text = format!(
            "The kernel's wall stands, Landlock ABI {}. Before the agent began, each of these was tried as user {} \
             and refused:",
            proof.landlock_abi, proof.uid
        );
        ("Confined", text)
    } else {
        let text = "The kernel's wall is off on this machine, and only the guard asks. What was tried before the \
                    agent began:";
        ("Guard only", text.to_owned())
    };
    let lines = proof
        .tried
        .iter()
        .map(|line| {
            view! {
                <dt class="break">{format!("{} ", line.what)} <span class="mono">{line.path.display().to_string()}</span></dt>
                <dd class="mono" class:t-failed=line.answer == "allowed">{line.answer.clone()}</dd>
            }
        })
        .collect_view();
    // The browser's own popover: Escape and a press beside it close it, and it works without scripts.
    view! {
        <button class="v proof-button" type="button" popovertarget="proof" aria-label=words.clone() data-proof="">
            {drawn(mark, "shield")} <span class="wide">{words.clone()}</span>
        </button>
        <div class="float proof" id="proof" popover="auto">
            <h2>{head}</h2>
            <p>{text}</p>
            <dl>{lines}</dl>
            <div class="dialog-foot">
                <button class="btn" type="button" popovertarget="proof" popovertargetaction="hide">
                    "Close"
                </button>
            </div>
        </div>
    }
    .into_any()
}

fn interrupt(session: &SessionView, shown: Signals) -> AnyView {
    let toasts = use_toasts();
    let busy = RwSignal::new(false);
    let id = session.id.clone();
    view! {
        <button
            class="btn btn-s btn-danger"
            class:is-none=move || shown.ended.with(Option::is_some)
            type="button"
            data-interrupt=""
            title="Stop this session. Its objective goes to Human review."
            disabled=move || busy.get()
            on:click=move |_| {
                busy.set(true);
                let id = id.clone();
                spawn_local(async move {
                    match stop_session(id).await {
                        Ok(()) => toasts.good("The session is being stopped. It gets 10 seconds to save."),
                        Err(refusal) => toasts.failed("It was not stopped.", &refusal),
                    }
                    busy.try_set(false);
                });
            }
        >
            {icon14("stop")}
            "Stop"
        </button>
    }
    .into_any()
}
