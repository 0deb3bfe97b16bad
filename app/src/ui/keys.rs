//! Single-key shortcuts. They are off while somebody types.

use std::cell::Cell;

use leptos::prelude::*;
use leptos_router::NavigateOptions;
use leptos_router::hooks::use_navigate;
use wasm_bindgen::JsCast;

thread_local! {
    /// `G` was the last key, at this time.
    static GO: Cell<f64> = const { Cell::new(0.0) };
}

/// Somebody writes: keys are letters.
pub(crate) fn is_typing(event: &web_sys::KeyboardEvent) -> bool {
    if event.ctrl_key() || event.meta_key() || event.alt_key() || event.is_composing() {
        return true;
    }
    event.target().and_then(|target| target.dyn_into::<web_sys::Element>().ok()).is_some_and(|element| {
        element.closest("input, textarea, select, [contenteditable]").ok().flatten().is_some()
    })
}

/// Listens on every page of the frame; `sheet` shows what there is.
pub(crate) fn listen(sheet: RwSignal<bool>) {
    let navigate = use_navigate();
    let listener = window_event_listener(leptos::ev::keydown, move |event| {
        if event.default_prevented() || is_typing(&event) {
            return;
        }
        let now = js_sys::Date::now();
        let going = now - GO.get() < 1200.0;
        GO.set(0.0);
        let key = event.key();
        let to = match key.as_str() {
            "g" | "G" => {
                GO.set(now);
                return;
            }
            "?" => {
                event.prevent_default();
                sheet.set(true);
                return;
            }
            // Pressed before the sheet has the focus.
            "Escape" if sheet.get_untracked() => {
                event.prevent_default();
                sheet.set(false);
                return;
            }
            "c" | "C" if !going => "/new",
            "n" | "N" if going => "/needs",
            "b" | "B" if going => "/",
            "t" | "T" if going => "/terminals",
            "a" | "A" if going => "/accounts",
            "h" | "H" if going => "/health",
            "r" | "R" if going => "/repositories",
            _ => return,
        };
        event.prevent_default();
        navigate(to, NavigateOptions::default());
    });
    on_cleanup(move || listener.remove());
}
