//! What a phone's last tab holds: the other places, theme and log-out.

use leptos::prelude::*;
use leptos_meta::Title;

use crate::api::board::FrameView;
use crate::ui::data::shown_or;
use crate::ui::frame::{FrameData, next_theme};
use crate::ui::icons::icon;

/// `/more`.
#[component]
pub(crate) fn More() -> impl IntoView {
    let frame = use_context::<FrameData>();
    let who = frame.map(|FrameData(data)| {
        let draw = |frame: FrameView| {
            view! { <p class="ink2">{format!("{}, {}", frame.user, frame.access)}</p> }.into_any()
        };
        shown_or(data, draw, |_| ().into_any())
    });
    let place = |path: &'static str, symbol: &'static str, label: &'static str| {
        view! {
            <a class="list-row" href=path>
                {icon(symbol)}
                {label}
                <span class="sp"></span>
                {icon("right")}
            </a>
        }
    };
    view! {
        <Title text="More" />
        <div class="page page-narrow">
            <h1 class="page-h1 page-head">"More"</h1>
            {who}
            <div class="panel list">
                {place("/repositories", "repo", "Repositories")}
                {place("/accounts", "users", "Accounts")}
                {place("/health", "health", "Health")}
                <button class="list-row" type="button" on:click=|_| next_theme()>
                    {icon("sun")}
                    "Theme: system, light, dark"
                </button>
                <form action="/logout" method="post">
                    <button class="list-row" type="submit">
                        {icon("exit")}
                        "Log out"
                    </button>
                </form>
            </div>
        </div>
    }
}
