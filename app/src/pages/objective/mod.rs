//! An objective's page: path, tabs, criteria with their verdicts, and the decision that it waits for.

mod decide;
mod diff;
mod kept;
mod lists;
mod overview;
mod steps;

pub(crate) use lists::outcome;

use std::sync::Arc;
use std::time::Duration;

use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos_meta::Title;
use leptos_router::hooks::{use_params_map, use_query_map};
use opkit_domain::event::Feed;
use opkit_domain::ids::ObjectiveId;

use crate::api::objective::{ObjectivePage, objective, read_context, read_objective};
use crate::api::{Answer, Refusal, Why};
use crate::live;
use crate::ui::clock::use_clock;
use crate::ui::data::{load, shown_or};
use crate::ui::icons::{icon, icon12};
use crate::ui::parts::{failed, missing};

/// The page's data; parts of the page read it and are drawn anew when it changes.
#[derive(Clone, Copy)]
pub(crate) struct Page {
    /// Number.
    pub(crate) id: ObjectiveId,
    /// The newest.
    pub(crate) data: RwSignal<Arc<ObjectivePage>>,
    /// The live line and the cost while a session runs.
    pub(crate) activity: RwSignal<(String, i64)>,
    pending: StoredValue<bool>,
}

impl Page {
    /// Reads it anew, soon; several reasons in a moment make one call.
    pub(crate) fn refresh(self) {
        if self.pending.get_value() {
            return;
        }
        self.pending.set_value(true);
        let later = move || {
            // The page may be gone by then.
            if self.pending.try_get_value().is_none() {
                return;
            }
            self.pending.set_value(false);
            spawn_local(async move {
                if let Ok(new) = objective(self.id).await {
                    let is_newer = self.data.try_with_untracked(|old| {
                        new.view.card.version >= old.view.card.version && **old != new
                    });
                    if is_newer == Some(true) {
                        self.data.set(Arc::new(new));
                    }
                }
            });
        };
        set_timeout(later, Duration::from_millis(120));
    }

    fn take(self, feed: &Feed) {
        match feed {
            Feed::Card { card, .. } if card.id == self.id || card.parent == Some(self.id) => self.refresh(),
            Feed::Resync => self.refresh(),
            Feed::Activity { id, line, cost_usd_micros } if *id == self.id => {
                self.activity.set((line.clone(), *cost_usd_micros));
            }
            Feed::Card { .. } | Feed::Activity { .. } | Feed::Hello { .. } | Feed::Wip { .. } => {}
        }
    }
}

/// The tabs, as they stand in the address.
const TABS: [(&str, &str); 7] = [
    ("overview", "Overview"),
    ("diff", "Diff"),
    ("sessions", "Sessions"),
    ("kept", "Kept"),
    ("timeline", "Timeline"),
    ("notes", "Notes"),
    ("context", "Context"),
];

/// `/objective/:id`.
#[component]
pub(crate) fn Objective() -> impl IntoView {
    let params = use_params_map();
    let given = Memo::new(move |_| params.with(|p| p.get("id")).unwrap_or_default());
    let data = load(move || given.get(), move || read_given(given.get_untracked()));
    let clock = use_clock();
    view! {
        {shown_or(
            data,
            move |page: ObjectivePage| {
                clock.seed(page.view.now);
                view! { <Loaded page /> }.into_any()
            },
            |refusal| missing("This objective is not here", refusal),
        )}
    }
}

/// What the address names; what is no number is no objective.
async fn read_given(given: String) -> Result<Answer, ServerFnError> {
    match given.parse::<ObjectiveId>() {
        Ok(id) => read_objective(id).await,
        Err(_) => Ok(no_objective(&given)),
    }
}

/// There is none of this name.
pub(crate) fn no_objective(given: &str) -> Answer {
    Answer::Refused(Refusal::new(Why::NotFound, format!("There is no objective “{given}”.")))
}

#[component]
fn Loaded(page: ObjectivePage) -> impl IntoView {
    let card = &page.view.card;
    let title = format!("#{} {}", card.id, card.title);
    let version = card.version;
    let page = Page {
        id: card.id,
        activity: RwSignal::new((card.activity.clone(), card.cost_usd_micros)),
        data: RwSignal::new(Arc::new(page)),
        pending: StoredValue::new(false),
    };
    Effect::new(move |_| {
        if live::since(0).iter().any(|card| card.id == page.id && card.version > version) {
            page.refresh();
        }
        live::listen(move |feed| page.take(feed));
    });
    let query = use_query_map();
    let tab = Memo::new(move |_| {
        let given = query.with(|query| query.get("tab")).unwrap_or_default();
        TABS.iter().find(|(word, _)| *word == given).map_or("overview", |(word, _)| *word)
    });
    view! {
        <Title text=title />
        <div class="page" data-objective=page.id.to_string()>
            {move || head(&page.data.get())}
            {move || steps::path(&page.data.get().view)}
            <div class="cols">
                <div class="colm">
                    {tab_row(page, tab)}
                    {move || content(page, tab.get())}
                </div>
                <aside class="aside">
                    {decide::panel(page)}
                    {move || lists::facts(&page.data.get().view)}
                    {move || lists::short_timeline(&page.data.get().view)}
                </aside>
            </div>
        </div>
    }
}

