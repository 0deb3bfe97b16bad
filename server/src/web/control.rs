//! The control socket: REST for the command line, and what only the machine itself may do.

use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::IncomingStream;
use axum::{Json, Router};
use opkit_domain::access::{Access, Actor};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::UnixListener;

use super::identity::{Identity, Who, token_hash};
use super::problem::Problem;
use super::public::{Route, with};
use super::rest::{Input, Nothing};
use super::{Door, fence, login, password, rest};

/// The process at the other end, as the kernel names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    uid: Option<u32>,
}

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Peer {
        Peer { uid: stream.io().peer_cred().ok().map(|peer| peer.uid()) }
    }
}

/// The router of `run/control.sock`.
pub(crate) fn control_router(door: Door) -> Router {
    with(with(Router::new(), own_routes()), rest::routes())
        .fallback(rest::nothing_here)
        .layer(from_fn(admit))
        .layer(from_fn(fence::limit_body))
        .layer(from_fn(fence::log_access))
        .with_state(door)
}

fn own_routes() -> Vec<Route> {
    let mut table = super::accounts::control_routes();
    table.extend([
        Route { method: Method::GET, path: "/control/v1/doctor", handler: get(doctor) },
        Route { method: Method::POST, path: "/control/v1/agent-probe", handler: post(agent_probe) },
        Route { method: Method::POST, path: "/control/v1/owner", handler: post(owner) },
        Route { method: Method::POST, path: "/control/v1/tokens", handler: post(token) },
        Route { method: Method::POST, path: "/control/v1/enable", handler: post(enable) },
        Route { method: Method::POST, path: "/control/v1/backup", handler: post(backup) },
    ]);
    table
}

/// Only the server's own user and root; whoever that is owns the installation.
async fn admit(ConnectInfo(peer): ConnectInfo<Peer>, mut request: Request, next: Next) -> Response {
    let own = rustix::process::geteuid().as_raw();
    match peer.uid {
        Some(uid) if uid == own || uid == 0 => {
            request.extensions_mut().insert(Identity::by_other_means(local_actor(uid)));
            next.run(request).await
        }
        _ => Problem::new(
            StatusCode::FORBIDDEN,
            "Only the server's own user and root may use its control socket.",
        )
        .into_response(),
    }
}

/// `local:<os user>`, owner of everything.
pub(crate) fn local_actor(uid: u32) -> Actor {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    let mut actor = Actor::system(&format!("local:{}", name.unwrap_or_else(|| uid.to_string())));
    actor.access = Access::Owner;
    actor
}

async fn doctor(State(door): State<Door>) -> Json<Value> {
    let checks = door.engine().doctor().await;
    Json(json!(checks))
}

async fn agent_probe(
    State(door): State<Door>,
    Who(actor): Who,
    Input(_): Input<Nothing>,
) -> Result<Json<opkit_engine::Probed>, Problem> {
    Ok(Json(door.engine().probe_agent(&actor).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Owner {
    name: String,
    password: String,
}

async fn owner(State(door): State<Door>, Input(new): Input<Owner>) -> Result<Json<Value>, Problem> {
    password::check_new(&new.name, &new.password).map_err(|(_, text)| Problem::bad(text))?;
    let user = login::create_owner(&door, &new.name, new.password).await?;
    Ok(Json(json!({"name": user.name})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewToken {
    actor: String,
    scope: String,
}

async fn token(
    State(door): State<Door>,
    Who(actor): Who,
    Input(new): Input<NewToken>,
) -> Result<Json<Value>, Problem> {
    let token = mint(door.engine(), &actor, &new.actor, &new.scope).await?;
    Ok(Json(json!({"token": token})))
}

/// Makes a token; only its hash and its first characters are kept.
pub(crate) async fn mint(
    engine: &opkit_engine::Engine,
    actor: &Actor,
    for_actor: &str,
    scope: &str,
) -> opkit_engine::Result<String> {
    let token = format!("opk_{}", hex::encode(rand::random::<[u8; 32]>()));
    engine.create_token(actor, &token_hash(&token), &token[..12], for_actor, scope).await?;
    Ok(token)
}

async fn backup(
    State(door): State<Door>,
    Who(actor): Who,
    Input(new): Input<opkit_engine::NewBackup>,
) -> Result<Json<Value>, Problem> {
    Ok(Json(json!(door.engine().backup(&actor, &new).await?)))
}

async fn enable(
    State(door): State<Door>,
    Who(actor): Who,
    Input(_): Input<Nothing>,
) -> Result<Json<Value>, Problem> {
    door.engine().enable(&actor).await?;
    Ok(Json(json!({})))
}
