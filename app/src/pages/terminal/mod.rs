//! The terminal of a session: live or from the record.

mod head;
mod paint;
mod screen;

use leptos::html::{Div, Input};
use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos_meta::Title;
use leptos_router::hooks::use_params_map;
use opkit_domain::ids::{ObjectiveId, SessionId};
use opkit_domain::session::SessionState;
use opkit_domain::view::SessionView;
use wasm_bindgen::JsCast;

use crate::api::objective::{Act, decide};
use crate::api::places::{SessionPage, read_session};
use crate::api::{Answer, Refusal, Why};
use crate::format;
use crate::ui::clock::use_clock;
use crate::ui::data::{load, shown_or};
use crate::ui::icons::{icon, icon14, role_label};
use crate::ui::keys::is_typing;
use crate::ui::parts::{capital, missing, value};
use crate::ui::toast::use_toasts;
use head::head;
use screen::Signals;

/// `/session/:id`.
#[component]
pub(crate) fn Terminal() -> impl IntoView {
    let params = use_params_map();
    let given = Memo::new(move |_| params.with(|p| p.get("id")).unwrap_or_default());
    let data = load(move || given.get(), move || read_given(given.get_untracked()));
    let clock = use_clock();
    view! {
        {shown_or(
            data,
            move |page: SessionPage| {
                clock.seed(page.now);
                view! { <Loaded page /> }.into_any()
            },
            |refusal| missing("This session is not here", refusal),
        )}
    }
}

/// What the address names; what is no id is no session.
async fn read_given(given: String) -> Result<Answer, ServerFnError> {
    match given.parse::<SessionId>() {
        Ok(id) => read_session(id).await,
        Err(_) => {
            let text = format!("There is no session “{given}”.");
            Ok(Answer::Refused(Refusal::new(Why::NotFound, text)))
        }
    }
}

#[component]
fn Loaded(page: SessionPage) -> impl IntoView {
    let SessionPage { session, now } = page;
    let shown = Signals::new();
    let frame = NodeRef::<Div>::new();
    let list = NodeRef::<Div>::new();
    let find = NodeRef::<Input>::new();
    let id = session.id.to_string();
    Effect::new(move |_| {
        if let (Some(frame), Some(list)) = (frame.get(), list.get()) {
            screen::open(id.clone(), shown, frame.unchecked_into(), list.unchecked_into());
        }
    });
    on_cleanup(screen::close);
    let size = RwSignal::new(13_u8);
    keys(shown, find);
    view! {
        <Title text=format!("{} of #{}", role_label(session.role), session.objective) />
        <h1 class="sr">{format!("Terminal of #{}, {}", session.objective, session.objective_title)}</h1>
        {head(&session, now, shown)}
        {tools(shown, find, size)}
        <div class="tbody" data-live=move || shown.link.get().word()>
            <div
                class="term"
                class:term-s=move || { size.get() < 13 }
                class:term-l=move || { size.get() > 13 }
                role="log"
                aria-live="off"
                aria-label="Agent output"
                tabindex="0"
                data-term=""
                data-ready=move || shown.ready.get().then_some("")
                node_ref=frame
                on:scroll=|_| screen::scrolled()
            >
                {earlier(shown)}
                <div class="tl-list" node_ref=list></div>
                {ended(shown)}
            </div>
            {map(shown)}
            {jump(shown)}
        </div>
        {foot(&session, shown)}
    }
}

fn is_live(session: &SessionView) -> bool {
    session.state != SessionState::Ended
}

