//! Logging in and out, and making the first owner by the set-up link.

use std::net::SocketAddr;
use std::time::Instant;

use axum::Form;
use axum::extract::{ConnectInfo, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use opkit_domain::access::{Actor, Scope};
use opkit_engine::UserRow;
use serde::Deserialize;
use tower_sessions::Session;

use super::Door;
use super::identity::{Identity, escaped, own_path};
use super::login_store::{BORN, SEEN, USER};
use super::password::{Busy, check_new};
use super::problem::Problem;
use super::throttle::{Bucket, Turn};

/// The login form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoginForm {
    name: String,
    password: String,
    #[serde(default)]
    next: String,
}

/// The set-up form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SetupForm {
    token: String,
    name: String,
    password: String,
}

fn busy(_: Busy) -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "Too many people log in at this moment. Try again in a minute.",
    )
}

fn back_to_login(error: &str, next: &str) -> Response {
    let next = match own_path(next) {
        "/" => String::new(),
        next => format!("&next={}", escaped(next)),
    };
    Redirect::to(&format!("/login?error={error}{next}")).into_response()
}

/// `POST /login`. Unknown names and wrong passwords get the same answer after the same work.
pub(super) async fn log_in(
    State(door): State<Door>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    session: Session,
    Form(form): Form<LoginForm>,
) -> Result<Response, Problem> {
    let buckets = Bucket::of(&form.name, peer.ip());
    let left = match door.throttle().take(&buckets, Instant::now()) {
        Turn::Go { left } => left,
        Turn::Paused => return Ok(back_to_login("paused", &form.next)),
    };
    let user = door.engine().user_by_name(form.name.trim()).await?;
    let hash = user.as_ref().map(|user| user.password_hash.clone());
    let fits = door.hasher().verify(form.password, hash).await;
    let fits = fits.inspect_err(|_| door.throttle().forgive(&buckets, false)).map_err(busy)?;
    match user.filter(|_| fits) {
        Some(user) => {
            door.throttle().forgive(&buckets, true);
            open(&door, &session, &user, "login").await?;
            Ok(Redirect::to(own_path(&form.next)).into_response())
        }
        None => {
            tracing::warn!(peer = %peer.ip(), "a login failed");
            Ok(back_to_login(&format!("wrong&left={left}"), &form.next))
        }
    }
}

/// A new login under a new id; the old one, whoever knew it, is worth nothing.
async fn open(door: &Door, session: &Session, user: &UserRow, action: &str) -> Result<(), Problem> {
    let fault = |error: tower_sessions::session::Error| Problem::fault(&error);
    session.clear().await;
    session.cycle_id().await.map_err(fault)?;
    let now = opkit_engine::now_ms();
    session.insert(USER, user.id.0).await.map_err(fault)?;
    session.insert(BORN, now).await.map_err(fault)?;
    session.insert(SEEN, now).await.map_err(fault)?;
    let actor = Actor { name: user.name.clone(), scope: Scope { client: user.client }, access: user.access };
    door.engine().audit(&actor, action, &user.name, serde_json::json!({})).await?;
    Ok(())
}

/// `POST /logout`: the login is deleted on the server and its sockets close.
pub(super) async fn log_out(session: Session) -> Result<Redirect, Problem> {
    let fault = |error: tower_sessions::session::Error| Problem::fault(&error);
    // A cookie that belongs to nobody is only taken back.
    if session.get::<i64>(USER).await.map_err(fault)?.is_some() {
        session.flush().await.map_err(fault)?;
    }
    Ok(Redirect::to("/login"))
}

/// `POST /setup`: the first owner, by the link that the server printed.
pub(super) async fn set_up(
    State(door): State<Door>,
    session: Session,
    Form(form): Form<SetupForm>,
) -> Result<Response, Problem> {
    if door.has_owner() {
        return Ok(Redirect::to("/login").into_response());
    }
    if !door.setup().fits(&form.token) {
        return Ok(Redirect::to("/setup?error=token").into_response());
    }
    let name = form.name.trim().to_owned();
    if let Err((code, _)) = check_new(&name, &form.password) {
        let address = format!("/setup?error={code}&token={}", escaped(&form.token));
        return Ok(Redirect::to(&address).into_response());
    }
    let user = create_owner(&door, &name, form.password).await?;
    open(&door, &session, &user, "setup").await?;
    Ok(Redirect::to("/").into_response())
}

/// Creates the owner; the caller has checked name and password.
pub(super) async fn create_owner(door: &Door, name: &str, password: String) -> Result<UserRow, Problem> {
    let hash = door.hasher().hash(password).await.map_err(busy)?.map_err(|error| Problem::fault(&error))?;
    let user = door.engine().create_owner(name, &hash).await?;
    door.owner_exists();
    tracing::info!(owner = name, "the owner was created");
    Ok(user)
}

/// Somebody who is logged in has no business on these pages.
pub(super) fn skip_when_logged_in(identity: &Identity, method: &Method, path: &str) -> Option<Response> {
    let inside = identity.actor.is_some() && method == Method::GET && matches!(path, "/login" | "/setup");
    inside.then(|| Redirect::to("/").into_response())
}
