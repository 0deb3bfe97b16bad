//! The *Move to* menu and the board's keys: every move without dragging.

use leptos::prelude::*;
use opkit_domain::objective::Status;
use wasm_bindgen::JsCast;
use web_sys::{Element, HtmlElement, KeyboardEvent};

use super::model::{Menu, Model, Offer, focus_card, px};
use crate::ui::icons::{icon, status_mark};
use crate::ui::keys::is_typing;

/// Opens the menu for a card, beside the element that asked.
pub(crate) fn open(model: Model, card: &Element) {
    let Some(id) = card.get_attribute("data-card").and_then(|id| id.parse().ok()) else { return };
    let Some((_, view)) = model.find(id) else { return };
    let edge = card.get_bounding_client_rect();
    let size = |value: Result<wasm_bindgen::JsValue, _>| value.ok().and_then(|v| v.as_f64()).unwrap_or(800.0);
    let (width, height) = (size(window().inner_width()), size(window().inner_height()));
    let left = (edge.right() - 60.0).min(width - 356.0).max(8.0);
    let top = (edge.top() + 28.0).min(height - 400.0).max(8.0);
    let offers = model.offers(&view);
    let (from, choices) = (view.status, offers.clone());
    model.menu.set(Some(Menu { card: view, offers, at: (left, top) }));
    let first = first_choice(from, &choices);
    request_animation_frame(move || {
        // Enter on an open menu must never end anything: without a way on, the menu itself has the focus.
        let place = match first {
            Some(status) => format!("[data-move-menu] [data-move-to={}]", status.as_str()),
            None => "[data-move-menu]".to_owned(),
        };
        let item = document().query_selector(&place).ok().flatten();
        if let Some(item) = item.and_then(|item| item.dyn_into::<HtmlElement>().ok()) {
            item.focus().ok();
        }
    });
}

/// The first lane further on that takes the card; else any that does. Never the cancelled one.
fn first_choice(from: Status, offers: &[Offer]) -> Option<Status> {
    let takes = |(status, offer): &(&Status, &Offer)| {
        **status != Status::Cancelled && matches!(offer, Offer::Takes { .. })
    };
    let fits: Vec<Status> = Status::ALL.iter().zip(offers).filter(takes).map(|(status, _)| *status).collect();
    fits.iter().find(|status| **status > from).or(fits.first()).copied()
}

fn close(model: Model, menu: &Menu) {
    model.menu.set(None);
    focus_card(menu.card.id);
}

/// Where it shows.
pub(crate) fn menu(model: Model) -> AnyView {
    view! {
        {move || {
            model
                .menu
                .get()
                .map(|menu| {
                    let shut = menu.clone();
                    let keys = menu.clone();
                    view! {
                        <div class="menu-back" on:click=move |_| close(model, &shut)></div>
                        <div
                            class="menu float move-menu"
                            role="menu"
                            aria-label=format!("Move #{} to", menu.card.id)
                            tabindex="-1"
                            data-move-menu=""
                            style:left=format!("{}px", px(menu.at.0))
                            style:top=format!("{}px", px(menu.at.1))
                            on:keydown=move |event| on_menu_key(model, &keys, &event)
                        >
                            <p class="menu-head">
                                <span class="mono muted">{format!("#{}", menu.card.id)}</span>
                                <span class="trunc">{menu.card.title.clone()}</span>
                            </p>
                            {items(model, &menu, |status| status != Status::Cancelled)}
                            <a class="menu-item" role="menuitem" href=format!("/objective/{}", menu.card.id)>
                                {icon("right")}
                                "Open the objective"
                            </a>
                            <div class="menu-sep"></div>
                            {items(model, &menu, |status| status == Status::Cancelled)}
                        </div>
                    }
                })
        }}
    }
    .into_any()
}

fn items(model: Model, menu: &Menu, which: fn(Status) -> bool) -> Vec<AnyView> {
    Status::ALL
        .iter()
        .zip(menu.offers.clone())
        .filter(|(status, _)| which(**status))
        .map(|(status, offer)| item(model, menu, *status, offer))
        .collect()
}