fn tools(shown: Signals, find: NodeRef<Input>, size: RwSignal<u8>) -> AnyView {
    let toasts = use_toasts();
    let errors = move || shown.status.with(|status| status.as_ref().map_or(0, |status| status.errors.len()));
    let go = move |last: bool| {
        let line = shown.status.with_untracked(|status| {
            let errors = &status.as_ref()?.errors;
            if last { errors.iter().max().copied() } else { errors.iter().min().copied() }
        });
        if let Some(line) = line {
            screen::go_to(line);
        }
    };
    let copy = move |_| {
        let text = screen::text();
        let lines = text.lines().count();
        // The promise is not awaited: a browser that forbids it says so itself.
        let _promise = window().navigator().clipboard().write_text(&text);
        toasts.good(format!("{} copied.", format::count(lines as u64, "line")));
    };
    view! {
        <div class="tfind">
            <label class="input">
                {icon14("search")}
                <input
                    type="search"
                    aria-label="Search the loaded lines"
                    placeholder="Search the loaded lines"
                    data-find=""
                    node_ref=find
                    on:input=move |event| screen::search(&value(&event))
                    on:keydown=move |event| {
                        if event.key() == "Enter" {
                            event.prevent_default();
                            screen::next_hit(!event.shift_key());
                        }
                    }
                />
                {count(shown)}
            </label>
            <button class="btn btn-icon btn-quiet" type="button" aria-label="Previous match" on:click=|_| screen::next_hit(false)>
                {icon("up")}
            </button>
            <button class="btn btn-icon btn-quiet" type="button" aria-label="Next match" on:click=|_| screen::next_hit(true)>
                {icon("down")}
            </button>
            <span class="vr"></span>
            <button class="btn btn-quiet" type="button" disabled=move || errors() == 0 title="[" on:click=move |_| go(false)>
                "First error"
            </button>
            <button class="btn btn-quiet" type="button" disabled=move || errors() == 0 title="]" on:click=move |_| go(true)>
                "Last error"
            </button>
            <span class="sp"></span>
            <button class="btn btn-icon btn-quiet" type="button" aria-label="Copy the loaded lines" title="Copy the loaded lines" on:click=copy>
                {icon("copy")}
            </button>
            <button
                class="btn btn-icon btn-quiet"
                type="button"
                aria-label="Smaller text"
                on:click=move |_| size.update(|size| *size = if *size > 13 { 13 } else { 11 })
            >
                {icon("minus")}
            </button>
            <button
                class="btn btn-icon btn-quiet"
                type="button"
                aria-label="Larger text"
                on:click=move |_| size.update(|size| *size = if *size < 13 { 13 } else { 16 })
            >
                {icon("plus")}
            </button>
        </div>
    }
    .into_any()
}

/// Which match is shown, or that there is none.
fn count(shown: Signals) -> AnyView {
    let text = move || match (shown.hits.get(), shown.searching.get()) {
        ((_, 0), true) => "No match in the loaded lines".to_owned(),
        ((_, 0), false) => String::new(),
        ((at, count), _) => format!("{at} of {count}"),
    };
    view! {
        <span class="meta num find-count" role="status">
            {text}
        </span>
    }
    .into_any()
}

fn earlier(shown: Signals) -> AnyView {
    view! {
        <div class="mark-line" class:is-none=move || shown.earlier.get() == 0>
            {move || format!("{} in the record. Scroll up to load them.", format::count(shown.earlier.get(), "earlier line"))}
        </div>
    }
    .into_any()
}

fn ended(shown: Signals) -> AnyView {
    view! {
        <div class="mark-line" class:is-none=move || shown.ended.with(Option::is_none) data-ended="">
            {move || capital(&shown.ended.get().unwrap_or_default())}
        </div>
    }
    .into_any()
}

/// The right edge: where errors are in the whole record.
fn map(shown: Signals) -> AnyView {
    let marks = move || {
        shown.status.with(|status| {
            let Some(status) = status else { return Vec::new() };
            status
                .errors
                .iter()
                .map(|line| {
                    // A place in per mille of the record; rounding does not matter.
                    let place = line.saturating_mul(1000) / status.lines.max(1);
                    let top = format!("{}.{}%", place.min(990) / 10, place.min(990) % 10);
                    view! { <i style:top=top></i> }
                })
                .collect::<Vec<_>>()
        })
    };
    view! {
        <div class="map" aria-hidden="true">
            {marks}
        </div>
    }
    .into_any()
}

