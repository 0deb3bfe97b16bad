//! The board feed: typed messages with sequence numbers, joined to the page by event number.

use serde::{Deserialize, Serialize};

use crate::ids::ObjectiveId;
use crate::view::{CardView, WipView};

/// From the server to the board, JSON text frames.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum Feed {
    /// First frame: the number the feed joins at and the server's build id.
    Hello {
        /// Everything after this number follows.
        seq: i64,
        /// A page of another build reloads.
        build: String,
    },
    /// A card as it is now. Older versions are ignored.
    Card {
        /// Event number.
        seq: i64,
        /// The card.
        card: Box<CardView>,
    },
    /// Slots, counts and the kill switch; without number because the newest wins.
    Wip {
        /// The figures.
        wip: WipView,
    },
    /// The live line of a running session; not an event, the newest wins.
    Activity {
        /// The objective.
        id: ObjectiveId,
        /// The line.
        line: String,
        /// Cost so far, millionths of a dollar.
        cost_usd_micros: i64,
    },
    /// Events are missing (older than kept): read the page's data again.
    Resync,
}
