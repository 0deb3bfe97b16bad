//! An empty board teaches the next step.

use leptos::prelude::*;
use leptos::task::spawn_local;

use crate::api::places::add_sample;
use crate::ui::icons::{icon, icon14};
use crate::ui::toast::use_toasts;

/// Nothing fits the filter.
pub(crate) fn filtered(filters: usize) -> AnyView {
    let text = if filters == 1 {
        "No objective matches this filter.".to_owned()
    } else {
        format!("No objective matches these {filters} filters.")
    };
    view! {
        <div class="board-empty">
            <p class="ink2">
                {text} " "
                <a class="link" href="/">
                    "Clear filters"
                </a>
            </p>
        </div>
    }
    .into_any()
}

/// The button that adds the sample repository.
pub(crate) fn sample_button(class: &'static str, done: impl Fn() + Copy + Send + Sync + 'static) -> AnyView {
    let toasts = use_toasts();
    let busy = RwSignal::new(false);
    view! {
        <button
            class=class
            type="button"
            data-add-sample=""
            disabled=move || busy.get()
            on:click=move |_| {
                busy.set(true);
                spawn_local(async move {
                    match add_sample().await {
                        Ok(repo) => {
                            toasts.good(format!("{} was added.", repo.name));
                            done();
                        }
                        Err(refusal) => toasts.failed("The sample was not added.", &refusal),
                    }
                    busy.try_set(false);
                });
            }
        >
            {icon14("repo")}
            "Add the sample repository"
        </button>
    }
    .into_any()
}

/// Nothing is there yet: what to do, in order.
pub(crate) fn teaching(no_repo: bool, again: impl Fn() + Copy + Send + Sync + 'static) -> AnyView {
    let repo = if no_repo {
        view! {
            <div class="stack">
                {sample_button("btn btn-primary", again)}
                <a class="btn" href="/repositories">
                    "Use a path or URL"
                </a>
            </div>
        }
        .into_any()
    } else {
        view! {
            <a class="btn" href="/repositories">
                "See repositories"
            </a>
        }
        .into_any()
    };
    view! {
        <div class="board-empty">
            <h2 class="page-h1">"Nothing on the board yet"</h2>
            <p class="ink2">
                "An objective is one piece of work with criteria that say when it is done. An agent does it, another checks it, you get a branch."
            </p>
            <div class="teach">
                <div>
                    <b>{icon("repo")} {if no_repo { "Add a repository" } else { "A repository is there" }}</b>
                    <p>"Opkit mirrors it and works on private copies. Your own checkout is never touched."</p>
                    <div class="teach-go">{repo}</div>
                </div>
                <div>
                    <b>{icon("edit")} "Write an objective"</b>
                    <p>"One line of goal, one criterion. A test command makes the best criterion."</p>
                    <div class="teach-go">
                        <a class=if no_repo { "btn" } else { "btn btn-primary" } href="/new">
                            "Write an objective"
                        </a>
                    </div>
                </div>
                <div>
                    <b>{icon("play")} "Or watch the demo"</b>
                    <p>"A scripted agent runs the whole loop: it edits, tests and commits. No account, no cost."</p>
                    <div class="teach-go">
                        <a class="btn" href="/new?example=1">
                            "Fill in an example"
                        </a>
                    </div>
                </div>
            </div>
        </div>
    }
    .into_any()
}
