//! The overview: brief, criteria with a column a round, findings, artifact, children and sessions.

use leptos::prelude::*;
use opkit_domain::objective::Criterion;
use opkit_domain::verdict::{CriterionResult, CriterionStatus, Decision, Severity};
use opkit_domain::view::{ObjectiveView, ReviewView};

use super::{Page, lists};
use crate::api::objective::ObjectivePage;
use crate::format;
use crate::ui::icons::{drawn, icon12, icon14, role_pulse, status_mark};

/// Rounds that have a column; older ones are in the timeline.
const COLUMNS: usize = 4;

/// Draws the tab.
pub(crate) fn tab(page: Page, data: &ObjectivePage) -> AnyView {
    let view = &data.view;
    view! {
        {running(page, view)}
        {(!data.brief_html.trim().is_empty())
            .then(|| {
                view! {
                    <section class="prose brief" aria-label="Brief" inner_html=data.brief_html.clone()></section>
                }
            })}
        {matrix(view)}
        {data
            .artifact_html
            .as_ref()
            .map(|html| {
                view! {
                    <section class="panel" aria-label="Artifact" data-artifact="">
                        <header class="panel-head">
                            {icon14("file")} "ARTIFACT.md" <span class="meta">"what the last session says it did"</span>
                        </header>
                        <div class="panel-body prose" inner_html=html.clone()></div>
                    </section>
                }
            })}
        {children(view)}
        {(!view.sessions.is_empty()).then(|| lists::sessions(view))}
    }
    .into_any()
}

/// The live line, while a session runs.
fn running(page: Page, view: &ObjectiveView) -> Option<AnyView> {
    let session = view.card.session.clone()?;
    let agent = view
        .card
        .account
        .as_ref()
        .map_or_else(|| view.card.agent.clone(), |account| format!("{} · {account}", view.card.agent));
    let line = move || {
        page.activity.with(|(line, _)| if line.is_empty() { "Starting".to_owned() } else { line.clone() })
    };
    let cost = move || page.activity.with(|(_, cost)| format::money(*cost));
    Some(
        view! {
            <a class="panel live-line" href=format!("/session/{session}")>
                <i class=role_pulse(view.card.role)></i>
                <span class="trunc mono" data-activity="">{line}</span>
                <span class="sp"></span>
                <span class="meta mono wide">{agent}</span>
                <span class="meta num">{cost}</span>
                {icon14("right")}
            </a>
        }
        .into_any(),
    )
}

fn matrix(view: &ObjectiveView) -> AnyView {
    if view.criteria.is_empty() {
        return view! {
            <div class="empty">
                <h2>"No criteria yet"</h2>
                <p>"Criteria say when it is done. The reviewer grades against them, one by one."</p>
                <a class="btn" href=format!("/objective/{}/edit", view.card.id)>
                    "Give criteria"
                </a>
            </div>
        }
        .into_any();
    }
    let columns: Vec<&ReviewView> = view.reviews.iter().rev().take(COLUMNS).rev().collect();
    let heads = columns.iter().map(|review| column_head(review)).collect_view();
    let rows =
        view.criteria.iter().enumerate().map(|(at, criterion)| row(at, criterion, &columns)).collect_view();
    let locked = view.card.locked;
    let text = if locked {
        format!("{}, locked before work began", view.criteria.len())
    } else {
        format!("{}, locked once work begins", view.criteria.len())
    };
    view! {
        <section class="panel" aria-label="Criteria and reviews" data-matrix="">
            <header class="panel-head">
                "Criteria" <span class="meta">{text}</span> {locked.then(|| icon12("lock"))} <span class="sp"></span>
                {(!columns.is_empty()).then(|| view! { <span class="meta wide">"Verdicts by round"</span> })}
            </header>
            <div class="scroll-x" role="group" aria-label="Verdicts" tabindex="0">
                <table class="table mx">
                    <thead>
                        <tr>
                            <th class="n">
                                <span class="sr">"Number"</span>
                            </th>
                            <th>"Criterion"</th>
                            {heads}
                        </tr>
                    </thead>
                    <tbody>{rows}</tbody>
                </table>
            </div>
            {view.reviews.iter().rev().map(findings).collect_view()}
        </section>
    }
    .into_any()
}

fn column_head(review: &ReviewView) -> AnyView {
    let (class, word) = match review.verdict.as_ref().map(|verdict| verdict.verdict) {
        Some(Decision::Pass) => ("t-done", "pass"),
        Some(Decision::Fail) => ("t-failed", "fail"),
        Some(Decision::Blocked) => ("t-needs", "blocked"),
        None if review.error.is_none() && review.floor.as_ref().is_some_and(|floor| !floor.green()) => {
            ("t-failed", "checks failed")
        }
        None => ("t-failed", "no verdict"),
    };
    view! {
        <th class="v" data-round=review.round.to_string()>
            {format!("Round {} · ", review.round)} <span class=class>{word}</span>
        </th>
    }
    .into_any()
}

