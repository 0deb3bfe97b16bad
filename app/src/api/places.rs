//! Repositories, sessions, accounts and health.

use leptos::prelude::*;
use leptos::server_fn::codec::Json;
use opkit_domain::ids::SessionId;
use opkit_domain::objective::Integration;
use opkit_domain::view::{PoolView, RepoView, SessionView};
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

/// What the form of a new objective offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewPage {
    /// Repositories.
    pub repos: Vec<RepoView>,
    /// Why Claude Code cannot be chosen, if so.
    pub claude_lacks: Option<String>,
}

/// The pool of accounts, and whether who asks may change it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AccountsPage {
    /// The pool.
    pub pool: PoolView,
    /// The role is admin or more.
    pub may_change: bool,
}

/// Repositories: a list of `RepoView`.
#[server(input = Json, output = Told)]
pub async fn read_repos() -> Result<Answer, ServerFnError> {
    super::door::told(serve::repos().await)
}

/// What a new objective can be made of: a [`NewPage`].
#[server(input = Json, output = Told)]
pub async fn read_new() -> Result<Answer, ServerFnError> {
    super::door::told(serve::new_page().await)
}

/// Registers a repository.
#[server(input = Json, output = Told)]
pub async fn send_repo(
    source: String,
    name: Option<String>,
    base: Option<String>,
    setup: Option<String>,
    verify: Option<String>,
    integrate: Option<Integration>,
) -> Result<Answer, ServerFnError> {
    let new = opkit_engine::NewRepo { source, name, base, setup, verify, integrate };
    super::door::told(serve::add_repo(new).await)
}

/// Changes a repository: an empty command is none, `pool` a number or empty.
#[server(input = Json, output = Told)]
pub async fn send_repo_change(
    name: String,
    setup: String,
    verify: String,
    pool: String,
    integrate: Integration,
) -> Result<Answer, ServerFnError> {
    let edit = opkit_engine::EditRepo {
        setup: Some(setup),
        verify: Some(verify),
        pool: Some(pool),
        integrate: Some(integrate),
    };
    super::door::told(serve::change_repo(&name, edit).await)
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

/// The pool: an [`AccountsPage`].
#[server(input = Json, output = Told)]
pub async fn read_accounts() -> Result<Answer, ServerFnError> {
    super::door::told(serve::accounts().await)
}

/// Puts an account into the pool or takes it out.
#[server(input = Json, output = Told)]
pub async fn send_account(name: String, enabled: bool) -> Result<Answer, ServerFnError> {
    super::door::told(serve::set_account(name, enabled).await)
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
    setup: Option<String>,
    verify: Option<String>,
    integrate: Option<Integration>,
) -> Result<RepoView, Refusal> {
    opened(send_repo(source, name, base, setup, verify, integrate).await)
}

/// Changes a repository.
pub async fn change_repo(
    name: String,
    setup: String,
    verify: String,
    pool: String,
    integrate: Integration,
) -> Result<RepoView, Refusal> {
    opened(send_repo_change(name, setup, verify, pool, integrate).await)
}

/// Registers the sample repository.
pub async fn add_sample() -> Result<RepoView, Refusal> {
    opened(send_sample().await)
}

/// Puts an account into the pool or takes it out.
pub async fn set_account(name: String, enabled: bool) -> Result<(), Refusal> {
    opened(send_account(name, enabled).await)
}

/// Stops one session.
pub async fn stop_session(id: SessionId) -> Result<(), Refusal> {
    opened(send_interrupt(id).await)
}

#[cfg(feature = "ssr")]
mod serve {
    //! The engine's side.

    use opkit_domain::access::Access;
    use opkit_domain::ids::SessionId;
    use opkit_domain::view::{HealthView, RepoView};
    use opkit_engine::{EditRepo, NewRepo, SessionQuery};

    use super::{AccountsPage, NewPage, SessionPage, SessionsView};
    use crate::api::Refusal;
    use crate::api::door::open;

    pub(super) async fn repos() -> Result<Vec<RepoView>, Refusal> {
        let (engine, actor) = open()?;
        Ok(engine.repos(actor.scope).await?)
    }

    pub(super) async fn new_page() -> Result<NewPage, Refusal> {
        let (engine, actor) = open()?;
        let repos = engine.repos(actor.scope).await?;
        Ok(NewPage { repos, claude_lacks: engine.agent_lacks("claude").await? })
    }

    pub(super) async fn add_repo(new: NewRepo) -> Result<RepoView, Refusal> {
        let (engine, actor) = open()?;
        Ok(engine.add_repo(&actor, new).await?)
    }

    pub(super) async fn change_repo(name: &str, edit: EditRepo) -> Result<RepoView, Refusal> {
        let (engine, actor) = open()?;
        Ok(engine.edit_repo(&actor, name, edit).await?)
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

    pub(super) async fn accounts() -> Result<AccountsPage, Refusal> {
        let (engine, actor) = open()?;
        let pool = engine.account_pool(actor.scope).await?;
        Ok(AccountsPage { pool, may_change: actor.access >= Access::Admin })
    }

    pub(super) async fn set_account(name: String, enabled: bool) -> Result<(), Refusal> {
        let (engine, actor) = open()?;
        match enabled {
            true => engine.enable_account(&actor, &name).await?,
            false => engine.disable_account(&actor, &name).await?,
        }
        Ok(())
    }

    pub(super) async fn health() -> Result<HealthView, Refusal> {
        let (engine, actor) = open()?;
        Ok(engine.health(actor.scope).await?)
    }
}
