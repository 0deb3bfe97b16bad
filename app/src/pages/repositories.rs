//! Repositories: the list, the sample, and a form for a path or URL.

use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos_meta::Title;
use opkit_domain::objective::Integration;
use opkit_domain::view::RepoView;

use super::board::sample_button;
use crate::api::places::{add_repo, change_repo, read_repos};
use crate::format;
use crate::ui::data::{load_once, shown};
use crate::ui::icons::icon14;
use crate::ui::parts::{awake, field_error, value};
use crate::ui::toast::use_toasts;

/// `/repositories`.
#[component]
pub(crate) fn Repositories() -> impl IntoView {
    let data = load_once(read_repos);
    let chosen = RwSignal::new(None::<RepoView>);
    view! {
        <Title text="Repositories" />
        <div class="page page-mid">
            <h1 class="page-h1 page-head">"Repositories"</h1>
            {shown(data, "The repositories could not be read", move |repos: Vec<RepoView>| {
                list(&repos, chosen, move || data.refetch())
            })}
            {move || chosen.get().map(|repo| change_form(&repo, chosen, move || data.refetch()))}
            <AddForm done=move || data.refetch() />
        </div>
    }
}

fn list(
    repos: &[RepoView],
    chosen: RwSignal<Option<RepoView>>,
    again: impl Fn() + Copy + Send + Sync + 'static,
) -> AnyView {
    if repos.is_empty() {
        return view! {
            <div class="empty">
                <h2>"No repository yet"</h2>
                <p>"Opkit keeps a mirror of it and works on private copies. Your own checkout is never touched."</p>
                {sample_button("btn btn-primary", again)}
            </div>
        }
        .into_any();
    }
    let has_sample = repos.iter().any(|repo| repo.name == "sample");
    let rows = repos
        .iter()
        .map(|repo| {
            let how = match repo.integrate {
                Integration::Keep => "keeps the branch",
                Integration::Merge => "merges into the base",
            };
            let notes =
                repo.notes.iter().map(|note| view! { <p class="meta">{note.clone()}</p> }).collect_view();
            let ahead = match repo.pool {
                Some(0) => "none".to_owned(),
                Some(pool) => format!("{} of {pool}", repo.ready),
                None => repo.ready.to_string(),
            };
            let this = repo.clone();
            view! {
                <tr data-repo=repo.name.clone()>
                    <td class="lead">
                        <a class="link strong" href=format!("/?repo={}", repo.name)>
                            {repo.name.clone()}
                        </a>
                        <span class="meta block mono break">{repo.source.clone()}</span>
                        {notes}
                    </td>
                    <td class="mono lab" data-label="Base">{repo.base.clone()}</td>
                    <td class="mono lab" data-label="Set-up">{repo.setup.clone().unwrap_or_else(|| "none".into())}</td>
                    <td class="mono lab" data-label="Verify">{repo.verify.clone().unwrap_or_else(|| "none".into())}</td>
                    <td class="lab" data-label="On approval">{how}</td>
                    <td class="r fig" data-label="Made ahead" data-ready="">{ahead}</td>
                    <td class="r fig" data-label="Objectives">{format::number(u64::from(repo.objectives))}</td>
                    <td class="r open">
                        <button
                            class="btn btn-quiet btn-s"
                            type="button"
                            aria-label=format!("Change {}", repo.name)
                            on:click=move |_| chosen.set(Some(this.clone()))
                        >
                            "Change"
                        </button>
                    </td>
                </tr>
            }
        })
        .collect_view();
    view! {
        <section class="panel scroll-x" aria-label="Repositories">
            <table class="table stacked">
                <thead>
                    <tr>
                        <th>"Name and source"</th>
                        <th>"Base"</th>
                        <th>"Set-up"</th>
                        <th>"Verify"</th>
                        <th>"On approval"</th>
                        <th class="r">"Made ahead"</th>
                        <th class="r">"Objectives"</th>
                        <th>
                            <span class="sr">"Change"</span>
                        </th>
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
        </section>
        {(!has_sample).then(|| view! { <div>{sample_button("btn btn-s", again)}</div> })}
    }
    .into_any()
}

/// A line of text with its label and a hint.
fn field(id: &'static str, label: &'static str, hint: &'static str, what: RwSignal<String>) -> AnyView {
    view! {
        <div class="field">
            <label for=id>{label}</label>
            <input
                class="input"
                id=id
                name=id
                autocapitalize="none"
                spellcheck="false"
                autocomplete="off"
                prop:value=move || what.get()
                on:input=move |event| what.set(value(&event))
            />
            <span class="hint">{hint}</span>
        </div>
    }
    .into_any()
}

const SETUP_HINT: &str = "Runs once in a new worktree, behind the wall, as in npm ci.";
const VERIFY_HINT: &str = "Runs before every review, as in cargo test. Exit 0 means fine.";

fn merge_field(merge: RwSignal<bool>) -> AnyView {
    view! {
        <label class="check-row">
            <input
                class="check-input"
                type="checkbox"
                prop:checked=move || merge.get()
                on:change=move |event| merge.set(event_target_checked(&event))
            />
            <span>
                "Merge when approved"
                <span class="meta block">"Else the branch stays in the mirror and you take it."</span>
            </span>
        </label>
    }
    .into_any()
}

