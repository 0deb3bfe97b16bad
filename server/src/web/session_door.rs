//! The session door: what an agent's session may say and ask, with its own token and nothing else.

use axum::Json;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use opkit_engine::SessionCall;
use serde::Deserialize;
use serde_json::Value;

use super::problem::Problem;
use super::rest::{Input, Nothing};
use super::{Door, fence};

type Answer = Result<Json<Value>, Problem>;

/// Everything of the listener that sessions find through their door file.
pub(crate) fn session_router(door: Door) -> Router {
    Router::new()
        .route("/session/v1/progress", post(progress))
        .route("/session/v1/blocked", post(blocked))
        .route("/session/v1/done", post(done))
        .route("/session/v1/objective", get(objective))
        .route("/session/v1/siblings", get(siblings))
        .fallback(nothing_here)
        .layer(from_fn(no_browsers))
        .layer(from_fn(fence::limit_body))
        .layer(from_fn(fence::log_access))
        .with_state(door)
}

/// A page has no business here, whatever name it found this address under.
async fn no_browsers(request: Request, next: Next) -> Response {
    let headers = request.headers();
    if headers.contains_key(header::ORIGIN) || headers.contains_key("sec-fetch-site") {
        return Problem::new(StatusCode::FORBIDDEN, "This door is for sessions, not for pages.")
            .into_response();
    }
    next.run(request).await
}

async fn nothing_here() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "There is nothing at this address of the session door.")
}

async fn call(door: &Door, headers: &HeaderMap, call: SessionCall) -> Answer {
    let token = fence::bearer(headers).ok_or_else(|| {
        Problem::new(StatusCode::UNAUTHORIZED, "Send the session's token as a bearer token.")
    })?;
    Ok(Json(door.engine().session_call(token, call).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Progress {
    text: String,
}

async fn progress(State(door): State<Door>, headers: HeaderMap, Input(body): Input<Progress>) -> Answer {
    call(&door, &headers, SessionCall::Progress { text: body.text }).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Blocked {
    reason: String,
}

async fn blocked(State(door): State<Door>, headers: HeaderMap, Input(body): Input<Blocked>) -> Answer {
    call(&door, &headers, SessionCall::Blocked { reason: body.reason }).await
}

async fn done(State(door): State<Door>, headers: HeaderMap, Input(_): Input<Nothing>) -> Answer {
    call(&door, &headers, SessionCall::Done).await
}

async fn objective(State(door): State<Door>, headers: HeaderMap) -> Answer {
    call(&door, &headers, SessionCall::Objective).await
}

async fn siblings(State(door): State<Door>, headers: HeaderMap) -> Answer {
    call(&door, &headers, SessionCall::Siblings).await
}
