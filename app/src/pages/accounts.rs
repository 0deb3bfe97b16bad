//! The pool of accounts: who runs sessions, in which state, with which credential and at what cost.

use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos_meta::Title;
use opkit_domain::event::Feed;
use opkit_domain::view::{AccountView, Credential, PoolView};

use crate::api::answer::opened;
use crate::api::places::{AccountsPage, read_accounts, set_account};
use crate::ui::clock::{age, use_clock};
use crate::ui::data::{load_once, shown};
use crate::ui::icons::{drawn, icon14, role_mark};
use crate::ui::parts::{awake, capital, told_by};
use crate::ui::toast::use_toasts;
use crate::{format, live};

/// `/accounts`.
#[component]
pub(crate) fn Accounts() -> impl IntoView {
    let data = load_once(read_accounts);
    let clock = use_clock();
    view! {
        <Title text="Accounts" />
        <div class="page page-mid">
            <h1 class="page-h1 page-head">"Accounts"</h1>
            <p class="ink2">"Sessions run on accounts. Each takes a few at a time; one that hits a limit pauses by itself."</p>
            {shown(data, "The accounts could not be read", move |page: AccountsPage| {
                clock.seed(page.pool.now);
                content(page)
            })}
        </div>
    }
}

/// The account on whose card the focus is.
fn focused_account() -> Option<String> {
    document().active_element()?.closest("[data-account]").ok()??.get_attribute("data-account")
}

/// Gives it back to the card's button, unless the person went elsewhere.
fn focus_account(name: &str) {
    let place = format!("[data-account=\"{name}\"] button");
    request_animation_frame(move || {
        use wasm_bindgen::JsCast;
        let is_lost = document().active_element().is_none_or(|element| element.tag_name() == "BODY");
        let button = document().query_selector(&place).ok().flatten().filter(|_| is_lost);
        if let Some(button) = button.and_then(|button| button.dyn_into::<web_sys::HtmlElement>().ok()) {
            button.focus().ok();
        }
    });
}

/// Reads the pool anew. A card that stays the same stays in the page; the focus stays on its account.
fn read_again(shown: RwSignal<AccountsPage>) {
    spawn_local(async move {
        let Ok(page) = opened::<AccountsPage>(read_accounts().await) else { return };
        let focused = focused_account();
        // The page may be gone by then.
        if shown.try_set(page).is_none()
            && let Some(name) = focused
        {
            focus_account(&name);
        }
    });
}

fn content(page: AccountsPage) -> AnyView {
    let may_change = page.may_change;
    let shown = RwSignal::new(page);
    let again = move || read_again(shown);
    // A state or a session that changes, changes the slots.
    Effect::new(move |_| {
        live::listen(move |feed| {
            if matches!(feed, Feed::Wip { .. } | Feed::Resync) {
                again();
            }
        });
    });
    let one = move |account: AccountView| {
        let enabled = account.state == "available";
        let button = may_change.then(|| switch(&account.name, enabled, again));
        card(&account, shown.with_untracked(|page| page.pool.now), button)
    };
    view! {
        <section class="panel" aria-label="Mode">
            <div class="panel-body acct-mode">{move || shown.with(|page| mode(&page.pool))}</div>
        </section>
        <section class="accts" aria-label="Accounts">
            <For each=move || shown.with(|page| page.pool.accounts.clone()) key=|account| format!("{account:?}") let:account>
                {one(account)}
            </For>
        </section>
    }
    .into_any()
}

fn mode(pool: &PoolView) -> AnyView {
    view! {
        <span class="strong" data-mode="">
            {format!("Mode {}", pool.mode)}
        </span>
        {next_step(pool)}
    }
    .into_any()
}

/// What somebody on the machine can do next, if anything.
fn next_step(pool: &PoolView) -> AnyView {
    let shared = pool.accounts.iter().any(|account| account.os_user.is_none() && account.state != "disabled");
    let bare = pool.accounts.iter().find(|account| account.credential == Credential::None);
    let users = match (shared, pool.can_provision) {
        (false, _) => None,
        (true, true) => Some((
            "Accounts without an OS user share one, and only the wall separates them. On the machine, as root:",
            Some("opkit accounts provision".to_owned()),
        )),
        (true, false) => Some((
            "OS users of their own need a server that runs as root. Until then only the wall separates sessions.",
            None,
        )),
    };
    let key = bare.map(|account| {
        (
            "An account without a credential runs the demo agent only. Give it an API key or a long-lived token:",
            Some(format!("opkit accounts key {} --stdin", account.name)),
        )
    });
    users
        .into_iter()
        .chain(key)
        .map(|(text, command)| {
            view! {
                <p class="ink2">
                    {text} " " {command.map(|command| view! { <span class="code break">{command}</span> })}
                </p>
            }
        })
        .collect_view()
        .into_any()
}

fn switch(name: &str, enabled: bool, again: impl Fn() + Copy + Send + Sync + 'static) -> AnyView {
    let toasts = use_toasts();
    let awake = awake();
    let busy = RwSignal::new(false);
    let name = name.to_owned();
    let label = format!("{} {name}", if enabled { "Disable" } else { "Enable" });
    let act = move |_| {
        if busy.get_untracked() {
            return;
        }
        let name = name.clone();
        busy.set(true);
        spawn_local(async move {
            match set_account(name.clone(), !enabled).await {
                Ok(()) if enabled => toasts.good(format!("{name} gets no new session. Its live ones go on.")),
                Ok(()) => toasts.good(format!("{name} takes sessions again.")),
                Err(refusal) => toasts.failed(format!("{name} was not changed"), &refusal),
            }
            again();
            busy.try_set(false);
        });
    };
    view! {
        <button
            class="btn btn-s"
            type="button"
            class:is-busy=move || busy.get()
            aria-label=label
            // While busy it stays enabled: a button that is disabled loses the focus.
            disabled=move || !awake.get()
            on:click=act
        >
            {if enabled { "Disable" } else { "Enable" }}
        </button>
    }
    .into_any()
}

