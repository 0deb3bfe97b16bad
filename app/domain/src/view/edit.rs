//! What people send to create or change an objective.

use serde::{Deserialize, Serialize};

use crate::ids::ObjectiveId;
use crate::objective::{Criterion, Gate, Kind};

/// Creates or edits an objective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewObjective {
    /// One line.
    pub title: String,
    /// Repository name.
    pub repo: String,
    /// Type.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Markdown.
    #[serde(default)]
    pub brief: String,
    /// One line.
    #[serde(default)]
    pub goal: String,
    /// Criteria.
    #[serde(default)]
    pub criteria: Vec<Criterion>,
    /// Base branch; none = the repository's.
    #[serde(default)]
    pub base: Option<String>,
    /// 0 to 4.
    #[serde(default)]
    pub priority: u8,
    /// Agent; none = demo.
    #[serde(default)]
    pub agent: Option<String>,
    /// Demo script.
    #[serde(default)]
    pub script: Option<String>,
    /// More review than the type asks for.
    #[serde(default)]
    pub review: Option<Gate>,
    /// Parent.
    #[serde(default)]
    pub parent: Option<ObjectiveId>,
    /// Objectives that must be done first.
    #[serde(default)]
    pub blocked_by: Vec<ObjectiveId>,
    /// Labels.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Do not start yet.
    #[serde(default)]
    pub hold: bool,
    /// Failed rounds before a person is asked.
    #[serde(default)]
    pub max_review_rounds: Option<u32>,
}

/// Changes to an objective; absent = unchanged. Status is not here: moves have their own door.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditObjective {
    /// The version the editor saw; another one is refused.
    #[serde(default)]
    pub version: Option<i64>,
    /// Title.
    #[serde(default)]
    pub title: Option<String>,
    /// Goal.
    #[serde(default)]
    pub goal: Option<String>,
    /// Brief.
    #[serde(default)]
    pub brief: Option<String>,
    /// Criteria; refused once locked.
    #[serde(default)]
    pub criteria: Option<Vec<Criterion>>,
    /// Priority.
    #[serde(default)]
    pub priority: Option<u8>,
    /// Hold.
    #[serde(default)]
    pub hold: Option<bool>,
    /// Type; only raised.
    #[serde(default, rename = "type")]
    pub kind: Option<Kind>,
    /// Review override; only raised.
    #[serde(default)]
    pub review: Option<Gate>,
    /// Labels.
    #[serde(default)]
    pub labels: Option<Vec<String>>,
    /// Agent.
    #[serde(default)]
    pub agent: Option<String>,
    /// Demo script.
    #[serde(default)]
    pub script: Option<String>,
    /// Objectives that must be done first; the whole list anew.
    #[serde(default)]
    pub blocked_by: Option<Vec<ObjectiveId>>,
    /// Failed rounds before a person is asked.
    #[serde(default)]
    pub max_review_rounds: Option<u32>,
}