/// Changes the commands of a repository, and how many checkouts are made ahead.
fn change_form(
    repo: &RepoView,
    chosen: RwSignal<Option<RepoView>>,
    done: impl Fn() + Copy + Send + Sync + 'static,
) -> AnyView {
    let toasts = use_toasts();
    let setup = RwSignal::new(repo.setup.clone().unwrap_or_default());
    let verify = RwSignal::new(repo.verify.clone().unwrap_or_default());
    let pool = RwSignal::new(repo.pool.map(|pool| pool.to_string()).unwrap_or_default());
    let merge = RwSignal::new(repo.integrate == Integration::Merge);
    let busy = RwSignal::new(false);
    let refused = RwSignal::new(None::<String>);
    let name = StoredValue::new(repo.name.clone());
    let send = move |event: web_sys::SubmitEvent| {
        event.prevent_default();
        busy.set(true);
        refused.set(None);
        let how = if merge.get_untracked() { Integration::Merge } else { Integration::Keep };
        let texts = [setup, verify, pool].map(|text| text.get_untracked());
        spawn_local(async move {
            let [setup, verify, pool] = texts;
            match change_repo(name.get_value(), setup, verify, pool, how).await {
                Ok(repo) => {
                    toasts.good(format!("{} was changed.", repo.name));
                    chosen.try_set(None);
                    done();
                }
                Err(refusal) => {
                    refused.try_set(Some(refusal.text));
                }
            }
            busy.try_set(false);
        });
    };
    let awake = awake();
    view! {
        <form class="panel add-form" method="post" on:submit=send data-change-repo="">
            <h2 class="add-head">{format!("Change {}", repo.name)}</h2>
            <div class="field-pair">
                {field("change-setup", "Set-up command, optional", SETUP_HINT, setup)}
                {field("change-verify", "Verify command, optional", VERIFY_HINT, verify)}
            </div>
            {field(
                "change-pool",
                "Checkouts made ahead, optional",
                "A start then takes no time. 0 for none; the installation's number if empty.",
                pool,
            )}
            {merge_field(merge)}
            {field_error(move || refused.get())}
            <div class="row">
                <button class="btn btn-primary" type="submit" disabled=move || busy.get() || !awake.get()>
                    "Save"
                </button>
                <button class="btn" type="button" on:click=move |_| chosen.set(None)>
                    "Leave it"
                </button>
            </div>
        </form>
    }
    .into_any()
}

#[component]
fn AddForm(done: impl Fn() + Copy + Send + Sync + 'static) -> impl IntoView {
    let toasts = use_toasts();
    let source = RwSignal::new(String::new());
    let name = RwSignal::new(String::new());
    let base = RwSignal::new(String::new());
    let setup = RwSignal::new(String::new());
    let verify = RwSignal::new(String::new());
    let merge = RwSignal::new(false);
    let busy = RwSignal::new(false);
    let refused = RwSignal::new(None::<String>);
    let send = move |event: web_sys::SubmitEvent| {
        event.prevent_default();
        if source.with_untracked(|text| text.trim().is_empty()) {
            refused.set(Some("The path or URL is missing.".into()));
            return;
        }
        busy.set(true);
        refused.set(None);
        let given =
            |text: RwSignal<String>| Some(text.get_untracked()).filter(|text| !text.trim().is_empty());
        let how = if merge.get_untracked() { Integration::Merge } else { Integration::Keep };
        let (source_, name_, base_) = (source.get_untracked(), given(name), given(base));
        let (setup_, verify_) = (given(setup), given(verify));
        spawn_local(async move {
            match add_repo(source_, name_, base_, setup_, verify_, Some(how)).await {
                Ok(repo) => {
                    for field in [source, name, base, setup, verify] {
                        field.set(String::new());
                    }
                    toasts.good(format!("{} was added.", repo.name));
                    done();
                }
                Err(refusal) => refused.set(Some(refusal.text)),
            }
            busy.try_set(false);
        });
    };
    let awake = awake();
    view! {
        <form class="panel add-form" method="post" on:submit=send data-add-repo="">
            <h2 class="add-head">"Add a repository"</h2>
            {field("source", "Path or URL", "A git repository on this machine, or a URL that git can clone.", source)}
            <div class="field-pair">
                {field("repo-name", "Name, optional", "From the path if empty.", name)}
                {field("base", "Base branch, optional", "The one that is checked out there if empty.", base)}
            </div>
            <div class="field-pair">
                {field("setup", "Set-up command, optional", SETUP_HINT, setup)}
                {field("verify", "Verify command, optional", VERIFY_HINT, verify)}
            </div>
            {merge_field(merge)}
            {field_error(move || refused.get())}
            <div>
                <button class="btn btn-primary" type="submit" disabled=move || busy.get() || !awake.get()>
                    {icon14("plus")}
                    "Add repository"
                </button>
            </div>
        </form>
    }
}
