//! The top bar: title, search, slots, the live mark and *Stop all*.

use leptos::prelude::*;
use leptos_router::hooks::use_location;
use opkit_domain::view::WipView;

use super::sessions;
use crate::api::board::FrameView;
use crate::format;
use crate::live::Live;
use crate::socket::Link;
use crate::ui::icons::{icon, icon14};

fn initials(name: &str) -> String {
    let name = name.rsplit(':').next().unwrap_or(name);
    let mut words = name.split([' ', '.', '-', '_']).filter_map(|word| word.chars().next());
    let first = words.next();
    let second = words.next().or_else(|| name.chars().nth(1));
    first.into_iter().chain(second).flat_map(char::to_uppercase).collect()
}

pub(super) fn topbar(
    wip: Signal<WipView>,
    live: Live,
    stopping: RwSignal<bool>,
    frame: &FrameView,
) -> AnyView {
    let stopped = move || wip.with(|wip| wip.disabled);
    let awake = crate::ui::parts::awake();
    let place = use_location().pathname;
    let title = move || title_of(&place.get());
    view! {
        <header class="topbar">
            <a class="brand top-brand" href="/" aria-label="Board">
                {icon("mark")}
            </a>
            <span class="top-title">{title}</span>
            {move || (place.get() != "/").then(search)}
            <span class="sp"></span>
            <Meter wip />
            <span class="vr"></span>
            <LiveMark live />
            <button
                class="btn btn-danger btn-s"
                type="button"
                data-stop-all=""
                title="Stop every session"
                disabled=move || stopped() || !awake.get()
                on:click=move |_| stopping.set(true)
            >
                {icon14("power")}
                <span class="wide">{move || if stopped() { "Stopped" } else { "Stop all" }}</span>
            </button>
            <a class="avatar top-avatar" href="/more" title=format!("{}, {}", frame.user, frame.access)>
                {initials(&frame.user)}
            </a>
        </header>
    }
    .into_any()
}

/// The board has its own filter; everywhere else this leads to it.
fn search() -> AnyView {
    view! {
        <form class="search" method="get" action="/" role="search">
            {icon14("search")}
            <input
                type="search"
                name="q"
                aria-label="Search objectives"
                placeholder="Search objectives, or #42"
                autocomplete="off"
            />
        </form>
    }
    .into_any()
}

fn title_of(path: &str) -> &'static str {
    match path {
        "/" => "Board",
        "/new" => "New objective",
        "/needs" => "Needs you",
        "/terminals" => "Terminals",
        "/repositories" => "Repositories",
        "/accounts" => "Accounts",
        "/health" => "Health",
        "/more" => "More",
        path if path.ends_with("/edit") => "Edit",
        path if path.starts_with("/session") => "Terminal",
        path if path.starts_with("/objective") => "Objective",
        _ => "",
    }
}

/// Slots: one tick each, reviews from the right in their reserve.
#[component]
fn Meter(wip: Signal<WipView>) -> impl IntoView {
    let used = move || wip.with(|wip| format!("{} / {}", sessions(wip), wip.cap));
    let title = move || {
        wip.with(|wip| {
            format!(
                "{} working, {} planning, {} reviewing. {} kept for reviews.",
                wip.work,
                wip.plan,
                wip.review,
                format::count(u64::from(wip.reserve), "slot")
            )
        })
    };
    let free = move || {
        wip.with(|wip| {
            let free = wip.reserve.saturating_sub(wip.review);
            if wip.reserve == 0 {
                String::new()
            } else {
                format!("{free} of {} free", format::count(u64::from(wip.reserve), "review slot"))
            }
        })
    };
    let ticks =
        move || wip.with(tick_classes).into_iter().map(|class| view! { <i class=class></i> }).collect_view();
    view! {
        <span class="wip" title=title data-wip="">
            {icon14("bolt")}
            <span class="num strong">{used}</span>
            <span class="wip-ticks" aria-hidden="true">
                {ticks}
            </span>
            <span class="muted wip-free">{free}</span>
        </span>
    }
}

fn tick_classes(wip: &WipView) -> Vec<&'static str> {
    let cap = wip.cap.min(40);
    let reserve = wip.reserve.min(cap);
    let general = cap - reserve;
    let in_reserve = wip.review.min(reserve);
    let mut ticks = Vec::new();
    let mut left = [(wip.work, "w"), (wip.plan, "p"), (wip.review - in_reserve, "r")];
    for _ in 0..general {
        let kind = left.iter_mut().find(|(count, _)| *count > 0);
        ticks.push(kind.map_or("o", |(count, class)| {
            *count -= 1;
            *class
        }));
    }
    for at in 0..reserve {
        ticks.push(match (at < in_reserve, at == 0) {
            (true, true) => "r k1",
            (true, false) => "r",
            (false, true) => "k k1",
            (false, false) => "k",
        });
    }
    ticks
}

#[component]
fn LiveMark(live: Live) -> impl IntoView {
    let state = move || live.link.get();
    view! {
        <span class="live" data-live=move || state().word() title="Changes arrive by themselves while this says Live">
            <i class=move || match state() {
                Link::Live => "dot c-done",
                Link::Connecting => "dot c-queue",
                Link::Stale => "dot c-failed",
            }></i>
            <span class="live-word">
                {move || match state() {
                    Link::Live => "Live",
                    Link::Connecting => "Connecting",
                    Link::Stale => "Offline",
                }}
            </span>
        </span>
    }
}
