//! REST: sessions, their context documents and records.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use opkit_domain::ids::{ObjectiveId, SessionId};
use opkit_engine::SessionQuery;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Input, Nothing, Params, SessionPath, json, route, rows};
use crate::web::Door;
use crate::web::identity::Who;
use crate::web::problem::Problem;
use crate::web::public::Route;

/// The largest piece of a record in one answer, bytes.
const PIECE: usize = 1 << 20;

pub(super) fn routes() -> Vec<Route> {
    vec![
        route(Method::GET, "/api/v1/sessions", &["state", "objective", "limit", "after"], list),
        route(Method::GET, "/api/v1/sessions/{id}", &[], get),
        route(Method::GET, "/api/v1/sessions/{id}/context", &[], context),
        route(Method::GET, "/api/v1/sessions/{id}/record", &["from"], record),
        route(Method::POST, "/api/v1/sessions/{id}/stop", &[], stop),
    ]
}

#[derive(Deserialize)]
struct ListParams {
    state: Option<String>,
    objective: Option<i64>,
    limit: Option<u32>,
    after: Option<SessionId>,
}

async fn list(
    State(door): State<Door>,
    Who(actor): Who,
    Params(params): Params<ListParams>,
) -> Result<Json<Value>, Problem> {
    let live_only = match params.state.as_deref() {
        None | Some("all") => false,
        Some("live") => true,
        Some(_) => return Err(Problem::bad("state is live or all.")),
    };
    let objective = params.objective.map(ObjectiveId);
    let query = SessionQuery { objective, live_only, limit: rows(params.limit)?, after: params.after };
    let sessions = door.engine().sessions(actor.scope, &query).await?;
    let full = sessions.len() >= query.limit as usize;
    let next = sessions.last().filter(|_| full).map(|session| json!(session.id));
    Ok(Json(json::list(sessions.iter().map(json::session).collect(), next)))
}

async fn get(
    State(door): State<Door>,
    Who(actor): Who,
    SessionPath(id): SessionPath,
) -> Result<Json<Value>, Problem> {
    Ok(Json(json::session(&door.engine().session(actor.scope, &id).await?)))
}

async fn context(
    State(door): State<Door>,
    Who(actor): Who,
    SessionPath(id): SessionPath,
) -> Result<Response, Problem> {
    let text = door.engine().context(actor.scope, &id).await?;
    Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], text).into_response())
}

#[derive(Deserialize)]
struct RecordParams {
    #[serde(default)]
    from: u64,
}

async fn record(
    State(door): State<Door>,
    Who(actor): Who,
    SessionPath(id): SessionPath,
    Params(params): Params<RecordParams>,
) -> Result<Response, Problem> {
    let (offset, bytes) = door.engine().record(actor.scope, &id, params.from, PIECE).await?;
    let headers = [
        ("content-type", "application/octet-stream".to_owned()),
        ("content-disposition", "attachment".to_owned()),
        ("x-opkit-offset", offset.to_string()),
        ("x-opkit-next", (offset + bytes.len() as u64).to_string()),
    ];
    Ok((headers, Body::from(bytes)).into_response())
}

async fn stop(
    State(door): State<Door>,
    Who(actor): Who,
    SessionPath(id): SessionPath,
    Input(_): Input<Nothing>,
) -> Result<Json<Value>, Problem> {
    door.engine().stop_session(&actor, &id).await?;
    Ok(Json(json!({"message": format!("Session {} is asked to stop.", id.short())})))
}
