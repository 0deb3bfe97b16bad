//! REST: objectives, their moves and decisions, their events.

use std::collections::HashMap;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use opkit_domain::access::Actor;
use opkit_domain::ids::ObjectiveId;
use opkit_domain::objective::{Integration, Status};
use opkit_domain::view::{EditObjective, NewObjective};
use opkit_engine::{ListQuery, SessionQuery};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Input, Nothing, ObjectivePath, Params, json, route, rows};
use crate::web::Door;
use crate::web::identity::Who;
use crate::web::problem::Problem;
use crate::web::public::Route;

type Answer = Result<Json<Value>, Problem>;

pub(super) fn routes() -> Vec<Route> {
    let list_params: &[&str] = &["status", "parent", "parent_id", "after", "limit"];
    vec![
        route(Method::GET, "/api/v1/objectives", list_params, list),
        route(Method::POST, "/api/v1/objectives", &[], create),
        route(Method::GET, "/api/v1/objectives/{id}", &[], get),
        route(Method::PATCH, "/api/v1/objectives/{id}", &[], edit),
        route(Method::GET, "/api/v1/objectives/{id}/events", &["after", "limit"], events),
        route(Method::GET, "/api/v1/objectives/{id}/sessions", &["limit"], sessions),
        route(Method::POST, "/api/v1/objectives/{id}/move", &[], move_to),
        route(Method::POST, "/api/v1/objectives/{id}/approve", &[], approve),
        route(Method::POST, "/api/v1/objectives/{id}/reject", &[], reject),
        route(Method::POST, "/api/v1/objectives/{id}/answer", &[], answer),
        route(Method::POST, "/api/v1/objectives/{id}/review", &[], review),
        route(Method::POST, "/api/v1/objectives/{id}/reopen", &[], reopen),
        route(Method::POST, "/api/v1/objectives/{id}/resume", &[], resume),
        route(Method::POST, "/api/v1/objectives/{id}/cancel", &[], cancel),
        route(Method::POST, "/api/v1/objectives/{id}/restore", &[], restore),
        route(Method::GET, "/api/v1/objectives/{id}/kept", &[], kept),
        route(Method::GET, "/api/v1/objectives/{id}/kept/patch", &["kept"], kept_patch),
        route(Method::POST, "/api/v1/objectives/{id}/kept/restore", &[], restore_files),
        route(Method::POST, "/api/v1/objectives/{id}/message", &[], message),
        route(Method::POST, "/api/v1/objectives/{id}/integrate", &[], integrate),
    ]
}

async fn whole(door: &Door, actor: &Actor, id: ObjectiveId) -> Result<Value, Problem> {
    Ok(json::objective(&door.engine().objective(actor.scope, id).await?))
}

fn status(text: &str) -> Result<Status, Problem> {
    text.parse().map_err(|error: opkit_domain::ids::UnknownWord| Problem::bad(format!("{error}.")))
}

#[derive(Deserialize)]
struct ListParams {
    status: Option<String>,
    #[serde(alias = "parent_id")]
    parent: Option<i64>,
    after: Option<i64>,
    limit: Option<u32>,
}

async fn list(State(door): State<Door>, Who(actor): Who, Params(params): Params<ListParams>) -> Answer {
    let limit = rows(params.limit)?;
    let query = ListQuery {
        status: params.status.as_deref().map(status).transpose()?,
        parent: params.parent.map(ObjectiveId),
        after: params.after.map(ObjectiveId),
        limit,
    };
    let cards = door.engine().list(actor.scope, &query).await?;
    let full = cards.len() >= limit as usize;
    let next = cards.last().filter(|_| full).map(|card| json!(card.id));
    let fields = match (cards.first(), cards.last()) {
        (Some(first), Some(last)) => door.engine().fields(actor.scope, first.id, last.id).await?,
        _ => HashMap::new(),
    };
    let items = cards.iter().map(|card| json::listed(card, fields.get(&card.id))).collect();
    Ok(Json(json::list(items, next)))
}

