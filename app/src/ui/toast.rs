//! Short notes at the corner, and the line that screen readers hear.

use std::sync::Arc;
use std::time::Duration;

use leptos::prelude::*;

use super::icons::{drawn, icon, icon14};
use crate::api::{Refusal, Why};

/// What takes back that of which a note tells: its label, and how.
#[derive(Clone)]
pub(crate) struct Undo {
    /// "Undo"
    pub(crate) label: &'static str,
    /// Does it.
    pub(crate) run: Arc<dyn Fn() + Send + Sync>,
}

#[derive(Clone)]
struct Toast {
    id: u32,
    head: String,
    text: String,
    bad: bool,
    undo: Option<Undo>,
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
        self.push(head.into(), String::new(), false, None);
    }

    /// Something happened that can be taken back as long as the note stands.
    pub(crate) fn with_undo(self, head: impl Into<String>, undo: Undo) {
        self.push(head.into(), String::new(), false, Some(undo));
    }

    /// Something was refused; `text` says why.
    pub(crate) fn bad(self, head: impl Into<String>, text: impl Into<String>) {
        self.push(head.into(), text.into(), true, None);
    }

    /// A call failed. Whoever is logged out goes to the login page.
    pub(crate) fn failed(self, head: impl Into<String>, refusal: &Refusal) {
        if refusal.why == Why::LoggedOut {
            window().location().assign("/login").ok();
        }
        self.bad(head, refusal.text.clone());
    }

    /// Read aloud, not shown.
    pub(crate) fn announce(self, text: impl Into<String>) {
        self.said.set(text.into());
    }

    fn push(self, head: String, text: String, bad: bool, undo: Option<Undo>) {
        let id = self.next.get_value();
        self.next.set_value(id.wrapping_add(1));
        self.said.set(if text.is_empty() { head.clone() } else { format!("{head} {text}") });
        self.list.update(|list| {
            list.push(Toast { id, head, text, bad, undo });
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
                    {toast.undo.clone().map(|undo| undo_button(toasts, toast.id, undo))}
                </div>
            </For>
        </div>
        <div class="sr" role="status" aria-live="polite">
            {move || toasts.said.get()}
        </div>
    }
}

fn undo_button(toasts: Toasts, id: u32, undo: Undo) -> AnyView {
    view! {
        <button
            class="btn btn-s toast-undo"
            type="button"
            data-undo=""
            on:click=move |_| {
                toasts.close(id);
                (undo.run)();
            }
        >
            {icon14("undo")}
            {undo.label}
        </button>
    }
    .into_any()
}
