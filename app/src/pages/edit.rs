//! Editing an objective. A conflict says so and keeps the text.

use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos_meta::Title;
use leptos_router::NavigateOptions;
use leptos_router::hooks::{use_navigate, use_params_map};
use opkit_domain::ids::ObjectiveId;
use opkit_domain::view::{EditObjective, ObjectiveView};

use super::fields::{self, Fields};
use super::objective::no_objective;
use crate::api::objective::{objective_source, read_source, save_objective};
use crate::api::{Answer, Why};
use crate::ui::data::{load, shown};
use crate::ui::icons::{icon12, kind_label};
use crate::ui::parts::{awake, field_error, priority_label};

/// `/objective/:id/edit`.
#[component]
pub(crate) fn Edit() -> impl IntoView {
    let params = use_params_map();
    let given = Memo::new(move |_| params.with(|p| p.get("id")).unwrap_or_default());
    let data = load(move || given.get(), move || read_given(given.get_untracked()));
    view! {
        <Title text="Edit" />
        <div class="page page-narrow">
            {shown(data, "This objective cannot be edited", |view: ObjectiveView| view! { <Form view /> }.into_any())}
        </div>
    }
}

async fn read_given(given: String) -> Result<Answer, ServerFnError> {
    match given.parse::<ObjectiveId>() {
        Ok(id) => read_source(id).await,
        Err(_) => Ok(no_objective(&given)),
    }
}

/// What saving is at.
#[derive(Clone, Copy)]
struct Saving {
    id: ObjectiveId,
    fields: Fields,
    /// As it was when the person opened it: what differs from this is what they changed.
    before: StoredValue<ObjectiveView>,
    /// The version that saving replaces; after a conflict the one that the person was told of.
    version: StoredValue<i64>,
    busy: RwSignal<bool>,
    refused: RwSignal<Option<String>>,
    /// What others changed meanwhile, after a conflict.
    theirs: RwSignal<Option<Vec<String>>>,
}

impl Saving {
    /// Saves; after it `true`.
    async fn save(self) -> bool {
        let (id, version) = (self.id, self.version.get_value());
        let edit = self.before.with_value(|before| changes(self.fields, before, version));
        match save_objective(id, edit).await {
            Ok(()) => return true,
            Err(refusal) if refusal.why == Why::Conflict => self.look_again().await,
            Err(refusal) => {
                self.refused.try_set(Some(refusal.text));
            }
        }
        self.busy.try_set(false);
        false
    }

    /// Somebody was faster: from now on their version is the one that is replaced, knowingly.
    async fn look_again(self) {
        match objective_source(self.id).await {
            Ok(now) => {
                // The page may be gone by then.
                let Some(list) = self.before.try_with_value(|before| differences(before, &now)) else {
                    return;
                };
                self.version.set_value(now.card.version);
                self.theirs.set(Some(list));
                let text = format!("#{} was changed by somebody else since you opened it.", self.id);
                self.refused.set(Some(text));
            }
            Err(refusal) => {
                self.refused.try_set(Some(refusal.text));
            }
        }
    }
}

#[component]
fn Form(view: ObjectiveView) -> impl IntoView {
    let id = view.card.id;
    let card = &view.card;
    let fields = Fields::new(&card.title, &view.brief, card.kind, &view.criteria, card.priority, card.hold);
    let locked = card.locked;
    let saving = Saving {
        id,
        fields,
        before: StoredValue::new(view.clone()),
        version: StoredValue::new(card.version),
        busy: RwSignal::new(false),
        refused: RwSignal::new(None),
        theirs: RwSignal::new(None),
    };
    let navigate = use_navigate();
    let send = move |event: web_sys::SubmitEvent| {
        event.prevent_default();
        fields.tried.set(true);
        if saving.busy.get_untracked() || (!locked && !fields.is_right()) {
            return;
        }
        saving.busy.set(true);
        saving.refused.set(None);
        let navigate = navigate.clone();
        spawn_local(async move {
            if saving.save().await {
                navigate(&format!("/objective/{id}"), NavigateOptions::default());
            }
        });
    };
    let back = format!("/objective/{id}");
    let awake = awake();
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
            {field_error(move || saving.refused.get())}
            {conflict(saving)}
            <div class="form-foot">
                <a class="btn" href=back>
                    "Leave it as it was"
                </a>
                <button class="btn btn-primary" type="submit" data-save="" disabled=move || saving.busy.get() || !awake.get()>
                    {move || if saving.theirs.with(Option::is_some) { "Save over it" } else { "Save" }}
                </button>
            </div>
        </form>
    }
}

/// What others changed, and that nothing which the person wrote is lost.
fn conflict(saving: Saving) -> AnyView {
    let back = format!("/objective/{}", saving.id);
    view! {
        {move || {
            saving
                .theirs
                .get()
                .map(|list| {
                    let lines = list.into_iter().map(|text| view! { <li class="break">{text}</li> }).collect_view();
                    view! {
                        <div class="field" data-conflict="">
                            <span class="label">"What changed meanwhile"</span>
                            <ul class="locked-list">{lines}</ul>
                            <span class="hint">
                                "What you wrote is kept here. Saving replaces only the fields that you changed. "
                                <a class="link" href=back.clone() target="_blank" rel="noopener">
                                    "See how it is now"
                                </a>
                            </span>
                        </div>
                    }
                })
        }}
    }
    .into_any()
}

/// What differs between two versions, in words.
fn differences(before: &ObjectiveView, now: &ObjectiveView) -> Vec<String> {
    let (old, new) = (&before.card, &now.card);
    let mut list = Vec::new();
    if old.title != new.title {
        list.push(format!("The title is now “{}”.", new.title));
    }
    if before.brief != now.brief {
        list.push("The brief is another one.".to_owned());
    }
    if before.criteria != now.criteria {
        list.push(format!("The criteria are other ones, {} now.", now.criteria.len()));
    }
    if old.kind != new.kind {
        list.push(format!("The type is now {}.", kind_label(new.kind)));
    }
    if old.priority != new.priority {
        list.push(format!("The priority is now {}.", priority_label(new.priority)));
    }
    if old.hold != new.hold {
        list.push(if new.hold { "It is on hold now." } else { "It is no longer on hold." }.to_owned());
    }
    if old.status != new.status {
        list.push(format!("It is in {} now.", new.status.label()));
    }
    if old.locked != new.locked {
        list.push("Its criteria are locked now, because work began.".to_owned());
    }
    if list.is_empty() {
        list.push("Nothing that you can edit here.".to_owned());
    }
    list
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
