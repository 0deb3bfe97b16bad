//! Small drawn facts: priority, criteria ticks, rounds, messages of failure.

use leptos::prelude::*;
use leptos_meta::Title;
use opkit_domain::view::{CardView, RoundMark};

use crate::api::{Refusal, Why};
use crate::ui::icons::icon14;

/// Priority as four bars; nothing for none.
pub(crate) fn priority(value: u8) -> AnyView {
    if value == 0 {
        return ().into_any();
    }
    let bar = move |at: u8| if at <= value { "on" } else { "off" };
    view! {
        <span class="prio" title=format!("Priority {value} of 4")>
            <i class=bar(1)></i>
            <i class=bar(2)></i>
            <i class=bar(3)></i>
            <i class=bar(4)></i>
        </span>
    }
    .into_any()
}

/// What a priority is called.
pub(crate) fn priority_label(value: u8) -> &'static str {
    match value {
        0 => "None",
        1 => "1, low",
        2 => "2, normal",
        3 => "3, high",
        _ => "4, highest",
    }
}

/// One tick a criterion, at most twelve.
pub(crate) fn ticks(card: &CardView) -> AnyView {
    if card.criteria == 0 {
        return ().into_any();
    }
    let judged = card.criteria_met + card.criteria_failed > 0;
    let marks: Vec<_> = (0..card.criteria.min(12))
        .map(|at| {
            let class = if at < card.criteria_met {
                "d"
            } else if at < card.criteria_met + card.criteria_failed {
                "f"
            } else {
                "o"
            };
            view! { <i class=class></i> }
        })
        .collect();
    let text =
        if judged { format!("{} / {}", card.criteria_met, card.criteria) } else { card.criteria.to_string() };
    let title = if judged {
        format!("{} of {} criteria met", card.criteria_met, card.criteria)
    } else if card.criteria == 1 {
        "1 criterion".to_owned()
    } else {
        format!("{} criteria", card.criteria)
    };
    view! {
        <span class="ticks" title=title>
            {marks}
        </span>
        <span class="num">{text}</span>
    }
    .into_any()
}

/// The words behind an attention label, without saying the label twice.
pub(crate) fn note_after<'a>(label: &str, note: &'a str) -> &'a str {
    match note.get(..label.len()) {
        Some(head) if head.eq_ignore_ascii_case(label) => {
            note[label.len()..].trim_start_matches([' ', ':', ',', '.'])
        }
        Some(_) | None => note,
    }
}

/// Label and note as one line: a sentence follows a full stop, a fragment a comma.
pub(crate) fn label_and_note(label: &str, note: &str) -> String {
    let note = note_after(label, note).trim().trim_end_matches('.');
    match note.chars().next() {
        None => label.to_owned(),
        Some(first) if first.is_uppercase() => format!("{label}. {note}."),
        Some(_) => format!("{label}, {note}"),
    }
}

/// A sentence begins with a capital letter, whoever wrote it.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Who did something, as people call them; nobody for the server's own parts, which say nothing to a reader.
pub(crate) fn who(actor: &str) -> Option<String> {
    match actor {
        "dispatcher" | "state poller" | "housekeeping" => None,
        _ => Some(actor.strip_prefix("local:").unwrap_or(actor).to_owned()),
    }
}

/// A sentence of the server that names somebody on the machine, without the prefix of such names.
pub(crate) fn told_by(text: &str) -> String {
    text.replace("by local:", "by ")
}

/// A denial without the word that the agent gets to read.
pub(crate) fn denied(text: &str) -> &str {
    text.strip_prefix("BLOCKED: ").unwrap_or(text)
}

/// What was denied and by which rule: the first sentence. The rest tells the agent what it may do instead.
pub(crate) fn denied_short(text: &str) -> &str {
    let text = denied(text);
    text.find(". ").map_or(text, |end| &text[..end]).trim_end_matches('.')
}

