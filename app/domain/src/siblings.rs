//! The six fields that siblings see of each other, and nothing else.

use serde::{Deserialize, Serialize};

use crate::ids::ObjectiveId;
use crate::objective::Status;
use crate::verdict::Decision;

/// A sibling as another session sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sibling {
    /// Number.
    pub id: ObjectiveId,
    /// Title.
    pub title: String,
    /// Status.
    pub status: Status,
    /// Last decision of the machine's reviewer.
    pub ai_review_verdict: Option<Decision>,
    /// Final text of the last session.
    pub last_session_summary: String,
    /// ms since 1970.
    pub updated_at: i64,
}
