//! The frame around every page: rail, top bar, banners, phone tabs, toasts, shortcuts and the feed.

use std::sync::Arc;
use std::time::Duration;

use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos_router::components::Outlet;
use leptos_router::hooks::use_location;
use opkit_domain::view::WipView;

use super::clock::{Clock, use_clock};
use super::data::{Data, load_once, transition};
use super::dialog::Confirm;
use super::icons::{icon, icon14};
use super::keys;
use super::parts::told_by;
use super::sheet;
use super::toast::{ToastStack, Toasts};
use crate::api::answer::settled;
use crate::api::board::{FrameView, read_frame, stop_everything};
use crate::api::{Answer, Why};
use crate::live::Live;
use crate::pages::accounts::local_time;
use crate::socket::Link;
use crate::{format, live};

/// Who is logged in, for pages that show less to viewers.
#[derive(Clone, Copy)]
pub(crate) struct FrameData(pub(crate) Data);

/// The frame. Pages are its outlet.
#[component]
pub fn Frame() -> impl IntoView {
    let clock = Clock::new();
    let toasts = Toasts::new();
    let live = Live::new();
    let sheet = RwSignal::new(false);
    let data = load_once(read_frame);
    provide_context(clock);
    provide_context(toasts);
    provide_context(live);
    provide_context(FrameData(data));
    Effect::new(move |_| {
        let frame = data.get_untracked().and_then(|answer| answer.open::<FrameView>().ok());
        let seq = frame.map_or(0, |frame| frame.seq);
        live.start(seq);
        clock.run();
        keys::listen(sheet);
        restore_theme();
    });
    on_cleanup(Live::stop);
    watch_link(live, clock, toasts);
    let place = use_location().pathname;
    let is_board = move || place.get() == "/";
    let is_session = move || place.get().starts_with("/session/");
    let stopping = RwSignal::new(false);
    let draw = move |answer: &Answer| match answer.open::<FrameView>() {
        Ok(frame) => {
            clock.seed(frame.now);
            chrome(&frame, live, stopping)
        }
        Err(_) => bare_rail(),
    };
    view! {
        <div class="app" class:is-board=is_board class:is-session=is_session class:is-stale=move || live.link.get() == Link::Stale>
            <a class="skip" href="#main">
                "To the content"
            </a>
            {transition(data, Arc::new(draw), bare_rail)}
            <StaleBanner live clock />
            <main class="main" id="main" tabindex="-1">
                <Outlet />
            </main>
            <ToastStack toasts />
            {sheet::sheet(sheet)}
        </div>
    }
}

fn bare_rail() -> AnyView {
    view! { <nav class="rail" aria-label="Main"></nav> }.into_any()
}

/// Rail, top bar, kill-switch banner, tabs and the stop dialog.
fn chrome(frame: &FrameView, live: Live, stopping: RwSignal<bool>) -> AnyView {
    let first = StoredValue::new(frame.wip.clone());
    let wip = Signal::derive(move || live.wip.get().unwrap_or_else(|| first.get_value()));
    view! {
        {rail(wip, frame)}
        {topbar(wip, live, stopping, frame)}
        {kill_banner(wip)}
        {tabs(wip)}
        <StopAll open=stopping wip />
    }
    .into_any()
}

fn sessions(wip: &WipView) -> u32 {
    wip.work + wip.plan + wip.review
}

fn needs_badge(wip: Signal<WipView>) -> AnyView {
    let needs = Memo::new(move |_| wip.with(|wip| wip.needs_you));
    view! {
        <span class="badge badge-needs-solid" class:is-none=move || needs.get() == 0>
            {move || needs.get().to_string()}
        </span>
    }
    .into_any()
}

fn link(path: &'static str, symbol: &'static str, label: &'static str, end: AnyView) -> AnyView {
    let place = use_location().pathname;
    let here = Memo::new(move |_| {
        let now = place.get();
        match path {
            "/" => now == "/" || now.starts_with("/objective"),
            "/terminals" => now == path || now.starts_with("/session"),
            _ => now.starts_with(path),
        }
    });
    view! {
        <a href=path aria-current=move || here.get().then_some("page") title=label>
            {icon(symbol)}
            <span class="t">{label}</span>
            {end}
        </a>
    }
    .into_any()
}