fn row(at: usize, criterion: &Criterion, columns: &[&ReviewView]) -> AnyView {
    let how = match &criterion.check {
        Some(check) => {
            view! { <span class="cmd">{icon12("term")} <span class="break">{check.clone()}</span></span> }
        }
        None => {
            view! { <span class="cmd">{icon12("eye")} <span class="break">{"read by the reviewer".to_owned()}</span></span> }
        }
    };
    let cells = columns.iter().map(|review| cell(at, review)).collect_view();
    view! {
        <tr>
            <td class="n">{(at + 1).to_string()}</td>
            <td>{criterion.text.clone()} {how}</td>
            {cells}
        </tr>
    }
    .into_any()
}

/// One result. The floor's own check counts when the reviewer did not come to it.
fn cell(at: usize, review: &ReviewView) -> AnyView {
    let judged = review.verdict.as_ref().and_then(|verdict| verdict.criteria.iter().find(|r| r.index == at));
    let floor =
        review.floor.as_ref().and_then(|floor| floor.commands.iter().find(|c| c.criterion == Some(at)));
    let (status, text) = match (judged, floor) {
        (Some(result), _) => (Some(result.status), short_evidence(result)),
        (None, Some(command)) if command.green() => (Some(CriterionStatus::Met), "check, exit 0".to_owned()),
        (None, Some(command)) if command.timed_out => {
            (Some(CriterionStatus::NotMet), "check timed out".to_owned())
        }
        (None, Some(command)) => {
            let code = command.status.map_or_else(|| "killed".to_owned(), |status| format!("exit {status}"));
            (Some(CriterionStatus::NotMet), format!("check, {code}"))
        }
        (None, None) => (None, String::new()),
    };
    let (cell_class, class, mark, word) = match status {
        Some(CriterionStatus::Met) => ("v", "t-done", drawn("st c-done", "s-done"), "Met"),
        Some(CriterionStatus::NotMet) => ("v f", "t-failed", drawn("st c-failed", "s-failed"), "Not met"),
        Some(CriterionStatus::Unclear) => ("v", "t-needs", drawn("st c-needs", "s-needs"), "Unclear"),
        None => ("v", "muted", drawn("st c-queue", "s-queue"), "Not judged"),
    };
    view! {
        <td class=cell_class>
            <b class=class>{mark} {word}</b>
            <span class="ev trunc" title=text.clone()>
                {text.clone()}
            </span>
        </td>
    }
    .into_any()
}

fn short_evidence(result: &CriterionResult) -> String {
    let text = match result.status {
        CriterionStatus::Met => &result.evidence,
        CriterionStatus::NotMet | CriterionStatus::Unclear if !result.actual.is_empty() => &result.actual,
        CriterionStatus::NotMet | CriterionStatus::Unclear => &result.evidence,
    };
    text.clone()
}

/// What a round found, newest round first.
fn findings(review: &ReviewView) -> AnyView {
    let line = |head: String, text: String| {
        view! {
            <div class="finding">
                {icon14("info")}
                <span class="break">
                    <b class="strong">{head}</b>
                    " "
                    {text}
                </span>
            </div>
        }
        .into_any()
    };
    let mut lines = Vec::new();
    if let Some(error) = &review.error {
        lines.push(line(format!("Round {}, no verdict.", review.round), error.clone()));
    }
    if let Some(floor) = &review.floor
        && let Some(error) = &floor.error
    {
        lines.push(line(format!("Round {}, checks.", review.round), error.clone()));
    }
    if let Some(verdict) = &review.verdict {
        for result in verdict.criteria.iter().filter(|result| result.status != CriterionStatus::Met) {
            let severity = result.severity.map(severity_word).unwrap_or("");
            let text = [
                ("Expected ", &result.expected),
                ("Found ", &result.actual),
                ("Evidence: ", &result.evidence),
            ]
            .iter()
            .filter(|(_, text)| !text.trim().is_empty())
            .map(|(word, text)| format!("{word}{}. ", text.trim().trim_end_matches('.')))
            .collect::<String>();
            lines.push(line(
                format!("Round {}, criterion {}{severity}.", review.round, result.index + 1),
                text,
            ));
        }
        for finding in &verdict.findings {
            let place = finding.criterion.map(|at| format!(", criterion {}", at + 1)).unwrap_or_default();
            let severity = severity_word(finding.severity);
            lines.push(line(format!("Round {}{place}{severity}.", review.round), finding.text.clone()));
        }
        if !verdict.summary.trim().is_empty() {
            lines.push(line(format!("Round {}, in short.", review.round), verdict.summary.clone()));
        }
    }
    if lines.is_empty() { ().into_any() } else { lines.collect_view().into_any() }
}

fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Blocker => ", blocker",
        Severity::Major => ", major",
        Severity::Minor => ", minor",
    }
}

fn children(view: &ObjectiveView) -> Option<AnyView> {
    if view.children.is_empty() {
        return None;
    }
    let rows = view
        .children
        .iter()
        .map(|child| {
            view! {
                <a class="list-row" href=format!("/objective/{}", child.id)>
                    {status_mark(child.status)}
                    <span class="mono muted">{format!("#{}", child.id)}</span>
                    <span class="trunc">{child.title.clone()}</span>
                    <span class="sp"></span>
                    <span class="meta">{child.status.label()}</span>
                </a>
            }
        })
        .collect_view();
    Some(
        view! {
            <section class="panel" aria-label="Children">
                <header class="panel-head">"Children"</header>
                <div class="list">{rows}</div>
            </section>
        }
        .into_any(),
    )
}
