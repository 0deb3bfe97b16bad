//! What people see: pages and components, rendered on the server and hydrated in the browser.
#![recursion_limit = "256"]
// The component macro writes `pub` structs of its own.
#![allow(unreachable_pub)]

pub mod api;
#[cfg(feature = "ssr")]
mod diff_html;
pub mod format;
mod live;
#[cfg(feature = "ssr")]
mod markdown;
mod pages;
mod socket;
mod ui;

use leptos::config::LeptosOptions;
use leptos::prelude::*;
use leptos_meta::{MetaTags, Title, provide_meta_context};
use leptos_router::components::{ParentRoute, Route, Router, Routes};
use leptos_router::{SsrMode, path};

use ui::frame::Frame;
use ui::icons::IconSheet;

/// Server and browser draw the same tree only when both erase; `.cargo/config.toml` says so for every target.
#[allow(unexpected_cfgs)]
mod erased {
    #[cfg(not(erase_components))]
    compile_error!(
        "build with `--cfg erase_components`: RUSTFLAGS in the environment replaces .cargo/config.toml"
    );
}

/// Who asks, put into context by the server for every request; `None` = nobody is logged in.
#[cfg(feature = "ssr")]
#[derive(Debug, Clone)]
pub struct Caller(pub Option<opkit_domain::access::Actor>);

/// The HTML document around the app.
pub fn shell(options: LeptosOptions) -> impl IntoView {
    let folder = options.site_pkg_dir.to_string();
    let build = folder.rsplit('/').next().unwrap_or_default().to_owned();
    view! {
        <!DOCTYPE html>
        <html lang="en">
            <head>
                <meta charset="utf-8" />
                <meta name="viewport" content="width=device-width, initial-scale=1, viewport-fit=cover" />
                <meta name="color-scheme" content="light dark" />
                <meta name="theme-color" media="(prefers-color-scheme: light)" content="#f6f4f2" />
                <meta name="theme-color" media="(prefers-color-scheme: dark)" content="#0f0e0d" />
                <meta name="opkit-build" content=build />
                <link rel="manifest" href="/manifest.webmanifest" />
                <link rel="icon" href="/icon.svg" type="image/svg+xml" />
                <link rel="apple-touch-icon" href="/apple-touch-icon.png" />
                <link rel="stylesheet" href=format!("/{folder}/app.css") />
                <HydrationScripts options />
                <MetaTags />
            </head>
            <body>
                <App />
            </body>
        </html>
    }
}

/// The whole app: routes, and what every page has.
#[component]
pub fn App() -> impl IntoView {
    provide_meta_context();
    view! {
        <Title formatter=|text: String| if text.is_empty() { "Opkit".to_owned() } else { format!("{text} · Opkit") } />
        <IconSheet />
        <Router>
            <Routes fallback=pages::NotFound>
                <Route path=path!("/login") view=pages::login::Login ssr=SsrMode::Async />
                <Route path=path!("/setup") view=pages::login::Setup ssr=SsrMode::Async />
                <ParentRoute path=path!("") view=Frame ssr=SsrMode::Async>
                    <Route path=path!("") view=pages::board::Board ssr=SsrMode::Async />
                    <Route path=path!("/new") view=pages::new::New ssr=SsrMode::Async />
                    <Route path=path!("/objective/:id") view=pages::objective::Objective ssr=SsrMode::Async />
                    <Route path=path!("/objective/:id/edit") view=pages::edit::Edit ssr=SsrMode::Async />
                    <Route path=path!("/session/:id") view=pages::terminal::Terminal ssr=SsrMode::Async />
                    <Route path=path!("/terminals") view=pages::terminals::Terminals ssr=SsrMode::Async />
                    <Route path=path!("/needs") view=pages::needs::Needs ssr=SsrMode::Async />
                    <Route path=path!("/repositories") view=pages::repositories::Repositories ssr=SsrMode::Async />
                    <Route path=path!("/accounts") view=pages::accounts::Accounts ssr=SsrMode::Async />
                    <Route path=path!("/health") view=pages::health::Health ssr=SsrMode::Async />
                    <Route path=path!("/more") view=pages::more::More ssr=SsrMode::Async />
                </ParentRoute>
            </Routes>
        </Router>
    }
}
