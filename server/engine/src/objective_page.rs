//! Everything the page of one objective shows.

use opkit_domain::access::Scope;
use opkit_domain::ids::{ObjectiveId, SessionId};
use opkit_domain::session::files;
use opkit_domain::view::{EventView, ObjectiveView};

use crate::engine::{Engine, ListQuery, SessionQuery};
use crate::error::{Error, Result};

impl Engine {
    /// One objective with its reviews, sessions, events, messages and memory.
    pub async fn objective(&self, scope: Scope, id: ObjectiveId) -> Result<ObjectiveView> {
        let objective = self.store().objective(scope, id).await?;
        let card = self.card(scope, id).await?;
        let (artifact, notes) = self.store().memory(scope, id).await?;
        let repo = self.repo_row(scope, objective.repo).await?;
        let query = SessionQuery { objective: Some(id), limit: 100, ..SessionQuery::default() };
        let children = ListQuery { parent: Some(id), limit: 200, ..ListQuery::default() };
        Ok(ObjectiveView {
            branch: objective.branch(),
            goal: objective.goal,
            brief: objective.brief,
            criteria: objective.criteria,
            base: objective.base,
            base_commit: objective.base_commit,
            head_commit: objective.head_commit,
            script: objective.script,
            findings: objective.findings,
            reviews: self.store().reviews(scope, id).await?,
            sessions: self.sessions(scope, &query).await?,
            events: self.store().last_events(scope, id, 200).await?,
            messages: self.store().messages(scope, id).await?,
            artifact,
            notes,
            integrate: repo.integrate(),
            integrated: objective.integrated,
            created_at: objective.created_at,
            creator: objective.creator,
            children: self.list(scope, &children).await?,
            now: crate::clock::now_ms(),
            card,
        })
    }

    /// Events of one objective, ascending.
    pub async fn events(
        &self,
        scope: Scope,
        id: ObjectiveId,
        after: i64,
        limit: u32,
    ) -> Result<Vec<EventView>> {
        self.store().card(scope, id).await?;
        self.store().events(scope, id, after, limit).await
    }

    /// The context document that a session got.
    pub async fn context(&self, scope: Scope, id: &SessionId) -> Result<String> {
        self.store().session(scope, id).await?;
        std::fs::read_to_string(self.dirs().session(id).join(files::CONTEXT))
            .map_err(|_| Error::NotFound("The session has no context document: it never ran.".into()))
    }
}
