//! Live and recent sessions.

use leptos::prelude::*;
use leptos_meta::Title;
use opkit_domain::event::Feed;
use opkit_domain::session::SessionState;
use opkit_domain::view::SessionView;

use super::objective::outcome;
use crate::api::places::{SessionsView, read_sessions};
use crate::ui::clock::{age, lasting, use_clock};
use crate::ui::data::{load_once, shown};
use crate::ui::icons::{role_label, role_mark, role_pulse};
use crate::ui::parts::told_by;
use crate::{format, live};

/// `/terminals`.
#[component]
pub(crate) fn Terminals() -> impl IntoView {
    let data = load_once(read_sessions);
    let clock = use_clock();
    // A session starts or ends with a change of slots.
    Effect::new(move |_| {
        live::listen(move |feed| {
            if matches!(feed, Feed::Wip { .. } | Feed::Resync) {
                data.refetch();
            }
        });
    });
    view! {
        <Title text="Terminals" />
        <div class="page">
            <h1 class="page-h1 page-head">"Terminals"</h1>
            {shown(data, "The sessions could not be read", move |view: SessionsView| {
                clock.seed(view.now);
                content(&view)
            })}
        </div>
    }
}

fn content(view: &SessionsView) -> AnyView {
    let (live, over): (Vec<&SessionView>, Vec<&SessionView>) =
        view.sessions.iter().partition(|session| session.state != SessionState::Ended);
    let tiles = live.iter().map(|session| tile(session, view.now)).collect_view();
    let rows = over.iter().map(|session| row(session)).collect_view();
    view! {
        {if live.is_empty() {
            view! {
                <div class="empty">
                    <h2>"No session is running"</h2>
                    <p>"The queue drains by itself: a session starts as soon as something waits and a slot is free."</p>
                </div>
            }
                .into_any()
        } else {
            view! { <div class="tiles">{tiles}</div> }.into_any()
        }}
        {(!over.is_empty())
            .then(|| {
                view! {
                    <section class="panel" aria-label="Recent sessions">
                        <header class="panel-head">"Recent"</header>
                        <div class="scroll-x">
                            <table class="table sess stacked">
                                <thead>
                                    <tr>
                                        <th>"Role"</th>
                                        <th>"Objective"</th>
                                        <th>"Agent and account"</th>
                                        <th>"Outcome"</th>
                                        <th class="r">"Cost"</th>
                                        <th class="r">"Ended"</th>
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
            })}
    }
    .into_any()
}

fn tile(session: &SessionView, now: i64) -> AnyView {
    let line = if session.activity.is_empty() { "Starting".to_owned() } else { session.activity.clone() };
    view! {
        <a class="tile" href=format!("/session/{}", session.id) data-session=session.id.to_string()>
            <span class="row">
                <i class=role_pulse(Some(session.role))></i>
                <span class="mono muted">{format!("#{}", session.objective)}</span>
                <b class="trunc">{session.objective_title.clone()}</b>
            </span>
            <span class="card-live">
                <span class="trunc">{line}</span>
            </span>
            <span class="card-meta">
                <span class="who trunc">{format!("{} · {}", session.agent, session.account)}</span>
                <span class="sp"></span>
                <span>{role_label(session.role)}</span>
                <span class="num">{lasting(session.started_at, now)}</span>
                <span class="cost">{format::money(session.cost_usd_micros)}</span>
            </span>
        </a>
    }
    .into_any()
}

fn row(session: &SessionView) -> AnyView {
    let (text, bad) = outcome(session);
    view! {
        <tr>
            <td>
                <span class="row">{role_mark(session.role)} {role_label(session.role)}</span>
            </td>
            <td class="cell-title on-line">
                <a class="link" href=format!("/objective/{}", session.objective)>
                    {format!("#{} {}", session.objective, session.objective_title)}
                </a>
            </td>
            <td class="mono on-line">{format!("{} · {}", session.agent, session.account)}</td>
            <td class="on-line" title=told_by(&session.detail)>
                <span class:t-failed=bad>{text}</span>
                {(bad && !session.detail.is_empty()).then(|| view! { <div class="muted break">{told_by(&session.detail)}</div> })}
            </td>
            <td class="r fig" data-label="Cost">{format::money(session.cost_usd_micros)}</td>
            <td class="r fig" data-label="Ended">{session.ended_at.map(|at| age("age", at))}</td>
            <td class="r open">
                <a class="link" href=format!("/session/{}", session.id)>
                    "Replay"
                </a>
            </td>
        </tr>
    }
    .into_any()
}
