//! Log in and set up: plain forms that work before, and without, the browser module.

use leptos::prelude::*;
use leptos_meta::Title;
use leptos_router::hooks::use_query_map;

use crate::ui::icons::icon;
use crate::ui::parts::value;

/// The sentence behind a code word of the address; what the address says is never shown itself.
fn sentence(code: &str, left: Option<u32>) -> &'static str {
    match (code, left) {
        ("wrong", Some(4)) => "Name or password is wrong. 4 more tries, then a pause of 5 minutes.",
        ("wrong", Some(3)) => "Name or password is wrong. 3 more tries, then a pause of 5 minutes.",
        ("wrong", Some(2)) => "Name or password is wrong. 2 more tries, then a pause of 5 minutes.",
        ("wrong", Some(1)) => "Name or password is wrong. 1 more try, then a pause of 5 minutes.",
        ("wrong", _) => "Name or password is wrong.",
        ("wait" | "locked" | "paused", _) => "Too many wrong tries. Wait 5 minutes.",
        ("token" | "link", _) => "This link is not valid or was used. Start the server again for a new one.",
        ("short", _) => "The password is too short. Use at least 10 characters.",
        ("long", _) => "The password is too long. Use at most 200 characters.",
        ("name", _) => "The name is not valid. Use 1 to 40 letters, digits, dots, dashes or underscores.",
        ("owner" | "taken", _) => "There is an owner already. Log in instead.",
        ("origin", _) => "The form came from another address. Open this page anew and try again.",
        ("busy", _) => "The server is busy with other logins. Try again in a moment.",
        ("expired", _) => "You were logged out. Log in again.",
        _ => "That did not work. Try again.",
    }
}

fn message() -> Option<&'static str> {
    let query = use_query_map();
    query.with_untracked(|query| {
        let code = query.get("error")?;
        let left = query.get("left").and_then(|left| left.parse().ok());
        Some(sentence(&code, left))
    })
}

fn brand() -> AnyView {
    view! {
        <div class="row form-brand">
            {icon("mark")}
            "opkit"
        </div>
    }
    .into_any()
}

fn error(text: Option<&'static str>) -> AnyView {
    view! {
        <p class="field-error" role="alert">
            {text}
        </p>
    }
    .into_any()
}

/// `/login`.
#[component]
pub(crate) fn Login() -> impl IntoView {
    let wrong = message();
    let next = use_query_map().with_untracked(|query| query.get("next")).unwrap_or_default();
    // Only a place on this server; anything else is dropped here and again on the server.
    let next = if next.starts_with('/') && !next.starts_with("//") { next } else { String::new() };
    view! {
        <Title text="Log in" />
        <main class="center-page">
            <form class="form" method="post" action="/login">
                {brand()}
                <h1 class="page-h1">"Log in"</h1>
                <input type="hidden" name="next" value=next />
                <div class="field">
                    <label for="name">"Name"</label>
                    <input class="input" id="name" name="name" autocomplete="username" autocapitalize="none" spellcheck="false" required />
                </div>
                <div class="field">
                    <label for="password">"Password"</label>
                    <input
                        class="input"
                        class:is-bad=wrong.is_some()
                        id="password"
                        name="password"
                        type="password"
                        autocomplete="current-password"
                        required
                    />
                    {error(wrong)}
                </div>
                <button class="btn btn-primary btn-block btn-tall" type="submit">
                    "Log in"
                </button>
                <p class="meta">
                    "First time here? Use the set-up link that the server printed when it started."
                </p>
            </form>
        </main>
    }
}

/// `/setup?token=…`.
#[component]
pub(crate) fn Setup() -> impl IntoView {
    let wrong = message();
    let token = use_query_map().with_untracked(|query| query.get("token")).unwrap_or_default();
    let typed = RwSignal::new(String::new());
    let short = move || {
        let length = typed.with(|text| text.chars().count());
        if length == 0 || length >= 10 {
            "At least 10 characters. A few words are easy to remember.".to_owned()
        } else {
            format!("{} more.", 10 - length)
        }
    };
    view! {
        <Title text="Set up" />
        <main class="center-page">
            <form class="form form-wide" method="post" action="/setup">
                {brand()}
                <h1 class="page-h1">"Set up this machine"</h1>
                <p class="ink2">
                    "This link works once. It makes the owner: the account that may do everything on this machine."
                </p>
                <input type="hidden" name="token" value=token />
                <div class="field">
                    <label for="name">"Your name"</label>
                    <input class="input" id="name" name="name" autocomplete="username" autocapitalize="none" spellcheck="false" maxlength="40" required />
                </div>
                <div class="field">
                    <label for="password">"Password"</label>
                    <input
                        class="input"
                        class:is-bad=wrong.is_some()
                        id="password"
                        name="password"
                        type="password"
                        autocomplete="new-password"
                        minlength="10"
                        required
                        on:input=move |event| typed.set(value(&event))
                    />
                    <span class="hint">{short}</span>
                    {error(wrong)}
                </div>
                <button class="btn btn-primary btn-block btn-tall" type="submit">
                    "Make the owner and log in"
                </button>
                <ol class="setup-next">
                    <li>
                        {crate::ui::icons::drawn("st c-queue", "s-queue")}
                        <div>
                            <b>"Then: a repository"</b>
                            <span class="meta">"A path, a URL, or the sample. Your own checkout is never touched."</span>
                        </div>
                    </li>
                    <li>
                        {crate::ui::icons::drawn("st c-queue", "s-queue")}
                        <div>
                            <b>"Then: an objective"</b>
                            <span class="meta">"The demo agent runs the whole loop. No key, no cost."</span>
                        </div>
                    </li>
                </ol>
            </form>
        </main>
    }
}
