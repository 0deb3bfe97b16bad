//! What the objective's pages read and do.

use leptos::prelude::*;
use leptos::server_fn::codec::Json;
use opkit_domain::ids::{ObjectiveId, SessionId};
use opkit_domain::objective::Integration;
use opkit_domain::view::{EditObjective, NewObjective, ObjectiveView};
use serde::{Deserialize, Serialize};

use super::answer::opened;
use super::{Answer, Refusal, Told};

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
    /// Tell the next session something.
    Message {
        /// The text.
        text: String,
    },
}

/// The page: an [`ObjectivePage`].
#[server(input = Json, output = Told)]
pub async fn read_objective(id: ObjectiveId) -> Result<Answer, ServerFnError> {
    super::door::told(serve::page(id).await)
}

/// The objective as it is written, for the editor: an `ObjectiveView`.
#[server(input = Json, output = Told)]
pub async fn read_source(id: ObjectiveId) -> Result<Answer, ServerFnError> {
    super::door::told(serve::source(id).await)
}

/// The diff, bounded, as HTML.
#[server(input = Json, output = Told)]
pub async fn read_diff(id: ObjectiveId) -> Result<Answer, ServerFnError> {
    super::door::told(serve::diff(id).await)
}

/// The context document of a session, as text.
#[server(input = Json, output = Told)]
pub async fn read_context(session: SessionId) -> Result<Answer, ServerFnError> {
    super::door::told(serve::context(session).await)
}

/// What was kept of the worktree when sessions ended: a list of `KeptView`.
#[server(input = Json, output = Told)]
pub async fn read_kept(id: ObjectiveId) -> Result<Answer, ServerFnError> {
    super::door::told(serve::kept(id).await)
}

/// Gives the next session what was kept, and says what happens.
#[server(input = Json, output = Told)]
pub async fn send_restore_files(id: ObjectiveId, kept: i64) -> Result<Answer, ServerFnError> {
    super::door::told(serve::restore_files(id, kept).await)
}

/// Does what a person decided and says what happened.
#[server(input = Json, output = Told)]
pub async fn send_act(id: ObjectiveId, act: Act) -> Result<Answer, ServerFnError> {
    super::door::told(serve::act(id, act).await)
}

/// Creates an objective and gives its number.
#[server(input = Json, output = Told)]
pub async fn send_new(new: NewObjective, key: Option<String>) -> Result<Answer, ServerFnError> {
    super::door::told(serve::create(new, key).await)
}

/// Changes an objective.
#[server(input = Json, output = Told)]
pub async fn send_edit(id: ObjectiveId, edit: EditObjective) -> Result<Answer, ServerFnError> {
    super::door::told(serve::edit(id, edit).await)
}

/// The page.
pub async fn objective(id: ObjectiveId) -> Result<ObjectivePage, Refusal> {
    opened(read_objective(id).await)
}

/// The objective as it is written.
pub async fn objective_source(id: ObjectiveId) -> Result<ObjectiveView, Refusal> {
    opened(read_source(id).await)
}

/// Does what a person decided and says what happened.
pub async fn decide(id: ObjectiveId, act: Act) -> Result<String, Refusal> {
    opened(send_act(id, act).await)
}

/// Gives the next session what was kept, and says what happens.
pub async fn restore_files(id: ObjectiveId, kept: i64) -> Result<String, Refusal> {
    opened(send_restore_files(id, kept).await)
}

/// Creates an objective and gives its number.
pub async fn create_objective(new: NewObjective, key: Option<String>) -> Result<ObjectiveId, Refusal> {
    opened(send_new(new, key).await)
}

/// Changes an objective.
pub async fn save_objective(id: ObjectiveId, edit: EditObjective) -> Result<(), Refusal> {
    opened(send_edit(id, edit).await)
}

#[cfg(feature = "ssr")]
mod serve {
    //! The engine's side.

    use opkit_domain::ids::{ObjectiveId, SessionId};
    use opkit_domain::objective::Status;
    use opkit_domain::view::{EditObjective, KeptView, NewObjective, ObjectiveView};

