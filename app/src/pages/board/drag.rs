//! Dragging with the mouse or a pen. Fingers use the *Move to* menu, so that scrolling stays scrolling.

use std::cell::RefCell;

use leptos::prelude::*;
use opkit_domain::ids::ObjectiveId;
use opkit_domain::objective::Status;
use wasm_bindgen::JsCast;
use web_sys::{Element, HtmlElement, PointerEvent};

use super::model::{Drag, Model, Offer, px};

/// How far the pointer goes before a press becomes a drag.
const THRESHOLD: f64 = 5.0;

/// A press on a card, and the picture in the hand once it is picked up.
struct Press {
    id: ObjectiveId,
    from: (f64, f64),
    grip: (f64, f64),
    picture: Option<HtmlElement>,
    /// Inside its own lane: the card that it would stand before, and whether a place was found.
    place: Option<Option<ObjectiveId>>,
}

thread_local! {
    static PRESS: RefCell<Option<Press>> = const { RefCell::new(None) };
    /// The click that follows a drop is not meant.
    static SWALLOW: RefCell<bool> = const { RefCell::new(false) };
}

/// Listens for everything that happens after the press.
pub(crate) fn listen(model: Model) {
    let moved = window_event_listener(leptos::ev::pointermove, move |event| on_move(model, &event));
    let released = window_event_listener(leptos::ev::pointerup, move |event| on_release(model, &event));
    let ended = window_event_listener(leptos::ev::pointercancel, move |_| put_back(model));
    let keys = window_event_listener(leptos::ev::keydown, move |event| {
        if event.key() == "Escape" && model.drag.with_untracked(Option::is_some) {
            event.prevent_default();
            put_back(model);
            // The button is still down: letting go is no click on the card.
            SWALLOW.set(true);
        }
    });
    on_cleanup(move || {
        moved.remove();
        released.remove();
        ended.remove();
        keys.remove();
    });
}

/// A press on the board.
pub(crate) fn on_press(event: &PointerEvent) {
    SWALLOW.set(false);
    if event.button() != 0 || event.pointer_type() == "touch" {
        return;
    }
    let Some(target) = event.target().and_then(|target| target.dyn_into::<Element>().ok()) else { return };
    if target.closest("button").ok().flatten().is_some() {
        return;
    }
    let Some(card) = target.closest("[data-card]").ok().flatten() else { return };
    let Some(id) = id_of(&card) else { return };
    let edge = card.get_bounding_client_rect();
    let at = point(event);
    PRESS.set(Some(Press {
        id,
        from: at,
        grip: (at.0 - edge.left(), at.1 - edge.top()),
        picture: None,
        place: None,
    }));
}

/// Eats the click after a drop.
pub(crate) fn swallow_click(event: &web_sys::MouseEvent) {
    if SWALLOW.replace(false) {
        event.prevent_default();
        event.stop_propagation();
    }
}

fn on_move(model: Model, event: &PointerEvent) {
    let at = point(event);
    let started = PRESS.with_borrow_mut(|press| {
        let press = press.as_mut()?;
        if press.picture.is_none() {
            let far = (at.0 - press.from.0).hypot(at.1 - press.from.1) >= THRESHOLD;
            if !far || !pick_up(model, press) {
                return None;
            }
        }
        let picture = press.picture.as_ref()?;
        let place = format!("translate({}px, {}px)", px(at.0 - press.grip.0), px(at.1 - press.grip.1));
        picture.style().set_property("transform", &place).ok();
        Some(press.id)
    });
    if let Some(id) = started {
        event.prevent_default();
        hover(model, id, at);
    }
}

fn pick_up(model: Model, press: &mut Press) -> bool {
    let Some((_, card)) = model.find(press.id) else { return false };
    let Some(original) = element_of(press.id) else { return false };
    let Some(picture) =
        original.clone_node_with_deep(true).ok().and_then(|n| n.dyn_into::<HtmlElement>().ok())
    else {
        return false;
    };
    picture.remove_attribute("data-card").ok();
    picture.class_list().add_1("is-drag").ok();
    let width = original.get_bounding_client_rect().width();
    picture.style().set_property("width", &format!("{}px", px(width.ceil()))).ok();
    let Some(body) = document().body() else { return false };
    body.append_child(&picture).ok();
    body.class_list().add_1("is-dragging").ok();
    original.class_list().add_1("is-ghost").ok();
    press.picture = Some(picture);
    let offers = model.offers(&card);
    model.announce(format!("Picked up #{}, {}, in {}.", card.id, card.title, card.status.label()));
    model.menu.set(None);
    model.drag.set(Some(Drag { card, offers, over: None }));
    true
}

