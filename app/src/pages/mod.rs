//! One module a page.

pub(crate) mod accounts;
pub(crate) mod board;
pub(crate) mod edit;
pub(crate) mod fields;
pub(crate) mod health;
pub(crate) mod login;
pub(crate) mod more;
pub(crate) mod needs;
pub(crate) mod new;
pub(crate) mod objective;
pub(crate) mod repositories;
pub(crate) mod terminal;
pub(crate) mod terminals;

use leptos::prelude::*;
use leptos_meta::Title;

/// There is no such page.
#[component]
pub(crate) fn NotFound() -> impl IntoView {
    crate::ui::parts::answer_with(404);
    view! {
        <Title text="Not here" />
        <main class="center-page">
            <div class="empty">
                <h1 class="page-h1">"This page is not here"</h1>
                <p>"The address may be mistyped, or the page belongs to another version."</p>
                <div class="row">
                    <a class="btn btn-primary" href="/">
                        "Go to the board"
                    </a>
                </div>
            </div>
        </main>
    }
}
