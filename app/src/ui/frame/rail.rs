//! The ways to the pages: the rail, and the tabs on a phone.

use leptos::prelude::*;
use leptos_router::hooks::use_location;
use opkit_domain::view::WipView;

use super::sessions;
use super::theme::next_theme;
use crate::api::board::FrameView;
use crate::ui::icons::icon;

pub(super) fn bare_rail() -> AnyView {
    view! { <nav class="rail" aria-label="Main"></nav> }.into_any()
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

pub(super) fn rail(wip: Signal<WipView>, frame: &FrameView) -> AnyView {
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

pub(super) fn tabs(wip: Signal<WipView>) -> AnyView {
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
