//! The fields of an objective, shared by the new and the edit page.

use leptos::prelude::*;
use opkit_domain::objective::{self, Criterion, Kind};

use crate::ui::icons::{icon, icon14, kind_label, kind_mark};
use crate::ui::parts::{field_error, priority_label, value};

/// One row of criteria.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Row {
    key: u32,
    text: RwSignal<String>,
    check: RwSignal<String>,
}

/// What the person writes.
#[derive(Clone, Copy)]
pub(crate) struct Fields {
    pub(crate) title: RwSignal<String>,
    pub(crate) brief: RwSignal<String>,
    pub(crate) kind: RwSignal<Kind>,
    pub(crate) rows: RwSignal<Vec<Row>>,
    pub(crate) priority: RwSignal<u8>,
    pub(crate) hold: RwSignal<bool>,
    /// Errors show once somebody tried to send.
    pub(crate) tried: RwSignal<bool>,
    next: StoredValue<u32>,
}

impl Fields {
    /// Filled with what is there.
    pub(crate) fn new(
        title: &str,
        brief: &str,
        kind: Kind,
        criteria: &[Criterion],
        priority: u8,
        hold: bool,
    ) -> Fields {
        let fields = Fields {
            title: RwSignal::new(title.to_owned()),
            brief: RwSignal::new(brief.to_owned()),
            kind: RwSignal::new(kind),
            rows: RwSignal::new(Vec::new()),
            priority: RwSignal::new(priority),
            hold: RwSignal::new(hold),
            tried: RwSignal::new(false),
            next: StoredValue::new(0),
        };
        for criterion in criteria {
            fields.add(&criterion.text, criterion.check.as_deref().unwrap_or(""));
        }
        if criteria.is_empty() {
            fields.add("", "");
        }
        fields
    }

    /// Adds a row.
    pub(crate) fn add(self, text: &str, check: &str) {
        let key = self.next.get_value();
        self.next.set_value(key + 1);
        let row = Row { key, text: RwSignal::new(text.to_owned()), check: RwSignal::new(check.to_owned()) };
        self.rows.update(|rows| rows.push(row));
    }

    /// The rows that say something.
    pub(crate) fn criteria(self) -> Vec<Criterion> {
        self.rows
            .get()
            .iter()
            .map(|row| (row.text.get(), row.check.get()))
            .filter(|(text, check)| !text.trim().is_empty() || !check.trim().is_empty())
            .map(|(text, check)| Criterion {
                text,
                check: Some(check).filter(|check| !check.trim().is_empty()),
            })
            .collect()
    }

    fn title_error(self) -> Option<String> {
        objective::title(&self.title.get()).err().map(|bad| bad.0)
    }

    fn brief_error(self) -> Option<String> {
        objective::long_text("brief", &self.brief.get()).err().map(|bad| bad.0)
    }

    fn criteria_error(self) -> Option<String> {
        let list = self.criteria();
        if let Some(at) = list.iter().position(|criterion| criterion.text.trim().is_empty()) {
            return Some(format!("Criterion {} has a check but no text. Say what must be true.", at + 1));
        }
        if list.is_empty() && self.kind.get() == Kind::Bug {
            return Some("A bug needs a criterion: the reviewer grades against it.".into());
        }
        objective::criteria(&list).err().map(|bad| bad.0)
    }

    /// Whether it can be sent.
    pub(crate) fn is_right(self) -> bool {
        self.title_error().is_none() && self.brief_error().is_none() && self.criteria_error().is_none()
    }

    /// An error that shows only after the first try.
    fn shown(self, error: impl Fn() -> Option<String>) -> Option<String> {
        if self.tried.get() { error() } else { None }
    }
}

/// Title and brief.
pub(crate) fn texts(fields: Fields) -> AnyView {
    view! {
        <div class="field">
            <label for="title">"Title"</label>
            <input
                class="input"
                class:is-bad=move || fields.shown(|| fields.title_error()).is_some()
                id="title"
                name="title"
                autocomplete="off"
                placeholder="What shall be true afterwards, in a few words"
                prop:value=move || fields.title.get()
                on:input=move |event| fields.title.set(value(&event))
            />
            {field_error(move || fields.shown(|| fields.title_error()))}
        </div>
        <div class="field">
            <label for="brief">"Brief"</label>
            <textarea
                class="input textarea"
                id="brief"
                name="brief"
                rows="6"
                placeholder="What is wrong or wanted, where to look, what is out of scope. Markdown."
                prop:value=move || fields.brief.get()
                on:input=move |event| fields.brief.set(value(&event))
            ></textarea>
            {field_error(move || fields.shown(|| fields.brief_error()))}
        </div>
    }
    .into_any()
}

