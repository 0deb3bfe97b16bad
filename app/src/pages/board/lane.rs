//! A lane: head, the slot or the reason while a card is in the hand, and a window of its cards.

use leptos::prelude::*;
use opkit_domain::objective::Status;
use wasm_bindgen::JsCast;

use super::card::card;
use super::model::{Lane, Model, Offer, SHOWN, STEP, px};
use crate::format;
use crate::ui::icons::{icon14, status_mark};

/// Draws a lane; cancelled ones are folded until somebody opens them.
pub(crate) fn lane(model: Model, lane: Lane, is_start: bool) -> AnyView {
    let status = lane.status;
    let offer = Memo::new(move |_| {
        model.drag.with(|drag| {
            let drag = drag.as_ref()?;
            let at = Status::ALL.iter().position(|have| *have == status)?;
            drag.offers.get(at).cloned()
        })
    });
    let is_over = Memo::new(move |_| {
        model.drag.with(|drag| drag.as_ref().is_some_and(|drag| drag.over == Some(status)))
    });
    let takes = move || offer.with(|offer| matches!(offer, Some(Offer::Takes { .. })));
    let refuses = move || offer.with(|offer| matches!(offer, Some(Offer::Refuses(_))));
    view! {
        <section
            class="lane"
            class:is-start=is_start
            class:is-thin-lane=move || !lane.open.get()
            class:is-target=takes
            class:is-over=move || is_over.get()
            class:is-illegal=refuses
            data-lane=status.as_str()
            aria-label=status.label()
        >
            {head(model, lane)}
            {hint(model, offer)}
            {body(model, lane)}
        </section>
    }
    .into_any()
}

fn head(model: Model, lane: Lane) -> AnyView {
    let status = lane.status;
    let folds = matches!(status, Status::Done | Status::Cancelled);
    view! {
        <header class="lane-head">
            {folds
                .then(|| {
                    view! {
                        <button
                            class="lane-fold"
                            type="button"
                            aria-expanded=move || if lane.open.get() { "true" } else { "false" }
                            aria-label=format!("Show or fold {}", status.label())
                            title="Show or fold"
                            on:click=move |_| lane.open.update(|open| *open = !*open)
                        >
                            {icon14("right")}
                        </button>
                    }
                })}
            {status_mark(status)}
            <h2 class="lane-name">{status.label()}</h2>
            <span class="count">{move || format::number(u64::from(lane.total.get()))}</span>
            <span class="sp"></span>
            <span class="meta">{move || fact(model, lane)}</span>
        </header>
    }
    .into_any()
}

/// The lane's one fact: what lives, what waits, how long.
fn fact(model: Model, lane: Lane) -> String {
    let now = model.clock.now();
    lane.cards.with(|cards| {
        let live = cards.iter().filter(|card| card.session.is_some()).count();
        let oldest = cards.iter().map(|card| card.since).min();
        match lane.status {
            Status::Planning | Status::Working if live > 0 => format!("{live} live"),
            Status::AiReview if cards.len() > live => format!("{} waiting", cards.len() - live),
            Status::Queue | Status::HumanReview => {
                let old = oldest.filter(|since| now - since >= 3_600_000);
                old.map(|since| format!("oldest {}", format::age(now - since))).unwrap_or_default()
            }
            Status::Done => {
                let today = cards.iter().filter(|card| now - card.since < 86_400_000).count();
                if today > 0 { format!("{today} in 24 h") } else { String::new() }
            }
            Status::Planning | Status::Working | Status::AiReview | Status::Cancelled => String::new(),
        }
    })
}

/// While a card is in the hand: the slot that says what a drop does, or the strip that says why not.
fn hint(model: Model, offer: Memo<Option<Offer>>) -> AnyView {
    view! {
        {move || match offer.get() {
            Some(Offer::Takes { act, then }) => {
                let id = model.drag.with_untracked(|drag| drag.as_ref().map(|drag| drag.card.id.0)).unwrap_or(0);
                let next = if act == "start" { " next" } else { "" };
                view! {
                    <div class="drop" data-slot="">
                        <b>{format!("Drop to {act} #{id}{next}")}</b>
                        <span class="drop-then">{then}</span>
                    </div>
                }
                    .into_any()
            }
            Some(Offer::Refuses(why)) => {
                view! {
                    <p class="lane-why" data-why="">
                        {icon14("x")}
                        <span>{why}</span>
                    </p>
                }
                    .into_any()
            }
            Some(Offer::Here) | None => ().into_any(),
        }}
    }
    .into_any()
}

fn body(model: Model, lane: Lane) -> AnyView {
    let window = move || {
        let start = lane.start.get();
        lane.cards.with(|cards| cards.iter().skip(start).take(SHOWN).cloned().collect::<Vec<_>>())
    };
    let rest = move || {
        let total = lane.total.get() as usize;
        total.saturating_sub(lane.cards.with(Vec::len))
    };
    let pad = move || lane.above.with(|steps| steps.iter().sum::<f64>());
    view! {
        <div class="lane-body" data-lane-body="" on:scroll=move |event| scrolled(model, lane, &event)>
            <div class="lane-pad" style:height=move || format!("{}px", px(pad()))></div>
            <For each=window key=|card| (card.id, card.version) let:one>
                {card(&one, model.until)}
            </For>
            <button
                class="btn btn-quiet btn-s lane-more"
                class:is-none=move || rest() == 0
                type="button"
                disabled=move || lane.loading.get()
                on:click=move |_| model.load_more(lane)
            >
                {move || format!("Show more, {} left", format::number(rest() as u64))}
            </button>
        </div>
    }
    .into_any()
}

/// Cards came while the lane stood at its end: the window may go on now.
pub(crate) fn look_again(status: Status) {
    request_animation_frame(move || {
        let place = format!("[data-lane={}] [data-lane-body]", status.as_str());
        if let (Ok(Some(body)), Ok(event)) =
            (document().query_selector(&place), web_sys::Event::new("scroll"))
        {
            body.dispatch_event(&event).ok();
        }
    });
}

/// Moves the window along: cards that went far out of sight leave the page, more are read before the end.
fn scrolled(model: Model, lane: Lane, event: &web_sys::Event) {
    let Some(body) = event.target().and_then(|target| target.dyn_into::<web_sys::HtmlElement>().ok()) else {
        return;
    };
    let top = f64::from(body.scroll_top());
    let left = f64::from(body.scroll_height()) - top - f64::from(body.client_height());
    let loaded = lane.cards.with_untracked(Vec::len);
    let start = lane.start.get_untracked();
    if left < 900.0 {
        if start + SHOWN < loaded {
            let Some(height) = height_of_step(&body) else { return };
            lane.above.update(|steps| steps.push_back(height));
            lane.start.set(start + STEP);
        } else if loaded < lane.total.get_untracked() as usize {
            model.load_more(lane);
        }
    } else if start > 0 {
        let pad = lane.above.with_untracked(|steps| steps.iter().sum::<f64>());
        if top < pad + 600.0 {
            lane.above.update(|steps| {
                steps.pop_back();
            });
            lane.start.set(start.saturating_sub(STEP));
        }
    }
}

/// The height that the first cards take, gaps included.
fn height_of_step(body: &web_sys::HtmlElement) -> Option<f64> {
    let cards = body.query_selector_all("[data-card]").ok()?;
    let top = |at: u32| cards.get(at)?.dyn_into::<web_sys::HtmlElement>().ok().map(|card| card.offset_top());
    let step = u32::try_from(STEP).ok()?;
    Some(f64::from(top(step)? - top(0)?))
}