async fn create(
    State(door): State<Door>,
    Who(actor): Who,
    headers: HeaderMap,
    Input(new): Input<NewObjective>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let key = headers.get("idempotency-key").map(|key| key.to_str().unwrap_or_default());
    if key.is_some_and(|key| key.is_empty() || key.len() > 200) {
        return Err(Problem::bad("Idempotency-Key has 1 to 200 plain characters."));
    }
    let card = door.engine().create(&actor, new, key).await?;
    Ok((StatusCode::CREATED, Json(whole(&door, &actor, card.id).await?)))
}

async fn get(State(door): State<Door>, Who(actor): Who, ObjectivePath(id): ObjectivePath) -> Answer {
    Ok(Json(whole(&door, &actor, id).await?))
}

async fn edit(
    State(door): State<Door>,
    Who(actor): Who,
    ObjectivePath(id): ObjectivePath,
    Input(body): Input<Value>,
) -> Answer {
    if body.get("status").is_some() {
        return Err(Problem::bad("Moves have their own door: POST …/move."));
    }
    let edit: EditObjective = serde_json::from_value(body)
        .map_err(|error| Problem::bad(format!("The body is not right: {error}.")))?;
    door.engine().edit(&actor, id, edit).await?;
    Ok(Json(whole(&door, &actor, id).await?))
}

#[derive(Deserialize)]
struct EventParams {
    #[serde(default)]
    after: i64,
    limit: Option<u32>,
}

async fn events(
    State(door): State<Door>,
    Who(actor): Who,
    ObjectivePath(id): ObjectivePath,
    Params(params): Params<EventParams>,
) -> Answer {
    let limit = rows(params.limit)?;
    let events = door.engine().events(actor.scope, id, params.after, limit).await?;
    let full = events.len() >= limit as usize;
    let next = events.last().filter(|_| full).map(|event| json!(event.seq));
    Ok(Json(json::list(events.iter().map(|event| json!(event)).collect(), next)))
}

#[derive(Deserialize)]
struct LimitParams {
    limit: Option<u32>,
}