/// The three types; `lowest` and those above can be chosen.
pub(crate) fn kinds(fields: Fields, lowest: Kind) -> AnyView {
    let option = move |kind: Kind| {
        let what = match kind {
            Kind::Task => "Small and low-risk. Only its checks stand before Done.",
            Kind::Bug => "A second agent grades it against the criteria.",
            Kind::Project => "Graded by a second agent, then signed by you.",
        };
        view! {
            <label class="opt" class:on=move || fields.kind.get() == kind>
                <input
                    class="opt-input"
                    type="radio"
                    name="kind"
                    value=kind.as_str()
                    disabled=kind < lowest
                    prop:checked=move || fields.kind.get() == kind
                    on:change=move |_| fields.kind.set(kind)
                />
                <span class="row">{kind_mark(kind)} {kind_label(kind)}</span>
                <span class="meta">{what}</span>
            </label>
        }
    };
    view! {
        <fieldset class="field plain-set">
            <legend class="label">"Type"</legend>
            <div class="opts">{Kind::ALL.iter().copied().map(option).collect_view()}</div>
            {(lowest > Kind::Task)
                .then(|| view! { <span class="hint">"A type can only be raised: more review, never less."</span> })}
        </fieldset>
    }
    .into_any()
}

/// Rows of criteria with their checks.
pub(crate) fn criteria(fields: Fields) -> AnyView {
    view! {
        <fieldset class="field plain-set" data-criteria="">
            <legend class="label">"Criteria"</legend>
            <span class="hint">
                "Each says one thing that must be true. A check is a command line: exit 0 means met. It runs behind the wall."
            </span>
            <For each=move || fields.rows.get() key=|row| row.key let:row>
                <div class="crit-row">
                    <input
                        class="input"
                        aria-label="Criterion"
                        placeholder="hello.txt exists and greets"
                        prop:value=move || row.text.get()
                        on:input=move |event| row.text.set(value(&event))
                    />
                    <label class="input crit-check">
                        {icon14("term")}
                        <input
                            aria-label="Check, optional"
                            placeholder="as in test -f hello.txt"
                            autocapitalize="none"
                            spellcheck="false"
                            prop:value=move || row.check.get()
                            on:input=move |event| row.check.set(value(&event))
                        />
                    </label>
                    <button
                        class="btn btn-quiet btn-icon"
                        type="button"
                        aria-label="Remove this criterion"
                        title="Remove"
                        on:click=move |_| fields.rows.update(|rows| rows.retain(|have| have.key != row.key))
                    >
                        {icon("x")}
                    </button>
                </div>
            </For>
            {field_error(move || fields.shown(|| fields.criteria_error()))}
            <div>
                <button class="btn btn-s" type="button" on:click=move |_| fields.add("", "")>
                    {icon14("plus")}
                    "Add a criterion"
                </button>
            </div>
        </fieldset>
    }
    .into_any()
}

/// Priority and hold.
pub(crate) fn order(fields: Fields) -> AnyView {
    let option = move |at: u8| {
        view! {
            <option value=at.to_string() selected=move || fields.priority.get() == at>
                {priority_label(at)}
            </option>
        }
    };
    view! {
        <div class="field-pair">
            <div class="field">
                <label for="priority">"Priority"</label>
                <select
                    class="select"
                    id="priority"
                    name="priority"
                    on:change=move |event| fields.priority.set(value(&event).parse().unwrap_or(0))
                >
                    {(0..=4).map(option).collect_view()}
                </select>
            </div>
            <label class="check-row">
                <input
                    class="check-input"
                    type="checkbox"
                    name="hold"
                    prop:checked=move || fields.hold.get()
                    on:change=move |event| fields.hold.set(event_target_checked(&event))
                />
                <span>
                    "Hold it"
                    <span class="meta block">"It stays in the queue until you release it."</span>
                </span>
            </label>
        </div>
    }
    .into_any()
}
