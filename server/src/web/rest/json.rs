//! The JSON of REST answers: pinned names, independent of what the pages need.

use opkit_domain::view::{CardView, ObjectiveView, SessionView};
use opkit_engine::ObjectiveFields;
use serde_json::{Value, json};

/// A list with the cursor of what follows, or null.
pub(super) fn list(items: Vec<Value>, next: Option<Value>) -> Value {
    json!({"items": items, "next": next})
}

/// An objective in a list. It never carries a brief.
pub(super) fn card(card: &CardView) -> Value {
    json!({
        "id": card.id,
        "title": card.title,
        "type": card.kind,
        "status": card.status,
        "sub_state": card.sub_state,
        "attention": card.attention,
        "attention_note": card.attention_note,
        "criteria_total": card.criteria,
        "criteria_met": card.criteria_met,
        "criteria_failed": card.criteria_failed,
        "review_round": card.counters.rounds_total.max(u32::try_from(card.rounds.len()).unwrap_or(u32::MAX)),
        "failed_rounds": card.counters.rounds,
        "max_review_rounds": card.max_rounds,
        "repo": card.repo,
        "branch": format!("obj/{}", card.id),
        "priority": card.priority,
        "parent": card.parent,
        "agent": card.agent,
        "hold": card.hold,
        "waits_for": card.waits_for,
        "labels": card.labels,
        "session": card.session,
        "delivered": card.delivered,
        "cost_usd_micros": card.cost_usd_micros,
        "since": card.since,
        "version": card.version,
    })
}

/// An objective in a list with what the card does not carry.
pub(super) fn listed(view: &CardView, fields: Option<&ObjectiveFields>) -> Value {
    let mut value = card(view);
    let more = fields.map(|fields| {
        json!({
            "criteria": fields.criteria,
            "base": fields.base,
            "base_commit": fields.base_commit,
            "head_commit": fields.head_commit,
            "script": fields.script,
            "integrated": fields.integrated,
            "creator": fields.creator,
            "created_at": fields.created_at,
            "updated_at": fields.updated_at,
        })
    });
    if let (Value::Object(value), Some(Value::Object(more))) = (&mut value, more) {
        value.extend(more);
    }
    value
}

/// An objective with everything.
pub(super) fn objective(view: &ObjectiveView) -> Value {
    let mut value = card(&view.card);
    let newest = view.events.iter().map(|event| event.at).max().unwrap_or(0);
    let more = json!({
        "brief": view.brief,
        "goal": view.goal,
        "criteria": view.criteria,
        "branch": view.branch,
        "base": view.base,
        "base_commit": view.base_commit,
        "head_commit": view.head_commit,
        "script": view.script,
        "findings": view.findings,
        "artifact": view.artifact,
        "integrate": view.integrate,
        "integrated": view.integrated,
        "creator": view.creator,
        "created_at": view.created_at,
        "updated_at": newest.max(view.card.since).max(view.created_at),
        "reviews": view.reviews,
    });
    if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
        value.extend(more);
    }
    value
}

/// A session; its id is the run id.
pub(super) fn session(view: &SessionView) -> Value {
    json!({
        "id": view.id,
        "objective": view.objective,
        "role": view.role,
        "state": view.state,
        "outcome": view.outcome,
        "detail": view.detail,
        "account": view.account,
        "agent": view.agent,
        "actor": view.actor,
        "template": null,
        "pid": view.pid,
        "confinement": view.confinement,
        "started_at": view.started_at,
        "ended_at": view.ended_at,
        "turns": view.turns,
        "cost_usd_micros": view.cost_usd_micros,
        "activity": view.activity,
        "round": view.round,
        "denials": view.denials,
    })
}