/// Mark, words and the colour of a state.
fn state_of(state: &str) -> (AnyView, &'static str, &'static str) {
    match state {
        "available" => (drawn("st c-done", "s-done"), "Available", "badge badge-done"),
        "cooling_down" => (drawn("st c-working", "s-queue"), "Cooling down", "badge badge-working"),
        "needs_login" => (drawn("st c-needs", "s-needs"), "Needs a login", "badge badge-needs"),
        "disabled" => (drawn("st c-queue", "s-cancelled"), "Disabled", "badge"),
        _ => (drawn("st c-queue", "s-queue"), "Unknown", "badge"),
    }
}

fn card(account: &AccountView, now: i64, button: Option<AnyView>) -> AnyView {
    let (mark, word, badge) = state_of(&account.state);
    let live = account.live.min(account.limit);
    view! {
        <article class="panel acct" data-account=account.name.clone() data-state=account.state.clone()>
            <header class="row">
                <h2 class="mono acct-name">{account.name.clone()}</h2> <span class=badge>{mark} {word}</span>
                <span class="sp"></span> {button}
            </header>
            {reason(account, now)}
            <div class="row">
                <span class="bar" aria-hidden="true">
                    <i class="w" style=format!("flex: {live}")></i>
                    <span style=format!("flex: {}", account.limit - live)></span>
                </span>
                <span class="num">{format!("{} of {} live", account.live, account.limit)}</span>
            </div>
            <dl class="facts">
                <dt>"Runs as"</dt>
                <dd class="mono break">{account.runs_as.clone()}</dd>
                <dt>"Credential"</dt>
                <dd>{account.credential.label()}</dd>
                <dt>"Cost"</dt>
                <dd class="num">{format::money(account.cost_usd_micros)}</dd>
                {account
                    .last_failure
                    .as_ref()
                    .map(|failure| {
                        view! {
                            <dt>"Last failure"</dt>
                            <dd>
                                {failure.outcome.as_str().replace('_', " ")} " · " {age("age", failure.at)}
                                <span class="meta block break">{told_by(&failure.detail)}</span>
                            </dd>
                        }
                    })}
                {(!account.sessions.is_empty())
                    .then(|| {
                        view! {
                            <dt>"Sessions"</dt>
                            <dd class="row acct-sessions">{sessions(account)}</dd>
                        }
                    })}
            </dl>
        </article>
    }
    .into_any()
}

fn sessions(account: &AccountView) -> AnyView {
    account
        .sessions
        .iter()
        .map(|live| {
            view! {
                <a class="chip" href=format!("/session/{}", live.session)>
                    {role_mark(live.role)}
                    {format!("#{}", live.objective)}
                </a>
            }
        })
        .collect_view()
        .into_any()
}

/// Why it is not available, and until when.
fn reason(account: &AccountView, now: i64) -> AnyView {
    if account.until.is_none() && account.reason.is_empty() {
        return ().into_any();
    }
    let until = account.until.map(|until| {
        view! {
            <span class="row">
                {icon14("clock")} <span>"Until " {local_time(until)} {format!(" (in {})", left(until - now))}</span>
            </span>
        }
    });
    let why = (!account.reason.is_empty())
        .then(|| view! { <span class="meta block break">{capital(&told_by(&account.reason))}</span> });
    view! { <div>{until} {why}</div> }.into_any()
}

/// How long until then: "under 1 min", "18 min", "3 h".
fn left(ms: i64) -> String {
    if ms < 60_000 { "under 1 min".into() } else { format::age(ms) }
}

/// A time of day as the reader's clock shows it, with the day unless it is today. The server, which does not know
/// where the reader is, writes it in UTC; the page sets it right when it wakes.
pub(crate) fn local_time(at: i64) -> AnyView {
    let exact = format::exact(at);
    let text = RwSignal::new(exact.get(11..).unwrap_or_default().to_owned());
    Effect::new(move |_| text.set(by_own_clock(at)));
    view! { <time title=exact>{move || text.get()}</time> }.into_any()
}

#[allow(clippy::cast_precision_loss)] // Milliseconds since 1970 fit.
fn by_own_clock(at: i64) -> String {
    let then = js_sys::Date::new(&(at as f64).into());
    let today = js_sys::Date::new_0();
    let time = format!("{:02}:{:02}", then.get_hours(), then.get_minutes());
    if then.get_date() == today.get_date() && then.get_month() == today.get_month() {
        time
    } else {
        format!("{:02}-{:02} {time}", then.get_month() + 1, then.get_date())
    }
}

/// The table, for the health page.
pub(crate) fn table(accounts: &[AccountView]) -> AnyView {
    let rows = accounts
        .iter()
        .map(|account| {
            let (mark, word, _) = state_of(&account.state);
            view! {
                <tr data-account=account.name.clone()>
                    <td class="mono">{account.name.clone()}</td>
                    <td>
                        <span class="row">{mark} {word}</span>
                        <span class="meta block break">{capital(&told_by(&account.reason))}</span>
                    </td>
                    <td class="mono wide">{account.runs_as.clone()}</td>
                    <td class="r">{format!("{} of {}", account.live, account.limit)}</td>
                </tr>
            }
        })
        .collect_view();
    view! {
        <section class="panel scroll-x" aria-label="Accounts">
            <table class="table">
                <thead>
                    <tr>
                        <th>"Account"</th>
                        <th>"State"</th>
                        <th class="wide">"Runs as"</th>
                        <th class="r">"Sessions"</th>
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
        </section>
    }
    .into_any()
}
