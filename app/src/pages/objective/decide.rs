//! The panel for what a person can do now. What is typed stays when the page is read anew.

mod human;

use leptos::prelude::*;
use leptos::task::spawn_local;
use opkit_domain::ids::ObjectiveId;
use opkit_domain::objective::{Attention, Integration, Status, SubState};
use opkit_domain::view::CardView;

use super::Page;
use crate::api::objective::{Act, decide};
use crate::format;
use crate::live::Live;
use crate::pages::accounts::local_time;
use crate::ui::dialog::Confirm;
use crate::ui::icons::{icon, icon14, status_mark};
use crate::ui::parts::value;
use crate::ui::toast::{Toasts, use_toasts};
use human::human;

/// What the person has typed and chosen.
#[derive(Clone, Copy)]
struct Desk {
    page: Page,
    toasts: Toasts,
    findings: RwSignal<String>,
    answer: RwSignal<String>,
    reason: RwSignal<String>,
    message: RwSignal<String>,
    merge: RwSignal<bool>,
    busy: RwSignal<bool>,
    cancelling: RwSignal<bool>,
}

impl Desk {
    fn run(self, what: Act, clear: Option<RwSignal<String>>) {
        if self.busy.get_untracked() {
            return;
        }
        self.busy.set(true);
        let id = self.page.id;
        spawn_local(async move {
            match decide(id, what).await {
                Ok(message) => {
                    self.toasts.good(message);
                    if let Some(text) = clear {
                        text.try_set(String::new());
                    }
                    self.page.refresh();
                }
                Err(refusal) => {
                    self.toasts.failed(format!("#{id} stays as it is."), &refusal);
                    self.page.refresh();
                }
            }
            self.busy.try_set(false);
        });
    }

    fn integration(self) -> Integration {
        if self.merge.get_untracked() { Integration::Merge } else { Integration::Keep }
    }
}

/// The part of the card that decides which panel stands there.
#[derive(Clone, PartialEq)]
struct Key {
    status: Status,
    attention: Option<Attention>,
    note: String,
    delivered: bool,
    passed: bool,
    live: bool,
    /// No account is free for its next session.
    wants_account: bool,
    hold: bool,
    /// Another objective that must be done first.
    waits: Option<ObjectiveId>,
    criteria: u32,
    rounds: usize,
    base: String,
    integrated: Option<String>,
}

/// Draws the panel.
pub(crate) fn panel(page: Page) -> AnyView {
    let merge = page.data.with_untracked(|page| page.view.integrate == Integration::Merge);
    let desk = Desk {
        page,
        toasts: use_toasts(),
        findings: RwSignal::new(String::new()),
        answer: RwSignal::new(String::new()),
        reason: RwSignal::new(String::new()),
        message: RwSignal::new(String::new()),
        merge: RwSignal::new(merge),
        busy: RwSignal::new(false),
        cancelling: RwSignal::new(false),
    };
    let key = Memo::new(move |_| {
        page.data.with(|page| key_of(&page.view.card, &page.view.base, &page.view.integrated))
    });
    let id = page.id;
    let text =
        view! { <p>"A running session is stopped. Uncommitted work is kept, and you can bring it back."</p> }
            .into_any();
    view! {
        <section class="panel act" aria-label="Your decision" data-act="">
            {move || draw(desk, &key.get())}
        </section>
        <Confirm
            open=desk.cancelling
            head=format!("Cancel #{id}?")
            text
            keep="Leave it"
            act=format!("Cancel #{id}")
            run=move || desk.run(Act::Cancel, None)
        />
    }
    .into_any()
}

fn key_of(card: &CardView, base: &str, integrated: &Option<String>) -> Key {
    Key {
        status: card.status,
        attention: card.attention,
        note: card.attention_note.clone(),
        delivered: card.delivered,
        passed: card.passed,
        live: card.session.is_some(),
        wants_account: card.session.is_none() && card.sub_state == Some(SubState::WaitingAccount),
        hold: card.hold,
        waits: card.waits_for.first().copied(),
        criteria: card.criteria,
        rounds: card.rounds.len(),
        base: base.to_owned(),
        integrated: integrated.clone(),
    }
}

fn draw(desk: Desk, key: &Key) -> AnyView {
    match key.status {
        Status::HumanReview => human(desk, key),
        Status::Planning => planning(desk, key),
        Status::Queue => queue(desk, key),
        Status::Working | Status::AiReview => running(desk, key),
        Status::Done => done(desk, key),
        Status::Cancelled => shell(
            status_mark(Status::Cancelled),
            "Cancelled",
            view! {
                <p class="ink2">"It was ended early. Its branch and records are kept."</p>
                {button(desk, "btn btn-block", "Bring it back", || Act::Restore)}
            }
            .into_any(),
        ),
    }
}

fn shell(mark: AnyView, head: &str, body: AnyView) -> AnyView {
    view! {
        <header class="panel-head">{mark} {head.to_owned()}</header>
        <div class="panel-body">{body}</div>
    }
    .into_any()
}

fn button(desk: Desk, class: &'static str, label: &'static str, what: impl Fn() -> Act + 'static) -> AnyView {
    view! {
        <button
            class=class
            type="button"
            disabled=move || desk.busy.get()
            on:click=move |_| desk.run(what(), None)
        >
            {label}
        </button>
    }
    .into_any()
}

fn cancel(desk: Desk) -> AnyView {
    view! {
        <button class="btn btn-quiet btn-danger btn-block" type="button" on:click=move |_| desk.cancelling.set(true)>
            {icon("x")}
            "Cancel the objective"
        </button>
    }
    .into_any()
}

