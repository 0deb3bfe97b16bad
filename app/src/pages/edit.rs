//! Editing an objective. A conflict says so and keeps the text.

use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos_meta::Title;
use leptos_router::NavigateOptions;
use leptos_router::hooks::{use_navigate, use_params_map};
use opkit_domain::ids::ObjectiveId;
use opkit_domain::view::{EditObjective, ObjectiveView};

use super::fields::{self, Fields};
use crate::api;
use crate::api::objective::{objective_source, save_objective};
use crate::ui::icons::icon12;
use crate::ui::parts::{answer_with, failed, field_error};

/// `/objective/:id/edit`.
#[component]
pub(crate) fn Edit() -> impl IntoView {
    let params = use_params_map();
    let id = Memo::new(move |_| params.with(|p| p.get("id")).and_then(|id| id.parse::<ObjectiveId>().ok()));
    let data = Resource::new_blocking(
        move || id.get(),
        |id| async move { objective_source(id.unwrap_or(ObjectiveId(0))).await },
    );
    view! {
        <Title text="Edit" />
        <div class="page page-narrow">
            <Transition fallback=|| view! { <div class="skeleton"></div> }>
                {move || Suspend::new(async move {
                    match data.await {
                        Ok(view) => view! { <Form view /> }.into_any(),
                        Err(error) => {
                            answer_with(404);
                            failed("This objective cannot be edited", &error)
                        }
                    }
                })}
            </Transition>
        </div>
    }
}

#[component]
fn Form(view: ObjectiveView) -> impl IntoView {
    let id = view.card.id;
    let card = &view.card;
    let fields = Fields::new(&card.title, &view.brief, card.kind, &view.criteria, card.priority, card.hold);
    let locked = card.locked;
    let version = card.version;
    let before = StoredValue::new(view.clone());
    let busy = RwSignal::new(false);
    let refused = RwSignal::new(None::<String>);
    let navigate = use_navigate();
    let send = move |event: web_sys::SubmitEvent| {
        event.prevent_default();
        fields.tried.set(true);
        if busy.get_untracked() || (!locked && !fields.is_right()) {
            return;
        }
        busy.set(true);
        refused.set(None);
        let edit = before.with_value(|before| changes(fields, before, version));
        let navigate = navigate.clone();
        spawn_local(async move {
            match save_objective(id, edit).await {
                Ok(()) => navigate(&format!("/objective/{id}"), NavigateOptions::default()),
                Err(error) => refused.set(Some(api::says(&error))),
            }
            busy.try_set(false);
        });
    };
    let back = format!("/objective/{id}");
    view! {
        <nav class="crumb" aria-label="Path">
            <a class="link" href="/">
                "Board"
            </a>
            {icon12("right")}
            <a class="link mono" href=back.clone()>
                {format!("#{id}")}
            </a>
        </nav>
        <h1 class="page-h1 page-head">{format!("Edit #{id}")}</h1>
        <form class="wide-form" method="post" on:submit=send data-edit="">
            {fields::texts(fields)}
            {fields::kinds(fields, card.kind)}
            {if locked {
                locked_criteria(&view).into_any()
            } else {
                fields::criteria(fields)
            }}
            {fields::order(fields)}
            {field_error(move || refused.get())}
            <p class="hint" class:is-none=move || refused.with(Option::is_none)>
                "What you wrote is kept here. "
                <a class="link" href=back.clone() target="_blank" rel="noopener">
                    "See how it is now"
                </a>
            </p>
            <div class="form-foot">
                <a class="btn" href=back>
                    "Leave it as it was"
                </a>
                <button class="btn btn-primary" type="submit" disabled=move || busy.get()>
                    "Save"
                </button>
            </div>
        </form>
    }
}

fn locked_criteria(view: &ObjectiveView) -> AnyView {
    let rows = view
        .criteria
        .iter()
        .map(|criterion| {
            view! {
                <li>
                    {criterion.text.clone()} " "
                    <span class="mono muted">{criterion.check.clone().unwrap_or_default()}</span>
                </li>
            }
        })
        .collect_view();
    view! {
        <div class="field">
            <span class="label">"Criteria"</span>
            <ol class="locked-list">{rows}</ol>
            <span class="hint">"They are locked since work began, so that nobody can move the goal."</span>
        </div>
    }
    .into_any()
}

/// Only what changed is sent.
fn changes(fields: Fields, before: &ObjectiveView, version: i64) -> EditObjective {
    let title = fields.title.get_untracked();
    let brief = fields.brief.get_untracked();
    let criteria = fields.criteria();
    let kind = fields.kind.get_untracked();
    let priority = fields.priority.get_untracked();
    let hold = fields.hold.get_untracked();
    EditObjective {
        version: Some(version),
        title: (title != before.card.title).then_some(title),
        brief: (brief != before.brief).then_some(brief),
        criteria: (!before.card.locked && criteria != before.criteria).then_some(criteria),
        kind: (kind != before.card.kind).then_some(kind),
        priority: (priority != before.card.priority).then_some(priority),
        hold: (hold != before.card.hold).then_some(hold),
        ..EditObjective::default()
    }
}
