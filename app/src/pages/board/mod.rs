//! The board: filter row, lanes, menu, and what it says when there is nothing.

mod card;
mod drag;
mod empty;
mod lane;
mod menu;
mod model;

use std::sync::Arc;

use leptos::prelude::*;
use leptos_meta::Title;
use leptos_router::NavigateOptions;
use leptos_router::hooks::{use_navigate, use_query_map};
use opkit_domain::objective::Status;
use opkit_domain::view::{BoardFilter, BoardView};
use wasm_bindgen::JsCast;

use crate::api::Answer;
use crate::api::board::read_board;
use crate::live;
use crate::ui::clock::use_clock;
use crate::ui::data::{load, transition};
use crate::ui::frame;
use crate::ui::icons::{icon12, icon14, status_mark};
use crate::ui::parts::{page_failed, value};
use model::Model;

/// `/`.
#[component]
pub(crate) fn Board() -> impl IntoView {
    let query = use_query_map();
    let filter = Memo::new(move |_| {
        let given = |name: &str| query.with(|query| query.get(name)).filter(|text| !text.trim().is_empty());
        BoardFilter { repo: given("repo"), text: given("q") }
    });
    let data = load(move || format!("{:?}", filter.get()), move || read_board(filter.get_untracked()));
    let clock = use_clock();
    // Who looks at a lane goes on doing so when the board is read again.
    let shown = RwSignal::new(None);
    let draw = move |answer: &Answer| match answer.open::<BoardView>() {
        Ok(view) => {
            clock.seed(view.now);
            frame::read_at(view.seq);
            let filter = filter.get_untracked();
            view! { <Loaded view filter shown again=move || data.refetch() /> }.into_any()
        }
        Err(refusal) => page_failed("The board could not be read", &refusal),
    };
    view! {
        <Title text="Board" />
        <h1 class="sr">"Board"</h1>
        {transition(data, Arc::new(draw), skeleton)}
    }
}

fn skeleton() -> AnyView {
    let lane = |status: Status| {
        view! {
            <section class="lane">
                <header class="lane-head">{status_mark(status)} <span>{status.label()}</span></header>
                <div class="lane-body">
                    <div class="card skeleton-card">
                        <div class="skeleton"></div>
                        <div class="skeleton"></div>
                    </div>
                </div>
            </section>
        }
    };
    view! { <div class="board skeleton-late">{Status::ALL.iter().take(6).copied().map(lane).collect_view()}</div> }
        .into_any()
}

#[component]
fn Loaded(
    view: BoardView,
    filter: BoardFilter,
    shown: RwSignal<Option<usize>>,
    again: impl Fn() + Copy + Send + Sync + 'static,
) -> impl IntoView {
    let model = Model::new(&view, filter.clone());
    let seq = view.seq;
    Effect::new(move |_| {
        model.catch_up(seq);
        live::listen(move |feed| model.take(feed, again));
        drag::listen(model);
    });
    let total = move || model.lanes.iter().map(|lane| lane.total.get()).sum::<u32>();
    let filters = usize::from(filter.repo.is_some()) + usize::from(filter.text.is_some());
    let no_repo = view.repos.is_empty();
    let is_empty = Memo::new(move |_| total() == 0);
    let start = shown.get_untracked().unwrap_or_else(|| start_lane(model));
    let current = Memo::new(move |_| shown.get().unwrap_or(start));
    Effect::new(move |before: Option<()>| {
        show_tab(current.get());
        if before.is_none() && start > 0 && has_tabs() {
            show_lane(model.lanes[start].status);
        }
    });
    let go = use_navigate();
    view! {
        {filter_row(&view, &filter)}
        {lane_tabs(model, current)}
        <div
            class="board"
            class:is-empty-board=move || is_empty.get()
            data-board=""
            on:pointerdown=|event| drag::on_press(&event)
            on:dragstart=|event| event.prevent_default()
            on:click=move |event| {
                drag::swallow_click(&event);
                on_click(model, &go, &event);
            }
            on:keydown=move |event| menu::on_board_key(model, &event)
            on:scroll=move |event| shown.set(Some(lane_in_view(&event)))
        >
            {(0..model.lanes.len()).map(|at| lane::lane(model, model.lanes[at], at == start)).collect_view()}
        </div>
        {move || {
            is_empty
                .get()
                .then(|| if filters > 0 { empty::filtered(filters) } else { empty::teaching(no_repo, again) })
        }}
        {menu::menu(model)}
    }
}

fn on_click(model: Model, go: &impl Fn(&str, NavigateOptions), event: &web_sys::MouseEvent) {
    if event.default_prevented() {
        return;
    }
    let Some(target) = event.target().and_then(|target| target.dyn_into::<web_sys::Element>().ok()) else {
        return;
    };
    let Some(card) = target.closest("[data-card]").ok().flatten() else { return };
    if target.closest("[data-move]").ok().flatten().is_some() {
        menu::open(model, &card);
    } else if target.closest("a, button").ok().flatten().is_none()
        && let Some(link) = card.query_selector("[data-open]").ok().flatten()
        && let Some(to) = link.get_attribute("href")
    {
        // The whole card opens the objective; the link stays the one thing for keys and screen readers.
        // No click on it from here: it would come back to this handler while it runs.
        go(&to, NavigateOptions::default());
    }
}

fn address(repo: &str, text: &str) -> String {
    let escape = |text: &str| String::from(js_sys::encode_uri_component(text));
    let mut parts = Vec::new();
    if !repo.is_empty() {
        parts.push(format!("repo={}", escape(repo)));
    }
    if !text.trim().is_empty() {
        parts.push(format!("q={}", escape(text.trim())));
    }
    if parts.is_empty() { "/".into() } else { format!("/?{}", parts.join("&")) }
}

