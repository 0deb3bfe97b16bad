//! Sessions, timeline, and the facts at the side.

use leptos::prelude::*;
use opkit_domain::objective::Integration;
use opkit_domain::session::{Outcome, SessionState};
use opkit_domain::verdict::Decision;
use opkit_domain::view::{EventView, ObjectiveView, SessionView};

use crate::format;
use crate::ui::clock::{age, lasting};
use crate::ui::icons::{drawn, kind_label, kind_mark, role_label, role_mark, status_mark};
use crate::ui::parts::{capital, denied, priority, priority_label, rounds, told_by, who};

/// How a session ended, and whether that is bad.
pub(crate) fn outcome(session: &SessionView) -> (String, bool) {
    match (session.state, session.outcome) {
        (SessionState::Starting, _) => ("starting".into(), false),
        (SessionState::Running, _) => ("running".into(), false),
        (SessionState::Stopping, _) => ("stopping".into(), false),
        (SessionState::Ended, None) => ("ended".into(), false),
        (SessionState::Ended, Some(outcome)) => {
            let bad = !matches!(outcome, Outcome::Finished | Outcome::Stopped | Outcome::UsageLimited);
            (outcome.as_str().replace('_', " "), bad)
        }
    }
}

/// The table.
pub(crate) fn sessions(view: &ObjectiveView) -> AnyView {
    if view.sessions.is_empty() {
        return view! {
            <div class="empty">
                <h2>"No session yet"</h2>
                <p>"The dispatcher starts one as soon as a slot is free. Nobody has to press start."</p>
            </div>
        }
        .into_any();
    }
    let cost: i64 = view.sessions.iter().map(|session| session.cost_usd_micros).sum();
    let rows = view.sessions.iter().map(|session| session_row(view, session)).collect_view();
    view! {
        <section class="panel" aria-label="Sessions" data-sessions="">
            <header class="panel-head">
                "Sessions"
                <span class="meta">{format!("{}, {} in total", view.sessions.len(), format::money(cost))}</span>
            </header>
            <div class="scroll-x">
                <table class="table sess stacked">
                    <thead>
                        <tr>
                            <th>"Role"</th>
                            <th>"Run id"</th>
                            <th>"Agent and account"</th>
                            <th>"Outcome"</th>
                            <th class="r">"Turns"</th>
                            <th class="r">"Time"</th>
                            <th class="r">"Cost"</th>
                            <th>
                                <span class="sr">"Open"</span>
                            </th>
                        </tr>
                    </thead>
                    <tbody>{rows}</tbody>
                </table>
            </div>
        </section>
    }
    .into_any()
}

fn session_row(view: &ObjectiveView, session: &SessionView) -> AnyView {
    let (mut text, mut bad) = outcome(session);
    let review = view.reviews.iter().find(|review| review.session == session.id);
    if let Some(verdict) = review.and_then(|review| review.verdict.as_ref()) {
        text = format!("{text}, {}", verdict.verdict);
        bad |= verdict.verdict == Decision::Fail;
    } else if review.is_some_and(|review| review.floor.as_ref().is_some_and(|floor| !floor.green())) {
        text = format!("{text}, checks failed");
        bad = true;
    }
    let took = match session.ended_at {
        Some(end) => format::duration(end - session.started_at).into_any(),
        None => lasting(session.started_at, view.now),
    };
    let live = session.state != SessionState::Ended;
    let mut notes: Vec<(&str, String)> = Vec::new();
    if bad && !session.detail.is_empty() {
        notes.push(("muted break", told_by(&session.detail)));
    }
    if session.policy_changed {
        // Somebody reached what only the service may write.
        notes.push(("t-failed break", "The policy of this session changed while it ran.".into()));
    }
    if !session.planted.is_empty() {
        let planted = format!("Settings in the worktree, not loaded: {}", session.planted.join(", "));
        notes.push(("muted break", planted));
    }
    if session.denials > 0 {
        notes.push(("muted break", format::count(u64::from(session.denials), "denied call")));
    }
    let notes = notes.into_iter().map(|(class, note)| view! { <div class=class>{note}</div> }).collect_view();
    view! {
        <tr data-session=session.id.to_string()>
            <td>
                <span class="row">{role_mark(session.role)} {role_label(session.role)}</span>
            </td>
            <td class="mono">{session.id.short().to_owned()}</td>
            <td class="mono on-line">{format!("{} · {}", session.agent, session.account)}</td>
            <td class="on-line" title=told_by(&session.detail)>
                <span class:t-failed=bad>{text}</span>
                {notes}
            </td>
            <td class="r fig" data-label="Turns">{session.turns.to_string()}</td>
            <td class="r fig" data-label="Time">{took}</td>
            <td class="r fig" data-label="Cost">{format::money(session.cost_usd_micros)}</td>
            <td class="r open">
                <a class="link" href=format!("/session/{}", session.id)>
                    {if live { "Watch" } else { "Replay" }}
                </a>
            </td>
        </tr>
    }
    .into_any()
}

