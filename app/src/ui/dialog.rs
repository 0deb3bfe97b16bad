//! The dialog that asks before something is done.

use leptos::prelude::*;
use wasm_bindgen::JsCast;

use super::icons::icon;

/// Asks before something that cannot be undone. Esc and the quiet button keep things as they are.
#[component]
pub(crate) fn Confirm(
    /// It shows while this is true.
    open: RwSignal<bool>,
    /// The question, with its number.
    #[prop(into)]
    head: Signal<String>,
    /// What happens.
    text: AnyView,
    /// The button that changes nothing.
    keep: &'static str,
    /// The button that does it, with its number.
    #[prop(into)]
    act: Signal<String>,
    /// Nothing is lost by it: no red.
    #[prop(optional)]
    calm: bool,
    /// Does it.
    run: impl Fn() + Copy + Send + Sync + 'static,
) -> impl IntoView {
    let dialog = NodeRef::<leptos::html::Div>::new();
    Effect::new(move |was: Option<bool>| {
        let shown = open.get();
        if shown && was != Some(true) {
            mark_opener();
            focus_first(dialog);
        } else if !shown && was == Some(true) {
            back_to_opener();
        }
        shown
    });
    let shut = move || open.set(false);
    view! {
        <div
            class="scrim"
            class:is-shut=move || !open.get()
            on:click=move |_| shut()
            on:keydown=move |event| {
                if event.key() == "Escape" {
                    shut();
                } else if event.key() == "Tab" {
                    keep_focus(&event, dialog);
                }
                event.stop_propagation();
            }
        >
            <div
                class="dialog float"
                role="alertdialog"
                aria-modal="true"
                aria-label=move || head.get()
                node_ref=dialog
                on:click=|event| event.stop_propagation()
            >
                <h2>{move || head.get()}</h2>
                {text}
                <div class="dialog-foot">
                    <button class="btn" type="button" on:click=move |_| shut()>
                        {keep}
                    </button>
                    <button
                        class=if calm { "btn btn-primary" } else { "btn btn-danger-solid" }
                        type="button"
                        data-confirm=""
                        on:click=move |_| {
                            shut();
                            run();
                        }
                    >
                        {(!calm).then(|| icon("power"))}
                        {move || act.get()}
                    </button>
                </div>
            </div>
        </div>
    }
}

fn buttons(dialog: NodeRef<leptos::html::Div>) -> Vec<web_sys::HtmlElement> {
    let Some(list) = dialog.get_untracked().and_then(|element| element.query_selector_all("button").ok())
    else {
        return Vec::new();
    };
    (0..list.length()).filter_map(|at| list.get(at)?.dyn_into().ok()).collect()
}

/// Marks what has the focus, so that it goes back there. A mark in the page, because a handle to an element cannot
/// be kept where the server renders, too.
fn mark_opener() {
    if let Some(element) = document().active_element() {
        element.set_attribute("data-opener", "").ok();
    }
}

fn back_to_opener() {
    let Some(element) = document().query_selector("[data-opener]").ok().flatten() else { return };
    element.remove_attribute("data-opener").ok();
    if let Ok(element) = element.dyn_into::<web_sys::HtmlElement>() {
        element.focus().ok();
    }
}

fn focus_first(dialog: NodeRef<leptos::html::Div>) {
    request_animation_frame(move || {
        if let Some(first) = buttons(dialog).first() {
            first.focus().ok();
        }
    });
}

/// Tab goes round inside the dialog.
fn keep_focus(event: &web_sys::KeyboardEvent, dialog: NodeRef<leptos::html::Div>) {
    let all = buttons(dialog);
    let here = document().active_element();
    let at = all.iter().position(|button| here.as_ref().is_some_and(|here| here.is_same_node(Some(button))));
    let next = match at {
        Some(at) if event.shift_key() => (at + all.len() - 1) % all.len(),
        Some(at) => (at + 1) % all.len(),
        None => 0,
    };
    if let Some(button) = all.get(next) {
        event.prevent_default();
        button.focus().ok();
    }
}
