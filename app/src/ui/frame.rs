//! The frame around every page: rail, top bar, banners, phone tabs, toasts, shortcuts and the feed.

mod banners;
mod rail;
mod theme;
mod topbar;

use std::sync::Arc;

use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos_router::components::Outlet;
use leptos_router::hooks::use_location;
use opkit_domain::view::WipView;

use super::clock::Clock;
use super::data::{Data, load_once, transition};
use super::dialog::Confirm;
use super::keys;
use super::sheet;
use super::toast::{ToastStack, Toasts};
use crate::api::answer::settled;
use crate::api::board::{FrameView, read_frame, stop_everything};
use crate::api::{Answer, Why};
use crate::live::Live;
use crate::socket::Link;
use crate::{format, live};

use banners::{StaleBanner, kill_banner};
use rail::{bare_rail, rail, tabs};
pub(crate) use theme::next_theme;
use theme::restore_theme;
use topbar::topbar;

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

/// The number that the frame was read at counts for the feed, too.
pub(crate) fn read_at(seq: i64) {
    live::read_at(seq);
}