fn item(model: Model, menu: &Menu, status: Status, offer: Offer) -> AnyView {
    let (off, text) = match offer {
        Offer::Here => (true, "It is here.".to_owned()),
        Offer::Takes { act: "start", .. } => (false, "Start next".to_owned()),
        Offer::Takes { act: "approve", .. } => (false, "Approve".to_owned()),
        Offer::Takes { then, .. } => (false, then.to_owned()),
        Offer::Refuses(why) => (true, why),
    };
    let menu = menu.clone();
    view! {
        <button
            class="menu-item move-item"
            class:is-off=off
            type="button"
            role="menuitem"
            data-move-to=status.as_str()
            aria-disabled=off.then_some("true")
            on:click=move |_| {
                if off {
                    return;
                }
                close(model, &menu);
                model.move_to(menu.card.id, status);
            }
        >
            {status_mark(status)}
            <span class="move-name">{status.label()}</span>
            <span class="move-why">{text}</span>
        </button>
    }
    .into_any()
}

fn on_menu_key(model: Model, menu: &Menu, event: &KeyboardEvent) {
    let step = match event.key().as_str() {
        "Escape" | "Tab" => {
            event.prevent_default();
            close(model, menu);
            return;
        }
        "ArrowDown" => 1,
        "ArrowUp" => -1,
        _ => return,
    };
    event.prevent_default();
    event.stop_propagation();
    let Some(here) = document().active_element() else { return };
    if here.has_attribute("data-move-menu") {
        let list = here.query_selector_all("[role=menuitem]").ok();
        let at = |list: &web_sys::NodeList| if step > 0 { 0 } else { list.length().saturating_sub(1) };
        let end = list.and_then(|list| list.get(at(&list)));
        if let Some(end) = end.and_then(|end| end.dyn_into::<HtmlElement>().ok()) {
            end.focus().ok();
        }
        return;
    }
    let next = if step > 0 { here.next_element_sibling() } else { here.previous_element_sibling() };
    if let Some(next) = next.and_then(|next| next.dyn_into::<HtmlElement>().ok()) {
        // The separator and the head take no focus; the key then does nothing more.
        if next.focus().is_ok() && document().active_element().as_ref() != Some(next.as_ref()) {
            let beyond = if step > 0 { next.next_element_sibling() } else { next.previous_element_sibling() };
            if let Some(beyond) = beyond.and_then(|beyond| beyond.dyn_into::<HtmlElement>().ok()) {
                beyond.focus().ok();
            }
        }
    }
}

/// Arrows go from card to card, M and Space open the menu; Enter is the link itself.
pub(crate) fn on_board_key(model: Model, event: &KeyboardEvent) {
    if is_typing(event) {
        return;
    }
    let target = event.target().and_then(|target| target.dyn_into::<Element>().ok());
    let Some(target) = target else { return };
    let Some(card) = target.closest("[data-card]").ok().flatten() else { return };
    match event.key().as_str() {
        "m" | "M" => open(model, &card),
        " " if target.closest("button").ok().flatten().is_none() => open(model, &card),
        "ArrowDown" => go(card.next_element_sibling()),
        "ArrowUp" => go(card.previous_element_sibling()),
        "ArrowRight" => aside(&card, true),
        "ArrowLeft" => aside(&card, false),
        _ => return,
    }
    event.prevent_default();
}

fn go(card: Option<Element>) {
    let link = card.and_then(|card| card.query_selector("[data-open]").ok().flatten());
    if let Some(link) = link.and_then(|link| link.dyn_into::<HtmlElement>().ok()) {
        link.focus().ok();
    }
}

/// The card at the same height in the next lane that has one.
fn aside(card: &Element, right: bool) {
    let Some(lane) = card.closest("[data-lane]").ok().flatten() else { return };
    let y = card.get_bounding_client_rect().top();
    let step =
        |lane: &Element| if right { lane.next_element_sibling() } else { lane.previous_element_sibling() };
    let mut next = step(&lane);
    while let Some(lane) = next {
        let cards = lane.query_selector_all("[data-card]").ok();
        let best = cards.and_then(|cards| {
            (0..cards.length())
                .filter_map(|at| cards.get(at)?.dyn_into::<Element>().ok())
                .min_by(|a, b| distance(a, y).total_cmp(&distance(b, y)))
        });
        if best.is_some() {
            go(best);
            return;
        }
        next = step(&lane);
    }
}

fn distance(card: &Element, y: f64) -> f64 {
    (card.get_bounding_client_rect().top() - y).abs()
}