    use super::{Act, ObjectivePage};
    use crate::api::Refusal;
    use crate::api::door::open;
    use crate::markdown;

    pub(super) async fn page(id: ObjectiveId) -> Result<ObjectivePage, Refusal> {
        let (engine, actor) = open()?;
        let mut view = engine.objective(actor.scope, id).await?;
        let brief_html = markdown::html(&std::mem::take(&mut view.brief));
        let artifact_html = view.artifact.take().map(|text| markdown::html(&text));
        let notes_html = view.notes.take().map(|text| markdown::html(&text));
        Ok(ObjectivePage { view, brief_html, artifact_html, notes_html })
    }

    pub(super) async fn source(id: ObjectiveId) -> Result<ObjectiveView, Refusal> {
        let (engine, actor) = open()?;
        let mut view = engine.objective(actor.scope, id).await?;
        view.artifact = None;
        view.notes = None;
        view.reviews.clear();
        view.sessions.clear();
        view.events.clear();
        Ok(view)
    }

    pub(super) async fn diff(id: ObjectiveId) -> Result<String, Refusal> {
        let (engine, actor) = open()?;
        Ok(crate::diff_html::html(&engine.diff(actor.scope, id).await?))
    }

    pub(super) async fn context(session: SessionId) -> Result<String, Refusal> {
        let (engine, actor) = open()?;
        Ok(engine.context(actor.scope, &session).await?)
    }

    pub(super) async fn kept(id: ObjectiveId) -> Result<Vec<KeptView>, Refusal> {
        let (engine, actor) = open()?;
        Ok(engine.rescues(actor.scope, id).await?)
    }

    pub(super) async fn restore_files(id: ObjectiveId, kept: i64) -> Result<String, Refusal> {
        let (engine, actor) = open()?;
        Ok(engine.restore_rescue(&actor, id, kept).await?)
    }

    pub(super) async fn act(id: ObjectiveId, act: Act) -> Result<String, Refusal> {
        let (engine, actor) = open()?;
        let card = match act {
            Act::Approve { integrate, reason } => engine.approve(&actor, id, integrate, reason).await?,
            Act::Reject { findings } => engine.reject(&actor, id, findings).await?,
            Act::Answer { text } => engine.answer(&actor, id, text).await?,
            Act::Resume => engine.resume(&actor, id).await?,
            Act::FreshReview => engine.fresh_review(&actor, id).await?,
            Act::Reopen { reason } => engine.reopen(&actor, id, reason).await?,
            Act::Cancel => engine.cancel(&actor, id).await?,
            Act::Restore => engine.restore(&actor, id).await?,
            Act::SkipPlanning => return Ok(engine.move_to(&actor, id, Status::Queue, None).await?.message),
            Act::StartNext => return Ok(engine.move_to(&actor, id, Status::Working, None).await?.message),
            Act::Hold(hold) => {
                let change = EditObjective { hold: Some(hold), ..EditObjective::default() };
                engine.edit(&actor, id, change).await?;
                let how = if hold { "on hold" } else { "no longer on hold" };
                return Ok(format!("#{id} is {how}."));
            }
            Act::Integrate(how) => return Ok(engine.integrate(&actor, id, how).await?),
            Act::Message { text } => {
                engine.message(&actor, id, text).await?;
                return Ok("Sent. The objective's next session reads it.".into());
            }
        };
        Ok(format!("#{id} is in {} now.", card.status.label()))
    }

    pub(super) async fn create(new: NewObjective, key: Option<String>) -> Result<ObjectiveId, Refusal> {
        let (engine, actor) = open()?;
        Ok(engine.create(&actor, new, key.as_deref()).await?.id)
    }

    pub(super) async fn edit(id: ObjectiveId, edit: EditObjective) -> Result<(), Refusal> {
        let (engine, actor) = open()?;
        engine.edit(&actor, id, edit).await?;
        Ok(())
    }
}
