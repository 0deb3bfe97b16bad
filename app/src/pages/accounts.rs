//! The pool of accounts.

use leptos::prelude::*;
use leptos_meta::Title;
use opkit_domain::view::AccountView;

use crate::api::places::read_accounts;
use crate::ui::data::{load_once, shown};
use crate::ui::icons::drawn;

/// `/accounts`.
#[component]
pub(crate) fn Accounts() -> impl IntoView {
    let data = load_once(read_accounts);
    view! {
        <Title text="Accounts" />
        <div class="page page-mid">
            <h1 class="page-h1 page-head">"Accounts"</h1>
            <p class="ink2">"Sessions run on accounts. Each takes a few at a time; one that hits a limit pauses by itself."</p>
            {shown(data, "The accounts could not be read", |accounts: Vec<AccountView>| table(&accounts))}
        </div>
    }
}

/// The table, also for the health page.
pub(crate) fn table(accounts: &[AccountView]) -> AnyView {
    let rows = accounts
        .iter()
        .map(|account| {
            let (mark, word) = match account.state.as_str() {
                "available" => (drawn("st c-done", "s-done"), "Available"),
                "cooling_down" => (drawn("st c-working", "s-queue"), "Cooling down"),
                "needs_login" => (drawn("st c-needs", "s-needs"), "Needs a login"),
                "disabled" => (drawn("st c-queue", "s-cancelled"), "Disabled"),
                _ => (drawn("st c-queue", "s-queue"), "Unknown"),
            };
            view! {
                <tr data-account=account.name.clone()>
                    <td class="mono">{account.name.clone()}</td>
                    <td>
                        <span class="row">{mark} {word}</span>
                        <span class="meta block">{account.reason.clone()}</span>
                    </td>
                    <td class="mono">{account.runs_as.clone()}</td>
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
                        <th>"Runs as"</th>
                        <th class="r">"Sessions"</th>
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
        </section>
    }
    .into_any()
}
