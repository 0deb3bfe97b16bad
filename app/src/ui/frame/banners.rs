//! The banners: nothing new starts, and what is shown may be old.

use std::time::Duration;

use leptos::prelude::*;
use opkit_domain::view::WipView;

use crate::format;
use crate::live::Live;
use crate::pages::accounts::local_time;
use crate::socket::Link;
use crate::ui::clock::{Clock, use_clock};
use crate::ui::icons::{icon, icon14};
use crate::ui::parts::told_by;

pub(super) fn kill_banner(wip: Signal<WipView>) -> AnyView {
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
pub(super) fn StaleBanner(live: Live, clock: Clock) -> impl IntoView {
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
