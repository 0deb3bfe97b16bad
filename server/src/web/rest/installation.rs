//! REST: repositories, accounts, and the switch that stops everything.

use axum::Json;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use opkit_domain::view::EditUpkeep;
use opkit_engine::{EditRepo, NewRepo};
use serde_json::{Value, json};

use super::{Input, NamePath, Nothing, json, route};
use crate::web::Door;
use crate::web::identity::Who;
use crate::web::problem::Problem;
use crate::web::public::Route;

pub(super) fn routes() -> Vec<Route> {
    vec![
        route(Method::GET, "/api/v1/repos", &[], repos),
        route(Method::POST, "/api/v1/repos", &[], add_repo),
        route(Method::PATCH, "/api/v1/repos", &[], edit_repo),
        route(Method::GET, "/api/v1/upkeep", &[], upkeep),
        route(Method::PATCH, "/api/v1/upkeep", &[], set_upkeep),
        route(Method::GET, "/api/v1/accounts", &[], accounts),
        route(Method::POST, "/api/v1/accounts/{id}/enable", &[], enable_account),
        route(Method::POST, "/api/v1/accounts/{id}/disable", &[], disable_account),
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

/// Changes to a repository, with its name. (No flattening: it would let unknown fields through.)
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RepoChange {
    name: String,
    #[serde(default)]
    change: EditRepo,
}

async fn edit_repo(
    State(door): State<Door>,
    Who(actor): Who,
    Input(body): Input<RepoChange>,
) -> Result<Json<Value>, Problem> {
    let repo = door.engine().edit_repo(&actor, &body.name, body.change).await?;
    Ok(Json(json!(repo)))
}

async fn upkeep(State(door): State<Door>, Who(_): Who) -> Result<Json<Value>, Problem> {
    let upkeep = door.engine().upkeep().await?;
    Ok(Json(json!({"upkeep": upkeep, "disk": door.engine().disk().await?})))
}

async fn set_upkeep(
    State(door): State<Door>,
    Who(actor): Who,
    Input(edit): Input<EditUpkeep>,
) -> Result<Json<Value>, Problem> {
    let upkeep = door.engine().set_upkeep(&actor, edit).await?;
    Ok(Json(json!({"upkeep": upkeep, "disk": door.engine().disk().await?})))
}

async fn accounts(State(door): State<Door>, Who(actor): Who) -> Result<Json<Value>, Problem> {
    let pool = door.engine().account_pool(actor.scope).await?;
    let mut answer = json::list(pool.accounts.iter().map(|account| json!(account)).collect(), None);
    answer["mode"] = json!(pool.mode);
    answer["until"] = json!(pool.until);
    Ok(Json(answer))
}

async fn enable_account(
    State(door): State<Door>,
    Who(actor): Who,
    NamePath(name): NamePath,
    Input(_): Input<Nothing>,
) -> Result<Json<Value>, Problem> {
    door.engine().enable_account(&actor, &name).await?;
    Ok(Json(json!({"message": format!("{name} takes sessions again.")})))
}

async fn disable_account(
    State(door): State<Door>,
    Who(actor): Who,
    NamePath(name): NamePath,
    Input(_): Input<Nothing>,
) -> Result<Json<Value>, Problem> {
    door.engine().disable_account(&actor, &name).await?;
    Ok(Json(json!({"message": format!("{name} gets no new session. Its live ones go on.")})))
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
