//! A new objective.

use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos_meta::Title;
use leptos_router::NavigateOptions;
use leptos_router::hooks::{use_navigate, use_query_map};
use opkit_domain::objective::Kind;
use opkit_domain::view::{NewObjective, RepoView};

use super::board::sample_button;
use super::fields::{self, Fields};
use crate::api::objective::create_objective;
use crate::api::places::{NewPage, read_new};
use crate::ui::data::{load_once, shown};
use crate::ui::icons::icon14;
use crate::ui::parts::{awake, field_error, value};

/// What the demo agent can play.
const SCRIPTS: [(&str, &str); 9] = [
    ("good", "Good: it works, tests and delivers"),
    ("fails-then-good", "Fails a review, then mends it"),
    ("always-fails", "Fails every review"),
    ("blocked", "Says that it lacks something"),
    ("hangs", "Stops talking"),
    ("crashes", "Crashes"),
    ("floods", "Writes far too much"),
    ("usage-limit", "Hits its usage limit"),
    ("writes-outside", "Tries to write outside its folder"),
];

/// `/new`.
#[component]
pub(crate) fn New() -> impl IntoView {
    let data = load_once(read_new);
    view! {
        <Title text="New objective" />
        <div class="page page-narrow">
            <h1 class="page-h1 page-head">"New objective"</h1>
            {shown(data, "The repositories could not be read", move |page: NewPage| {
                if page.repos.is_empty() {
                    no_repo(move || data.refetch())
                } else {
                    view! { <Form page /> }.into_any()
                }
            })}
        </div>
    }
}

