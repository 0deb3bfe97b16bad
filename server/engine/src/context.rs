//! The context document: assembled for one session, deterministic, stored with it, given on standard input.

use opkit_domain::context_document::{self, Part};
use opkit_domain::session::Role;

use crate::engine::Engine;
use crate::error::Result;
use crate::store::objectives::Objective;
use crate::store::repositories::RepoRow;
use crate::store::sessions::SessionRow;

/// Bytes of a brief that an agent gets to read.
const BRIEF: usize = 200_000;
/// Bytes of it that are repeated for programs.
const BRIEF_IN_BLOCK: usize = 20_000;
/// Bytes of messages in one document; the first is always whole.
const MESSAGES: usize = 32_000;

/// A document and the last message that it carries.
pub(crate) struct Context {
    pub(crate) text: String,
    /// Number of the newest message in it, 0 for none.
    pub(crate) last_message: i64,
}

impl Engine {
    pub(crate) async fn context_document(
        &self,
        row: &SessionRow,
        objective: &Objective,
        repo: &RepoRow,
    ) -> Result<Context> {
        let review = row.role == Role::Review;
        let mut parts = Vec::new();
        if !review && !objective.findings.is_empty() {
            let list: String = objective.findings.iter().map(|line| format!("- {line}\n")).collect();
            parts.push(Part::new("Findings of the last round", 16_000, list));
        }
        for (title, file) in [("House", "house.md"), ("Workspace", "workspace.md")] {
            if let Ok(text) = std::fs::read_to_string(self.dirs().root.join("context").join(file)) {
                parts.push(Part::new(title, 8_000, text));
            }
        }
        let protocol = if review { context_document::REVIEWER } else { context_document::WORKER };
        parts.push(Part::new("Your role", 8_000, protocol.to_owned()));
        // Only the brief is ever cut: criteria and the block below them are what everything is judged by.
        parts.push(Part::new("Objective", usize::MAX, self.objective_part(row, objective, repo)?));
        let mut last_message = 0;
        if !review {
            let mut text = String::new();
            for (number, actor, message) in self.store().open_messages(objective.id).await? {
                // Whole or not at all: what does not fit now counts as unread, and the session after this one gets it.
                if !text.is_empty() && text.len() + message.len() > MESSAGES {
                    break;
                }
                text.push_str(&format!("From {actor}:\n\n{message}\n\n"));
                last_message = number;
            }
            if !text.is_empty() {
                parts.push(Part::new("Messages", usize::MAX, text));
            }
            if !objective.last_session_summary.is_empty() {
                parts.push(Part::new(
                    "Last session's summary",
                    4_000,
                    objective.last_session_summary.clone(),
                ));
            }
            let notes = self.notes_of(objective);
            if !notes.is_empty() {
                let tail: String =
                    notes.chars().rev().take(4_000).collect::<Vec<_>>().into_iter().rev().collect();
                parts.push(Part::new("Your notes (end of NOTES.md)", 5_000, tail));
            }
            let siblings = match objective.parent {
                Some(_) => self.store().siblings(row.scope, objective.id).await?,
                None => vec![],
            };
            if !siblings.is_empty() {
                let list: String =
                    siblings.iter().map(|s| format!("- #{} {} ({})\n", s.id, s.title, s.status)).collect();
                parts.push(Part::new("Siblings", 4_000, list));
            }
        }
        Ok(Context { text: context_document::assemble(&parts), last_message })
    }

    fn objective_part(&self, row: &SessionRow, objective: &Objective, repo: &RepoRow) -> Result<String> {
        let review = row.role == Role::Review;
        let mut json = serde_json::json!({
            "objective": objective.id,
            "title": objective.title,
            "brief": context_document::cut(&objective.brief, BRIEF_IN_BLOCK),
            "type": objective.facts.kind,
            "branch": objective.branch(),
            "criteria": objective.criteria.iter().enumerate().map(|(index, criterion)| serde_json::json!({
                "index": index, "text": criterion.text, "check": criterion.check,
            })).collect::<Vec<_>>(),
            "findings": if review { &[][..] } else { &objective.findings[..] },
            "base": objective.base_commit,
            "round": row.round,
            "session": row.id,
        });
        if review {
            json["base"] = serde_json::Value::Null;
            json["nonce"] = row.nonce.clone().into();
            json["commit"] = row.commit.clone().into();
        }
        let mut text = format!("#{} {}\n\n", objective.id, objective.title);
        if !objective.goal.is_empty() {
            text.push_str(&format!("Goal: {}\n\n", objective.goal));
        }
        text.push_str(&format!(
            "Repository {}, base branch {}, branch {}.\n\n",
            repo.name,
            objective.base,
            objective.branch()
        ));
        text.push_str("### Brief\n\n");
        text.push_str(&context_document::quoted(&context_document::cut(&objective.brief, BRIEF)));
        text.push_str("\n### Acceptance criteria (locked)\n\n");
        for (at, criterion) in objective.criteria.iter().enumerate() {
            text.push_str(&format!("{}. {}\n", at + 1, criterion.text.replace('\n', "\n   ")));
            if let Some(check) = &criterion.check {
                text.push_str(&format!("   check: `{check}`\n"));
            }
        }
        text.push_str("\n```json opkit\n");
        // Escaped so that no text of a brief can end the block.
        text.push_str(&serde_json::to_string(&json)?.replace('`', "\\u0060"));
        text.push_str("\n```\n");
        Ok(text)
    }

    fn notes_of(&self, objective: &Objective) -> String {
        crate::memory::read_text(&self.dirs().memory(objective.id), "NOTES.md").unwrap_or_default()
    }
}