fn event_mark(event: &EventView) -> AnyView {
    match event.to {
        Some(to) if event.from != event.to => status_mark(to),
        Some(_) | None => match event.kind.as_str() {
            "message" => drawn("i", "msg"),
            "edited" => drawn("i", "edit"),
            "session" => drawn("i", "term"),
            "review" => drawn("i", "eye"),
            "integrated" => drawn("i", "tree"),
            "progress" => drawn("i", "right"),
            "denied" => drawn("st c-failed", "s-failed"),
            _ => drawn("i", "info"),
        },
    }
}

/// One sentence on an event.
fn sentence(event: &EventView) -> String {
    if event.kind == "edited" && !event.reason.is_empty() {
        return format!("Changed: {}", event.reason);
    }
    if !event.reason.is_empty() {
        return capital(&told_by(denied(&event.reason)));
    }
    match (event.from, event.to) {
        (None, Some(to)) if event.kind == "created" => format!("Made, in {}", to.label()),
        (_, Some(to)) if event.from != event.to => format!("{} now", to.label()),
        (Some(_) | None, Some(_) | None) => {
            let text = if event.trigger.is_empty() { &event.kind } else { &event.trigger };
            text.replace('_', " ")
        }
    }
}

fn event_line(event: &EventView) -> AnyView {
    let moved = match (event.from, event.to) {
        (Some(from), Some(to)) if from != to => Some(format!("{} to {}", from.label(), to.label())),
        (Some(_) | None, Some(_) | None) if event.kind == "denied" => Some("Denied".to_owned()),
        (Some(_) | None, Some(_) | None) => None,
    };
    let mut text = sentence(event);
    // Who did it stands behind the sentence, which therefore ends.
    if !text.ends_with(['.', ':', '?']) {
        text.push('.');
    }
    view! {
        <li class="tl" data-event=event.seq.to_string()>
            {event_mark(event)}
            <span class="break">
                {moved.map(|moved| view! { <b>{moved}</b> ". " })}
                {text}
                {who(&event.actor).map(|name| view! { <span class="muted">{format!(" {name}")}</span> })}
            </span>
            {age("age", event.at)}
        </li>
    }
    .into_any()
}

/// Every event, and the messages of people.
pub(crate) fn timeline(view: &ObjectiveView) -> AnyView {
    let lines = view.events.iter().map(event_line).collect_view();
    let messages = view
        .messages
        .iter()
        .map(|message| {
            let got = message.delivered_to.as_ref().map_or_else(
                || "waits for the next session".to_owned(),
                |session| format!("delivered to session {}", session.short()),
            );
            view! {
                <li class="tl">
                    {drawn("i", "msg")}
                    <span class="break">
                        <b>{who(&message.actor)}</b>
                        " wrote: "
                        {message.text.clone()}
                        <span class="muted">{format!(" {got}")}</span>
                    </span>
                    {age("age", message.at)}
                </li>
            }
        })
        .collect_view();
    view! {
        {(!view.messages.is_empty())
            .then(|| {
                view! {
                    <section class="panel" aria-label="Messages">
                        <header class="panel-head">"Messages"</header>
                        <ol class="timeline">{messages}</ol>
                    </section>
                }
            })}
        <section class="panel" aria-label="Timeline">
            <header class="panel-head">
                "Timeline" <span class="meta">{format::count(view.events.len() as u64, "event")}</span>
            </header>
            <ol class="timeline" data-timeline="">
                {lines}
            </ol>
        </section>
    }
    .into_any()
}