fn head(page: &ObjectivePage) -> AnyView {
    let view = &page.view;
    let card = &view.card;
    let session = card.session.clone().or_else(|| view.sessions.first().map(|session| session.id.clone()));
    let is_live = card.session.is_some();
    view! {
        <nav class="crumb" aria-label="Path">
            <a class="link" href="/">
                "Board"
            </a>
            {icon12("right")}
            <a class="link" href=format!("/?repo={}", card.repo)>
                {card.repo.clone()}
            </a>
            {icon12("right")}
            <span class="mono">{format!("#{}", card.id)}</span>
            {card
                .parent
                .map(|parent| {
                    view! {
                        <span class="sp"></span>
                        <span>
                            "part of " <a class="link" href=format!("/objective/{parent}")>{format!("#{parent}")}</a>
                        </span>
                    }
                })}
        </nav>
        <header class="ohead">
            <div class="ohead-text">
                <h1 data-title="">{card.title.clone()}</h1>
                {(!view.goal.is_empty()).then(|| view! { <p class="goal">{view.goal.clone()}</p> })}
            </div>
            <span class="sp"></span>
            {(!card.status.is_final())
                .then(|| {
                    view! {
                        <a class="btn" href=format!("/objective/{}/edit", card.id)>
                            {icon("edit")}
                            "Edit"
                        </a>
                    }
                })}
            {session
                .map(|session| {
                    view! {
                        <a class="btn" href=format!("/session/{session}") data-open-terminal="">
                            {icon("term")}
                            {if is_live { "Open terminal" } else { "Replay" }}
                        </a>
                    }
                })}
        </header>
    }
    .into_any()
}

fn tab_row(page: Page, tab: Memo<&'static str>) -> AnyView {
    let count = move |word: &str| {
        page.data.with(|page| match word {
            "sessions" => Some(page.view.sessions.len()),
            "timeline" => Some(page.view.events.len()),
            _ => None,
        })
    };
    let links = TABS
        .iter()
        .map(|(word, label)| {
            let href = if *word == "overview" {
                format!("/objective/{}", page.id)
            } else {
                format!("/objective/{}?tab={word}", page.id)
            };
            let is_here = move || tab.get() == *word;
            view! {
                <a href=href aria-current=move || is_here().then_some("page") data-tab=*word>
                    {*label}
                    {move || count(word).map(|n| view! { <span class="count">{n.to_string()}</span> })}
                </a>
            }
        })
        .collect_view();
    view! {
        <nav class="tabs" aria-label="Sections">
            {links}
        </nav>
    }
    .into_any()
}

fn content(page: Page, tab: &'static str) -> AnyView {
    match tab {
        "diff" => diff::tab(page),
        "sessions" => (move || lists::sessions(&page.data.get().view)).into_any(),
        "kept" => kept::tab(page),
        "timeline" => (move || lists::timeline(&page.data.get().view)).into_any(),
        "notes" => (move || notes(&page.data.get())).into_any(),
        "context" => context(page),
        _ => (move || overview::tab(page, &page.data.get())).into_any(),
    }
}

fn notes(page: &ObjectivePage) -> AnyView {
    match &page.notes_html {
        Some(html) => view! { <section class="panel panel-body prose" data-notes="" inner_html=html.clone()></section> }
            .into_any(),
        None => view! {
            <div class="empty">
                <h2>"No notes yet"</h2>
                <p>"The agent keeps NOTES.md for itself: what it tried, what it found. Reviewers never see it."</p>
            </div>
        }
        .into_any(),
    }
}

/// The context document of the newest session, and of the others by choice.
fn context(page: Page) -> AnyView {
    let chosen =
        RwSignal::new(page.data.with_untracked(|page| page.view.sessions.first().map(|s| s.id.clone())));
    let text = load(
        move || chosen.with(|id| id.as_ref().map(ToString::to_string).unwrap_or_default()),
        move || {
            let id = chosen.get_untracked();
            async move {
                match id {
                    Some(id) => read_context(id).await,
                    // An empty text, as the server would write it.
                    None => Ok(Answer::View(vec![0])),
                }
            }
        },
    );
    let choice = move || {
        let page = page.data.get();
        page.view
            .sessions
            .iter()
            .map(|session| {
                let id = session.id.clone();
                let pick = id.clone();
                view! {
                    <button
                        type="button"
                        class="chip chip-btn"
                        aria-pressed=move || if chosen.get().as_ref() == Some(&id) { "true" } else { "false" }
                        on:click=move |_| chosen.set(Some(pick.clone()))
                    >
                        {crate::ui::icons::role_label(session.role)}
                        " "
                        <span class="mono">{session.id.short().to_owned()}</span>
                        " "
                        {format!("round {}", session.round.max(1))}
                    </button>
                }
            })
            .collect_view()
    };
    view! {
        <div class="row wrap">{choice}</div>
        {shown_or(text, context_of, |refusal| failed("The context could not be read", refusal))}
    }
    .into_any()
}

/// The server tells a plain text; empty = there is no session.
fn context_of(text: String) -> AnyView {
    if text.is_empty() {
        return view! {
            <div class="empty">
                <h2>"No session yet"</h2>
                <p>"What an agent gets to read stands here, word for word, once one has started."</p>
            </div>
        }
        .into_any();
    }
    view! {
        <pre class="panel context-text" data-context="">
            {text}
        </pre>
    }
    .into_any()
}
