//! REST: repositories, accounts, and the switch that stops everything.

use axum::Json;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use opkit_engine::NewRepo;
use serde_json::{Value, json};

use super::{Input, Nothing, json, route};
use crate::web::Door;
use crate::web::identity::Who;
use crate::web::problem::Problem;
use crate::web::public::Route;

pub(super) fn routes() -> Vec<Route> {
    vec![
        route(Method::GET, "/api/v1/repos", &[], repos),
        route(Method::POST, "/api/v1/repos", &[], add_repo),
        route(Method::GET, "/api/v1/accounts", &[], accounts),
        route(Method::POST, "/api/v1/stop-all", &[], stop_all),
        route(Method::POST, "/api/v1/resume-all", &[], resume_all),
    ]
}

async fn repos(State(door): State<Door>, Who(actor): Who) -> Result<Json<Value>, Problem> {
    let repos = door.engine().repos(actor.scope).await?;
    Ok(Json(json::list(repos.iter().map(|repo| json!(repo)).collect(), None)))
}

async fn add_repo(
    State(door): State<Door>,
    Who(actor): Who,
    Input(new): Input<NewRepo>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let repo = door.engine().add_repo(&actor, new).await?;
    Ok((StatusCode::CREATED, Json(json!(repo))))
}

async fn accounts(State(door): State<Door>, Who(_): Who) -> Result<Json<Value>, Problem> {
    let accounts = door.engine().accounts().await?;
    Ok(Json(json::list(accounts.iter().map(|account| json!(account)).collect(), None)))
}

async fn stop_all(
    State(door): State<Door>,
    Who(actor): Who,
    Input(_): Input<Nothing>,
) -> Result<Json<Value>, Problem> {
    let stopped = door.engine().stop_all(&actor).await?;
    Ok(Json(json!({"stopped": stopped})))
}

async fn resume_all(
    State(door): State<Door>,
    Who(actor): Who,
    Input(_): Input<Nothing>,
) -> Result<Json<Value>, Problem> {
    let resumed = door.engine().resume_all(&actor).await?;
    Ok(Json(json!({"resumed": resumed})))
}
