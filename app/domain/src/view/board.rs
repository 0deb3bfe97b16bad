//! The board: cards, lanes, slots and the filter.

use serde::{Deserialize, Serialize};

use super::RepoView;
use crate::ids::{ObjectiveId, SessionId};
use crate::objective::{Attention, Counters, Gate, Kind, Status, SubState};
use crate::session::Role;

/// One failed or passed round, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoundMark {
    /// Failed: square.
    Failed,
    /// Passed: round.
    Passed,
    /// Being reviewed.
    Now,
}

/// A card of the board. It never carries a brief.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CardView {
    /// The objective.
    pub id: ObjectiveId,
    /// Rises with every change of the row; an older card never replaces a newer one.
    pub version: i64,
    /// One line of plain text.
    pub title: String,
    /// Type.
    pub kind: Kind,
    /// Lane.
    pub status: Status,
    /// What it waits for.
    pub sub_state: Option<SubState>,
    /// Why it needs a person.
    pub attention: Option<Attention>,
    /// A few words behind the attention label.
    pub attention_note: String,
    /// 0 (none) to 4 (highest).
    pub priority: u8,
    /// Order in the lane, ascending.
    pub position: i64,
    /// Kept from starting.
    pub hold: bool,
    /// Repository name.
    pub repo: String,
    /// Labels.
    pub labels: Vec<String>,
    /// Agent name.
    pub agent: String,
    /// Account of the live session.
    pub account: Option<String>,
    /// The live session.
    pub session: Option<SessionId>,
    /// Its role.
    pub role: Option<Role>,
    /// Its live line.
    pub activity: String,
    /// The last call that the running session's guard denied: path and rule; empty without one.
    pub denial: String,
    /// Number of criteria.
    pub criteria: u32,
    /// Criteria met in the last review.
    pub criteria_met: u32,
    /// Criteria not met in the last review.
    pub criteria_failed: u32,
    /// Review rounds.
    pub rounds: Vec<RoundMark>,
    /// Cost so far, millionths of a dollar.
    pub cost_usd_micros: i64,
    /// When it came to its status, ms since 1970.
    pub since: i64,
    /// Parent.
    pub parent: Option<ObjectiveId>,
    /// Children: total and done.
    pub children: (u32, u32),
    /// Objectives that must be done first and are not.
    pub waits_for: Vec<ObjectiveId>,
    /// Criteria are locked.
    pub locked: bool,
    /// A commit was delivered.
    pub delivered: bool,
    /// The review that applies.
    pub gate: Gate,
    /// The last verdict was a pass.
    pub passed: bool,
    /// Where a *cancelled* or *human_review* card came from.
    pub came_from: Option<Status>,
    /// Counters, for the rules.
    pub counters: Counters,
    /// Failed rounds before a person is asked.
    pub max_rounds: u32,
    /// A delegator.
    pub delegate: bool,
}

impl CardView {
    /// What the rules need to know, so that the page can say before a drop what it would do.
    pub fn facts(&self) -> crate::objective::Facts {
        crate::objective::Facts {
            kind: self.kind,
            gate: self.gate,
            status: self.status,
            sub_state: self.sub_state,
            attention: self.attention,
            hold: self.hold,
            criteria: self.criteria,
            locked: self.locked,
            delegate: self.delegate,
            delivered: self.delivered,
            live: self.session.is_some(),
            passed: self.passed,
            came_from: self.came_from,
            counters: self.counters,
            max_rounds: self.max_rounds,
        }
    }
}

/// A lane: the first cards and how many there are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LaneView {
    /// The status.
    pub status: Status,
    /// Cards in the lane under the filter.
    pub total: u32,
    /// The first of them, in order (done and cancelled: newest first).
    pub cards: Vec<CardView>,
}

/// Slots in use.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WipView {
    /// The cap in force (the setting, or less when accounts allow less).
    pub cap: u32,
    /// Slots kept for reviews.
    pub reserve: u32,
    /// Live work and delegate sessions.
    pub work: u32,
    /// Live plan sessions.
    pub plan: u32,
    /// Live review sessions.
    pub review: u32,
    /// When the oldest of the queue came there.
    pub oldest_in_queue: Option<i64>,
    /// Objectives that wait for a reviewer.
    pub review_depth: u32,
    /// Objectives in human_review.
    pub needs_you: u32,
    /// Why nothing new starts, if so (kill switch, no account, disk).
    pub stopped: Option<String>,
    /// The kill switch is set: only the machine itself enables again. Other reasons end by themselves.
    #[serde(default)]
    pub disabled: bool,
    /// No account is free, and this is when the first comes back by itself, ms since 1970.
    pub accounts_until: Option<i64>,
}

/// The board as of one event number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoardView {
    /// The event number the page was read at; the socket opens with `after=` this.
    pub seq: i64,
    /// Seven lanes in order.
    pub lanes: Vec<LaneView>,
    /// Slots.
    pub wip: WipView,
    /// Repositories, for the filter and the empty state.
    pub repos: Vec<RepoView>,
    /// Server time, ms since 1970: ages are computed against it until the page has its own clock.
    pub now: i64,
}

/// Filter of the board, as it stands in the URL.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BoardFilter {
    /// Repository name.
    #[serde(default)]
    pub repo: Option<String>,
    /// Words in the title, or `#42`.
    #[serde(default)]
    pub text: Option<String>,
}