async fn sessions(
    State(door): State<Door>,
    Who(actor): Who,
    ObjectivePath(id): ObjectivePath,
    Params(params): Params<LimitParams>,
) -> Answer {
    // An objective that is not there is an error, not an empty list.
    door.engine().card(actor.scope, id).await?;
    let query = SessionQuery { objective: Some(id), limit: rows(params.limit)?, ..SessionQuery::default() };
    let sessions = door.engine().sessions(actor.scope, &query).await?;
    Ok(Json(json::list(sessions.iter().map(json::session).collect(), None)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Move {
    #[serde(alias = "to")]
    status: String,
    #[serde(default)]
    version: Option<i64>,
}

async fn move_to(
    State(door): State<Door>,
    Who(actor): Who,
    ObjectivePath(id): ObjectivePath,
    Input(body): Input<Move>,
) -> Answer {
    let moved = door.engine().move_to(&actor, id, status(&body.status)?, body.version).await?;
    let mut value = whole(&door, &actor, id).await?;
    value["message"] = json!(moved.message);
    Ok(Json(value))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Approve {
    #[serde(default)]
    integrate: Option<Integration>,
    #[serde(default)]
    reason: Option<String>,
}

async fn approve(
    State(door): State<Door>,
    Who(actor): Who,
    ObjectivePath(id): ObjectivePath,
    Input(body): Input<Approve>,
) -> Answer {
    door.engine().approve(&actor, id, body.integrate, body.reason).await?;
    Ok(Json(whole(&door, &actor, id).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reject {
    findings: String,
}

async fn reject(
    State(door): State<Door>,
    Who(actor): Who,
    ObjectivePath(id): ObjectivePath,
    Input(body): Input<Reject>,
) -> Answer {
    door.engine().reject(&actor, id, body.findings).await?;
    Ok(Json(whole(&door, &actor, id).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    text: String,
}

async fn answer(
    State(door): State<Door>,
    Who(actor): Who,
    ObjectivePath(id): ObjectivePath,
    Input(body): Input<Text>,
) -> Answer {
    door.engine().answer(&actor, id, body.text).await?;
    Ok(Json(whole(&door, &actor, id).await?))
}

async fn message(
    State(door): State<Door>,
    Who(actor): Who,
    ObjectivePath(id): ObjectivePath,
    Input(body): Input<Text>,
) -> Answer {
    door.engine().message(&actor, id, body.text).await?;
    Ok(Json(json!({"message": format!("#{id} has your message. Its next session reads it.")})))
}

async fn review(
    State(door): State<Door>,
    Who(actor): Who,
    ObjectivePath(id): ObjectivePath,
    Input(_): Input<Nothing>,
) -> Answer {
    door.engine().fresh_review(&actor, id).await?;
    Ok(Json(whole(&door, &actor, id).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reopen {
    reason: String,
}

async fn reopen(
    State(door): State<Door>,
    Who(actor): Who,
    ObjectivePath(id): ObjectivePath,
    Input(body): Input<Reopen>,
) -> Answer {
    door.engine().reopen(&actor, id, body.reason).await?;
    Ok(Json(whole(&door, &actor, id).await?))
}

async fn resume(
    State(door): State<Door>,
    Who(actor): Who,
    ObjectivePath(id): ObjectivePath,
    Input(_): Input<Nothing>,
) -> Answer {
    door.engine().resume(&actor, id).await?;
    Ok(Json(whole(&door, &actor, id).await?))
}

async fn cancel(
    State(door): State<Door>,
    Who(actor): Who,
    ObjectivePath(id): ObjectivePath,
    Input(_): Input<Nothing>,
) -> Answer {
    door.engine().cancel(&actor, id).await?;
    Ok(Json(whole(&door, &actor, id).await?))
}

async fn restore(
    State(door): State<Door>,
    Who(actor): Who,
    ObjectivePath(id): ObjectivePath,
    Input(_): Input<Nothing>,
) -> Answer {
    door.engine().restore(&actor, id).await?;
    Ok(Json(whole(&door, &actor, id).await?))
}

async fn kept(State(door): State<Door>, Who(actor): Who, ObjectivePath(id): ObjectivePath) -> Answer {
    let kept = door.engine().rescues(actor.scope, id).await?;
    Ok(Json(json::list(kept.iter().map(|kept| json!(kept)).collect(), None)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    kept: i64,
}

async fn kept_patch(
    State(door): State<Door>,
    Who(actor): Who,
    ObjectivePath(id): ObjectivePath,
    Params(params): Params<Kept>,
) -> Result<Response, Problem> {
    let patch = door.engine().rescue_patch(actor.scope, id, params.kept).await?;
    let name = format!("attachment; filename=\"objective-{id}-kept-{}.patch\"", params.kept);
    let headers = [("content-type", "application/octet-stream".to_owned()), ("content-disposition", name)];
    Ok((headers, Body::from(patch)).into_response())
}

async fn restore_files(
    State(door): State<Door>,
    Who(actor): Who,
    ObjectivePath(id): ObjectivePath,
    Input(body): Input<Kept>,
) -> Answer {
    let message = door.engine().restore_rescue(&actor, id, body.kept).await?;
    Ok(Json(json!({"message": message})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Integrate {
    #[serde(alias = "integrate", alias = "mode")]
    how: Integration,
}

async fn integrate(
    State(door): State<Door>,
    Who(actor): Who,
    ObjectivePath(id): ObjectivePath,
    Input(body): Input<Integrate>,
) -> Answer {
    let message = door.engine().integrate(&actor, id, body.how).await?;
    Ok(Json(json!({"message": message})))
}