/// The newest events at the side.
pub(crate) fn short_timeline(view: &ObjectiveView) -> AnyView {
    let lines = view.events.iter().take(8).map(event_line).collect_view();
    view! {
        <section class="panel" aria-label="Newest events">
            <header class="panel-head">
                "Timeline" <span class="sp"></span>
                <a class="btn btn-quiet btn-s" href=format!("/objective/{}?tab=timeline", view.card.id)>
                    {format!("All {}", view.events.len())}
                </a>
            </header>
            <ol class="timeline">{lines}</ol>
        </section>
    }
    .into_any()
}

/// The facts at the side.
pub(crate) fn facts(view: &ObjectiveView) -> AnyView {
    let card = &view.card;
    let short = |commit: &str| commit.chars().take(9).collect::<String>();
    let base = match &view.base_commit {
        Some(commit) => format!("{}@{}", view.base, short(commit)),
        None => view.base.clone(),
    };
    let agent = match &view.script {
        Some(script) => format!("{}, {script}", card.agent),
        None => card.agent.clone(),
    };
    let default = match view.integrate {
        Integration::Keep => "keep the branch",
        Integration::Merge => "merge into the base",
    };
    let waits = card.waits_for.iter().map(|id| format!("#{id}")).collect::<Vec<_>>().join(", ");
    view! {
        <section class="panel" aria-label="Facts">
            <div class="panel-body">
                <dl class="facts">
                    <dt>"Status"</dt>
                    <dd class="row" data-status=card.status.as_str()>
                        {status_mark(card.status)}
                        {card.status.label()}
                    </dd>
                    <dt>"Type"</dt>
                    <dd class="row">{kind_mark(card.kind)} {kind_label(card.kind)}</dd>
                    <dt>"Priority"</dt>
                    <dd class="row">{priority(card.priority)} {priority_label(card.priority)}</dd>
                    <dt>"Repository"</dt>
                    <dd>{card.repo.clone()}</dd>
                    <dt>"Branch"</dt>
                    <dd class="mono trunc">{view.branch.clone()}</dd>
                    <dt>"Base"</dt>
                    <dd class="mono trunc">{base}</dd>
                    {view
                        .head_commit
                        .as_ref()
                        .map(|commit| {
                            view! {
                                <dt>"Delivered"</dt>
                                <dd class="mono trunc">{short(commit)}</dd>
                            }
                        })}
                    <dt>"Agent"</dt>
                    <dd class="mono trunc">{agent}</dd>
                    {(!waits.is_empty())
                        .then(|| {
                            view! {
                                <dt>"Waits for"</dt>
                                <dd>{waits}</dd>
                            }
                        })}
                    <dt>"Cost"</dt>
                    <dd class="num">{format::money(card.cost_usd_micros)}</dd>
                    {(!card.rounds.is_empty())
                        .then(|| {
                            view! {
                                <dt>"Rounds"</dt>
                                <dd class="row">
                                    {rounds(&card.rounds)} {format!("{} of {}", card.rounds.len(), card.max_rounds.max(1))}
                                </dd>
                            }
                        })}
                    <dt>"On approval"</dt>
                    <dd>{default}</dd>
                    <dt>"Made by"</dt>
                    <dd>
                        {who(&view.creator)} " " {age("muted", view.created_at)}
                    </dd>
                </dl>
            </div>
        </section>
    }
    .into_any()
}