fn text_field(
    label: &'static str,
    hint: &'static str,
    name: &'static str,
    text: RwSignal<String>,
) -> AnyView {
    view! {
        <div class="field">
            <label for=name>{label}</label>
            <textarea
                class="input textarea"
                id=name
                name=name
                rows="3"
                prop:value=move || text.get()
                on:input=move |event| text.set(value(&event))
            ></textarea>
            <span class="hint">{hint}</span>
        </div>
    }
    .into_any()
}

fn planning(desk: Desk, key: &Key) -> AnyView {
    let has = key.criteria > 0;
    let body = view! {
        <p class="ink2">
            {if has {
                "It has criteria. It can go to the queue now."
            } else {
                "It has no criteria yet. Give at least one, then it goes to the queue."
            }}
        </p>
        {has.then(|| button(desk, "btn btn-primary btn-block", "Put it in the queue", || Act::SkipPlanning))}
        <a class=if has { "btn btn-block" } else { "btn btn-primary btn-block" } href=format!("/objective/{}/edit", desk.page.id)>
            {if has { "Edit criteria" } else { "Give criteria" }}
        </a>
        {cancel(desk)}
    }
    .into_any();
    shell(status_mark(Status::Planning), "Planning", body)
}

/// Until when no account is free, as long as that is so and known.
fn no_account() -> AnyView {
    let live = use_context::<Live>();
    let until = Memo::new(move |_| live?.wip.with(|wip| wip.as_ref()?.accounts_until));
    view! {
        {move || {
            until
                .get()
                .map(|until| view! { <p class="ink2" data-until="">"No account is free until " {local_time(until)} "."</p> })
        }}
    }
    .into_any()
}

fn queue(desk: Desk, key: &Key) -> AnyView {
    let hold = key.hold;
    let may_start = key.waits.is_none() && !hold;
    let text = match (key.waits, hold) {
        (Some(first), false) => format::waits_for(first),
        (Some(first), true) => format!("{} It is on hold, too.", format::waits_for(first)),
        (None, true) => "It is on hold and does not start until you release it.".to_owned(),
        (None, false) => "It starts by itself when a slot and an account are free.".to_owned(),
    };
    let next = key
        .waits
        .is_none()
        .then(|| button(desk, "btn btn-primary btn-block", "Start next", || Act::StartNext));
    let body = view! {
        <p class="ink2" data-why="">
            {text}
        </p>
        {may_start.then(no_account)}
        {if hold {
            button(desk, "btn btn-primary btn-block", "Release the hold", || Act::Hold(false))
        } else {
            view! {
                {next}
                {button(desk, "btn btn-block", "Hold it", || Act::Hold(true))}
            }
                .into_any()
        }}
        {cancel(desk)}
    }
    .into_any();
    shell(status_mark(Status::Queue), if hold { "On hold" } else { "In the queue" }, body)
}

fn running(desk: Desk, key: &Key) -> AnyView {
    let head = match (key.status, key.live) {
        (Status::AiReview, true) => "In review",
        (Status::AiReview, false) => "Waits for a reviewer",
        (_, true) => "At work",
        (_, false) if key.wants_account => "Waits for an account",
        (_, false) => "Waits for its next session",
    };
    let body = view! {
        {key.wants_account.then(no_account)}
        {text_field("Message for the next session", "The objective's next session reads it. Reviewers get no messages.", "message", desk.message)}
        <button
            class="btn btn-block"
            type="button"
            data-message=""
            disabled=move || desk.busy.get() || desk.message.with(|text| text.trim().is_empty())
            on:click=move |_| desk.run(Act::Message { text: desk.message.get_untracked() }, Some(desk.message))
        >
            {icon14("msg")}
            "Send the message"
        </button>
        {cancel(desk)}
    }
    .into_any();
    shell(status_mark(key.status), head, body)
}

fn done(desk: Desk, key: &Key) -> AnyView {
    let kept = key.delivered && !key.integrated.as_deref().is_some_and(|how| how.contains("merge"));
    let text = match &key.integrated {
        Some(how) => how.clone(),
        None if key.delivered => "The branch is ready.".to_owned(),
        None => "It is finished.".to_owned(),
    };
    let merge = kept.then(|| {
        let label = format!("Merge into {}", key.base);
        view! {
            <button
                class="btn btn-primary btn-block"
                type="button"
                data-merge=""
                disabled=move || desk.busy.get()
                on:click=move |_| desk.run(Act::Integrate(Integration::Merge), None)
            >
                {label}
            </button>
        }
    });
    let branch = desk.page.data.with_untracked(|page| page.view.branch.clone());
    let body = view! {
        <p class="ink2 break">{text}</p>
        {key
            .delivered
            .then(|| view! { <p class="meta">"Branch " <span class="code">{branch}</span></p> })}
        {merge}
        <div class="rule"></div>
        {text_field("It was wrong after all", "Say why. It goes back to Working with this first.", "reason", desk.reason)}
        <button
            class="btn btn-block"
            type="button"
            data-reopen=""
            disabled=move || desk.busy.get() || desk.reason.with(|text| text.trim().is_empty())
            on:click=move |_| desk.run(Act::Reopen { reason: desk.reason.get_untracked() }, Some(desk.reason))
        >
            "Reopen with this reason"
        </button>
    }
    .into_any();
    shell(status_mark(Status::Done), "Done", body)
}
