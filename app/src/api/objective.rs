//! What the objective's pages read and do.

use leptos::prelude::*;
use leptos::server_fn::codec::Json;
use opkit_domain::ids::{ObjectiveId, SessionId};
use opkit_domain::objective::Integration;
use opkit_domain::view::{DiffView, EditObjective, NewObjective, ObjectiveView};
use serde::{Deserialize, Serialize};

/// An objective's page: its texts are HTML made from Markdown on the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObjectivePage {
    /// The facts; brief, artifact and notes are taken out.
    pub view: ObjectiveView,
    /// The brief, cleaned HTML.
    pub brief_html: String,
    /// ARTIFACT.md, cleaned HTML.
    pub artifact_html: Option<String>,
    /// NOTES.md, cleaned HTML.
    pub notes_html: Option<String>,
}

/// What a person decides about an objective.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Act {
    /// Accept it.
    Approve {
        /// Where the branch goes; none = the repository's default.
        integrate: Option<Integration>,
        /// Why, when the reviewer did not pass it.
        reason: Option<String>,
    },
    /// Send it back.
    Reject {
        /// What is wrong.
        findings: String,
    },
    /// Answer what blocks it.
    Answer {
        /// The answer.
        text: String,
    },
    /// Start again what was stopped or lost.
    Resume,
    /// Another review.
    FreshReview,
    /// Done was wrong.
    Reopen {
        /// Why.
        reason: String,
    },
    /// End it.
    Cancel,
    /// Bring it back.
    Restore,
    /// Criteria are given: into the queue.
    SkipPlanning,
    /// First in the queue.
    StartNext,
    /// Hold it, or release it.
    Hold(bool),
    /// Take the branch.
    Integrate(Integration),
    /// Tell the agent something.
    Message {
        /// The text.
        text: String,
    },
}

/// The page.
#[server(input = Json)]
pub async fn objective(id: ObjectiveId) -> Result<ObjectivePage, ServerFnError> {
    let (engine, actor) = super::door::open()?;
    let mut view = super::door::told(engine.objective(actor.scope, id).await)?;
    let brief_html = crate::markdown::html(&std::mem::take(&mut view.brief));
    let artifact_html = view.artifact.take().map(|text| crate::markdown::html(&text));
    let notes_html = view.notes.take().map(|text| crate::markdown::html(&text));
    Ok(ObjectivePage { view, brief_html, artifact_html, notes_html })
}

/// The objective as it is written, for the editor.
#[server(input = Json)]
pub async fn objective_source(id: ObjectiveId) -> Result<ObjectiveView, ServerFnError> {
    let (engine, actor) = super::door::open()?;
    let mut view = super::door::told(engine.objective(actor.scope, id).await)?;
    view.artifact = None;
    view.notes = None;
    view.reviews.clear();
    view.sessions.clear();
    view.events.clear();
    Ok(view)
}

/// The diff, bounded.
#[server(input = Json)]
pub async fn diff(id: ObjectiveId) -> Result<DiffView, ServerFnError> {
    let (engine, actor) = super::door::open()?;
    super::door::told(engine.diff(actor.scope, id).await)
}

/// The context document of a session.
#[server(input = Json)]
pub async fn context_text(session: SessionId) -> Result<String, ServerFnError> {
    let (engine, actor) = super::door::open()?;
    super::door::told(engine.context(actor.scope, &session).await)
}

/// Does what a person decided and says what happened.
#[server(input = Json)]
pub async fn decide(id: ObjectiveId, act: Act) -> Result<String, ServerFnError> {
    use super::door::told;
    use opkit_domain::objective::Status;
    let (engine, actor) = super::door::open()?;
    let card = match act {
        Act::Approve { integrate, reason } => told(engine.approve(&actor, id, integrate, reason).await)?,
        Act::Reject { findings } => told(engine.reject(&actor, id, findings).await)?,
        Act::Answer { text } => told(engine.answer(&actor, id, text).await)?,
        Act::Resume => told(engine.resume(&actor, id).await)?,
        Act::FreshReview => told(engine.fresh_review(&actor, id).await)?,
        Act::Reopen { reason } => told(engine.reopen(&actor, id, reason).await)?,
        Act::Cancel => told(engine.cancel(&actor, id).await)?,
        Act::Restore => told(engine.restore(&actor, id).await)?,
        Act::SkipPlanning => return Ok(told(engine.move_to(&actor, id, Status::Queue, None).await)?.message),
        Act::StartNext => return Ok(told(engine.move_to(&actor, id, Status::Working, None).await)?.message),
        Act::Hold(hold) => {
            let change = EditObjective { hold: Some(hold), ..EditObjective::default() };
            told(engine.edit(&actor, id, change).await)?;
            return Ok(if hold {
                format!("#{id} is on hold.")
            } else {
                format!("#{id} is no longer on hold.")
            });
        }
        Act::Integrate(how) => return told(engine.integrate(&actor, id, how).await),
        Act::Message { text } => {
            told(engine.message(&actor, id, text).await)?;
            return Ok("Sent. The agent reads it at its next turn.".into());
        }
    };
    Ok(format!("#{id} is in {} now.", card.status.label()))
}

/// Creates an objective and gives its number.
#[server(input = Json)]
pub async fn create_objective(new: NewObjective, key: Option<String>) -> Result<ObjectiveId, ServerFnError> {
    let (engine, actor) = super::door::open()?;
    Ok(super::door::told(engine.create(&actor, new, key.as_deref()).await)?.id)
}

/// Changes an objective.
#[server(input = Json)]
pub async fn save_objective(id: ObjectiveId, edit: EditObjective) -> Result<(), ServerFnError> {
    let (engine, actor) = super::door::open()?;
    super::door::told(engine.edit(&actor, id, edit).await)?;
    Ok(())
}
