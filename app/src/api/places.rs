//! Repositories, sessions, accounts and health.

use leptos::prelude::*;
use leptos::server_fn::codec::Json;
use opkit_domain::ids::SessionId;
use opkit_domain::objective::Integration;
use opkit_domain::view::{RepoView, SessionView};
use serde::{Deserialize, Serialize};

use super::answer::opened;
use super::{Answer, Refusal, Told};

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

/// Repositories: a list of `RepoView`.
#[server(input = Json, output = Told)]
pub async fn read_repos() -> Result<Answer, ServerFnError> {
    super::door::told(serve::repos().await)
}

/// Registers a repository.
#[server(input = Json, output = Told)]
pub async fn send_repo(
    source: String,
    name: Option<String>,
    base: Option<String>,
    verify: Option<String>,
    integrate: Option<Integration>,
) -> Result<Answer, ServerFnError> {
    let new = opkit_engine::NewRepo { source, name, base, verify, integrate };
    super::door::told(serve::add_repo(new).await)
}

/// Registers the sample repository.
#[server(input = Json, output = Told)]
pub async fn send_sample() -> Result<Answer, ServerFnError> {
    super::door::told(serve::add_sample().await)
}

/// Live and recent sessions: [`SessionsView`].
#[server(input = Json, output = Told)]
pub async fn read_sessions() -> Result<Answer, ServerFnError> {
    super::door::told(serve::sessions().await)
}

/// One session: [`SessionPage`].
#[server(input = Json, output = Told)]
pub async fn read_session(id: SessionId) -> Result<Answer, ServerFnError> {
    super::door::told(serve::session(id).await)
}

/// Stops one session.
#[server(input = Json, output = Told)]
pub async fn send_interrupt(id: SessionId) -> Result<Answer, ServerFnError> {
    super::door::told(serve::stop_session(id).await)
}

/// The pool: a list of `AccountView`.
#[server(input = Json, output = Told)]
pub async fn read_accounts() -> Result<Answer, ServerFnError> {
    super::door::told(serve::accounts().await)
}

/// Health: a `HealthView`.
#[server(input = Json, output = Told)]
pub async fn read_health() -> Result<Answer, ServerFnError> {
    super::door::told(serve::health().await)
}

/// Registers a repository.
pub async fn add_repo(
    source: String,
    name: Option<String>,
    base: Option<String>,
    verify: Option<String>,
    integrate: Option<Integration>,
) -> Result<RepoView, Refusal> {
    opened(send_repo(source, name, base, verify, integrate).await)
}

/// Registers the sample repository.
pub async fn add_sample() -> Result<RepoView, Refusal> {
    opened(send_sample().await)
}

/// Stops one session.
pub async fn stop_session(id: SessionId) -> Result<(), Refusal> {
    opened(send_interrupt(id).await)
}

#[cfg(feature = "ssr")]
mod serve {
    //! The engine's side.

    use opkit_domain::ids::SessionId;
    use opkit_domain::view::{AccountView, HealthView, RepoView};
    use opkit_engine::{NewRepo, SessionQuery};

    use super::{SessionPage, SessionsView};
    use crate::api::Refusal;
    use crate::api::door::open;

    pub(super) async fn repos() -> Result<Vec<RepoView>, Refusal> {
        let (engine, actor) = open()?;
        Ok(engine.repos(actor.scope).await?)
    }

    pub(super) async fn add_repo(new: NewRepo) -> Result<RepoView, Refusal> {
        let (engine, actor) = open()?;
        Ok(engine.add_repo(&actor, new).await?)
    }

    pub(super) async fn add_sample() -> Result<RepoView, Refusal> {
        let (engine, actor) = open()?;
        Ok(engine.add_sample_repo(&actor).await?)
    }

    pub(super) async fn sessions() -> Result<SessionsView, Refusal> {
        let (engine, actor) = open()?;
        let query = SessionQuery { limit: 100, ..SessionQuery::default() };
        let sessions = engine.sessions(actor.scope, &query).await?;
        let (_, now) = engine.feed_position(actor.scope).await?;
        Ok(SessionsView { sessions, now })
    }

    pub(super) async fn session(id: SessionId) -> Result<SessionPage, Refusal> {
        let (engine, actor) = open()?;
        let session = engine.session(actor.scope, &id).await?;
        let (_, now) = engine.feed_position(actor.scope).await?;
        Ok(SessionPage { session, now })
    }

    pub(super) async fn stop_session(id: SessionId) -> Result<(), Refusal> {
        let (engine, actor) = open()?;
        Ok(engine.stop_session(&actor, &id).await?)
    }

    pub(super) async fn accounts() -> Result<Vec<AccountView>, Refusal> {
        let (engine, _) = open()?;
        Ok(engine.accounts().await?)
    }

    pub(super) async fn health() -> Result<HealthView, Refusal> {
        let (engine, actor) = open()?;
        Ok(engine.health(actor.scope).await?)
    }
}