fn rail(wip: Signal<WipView>, frame: &FrameView) -> AnyView {
    let running = move || wip.with(sessions);
    let count = view! {
        <span class="count" class:is-none=move || running() == 0>
            {move || running().to_string()}
        </span>
    }
    .into_any();
    view! {
        <nav class="rail" aria-label="Main">
            <a class="brand" href="/">
                {icon("mark")}
                <span class="t">"opkit"</span>
            </a>
            <div class="nav">
                {link("/", "board", "Board", ().into_any())}
                {link("/needs", "inbox", "Needs you", needs_badge(wip))}
                {link("/terminals", "term", "Terminals", count)}
            </div>
            <div class="nav nav-2">
                {link("/repositories", "repo", "Repositories", ().into_any())}
                {link("/accounts", "users", "Accounts", ().into_any())}
                {link("/health", "health", "Health", ().into_any())}
            </div>
            <span class="sp"></span>
            <div class="nav">
                <button class="nav-button" type="button" title="Theme" on:click=|_| next_theme()>
                    {icon("sun")}
                    <span class="t">"Theme"</span>
                </button>
                <form action="/logout" method="post" class="nav-form">
                    <button class="nav-button" type="submit" title="Log out">
                        {icon("exit")}
                        <span class="t">"Log out"</span>
                    </button>
                </form>
            </div>
            <div class="rail-foot">
                <span class="meta trunc">{frame.user.clone()}</span>
                <span class="meta trunc">{frame.access.clone()}</span>
            </div>
        </nav>
    }
    .into_any()
}

fn initials(name: &str) -> String {
    let name = name.rsplit(':').next().unwrap_or(name);
    let mut words = name.split([' ', '.', '-', '_']).filter_map(|word| word.chars().next());
    let first = words.next();
    let second = words.next().or_else(|| name.chars().nth(1));
    first.into_iter().chain(second).flat_map(char::to_uppercase).collect()
}

