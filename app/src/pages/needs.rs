//! Needs you: everything that waits for a person, oldest first; two taps decide.

use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos_meta::Title;
use opkit_domain::event::Feed;
use opkit_domain::ids::ObjectiveId;
use opkit_domain::objective::{Attention, Status};
use opkit_domain::view::CardView;

use crate::api::board::{NeedsView, read_needs, resume_everything};
use crate::api::objective::{Act, decide};
use crate::ui::clock::{age, use_clock};
use crate::ui::data::{load_once, shown};
use crate::ui::frame;
use crate::ui::icons::drawn;
use crate::ui::parts::{awake, label_and_note, told_by};
use crate::ui::toast::use_toasts;
use crate::{format, live};

/// `/needs`.
#[component]
pub(crate) fn Needs() -> impl IntoView {
    let data = load_once(read_needs);
    let here = StoredValue::new(Vec::<ObjectiveId>::new());
    let clock = use_clock();
    let open = RwSignal::new(None::<ObjectiveId>);
    let asks = RwSignal::new(None::<ObjectiveId>);
    Effect::new(move |_| {
        live::listen(move |feed| match feed {
            Feed::Card { card, .. } if card.status == Status::HumanReview => data.refetch(),
            Feed::Card { card, .. } => {
                if here.with_value(|here| here.contains(&card.id)) {
                    data.refetch();
                }
            }
            Feed::Resync => data.refetch(),
            Feed::Hello { .. } | Feed::Wip { .. } | Feed::Activity { .. } => {}
        });
    });
    view! {
        <Title text="Needs you" />
        <div class="page page-narrow page-flush">
            {shown(data, "The list could not be read", move |view: NeedsView| {
                clock.seed(view.now);
                frame::read_at(view.seq);
                here.set_value(view.cards.iter().map(|card| card.id).collect());
                list(view, open, asks, move || data.refetch())
            })}
        </div>
    }
}

fn list(
    view: NeedsView,
    open: RwSignal<Option<ObjectiveId>>,
    asks: RwSignal<Option<ObjectiveId>>,
    again: impl Fn() + Copy + Send + Sync + 'static,
) -> AnyView {
    if view.cards.is_empty() {
        return view! {
            <div class="empty needs-empty">
                <h1 class="page-h1">"Nothing needs you"</h1>
                <p>"Objectives come here when they wait for your signature, your answer, or your decision."</p>
                <a class="btn" href="/">
                    "Go to the board"
                </a>
            </div>
        }
        .into_any();
    }
    let first = view.cards.first().map(|card| card.id);
    let count = view.cards.len();
    let stopped = view.cards.iter().filter(|card| card.attention == Some(Attention::Stopped)).count();
    let items = view.cards.into_iter().map(|card| item(&card, first, open, asks, again)).collect_view();
    view! {
        <h1 class="page-h1 page-head">"Needs you " <span class="muted num">{count.to_string()}</span></h1>
        {(stopped > 1).then(|| resume_button(stopped, again))}
        <ol class="needs" data-needs="">
            {items}
        </ol>
    }
    .into_any()
}

/// After stop-all: one action for all of them.
fn resume_button(stopped: usize, again: impl Fn() + Copy + Send + Sync + 'static) -> AnyView {
    let toasts = use_toasts();
    let busy = awake();
    view! {
        <p class="needs-all">
            <button
                class="btn"
                type="button"
                data-resume-all=""
                disabled=move || !busy.get()
                on:click=move |_| {
                    busy.set(false);
                    spawn_local(async move {
                        match resume_everything().await {
                            Ok(1) => toasts.good("1 objective starts again."),
                            Ok(count) => toasts.good(format!("{count} objectives start again.")),
                            Err(refusal) => toasts.failed("Nothing was started again.".to_owned(), &refusal),
                        }
                        busy.try_set(true);
                        again();
                    });
                }
            >
                {format!("Resume {stopped} stopped objectives")}
            </button>
        </p>
    }
    .into_any()
}

fn item(
    card: &CardView,
    first: Option<ObjectiveId>,
    open: RwSignal<Option<ObjectiveId>>,
    asks: RwSignal<Option<ObjectiveId>>,
    again: impl Fn() + Copy + Send + Sync + 'static,
) -> AnyView {
    let id = card.id;
    let is_open = Memo::new(move |_| open.get().or(first) == Some(id));
    let attention = card.attention;
    let failure = attention.is_some_and(Attention::is_failure);
    let (mark, tone) = if failure {
        (drawn("st c-failed", "s-failed"), "why t-failed")
    } else {
        (drawn("st c-needs", "s-needs"), "why t-needs")
    };
    let label = attention.map_or("Needs you", Attention::label);
    let why = label_and_note(label, &told_by(&card.attention_note));
    let mut facts = vec![card.repo.clone()];
    if card.criteria > 0 && card.criteria_met + card.criteria_failed > 0 {
        facts.push(format!("{} of {} criteria met", card.criteria_met, card.criteria));
    }
    if card.cost_usd_micros > 0 {
        facts.push(format::money(card.cost_usd_micros));
    }
    view! {
        <li class="need" data-card=id.to_string()>
            {mark}
            <button
                class="need-head"
                type="button"
                aria-expanded=move || if is_open.get() { "true" } else { "false" }
                on:click=move |_| open.set(Some(id))
            >
                <b>{card.title.clone()}</b>
                <span class=tone>{why}</span>
            </button>
            {age("age", card.since)}
            <span class="m">
                <span class="mono">{format!("#{id}")}</span>
                {facts.join(" · ")}
            </span>
            <div class="go" class:is-none=move || !is_open.get()>
                {decision(card, asks, again)}
                <a class="btn" href=format!("/objective/{id}")>
                    {if attention == Some(Attention::Blocked) { "Read and answer" } else { "Read first" }}
                </a>
            </div>
        </li>
    }
    .into_any()
}

/// The one decision that can be made without reading on: two taps, the second names the effect.
fn decision(
    card: &CardView,
    asks: RwSignal<Option<ObjectiveId>>,
    again: impl Fn() + Copy + Send + Sync + 'static,
) -> Option<AnyView> {
    let id = card.id;
    let toasts = use_toasts();
    let busy = RwSignal::new(false);
    let resumable = card.attention.is_some_and(Attention::is_resumable);
    let (what, label, sure) = if card.passed && card.delivered {
        (Act::Approve { integrate: None, reason: None }, "Approve", format!("Approve #{id}"))
    } else if resumable {
        (Act::Resume, "Resume", format!("Resume #{id}"))
    } else {
        return None;
    };
    let asked = move || asks.get() == Some(id);
    Some(
        view! {
            <button
                class="btn btn-primary"
                type="button"
                data-decide=""
                disabled=move || busy.get()
                on:click=move |_| {
                    if asks.get_untracked() != Some(id) {
                        asks.set(Some(id));
                        return;
                    }
                    busy.set(true);
                    let what = what.clone();
                    spawn_local(async move {
                        match decide(id, what).await {
                            Ok(message) => toasts.good(message),
                            Err(refusal) => toasts.failed(format!("#{id} stays as it is."), &refusal),
                        }
                        asks.try_set(None);
                        busy.try_set(false);
                        again();
                    });
                }
            >
                {move || if asked() { sure.clone() } else { label.to_owned() }}
            </button>
        }
        .into_any(),
    )
}
