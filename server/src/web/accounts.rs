//! The control socket's routes for accounts: what only the machine itself may do with them.

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use axum::routing::{get, post};
use opkit_engine::{LoginPlan, NewAccount, Provisioned};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Door;
use super::identity::Who;
use super::problem::Problem;
use super::public::Route;
use super::rest::{Input, NamePath};

pub(super) fn control_routes() -> Vec<Route> {
    let row = |method, path, handler| Route { method, path, handler };
    vec![
        row(Method::POST, "/control/v1/accounts", post(add)),
        row(Method::POST, "/control/v1/provision", post(provision)),
        row(Method::POST, "/control/v1/accounts/{id}/key", post(key)),
        row(Method::POST, "/control/v1/accounts/{id}/limit", post(limit)),
        row(Method::GET, "/control/v1/accounts/{id}/test", get(test)),
        row(Method::GET, "/control/v1/accounts/{id}/login", get(login)),
    ]
}

async fn add(
    State(door): State<Door>,
    Who(actor): Who,
    Input(new): Input<NewAccount>,
) -> Result<Json<Provisioned>, Problem> {
    Ok(Json(door.engine().add_account(&actor, new).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Provision {
    prefix: String,
    count: u32,
}

async fn provision(
    State(door): State<Door>,
    Who(actor): Who,
    Input(wish): Input<Provision>,
) -> Result<Json<Provisioned>, Problem> {
    Ok(Json(door.engine().provision(&actor, &wish.prefix, wish.count).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    key: String,
}

async fn key(
    State(door): State<Door>,
    Who(actor): Who,
    NamePath(name): NamePath,
    Input(new): Input<Key>,
) -> Result<Json<Value>, Problem> {
    door.engine().store_account_key(&actor, &name, &new.key).await?;
    Ok(Json(json!({})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    limit: u32,
}

async fn limit(
    State(door): State<Door>,
    Who(actor): Who,
    NamePath(name): NamePath,
    Input(wish): Input<Limit>,
) -> Result<Json<Value>, Problem> {
    door.engine().limit_account(&actor, &name, wish.limit).await?;
    Ok(Json(json!({})))
}

async fn test(
    State(door): State<Door>,
    Who(actor): Who,
    NamePath(name): NamePath,
) -> Result<Json<Value>, Problem> {
    Ok(Json(json!(door.engine().test_account(&actor, &name).await?)))
}

async fn login(
    State(door): State<Door>,
    Who(actor): Who,
    NamePath(name): NamePath,
) -> Result<Json<LoginPlan>, Problem> {
    Ok(Json(door.engine().login_plan(&actor, &name).await?))
}