fn topbar(wip: Signal<WipView>, live: Live, stopping: RwSignal<bool>, frame: &FrameView) -> AnyView {
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

fn kill_banner(wip: Signal<WipView>) -> AnyView {
    let why = Memo::new(move |_| wip.with(|wip| wip.stopped.clone().map(|why| (why, wip.disabled))));
    view! {
        <div class="banners">
            {move || {
                why.get()
                    // Other reasons, as a full disk, end by themselves.
                    .map(|(why, is_switch)| {
                        view! {
                            <div class="banner banner-failed" role="status" data-stopped="">
                                {icon("power")}
                                <span class="banner-text">
                                    {is_switch.then_some("Nothing new starts. ")} <span class="rest">{told_by(&why)}</span>
                                </span>
                                <span class="sp"></span>
                                <span class="row" class:is-none=!is_switch>
                                    <span class="rest">"Only the machine can enable again:"</span>
                                    <span class="code">"opkit enable"</span>
                                </span>
                            </div>
                        }
                    })
            }}
            {wait_banner(wip)}
            {no_slot_banner(wip)}
        </div>
    }
    .into_any()
}

/// Nothing starts and nothing will by itself: somebody has to act.
fn no_slot_banner(wip: Signal<WipView>) -> AnyView {
    let none = Memo::new(move |_| {
        wip.with(|wip| wip.cap == 0 && wip.accounts_until.is_none() && wip.stopped.is_none())
    });
    view! {
        {move || {
            none.get()
                .then(|| {
                    view! {
                        <div class="banner banner-wait" role="status" data-no-slot="">
                            {icon("users")}
                            <span class="banner-text">
                                "Nothing new starts. "
                                <span class="rest">
                                    "Every account is disabled or needs a login, or the cap is 0. See "
                                    <a class="link" href="/accounts">
                                        "Accounts"
                                    </a> "."
                                </span>
                            </span>
                        </div>
                    }
                })
        }}
    }
    .into_any()
}

/// What is shown may be old.
#[component]
fn StaleBanner(live: Live, clock: Clock) -> impl IntoView {
    let stale = Memo::new(move |_| live.link.get() == Link::Stale);
    view! {
        <div class="banners banners-stale">
            {move || {
                stale
                    .get()
                    .then(|| {
                        let since = live.lost_at.get_untracked();
                        let ago = format::duration(clock.exact() - since);
                        view! {
                            <div class="banner banner-stale" role="status">
                                {icon("offline")}
                                <span class="banner-text">
                                    <b class="strong">{format!("No connection for {ago}.")}</b>
                                    <span class="rest ink2">
                                        {format!(
                                            " You see everything as of {}. Moving cards is off until it is back.",
                                            format::exact(since),
                                        )}
                                    </span>
                                </span>
                                <span class="sp"></span>
                                <button class="btn btn-s" type="button" on:click=|_| Live::again()>
                                    {icon14("refresh")}
                                    "Try now"
                                </button>
                            </div>
                        }
                    })
            }}
        </div>
    }
}

/// Notes when the connection went, and finds out whether the login did.
fn watch_link(live: Live, clock: Clock, toasts: Toasts) {
    Effect::new(move |before: Option<Link>| {
        let now = live.link.get();
        if before == Some(Link::Live) && now != Link::Live {
            live.lost_at.set(clock.exact());
        }
        if now == Link::Stale && before != Some(Link::Stale) {
            if live.lost_at.get_untracked() == 0 {
                live.lost_at.set(clock.exact());
            }
            spawn_local(async move {
                if let Answer::Refused(refusal) = settled(read_frame().await)
                    && refusal.why == Why::LoggedOut
                {
                    toasts.failed("You are logged out.", &refusal);
                }
            });
        }
        now
    });
}

/// Nothing can start before an account comes back: the page says until when, and no longer than that.
fn wait_banner(wip: Signal<WipView>) -> AnyView {
    let until = Memo::new(move |_| wip.with(|wip| wip.accounts_until));
    let over = RwSignal::new(0_i64);
    let clock = use_clock();
    Effect::new(move |_| {
        let Some(at) = until.get() else { return };
        let wait = u64::try_from(at - clock.exact()).unwrap_or(0);
        if let Ok(timer) = set_timeout_with_handle(move || over.set(at), Duration::from_millis(wait)) {
            on_cleanup(move || timer.clear());
        }
    });
    view! {
        {move || {
            until
                .get()
                .filter(|at| *at != over.get())
                .map(|until| {
                    view! {
                        <div class="banner banner-wait" role="status" data-cooling="">
                            {icon("clock")}
                            <span class="banner-text">
                                "No account is free until " {local_time(until)} ". "
                                <span class="rest">"The queue goes on by itself then."</span>
                            </span>
                        </div>
                    }
                })
        }}
    }
    .into_any()
}

fn tabs(wip: Signal<WipView>) -> AnyView {
    view! {
        <nav class="p-tabs" aria-label="Tabs">
            {link("/", "board", "Board", ().into_any())}
            {link("/needs", "inbox", "Needs you", needs_badge(wip))}
            {link("/new", "plus", "New", ().into_any())}
            {link("/terminals", "term", "Terminals", ().into_any())}
            {link("/more", "dots", "More", ().into_any())}
        </nav>
    }
    .into_any()
}

#[component]
fn StopAll(open: RwSignal<bool>, wip: Signal<WipView>) -> impl IntoView {
    let toasts = super::toast::use_toasts();
    let running = move || u64::from(wip.with(sessions));
    let head = Signal::derive(move || match running() {
        0 => "Stop everything?".to_owned(),
        1 => "Stop 1 session?".to_owned(),
        n => format!("Stop all {}?", format::count(n, "session")),
    });
    let act = Signal::derive(move || match running() {
        0 => "Stop everything".to_owned(),
        n => format!("Stop {}", format::count(n, "session")),
    });
    let run = move || {
        spawn_local(async move {
            match stop_everything().await {
                Ok(n) => toasts.good(format!("{} stopped.", format::count(u64::from(n), "session"))),
                Err(error) => toasts.failed("Not everything was stopped.", &error),
            }
        });
    };
    let text = view! {
        <p>
            "Sessions get 10 seconds to save. Uncommitted work is kept, and the objectives go to Human review. Nothing new starts until someone runs "
            <span class="code">"opkit enable"</span> " on the machine."
        </p>
    }
    .into_any();
    view! { <Confirm open head text keep="Keep running" act run /> }
}

const THEME: &str = "opkit-theme";

/// system → light → dark → system.
pub(crate) fn next_theme() {
    let Some(root) = document().document_element() else { return };
    let next = match root.get_attribute("data-theme").as_deref() {
        None => Some("light"),
        Some("light") => Some("dark"),
        Some(_) => None,
    };
    let store = window().local_storage().ok().flatten();
    // A browser without storage keeps the choice until the next page.
    match next {
        Some(theme) => {
            root.set_attribute("data-theme", theme).ok();
            store.map(|store| store.set_item(THEME, theme));
        }
        None => {
            root.remove_attribute("data-theme").ok();
            store.map(|store| store.remove_item(THEME));
        }
    }
}

fn restore_theme() {
    let saved =
        window().local_storage().ok().flatten().and_then(|store| store.get_item(THEME).ok().flatten());
    if let Some(theme) = saved.filter(|theme| theme == "light" || theme == "dark")
        && let Some(root) = document().document_element()
    {
        root.set_attribute("data-theme", &theme).ok();
    }
}

/// The number that the frame was read at counts for the feed, too.
pub(crate) fn read_at(seq: i64) {
    live::read_at(seq);
}