/// Review rounds: failed ones square, passed ones round.
pub(crate) fn rounds(list: &[RoundMark]) -> AnyView {
    if list.is_empty() {
        return ().into_any();
    }
    let failed = list.iter().filter(|round| **round == RoundMark::Failed).count();
    let title = match (list.len(), failed) {
        (1, 0) => "1 review round".to_owned(),
        (n, 0) => format!("{n} review rounds"),
        (n, f) => format!("{n} review rounds, {f} failed"),
    };
    let marks: Vec<_> = list
        .iter()
        .rev()
        .take(8)
        .rev()
        .map(|round| {
            let class = match round {
                RoundMark::Failed => "f",
                RoundMark::Passed => "d",
                RoundMark::Now => "a",
            };
            view! { <i class=class></i> }
        })
        .collect();
    view! {
        <span class="rounds" title=title>
            {marks}
        </span>
    }
    .into_any()
}

/// A page or part that could not be read: what, why, what to do.
pub(crate) fn failed(head: &'static str, refusal: &Refusal) -> AnyView {
    let text = refusal.text.clone();
    view! {
        <div class="center-page">
            <div class="empty">
                <h1 class="page-h1">{head}</h1>
                <p>{text}</p>
                <div class="row">
                    <a class="btn btn-primary" href="/">
                        "Go to the board"
                    </a>
                    <a class="btn" href="" rel="external">
                        "Try again"
                    </a>
                </div>
            </div>
        </div>
    }
    .into_any()
}

/// A whole page that could not be read: the answer code says so, too.
pub(crate) fn page_failed(head: &'static str, refusal: &Refusal) -> AnyView {
    answer_with(match refusal.why {
        Why::NotFound => 404,
        Why::LoggedOut => 401,
        Why::Conflict | Why::Refused => 403,
        Why::Failed => 500,
    });
    failed(head, refusal)
}

/// The page of something that does not exist; it has a title, because nothing else gives one.
pub(crate) fn missing(head: &'static str, refusal: &Refusal) -> AnyView {
    view! {
        <Title text="Not here" />
        {page_failed(head, refusal)}
    }
    .into_any()
}

/// An error beside its field.
pub(crate) fn field_error(error: impl Fn() -> Option<String> + Send + Sync + 'static) -> AnyView {
    view! {
        <p class="field-error" role="alert">
            {move || error().map(|text| view! { {icon14("info")} <span>{text}</span> })}
        </p>
    }
    .into_any()
}

/// False until the page reacts: a button that does nothing yet says so by being disabled, and a form is not sent
/// past us by the browser.
pub(crate) fn awake() -> RwSignal<bool> {
    let awake = RwSignal::new(false);
    Effect::new(move |_| awake.set(true));
    awake
}

/// Tells the browser the right answer code when a page is an error.
pub(crate) fn answer_with(status: u16) {
    #[cfg(feature = "ssr")]
    if let Some(response) = use_context::<leptos_axum::ResponseOptions>()
        && let Ok(code) = axum::http::StatusCode::from_u16(status)
    {
        response.set_status(code);
    }
    #[cfg(not(feature = "ssr"))]
    let _ = status;
}

/// The value of an input, textarea or select that an event came from.
pub(crate) fn value(event: &web_sys::Event) -> String {
    event_target_value(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_follows_its_label() {
        assert_eq!(label_and_note("Sign off", "passed in round 1"), "Sign off, passed in round 1");
        assert_eq!(label_and_note("Session lost", "The agent crashed."), "Session lost. The agent crashed.");
        assert_eq!(label_and_note("Stopped", "Stopped by stop-all"), "Stopped, by stop-all");
        assert_eq!(label_and_note("Blocked", ""), "Blocked");
    }

    #[test]
    fn people_are_called_by_their_names() {
        assert_eq!(who("local:root").as_deref(), Some("root"));
        assert_eq!(who("dispatcher"), None);
        assert_eq!(told_by("Disabled by local:root."), "Disabled by root.");
    }

    #[test]
    fn a_denial_is_path_and_rule() {
        let text = "BLOCKED: write to '/etc/x.d/y' outside worktree. Write below the worktree /w.";
        assert_eq!(denied_short(text), "write to '/etc/x.d/y' outside worktree");
        assert_eq!(denied_short("BLOCKED: the guard failed."), "the guard failed");
        assert_eq!(denied_short("no such words"), "no such words");
    }
}