fn no_repo(again: impl Fn() + Copy + Send + Sync + 'static) -> AnyView {
    view! {
        <div class="empty">
            <h2>"First, a repository"</h2>
            <p>"An objective works on a private copy of a git repository. The sample is a small one to try things on."</p>
            <div class="row wrap">
                {sample_button("btn btn-primary", again)}
                <a class="btn" href="/repositories">
                    "Use a path or URL"
                </a>
            </div>
        </div>
    }
    .into_any()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Between 0 and the largest one.
fn chance() -> u32 {
    (js_sys::Math::random() * f64::from(u32::MAX)) as u32
}

fn fill_example(fields: Fields) {
    fields.title.set("Add a hello file".into());
    fields.brief.set("Add `hello.txt` at the top of the repository. It greets the reader in one line.\n\nChange nothing else.".into());
    fields.kind.set(Kind::Bug);
    fields.rows.set(Vec::new());
    fields.add("hello.txt exists and greets", "test -f hello.txt");
}

#[component]
fn Form(page: NewPage) -> impl IntoView {
    let NewPage { repos, claude_lacks } = page;
    let fields = Fields::new("", "", Kind::Bug, &[], 2, false);
    if use_query_map().with_untracked(|query| query.get("example").is_some()) {
        fill_example(fields);
    }
    let repo = RwSignal::new(repos.first().map(|repo| repo.name.clone()).unwrap_or_default());
    let agent = RwSignal::new("demo".to_owned());
    let script = RwSignal::new("good".to_owned());
    let busy = RwSignal::new(false);
    let refused = RwSignal::new(None::<String>);
    let key = StoredValue::new(String::new());
    let navigate = use_navigate();
    let send = move |event: web_sys::SubmitEvent| {
        event.prevent_default();
        fields.tried.set(true);
        if busy.get_untracked() || !fields.is_right() {
            return;
        }
        if key.with_value(String::is_empty) {
            // One key for all tries of this form: a lost answer does not make a second objective.
            key.set_value(format!("page-{:x}-{:x}-{:x}", chance(), chance(), chance()));
        }
        let new = gather(fields, repo.get_untracked(), agent.get_untracked(), script.get_untracked());
        busy.set(true);
        refused.set(None);
        let navigate = navigate.clone();
        spawn_local(async move {
            match create_objective(new, Some(key.get_value())).await {
                Ok(id) => navigate(&format!("/objective/{id}"), NavigateOptions::default()),
                Err(refusal) => {
                    refused.set(Some(refusal.text));
                    key.set_value(String::new());
                    request_animation_frame(show_refusal);
                }
            }
            busy.try_set(false);
        });
    };
    let awake = awake();
    view! {
        <form class="wide-form" method="post" on:submit=send data-new="">
            <div class="row">
                <p class="ink2">"One piece of work, and what must be true when it is done."</p>
                <span class="sp"></span>
                <button class="btn btn-s" type="button" data-example="" on:click=move |_| fill_example(fields)>
                    {icon14("edit")}
                    "Fill in an example"
                </button>
            </div>
            {repo_select(&repos, repo)}
            {fields::texts(fields)}
            {fields::kinds(fields, Kind::Task)}
            {fields::criteria(fields)}
            {agent_fields(agent, script, claude_lacks)}
            {fields::order(fields)}
            <div data-refused="">{field_error(move || refused.get())}</div>
            <div class="form-foot">
                <a class="btn" href="/">
                    "Back to the board"
                </a>
                <button class="btn btn-primary" type="submit" data-create="" disabled=move || busy.get() || !awake.get()>
                    {move || if fields.hold.get() { "Create, on hold" } else { "Create and queue" }}
                </button>
            </div>
        </form>
    }
}

/// On a phone the sentence may stand below the screen.
fn show_refusal() {
    if let Ok(Some(place)) = document().query_selector("[data-refused]") {
        place.scroll_into_view();
    }
}

fn gather(fields: Fields, repo: String, agent: String, script: String) -> NewObjective {
    let script = (agent == "demo").then_some(script);
    NewObjective {
        title: fields.title.get_untracked(),
        repo,
        kind: fields.kind.get_untracked(),
        brief: fields.brief.get_untracked(),
        goal: String::new(),
        criteria: fields.criteria(),
        base: None,
        priority: fields.priority.get_untracked(),
        agent: Some(agent),
        script,
        review: None,
        parent: None,
        blocked_by: Vec::new(),
        labels: Vec::new(),
        hold: fields.hold.get_untracked(),
        max_review_rounds: None,
    }
}

fn repo_select(repos: &[RepoView], repo: RwSignal<String>) -> AnyView {
    let options = repos
        .iter()
        .map(|one| {
            let name = one.name.clone();
            view! { <option value=name.clone()>{format!("{name}, from {}", one.base)}</option> }
        })
        .collect_view();
    view! {
        <div class="field">
            <label for="repo">"Repository"</label>
            <select class="select" id="repo" name="repo" on:change=move |event| repo.set(value(&event))>
                {options}
            </select>
        </div>
    }
    .into_any()
}

/// An agent that cannot run here says why, and cannot be chosen.
fn agent_fields(agent: RwSignal<String>, script: RwSignal<String>, claude_lacks: Option<String>) -> AnyView {
    let option = move |name: &'static str, what: &'static str, lacks: Option<String>| {
        let is_off = lacks.is_some();
        view! {
            <label class="opt" class:on=move || agent.with(|have| have == name)>
                <input
                    class="opt-input"
                    type="radio"
                    name="agent"
                    value=name
                    disabled=is_off
                    prop:checked=move || agent.with(|have| have == name)
                    on:change=move |_| agent.set(name.to_owned())
                />
                <span class="mono">{name}</span>
                <span class="meta break">{what} {lacks.map(|lacks| view! { " " <span data-lacks="">{lacks}</span> })}</span>
            </label>
        }
    };
    let scripts =
        SCRIPTS.iter().map(|(name, what)| view! { <option value=*name>{*what}</option> }).collect_view();
    view! {
        <fieldset class="field plain-set">
            <legend class="label">"Agent"</legend>
            <div class="opts opts-2">
                {option("demo", "Scripted demo agent. It really edits, tests and commits. No account needed.", None)}
                {option("claude", "Claude Code, on an account of the pool.", claude_lacks)}
            </div>
        </fieldset>
        <div class="field" class:is-none=move || agent.with(|have| have != "demo")>
            <label for="script">"What the demo plays"</label>
            <select class="select" id="script" name="script" on:change=move |event| script.set(value(&event))>
                {scripts}
            </select>
        </div>
    }
    .into_any()
}
