//! The sheet of keyboard shortcuts, behind `?`.

use std::cell::RefCell;

use leptos::html::Div;
use leptos::prelude::*;
use wasm_bindgen::JsCast;
use web_sys::HtmlElement;

use super::icons::icon;

thread_local! {
    /// What had the focus before it opened; only a browser has one.
    static BEFORE: RefCell<Option<HtmlElement>> = const { RefCell::new(None) };
}

/// What really works, as rows of keys and words. Fixed text: one piece of HTML is the cheapest way to say it.
const ROWS: &str = concat!(
    "<dl class=\"keys\">",
    "<dt class=\"strong\">Everywhere</dt><dd></dd>",
    "<dt><kbd class=\"kbd\">C</kbd></dt><dd>New objective</dd>",
    "<dt><kbd class=\"kbd\">G</kbd> then <kbd class=\"kbd\">B</kbd></dt><dd>Board</dd>",
    "<dt><kbd class=\"kbd\">G</kbd> then <kbd class=\"kbd\">N</kbd></dt><dd>Needs you</dd>",
    "<dt><kbd class=\"kbd\">G</kbd> then <kbd class=\"kbd\">T</kbd></dt><dd>Terminals</dd>",
    "<dt><kbd class=\"kbd\">G</kbd> then <kbd class=\"kbd\">R</kbd></dt><dd>Repositories</dd>",
    "<dt><kbd class=\"kbd\">G</kbd> then <kbd class=\"kbd\">A</kbd></dt><dd>Accounts</dd>",
    "<dt><kbd class=\"kbd\">G</kbd> then <kbd class=\"kbd\">H</kbd></dt><dd>Health</dd>",
    "<dt class=\"strong\">On the board</dt><dd></dd>",
    "<dt>Arrows</dt><dd>From card to card</dd>",
    "<dt><kbd class=\"kbd\">Enter</kbd></dt><dd>Open the card</dd>",
    "<dt><kbd class=\"kbd\">M</kbd> or <kbd class=\"kbd\">Space</kbd></dt><dd>Move the card</dd>",
    "<dt><kbd class=\"kbd\">Esc</kbd></dt><dd>Put back what is in the hand</dd>",
    "<dt class=\"strong\">In a terminal</dt><dd></dd>",
    "<dt><kbd class=\"kbd\">/</kbd></dt><dd>Search the loaded lines</dd>",
    "<dt><kbd class=\"kbd\">F</kbd> or <kbd class=\"kbd\">End</kbd></dt><dd>Follow the newest line</dd>",
    "<dt><kbd class=\"kbd\">Home</kbd></dt><dd>The start of the record</dd>",
    "<dt><kbd class=\"kbd\">[</kbd> and <kbd class=\"kbd\">]</kbd></dt><dd>First and last error</dd>",
    "</dl>",
);

/// Where it shows. Esc, the button and a press beside it close it; the focus goes back to where it was.
pub(crate) fn sheet(open: RwSignal<bool>) -> AnyView {
    let dialog = NodeRef::<Div>::new();
    Effect::new(move |_| {
        if open.get() {
            BEFORE.set(document().active_element().and_then(|element| element.dyn_into().ok()));
            request_animation_frame(move || {
                if let Some(dialog) = dialog.get_untracked() {
                    dialog.focus().ok();
                }
            });
        }
    });
    let shut = move || {
        open.set(false);
        if let Some(element) = BEFORE.take() {
            element.focus().ok();
        }
    };
    view! {
        <div
            class="scrim"
            class:is-shut=move || !open.get()
            on:click=move |_| shut()
            on:keydown=move |event| {
                match event.key().as_str() {
                    "Escape" | "?" => shut(),
                    // There is one button to go to, and it closes.
                    "Tab" => {}
                    _ => return,
                }
                event.prevent_default();
                event.stop_propagation();
            }
        >
            <div
                class="dialog float"
                role="dialog"
                aria-modal="true"
                aria-label="Keyboard shortcuts"
                tabindex="-1"
                data-keys=""
                node_ref=dialog
                on:click=|event| event.stop_propagation()
            >
                <div class="row">
                    <h2>"Keyboard shortcuts"</h2>
                    <span class="sp"></span>
                    <button class="btn btn-quiet btn-icon btn-s" type="button" aria-label="Close" on:click=move |_| shut()>
                        {icon("x")}
                    </button>
                </div>
                <div inner_html=ROWS></div>
            </div>
        </div>
    }
    .into_any()
}