/// Finds the lane under the pointer, and the place inside the card's own lane.
fn hover(model: Model, id: ObjectiveId, at: (f64, f64)) {
    let under = under(at);
    let lane = under.as_ref().and_then(|element| element.closest("[data-lane]").ok().flatten());
    let status = lane.as_ref().and_then(|lane| lane.get_attribute("data-lane")?.parse::<Status>().ok());
    let Some((own, _)) = model.find(id) else { return };
    let is_own = status == Some(own.status) && own.status == Status::Queue;
    let place = if is_own { under.and_then(|element| place_in(&element, id, at.1)) } else { None };
    PRESS.with_borrow_mut(|press| {
        if let Some(press) = press.as_mut()
            && press.place != place
        {
            press.place = place;
            mark(place.flatten());
        }
    });
    if model.drag.with_untracked(|drag| drag.as_ref().is_some_and(|drag| drag.over != status)) {
        model.drag.update(|drag| {
            if let Some(drag) = drag {
                drag.over = status;
            }
        });
        scroll_to(lane.as_ref());
    }
}

/// The card that the dragged one would stand before; `Some(None)` = at the end of the lane.
fn place_in(under: &Element, id: ObjectiveId, y: f64) -> Option<Option<ObjectiveId>> {
    let card = under.closest("[data-card]").ok().flatten()?;
    let edge = card.get_bounding_client_rect();
    let here = id_of(&card)?;
    if here == id {
        return None;
    }
    if y < edge.top() + edge.height() / 2.0 {
        return Some(Some(here));
    }
    let mut next = card.next_element_sibling();
    while let Some(element) = &next {
        match id_of(element) {
            Some(other) if other == id => next = element.next_element_sibling(),
            Some(other) => return Some(Some(other)),
            None => break,
        }
    }
    Some(None)
}

fn on_release(model: Model, event: &PointerEvent) {
    let at = point(event);
    let Some(press) = PRESS.take() else { return };
    if press.picture.is_none() {
        return;
    }
    let lane = under(at).and_then(|element| element.closest("[data-lane]").ok().flatten());
    let status = lane.and_then(|lane| lane.get_attribute("data-lane")?.parse::<Status>().ok());
    let drag = model.drag.get_untracked();
    clear(model, &press);
    SWALLOW.set(true);
    let (Some(drag), Some(status)) = (drag, status) else { return };
    let offer = Status::ALL.iter().position(|have| *have == status).and_then(|at| drag.offers.get(at));
    match (offer, press.place) {
        (_, Some(place)) if status == drag.card.status => model.reorder(press.id, place),
        (Some(Offer::Takes { .. } | Offer::Refuses(_)), _) if status != drag.card.status => {
            model.move_to(press.id, status);
        }
        (Some(Offer::Takes { .. } | Offer::Refuses(_) | Offer::Here) | None, _) => {}
    }
}

fn put_back(model: Model) {
    if let Some(press) = PRESS.take()
        && press.picture.is_some()
    {
        clear(model, &press);
        model.announce(format!("#{} was put back.", press.id));
    }
}

fn clear(model: Model, press: &Press) {
    if let Some(picture) = &press.picture {
        picture.remove();
    }
    if let Some(body) = document().body() {
        body.class_list().remove_1("is-dragging").ok();
    }
    if let Some(original) = element_of(press.id) {
        original.class_list().remove_1("is-ghost").ok();
    }
    mark(None);
    model.drag.set(None);
}

/// Draws the line above the card that the dragged one would stand before.
fn mark(before: Option<ObjectiveId>) {
    if let Ok(Some(old)) = document().query_selector(".card.is-before") {
        old.class_list().remove_1("is-before").ok();
    }
    if let Some(card) = before.and_then(element_of) {
        card.class_list().add_1("is-before").ok();
    }
}

/// A lane that is half out of sight comes in.
fn scroll_to(lane: Option<&Element>) {
    let Some(lane) = lane else { return };
    let edge = lane.get_bounding_client_rect();
    let width = window().inner_width().ok().and_then(|width| width.as_f64()).unwrap_or(0.0);
    if edge.right() > width || edge.left() < 0.0 {
        lane.scroll_into_view();
    }
}

fn point(event: &PointerEvent) -> (f64, f64) {
    (f64::from(event.client_x()), f64::from(event.client_y()))
}

#[allow(clippy::cast_possible_truncation)] // Pixels of a window.
fn under(at: (f64, f64)) -> Option<Element> {
    document().element_from_point(at.0 as f32, at.1 as f32)
}

fn id_of(card: &Element) -> Option<ObjectiveId> {
    card.get_attribute("data-card")?.parse().ok()
}

fn element_of(id: ObjectiveId) -> Option<HtmlElement> {
    document().query_selector(&format!("[data-card=\"{id}\"]")).ok().flatten()?.dyn_into().ok()
}