/// The filter is a plain form: it works before, and without, the browser module.
fn filter_row(view: &BoardView, filter: &BoardFilter) -> AnyView {
    let navigate = use_navigate();
    let repo = RwSignal::new(filter.repo.clone().unwrap_or_default());
    let text = RwSignal::new(filter.text.clone().unwrap_or_default());
    let go =
        move || navigate(&address(&repo.get_untracked(), &text.get_untracked()), NavigateOptions::default());
    let change = go.clone();
    let is_filtered = filter.repo.is_some() || filter.text.is_some();
    let chosen = filter.repo.clone();
    let mut names: Vec<String> = view.repos.iter().map(|repo| repo.name.clone()).collect();
    if let Some(name) = chosen.as_ref().filter(|name| !names.contains(name)) {
        names.push(name.clone());
    }
    view! {
        <form
            class="filters"
            method="get"
            action="/"
            role="search"
            on:submit=move |event| {
                event.prevent_default();
                go();
            }
        >
            <span class="row filter-icon muted">{icon14("filter")}</span>
            <select
                class="select select-s"
                name="repo"
                aria-label="Repository"
                on:change=move |event| {
                    repo.set(value(&event));
                    change();
                }
            >
                <option value="" selected=chosen.is_none()>
                    "Any repository"
                </option>
                {names
                    .into_iter()
                    .map(|name| {
                        let selected = chosen.as_ref() == Some(&name);
                        view! {
                            <option value=name.clone() selected=selected>
                                {name.clone()}
                            </option>
                        }
                    })
                    .collect_view()}
            </select>
            <label class="input filter-text">
                {icon14("search")}
                <input
                    type="search"
                    name="q"
                    aria-label="Words in the title, or #42"
                    placeholder="Words, or #42"
                    value=filter.text.clone().unwrap_or_default()
                    on:input=move |event| text.set(value(&event))
                />
            </label>
            {is_filtered
                .then(|| {
                    view! {
                        <a class="btn btn-s btn-quiet" href="/">
                            {icon12("x")}
                            "Clear"
                        </a>
                    }
                })}
            <span class="sp"></span>
            <a class="btn btn-s btn-primary" href="/new">
                {icon14("plus")}
                "New objective"
                <kbd class="kbd kbd-on">"C"</kbd>
            </a>
        </form>
    }
    .into_any()
}

/// On a phone: one lane a screen, with tabs.
fn lane_tabs(model: Model, current: Memo<usize>) -> AnyView {
    let tab = move |at: usize| {
        let lane = model.lanes[at];
        view! {
            <button
                type="button"
                class="lane-tab"
                aria-current=move || (current.get() == at).then_some("true")
                on:click=move |_| {
                    lane.open.set(true);
                    show_lane(lane.status);
                }
            >
                {status_mark(lane.status)}
                {lane.status.label()}
                <span class="muted num">{move || lane.total.get().to_string()}</span>
            </button>
        }
    };
    view! {
        <nav class="lane-tabs" aria-label="Lanes">
            {(0..model.lanes.len()).map(tab).collect_view()}
        </nav>
    }
    .into_any()
}

/// The lane that a phone opens on: where work is, else the first.
fn start_lane(model: Model) -> usize {
    use Status::{AiReview, Done, HumanReview, Planning, Queue, Working};
    let has_cards = |status: Status| {
        model.lanes.iter().position(|lane| lane.status == status && lane.total.get_untracked() > 0)
    };
    [Working, HumanReview, AiReview, Queue, Planning, Done].into_iter().find_map(has_cards).unwrap_or(0)
}

fn has_tabs() -> bool {
    let tabs = document().query_selector(".lane-tabs").ok().flatten();
    tabs.is_some_and(|tabs| tabs.client_width() > 0)
}

/// Tabs scroll, too: the current one is never out of sight.
fn show_tab(at: usize) {
    let tab = document().query_selector(&format!(".lane-tab:nth-child({})", at + 1)).ok().flatten();
    if let Some(tab) = tab {
        let how = web_sys::ScrollIntoViewOptions::new();
        how.set_inline(web_sys::ScrollLogicalPosition::Center);
        how.set_block(web_sys::ScrollLogicalPosition::Nearest);
        tab.scroll_into_view_with_scroll_into_view_options(&how);
    }
}

fn show_lane(status: Status) {
    request_animation_frame(move || {
        let lane = document().query_selector(&format!("[data-lane={}]", status.as_str())).ok().flatten();
        if let Some(lane) = lane {
            let how = web_sys::ScrollIntoViewOptions::new();
            how.set_inline(web_sys::ScrollLogicalPosition::Start);
            how.set_block(web_sys::ScrollLogicalPosition::Nearest);
            lane.scroll_into_view_with_scroll_into_view_options(&how);
        }
    });
}

/// Which lane a phone shows.
fn lane_in_view(event: &web_sys::Event) -> usize {
    let Some(board) = event.target().and_then(|target| target.dyn_into::<web_sys::Element>().ok()) else {
        return 0;
    };
    let left = board.get_bounding_client_rect().left();
    let Ok(lanes) = board.query_selector_all("[data-lane]") else { return 0 };
    let far = |at: u32| {
        let lane = lanes.get(at).and_then(|lane| lane.dyn_into::<web_sys::Element>().ok());
        lane.map_or(f64::MAX, |lane| (lane.get_bounding_client_rect().left() - left - 16.0).abs())
    };
    (0..lanes.length()).min_by(|a, b| far(*a).total_cmp(&far(*b))).unwrap_or(0) as usize
}

pub(crate) use empty::sample_button;