fn jump(shown: Signals) -> AnyView {
    view! {
        <div class="jump float" class:is-none=move || shown.follow.get() data-paused="">
            <span>
                {move || match shown.unseen.get() {
                    0 => "Paused".to_owned(),
                    n => format!("Paused, {}", format::count(n, "new line")),
                }}
            </span>
            <button class="btn btn-s" type="button" data-follow="" on:click=|_| screen::follow()>
                {icon14("down")}
                "Follow "
                <kbd class="kbd">"F"</kbd>
            </button>
        </div>
    }
    .into_any()
}

/// Messages go to the objective: its next session reads them.
fn foot(session: &SessionView, shown: Signals) -> AnyView {
    let toasts = use_toasts();
    let text = RwSignal::new(String::new());
    let busy = RwSignal::new(false);
    let id: ObjectiveId = session.objective;
    let live = is_live(session);
    let send = move |event: web_sys::SubmitEvent| {
        event.prevent_default();
        let message = text.get_untracked();
        if busy.get_untracked() || message.trim().is_empty() {
            return;
        }
        busy.set(true);
        spawn_local(async move {
            match decide(id, Act::Message { text: message }).await {
                Ok(answer) => {
                    text.try_set(String::new());
                    toasts.good(answer);
                }
                Err(refusal) => toasts.failed("The message was not sent.", &refusal),
            }
            busy.try_set(false);
        });
    };
    let viewers = move || {
        shown.status.with(|status| match status.as_ref().map_or(0, |status| status.viewers) {
            0 | 1 => String::new(),
            n => format!("{n} people watching"),
        })
    };
    let awake = crate::ui::parts::awake();
    view! {
        <footer class="tfoot">
            <span class="meta row wide">{icon14("lock")} "Read only"</span>
            <form class="msgbar" method="post" class:is-none=!live on:submit=send>
                <input
                    class="input"
                    name="message"
                    aria-label="Message for the next session"
                    placeholder="Message for the next session"
                    autocomplete="off"
                    prop:value=move || text.get()
                    on:input=move |event| text.set(value(&event))
                />
                <button class="btn btn-icon btn-primary" type="submit" aria-label="Send" disabled=move || busy.get() || !awake.get()>
                    {icon("send")}
                </button>
            </form>
            {(!live)
                .then(|| {
                    view! {
                        <a class="btn btn-s" href=format!("/objective/{id}")>
                            "Back to the objective"
                        </a>
                    }
                })}
            <span class="sp"></span>
            <span class="meta num wide">{viewers}</span>
            <span class="meta num">
                {move || {
                    shown.status.with(|status| status.as_ref().map(|status| format::count(status.lines, "line")).unwrap_or_default())
                }}
            </span>
        </footer>
    }
    .into_any()
}

/// `/` searches, `F` and End follow, Home goes to the start, `[` and `]` to the first and last error.
fn keys(shown: Signals, find: NodeRef<Input>) {
    Effect::new(move |_| {
        let listener = window_event_listener(leptos::ev::keydown, move |event| {
            if is_typing(&event) || event.default_prevented() {
                return;
            }
            let error = |last: bool| {
                shown.status.with_untracked(|status| {
                    let errors = &status.as_ref()?.errors;
                    if last { errors.iter().max().copied() } else { errors.iter().min().copied() }
                })
            };
            match event.key().as_str() {
                "/" => {
                    if let Some(input) = find.get_untracked() {
                        input.focus().ok();
                    }
                }
                "f" | "F" | "End" => screen::follow(),
                "Home" => screen::start(),
                "[" => error(false).into_iter().for_each(screen::go_to),
                "]" => error(true).into_iter().for_each(screen::go_to),
                _ => return,
            }
            event.prevent_default();
        });
        on_cleanup(move || listener.remove());
    });
}
