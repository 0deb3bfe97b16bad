//! Short notes at the corner, and the line that screen readers hear.

use std::time::Duration;

use leptos::prelude::*;
use leptos::server_fn::error::ServerFnError;

use super::icons::{drawn, icon};
use crate::api;

#[derive(Clone, PartialEq)]
struct Toast {
    id: u32,
    head: String,
    text: String,
    bad: bool,
}

/// Says things to people.
#[derive(Clone, Copy)]
pub(crate) struct Toasts {
    list: RwSignal<Vec<Toast>>,
    next: StoredValue<u32>,
    /// What is read aloud.
    said: RwSignal<String>,
}

impl Toasts {
    /// For the frame.
    pub(crate) fn new() -> Toasts {
        Toasts {
            list: RwSignal::new(Vec::new()),
            next: StoredValue::new(0),
            said: RwSignal::new(String::new()),
        }
    }

    /// Something happened.
    pub(crate) fn good(self, head: impl Into<String>) {
        self.push(head.into(), String::new(), false);
    }

    /// Something was refused; `text` says why.
    pub(crate) fn bad(self, head: impl Into<String>, text: impl Into<String>) {
        self.push(head.into(), text.into(), true);
    }

    /// A call failed. Whoever is logged out goes to the login page.
    pub(crate) fn failed(self, head: impl Into<String>, error: &ServerFnError) {
        let text = api::says(error);
        if text == api::LOG_IN {
            window().location().assign("/login").ok();
        }
        self.bad(head, text);
    }

    /// Read aloud, not shown.
    pub(crate) fn announce(self, text: impl Into<String>) {
        self.said.set(text.into());
    }

    fn push(self, head: String, text: String, bad: bool) {
        let id = self.next.get_value();
        self.next.set_value(id.wrapping_add(1));
        self.said.set(if text.is_empty() { head.clone() } else { format!("{head} {text}") });
        self.list.update(|list| {
            list.push(Toast { id, head, text, bad });
            if list.len() > 4 {
                list.remove(0);
            }
        });
        set_timeout(move || self.close(id), Duration::from_secs(8));
    }

    fn close(self, id: u32) {
        // The page may be gone by now.
        self.list.try_update(|list| list.retain(|toast| toast.id != id));
    }
}

/// The notes of the page.
pub(crate) fn use_toasts() -> Toasts {
    use_context::<Toasts>().unwrap_or_else(Toasts::new)
}

/// Where they show.
#[component]
pub(crate) fn ToastStack(toasts: Toasts) -> impl IntoView {
    view! {
        <div class="toasts">
            <For each=move || toasts.list.get() key=|toast| toast.id let:toast>
                <div class="toast float" data-toast=toast.id.to_string()>
                    {if toast.bad { drawn("st c-failed", "s-failed") } else { drawn("st c-done", "s-done") }}
                    <b>{toast.head.clone()}</b>
                    <button
                        class="btn btn-quiet btn-icon btn-s"
                        aria-label="Close"
                        on:click=move |_| toasts.close(toast.id)
                    >
                        {icon("x")}
                    </button>
                    {(!toast.text.is_empty()).then(|| view! { <p>{toast.text.clone()}</p> })}
                </div>
            </For>
        </div>
        <div class="sr" role="status" aria-live="polite">
            {move || toasts.said.get()}
        </div>
    }
}
