//! Repositories, sessions, accounts and health.

use leptos::prelude::*;
use leptos::server_fn::codec::Json;
use opkit_domain::ids::SessionId;
use opkit_domain::objective::Integration;
use opkit_domain::view::{AccountView, HealthView, RepoView, SessionView};
use serde::{Deserialize, Serialize};

/// Sessions and the time they were read at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionsView {
    /// Newest first.
    pub sessions: Vec<SessionView>,
    /// Server time.
    pub now: i64,
}

/// One session and the time it was read at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionPage {
    /// The session.
    pub session: SessionView,
    /// Server time.
    pub now: i64,
}

/// Repositories.
#[server(input = Json)]
pub async fn repos() -> Result<Vec<RepoView>, ServerFnError> {
    let (engine, actor) = super::door::open()?;
    super::door::told(engine.repos(actor.scope).await)
}

/// Registers a repository.
#[server(input = Json)]
pub async fn add_repo(
    source: String,
    name: Option<String>,
    base: Option<String>,
    verify: Option<String>,
    integrate: Option<Integration>,
) -> Result<RepoView, ServerFnError> {
    let (engine, actor) = super::door::open()?;
    let new = opkit_engine::NewRepo { source, name, base, verify, integrate };
    super::door::told(engine.add_repo(&actor, new).await)
}

/// Registers the sample repository.
#[server(input = Json)]
pub async fn add_sample() -> Result<RepoView, ServerFnError> {
    let (engine, actor) = super::door::open()?;
    super::door::told(engine.add_sample_repo(&actor).await)
}

/// Live and recent sessions.
#[server(input = Json)]
pub async fn sessions() -> Result<SessionsView, ServerFnError> {
    let (engine, actor) = super::door::open()?;
    let query = opkit_engine::SessionQuery { objective: None, live_only: false, limit: 100 };
    let sessions = super::door::told(engine.sessions(actor.scope, &query).await)?;
    Ok(SessionsView { sessions, now: now(&engine, &actor).await? })
}

/// One session.
#[server(input = Json)]
pub async fn session(id: SessionId) -> Result<SessionPage, ServerFnError> {
    let (engine, actor) = super::door::open()?;
    let session = super::door::told(engine.session(actor.scope, &id).await)?;
    Ok(SessionPage { session, now: now(&engine, &actor).await? })
}

/// Stops one session.
#[server(input = Json)]
pub async fn stop_session(id: SessionId) -> Result<(), ServerFnError> {
    let (engine, actor) = super::door::open()?;
    super::door::told(engine.stop_session(&actor, &id).await)
}

/// The pool.
#[server(input = Json)]
pub async fn accounts() -> Result<Vec<AccountView>, ServerFnError> {
    let (engine, _) = super::door::open()?;
    super::door::told(engine.accounts().await)
}

/// Health.
#[server(input = Json)]
pub async fn health() -> Result<HealthView, ServerFnError> {
    let (engine, actor) = super::door::open()?;
    super::door::told(engine.health(actor.scope).await)
}

/// Server time by the engine's own clock.
#[cfg(feature = "ssr")]
async fn now(
    engine: &opkit_engine::Engine,
    actor: &opkit_domain::access::Actor,
) -> Result<i64, ServerFnError> {
    let nothing = opkit_domain::view::BoardFilter { repo: None, text: Some("#0".into()) };
    Ok(super::door::told(engine.board(actor.scope, &nothing).await)?.now)
}
