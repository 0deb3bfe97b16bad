//! Health: the wall, the background tasks, the disk, and what doctor says.

use leptos::prelude::*;
use leptos_meta::Title;
use opkit_domain::view::{DiskUse, HealthView};

use super::accounts;
use crate::api::places::read_health;
use crate::format;
use crate::ui::clock::{age, ago, use_clock};
use crate::ui::data::{load_once, shown};
use crate::ui::icons::{drawn, icon14};
use crate::ui::parts::told_by;

/// `/health`.
#[component]
pub(crate) fn Health() -> impl IntoView {
    let data = load_once(read_health);
    let clock = use_clock();
    view! {
        <Title text="Health" />
        <div class="page page-mid">
            <div class="row page-head">
                <h1 class="page-h1">"Health"</h1>
                <span class="sp"></span>
                <button class="btn btn-s" type="button" on:click=move |_| data.refetch()>
                    {icon14("refresh")}
                    "Look again"
                </button>
            </div>
            {shown(data, "Health could not be read", move |view: HealthView| {
                clock.seed(view.now);
                content(&view)
            })}
        </div>
    }
}

fn mark(fine: bool) -> AnyView {
    if fine { drawn("st c-done", "s-done") } else { drawn("st c-failed", "s-failed") }
}

/// A check as doctor writes it for a terminal, without the marks that only mean something there.
fn plain(text: &str) -> String {
    told_by(text).replace('`', "")
}

/// No tick before a task has run: that it works is not known yet.
fn task_mark(fine: bool, last_run: Option<i64>) -> AnyView {
    if fine && last_run.is_none() { drawn("st c-queue", "s-queue") } else { mark(fine) }
}

fn content(view: &HealthView) -> AnyView {
    let wip = &view.wip;
    let slots =
        format!("{} of {} used, {} kept for reviews", wip.work + wip.plan + wip.review, wip.cap, wip.reserve);
    let enforced = view.wall.starts_with("enforced");
    let tasks = view
        .tasks
        .iter()
        .map(|task| {
            view! {
                <tr data-task=task.name.clone()>
                    <td>
                        <span class="row">{task_mark(task.ok, task.last_run)} {task.name.clone()}</span>
                    </td>
                    <td class="break" class:t-failed=!task.ok>{task.result.clone()}</td>
                    <td class="r">{task.last_run.map(|at| age("age", at))}</td>
                </tr>
            }
        })
        .collect_view();
    let checks = view
        .checks
        .iter()
        .map(|(fine, text)| {
            view! {
                <li class="check-line">
                    {mark(*fine)}
                    <span>{plain(text)}</span>
                </li>
            }
        })
        .collect_view();
    view! {
        {summary(view)}
        <section class="panel" aria-label="Facts">
            <div class="panel-body">
                <dl class="facts facts-wide">
                    <dt>"Version"</dt>
                    <dd class="mono break">{view.version.clone()}</dd>
                    <dt>"Mode"</dt>
                    <dd>{view.mode.clone()}</dd>
                    <dt>"Wall"</dt>
                    <dd class:t-failed=!enforced data-wall="">{view.wall.clone()}</dd>
                    <dt>"Slots"</dt>
                    <dd>{slots}</dd>
                    <dt>"Free disk"</dt>
                    <dd>{format::bytes(view.disk_free)}</dd>
                    {view.disk.as_ref().map(disk)}
                </dl>
            </div>
        </section>
        <section class="panel scroll-x" aria-label="Background tasks">
            <header class="panel-head">"Background tasks"</header>
            <table class="table">
                <thead>
                    <tr>
                        <th>"Task"</th>
                        <th>"Last result"</th>
                        <th class="r">"Last run"</th>
                    </tr>
                </thead>
                <tbody>{tasks}</tbody>
            </table>
        </section>
        <section class="panel" aria-label="Checks">
            <header class="panel-head">"Checks" <span class="meta">"the same as opkit doctor"</span></header>
            <ul class="check-lines">{checks}</ul>
        </section>
        {accounts::table(&view.accounts)}
    }
    .into_any()
}

/// What is wrong stands first: nobody has to read the rest to find it.
fn summary(view: &HealthView) -> AnyView {
    let tasks = view
        .tasks
        .iter()
        .filter(|task| !task.ok)
        .map(|task| format!("Background task “{}”: {}", task.name, task.result));
    let checks = view.checks.iter().filter(|(fine, _)| !fine).map(|(_, text)| plain(text));
    let lines: Vec<String> = tasks.chain(checks).collect();
    if lines.is_empty() {
        return view! {
            <p class="row ink2" data-fine="">
                {mark(true)}
                "All background tasks run, and every check is fine."
            </p>
        }
        .into_any();
    }
    let head = if lines.len() == 1 {
        "1 thing is wrong".to_owned()
    } else {
        format!("{} things are wrong", lines.len())
    };
    let lines = lines
        .into_iter()
        .map(|text| view! { <li class="check-line">{mark(false)} <span>{text}</span></li> })
        .collect_view();
    view! {
        <section class="panel" aria-label="What is wrong" data-wrong="">
            <header class="panel-head">{head}</header>
            <ul class="check-lines">{lines}</ul>
        </section>
    }
    .into_any()
}

/// What takes room, against the budget.
fn disk(disk: &DiskUse) -> AnyView {
    let parts = [
        ("mirrors", disk.mirrors),
        ("worktrees", disk.work),
        ("checkouts made ahead", disk.pool),
        ("exports", disk.review),
        ("kept", disk.rescue),
    ]
    .map(|(what, bytes)| format!("{what} {}", format::bytes(bytes)))
    .join(", ");
    let used = format!("{} of {}", format::bytes(disk.counted()), format::bytes(disk.budget));
    let over = disk.is_over();
    view! {
        <dt>"Disk budget"</dt>
        <dd data-disk="">
            <span class="num" class:t-failed=over>
                {used}
                {over.then_some(", more than it may be")}
            </span>
            <span class="meta block">{parts}</span>
        </dd>
        <dt>"Records"</dt>
        <dd>{format::bytes(disk.records)}</dd>
        <dt>"Counted"</dt>
        <dd data-counted="">{ago(disk.at)}</dd>
    }
    .into_any()
}
