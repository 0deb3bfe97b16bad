//! What a session may call: its token stands for itself and nothing else.

use opkit_domain::objective::long_text;
use opkit_domain::session::Role;

use crate::engine::{Engine, SessionCall};
use crate::error::{Error, Result};
use crate::session_manager::token_hash;
use crate::store::events::{NewEvent, append};

impl Engine {
    /// Answers a call of a live session.
    pub async fn session_call(&self, token: &str, call: SessionCall) -> Result<serde_json::Value> {
        let row = self
            .store()
            .session_by_token(&token_hash(token))
            .await?
            .filter(|row| row.role != Role::Review)
            .ok_or_else(|| Error::Forbidden("This token belongs to no live session.".into()))?;
        let objective = self.store().objective(row.scope, row.objective).await?;
        let actor = format!("session {}", row.id.short());
        let (kind, reason) = match call {
            SessionCall::Objective => {
                return Ok(serde_json::json!({
                    "id": objective.id, "title": objective.title, "goal": objective.goal, "brief": objective.brief,
                    "type": objective.facts.kind, "status": objective.facts.status, "branch": objective.branch(),
                    "criteria": objective.criteria,
                }));
            }
            SessionCall::Siblings => {
                return Ok(serde_json::to_value(self.store().siblings(row.scope, row.objective).await?)?);
            }
            SessionCall::Progress { text } => ("progress", one_line("progress", &text)?),
            SessionCall::Blocked { reason } => {
                let reason = long_text("reason", reason.trim())?;
                if reason.is_empty() || reason.len() > 4_000 {
                    return Err(Error::BadInput("Say what you lack, in up to 4,000 bytes.".into()));
                }
                self.store().set_blocked(&row.id, &reason).await?;
                ("blocked", reason)
            }
            SessionCall::Done => ("done", String::new()),
        };
        let mut tx = self.store().begin().await?;
        let event = NewEvent {
            objective: row.objective,
            kind,
            from: None,
            to: None,
            trigger: kind,
            actor: &actor,
            reason: &reason,
            session: Some(&row.id),
        };
        append(&mut tx, row.scope, event).await?;
        tx.commit().await?;
        self.feed_wake().notify_one();
        Ok(serde_json::json!({ "taken": true }))
    }
}

fn one_line(what: &str, text: &str) -> Result<String> {
    let text = long_text(what, text.trim())?;
    let line: String = text.lines().next().unwrap_or_default().chars().take(300).collect();
    if line.is_empty() { Err(Error::BadInput(format!("The {what} is empty."))) } else { Ok(line) }
}
