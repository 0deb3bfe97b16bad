//! What the board, the frame around every page and the list of decisions read and do.

use leptos::prelude::*;
use leptos::server_fn::codec::Json;
use opkit_domain::ids::ObjectiveId;
use opkit_domain::objective::Status;
use opkit_domain::view::{BoardFilter, BoardView, CardView, LaneView, WipView};
use serde::{Deserialize, Serialize};

/// Cards of a lane that one answer carries.
pub const WINDOW: u32 = 30;

/// What the frame around every page shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FrameView {
    /// The event number it was read at.
    pub seq: i64,
    /// Slots, what waits for a person, and the kill switch.
    pub wip: WipView,
    /// Who is logged in.
    pub user: String,
    /// viewer, operator, admin, owner.
    pub access: String,
    /// There is a repository.
    pub has_repos: bool,
    /// Server time.
    pub now: i64,
}

/// A move that was taken, with a sentence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MovedView {
    /// The card as it is now.
    pub card: CardView,
    /// What happened.
    pub message: String,
}

/// What waits for a person, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NeedsView {
    /// The cards.
    pub cards: Vec<CardView>,
    /// Server time.
    pub now: i64,
    /// The event number it was read at.
    pub seq: i64,
}

/// The frame's facts.
#[server(input = Json)]
pub async fn frame() -> Result<FrameView, ServerFnError> {
    let (engine, actor) = super::door::open()?;
    // No objective has the number 0: the lanes are empty, number, slots and clock come from one read.
    let nothing = BoardFilter { repo: None, text: Some("#0".into()) };
    let board = super::door::told(engine.board(actor.scope, &nothing).await)?;
    Ok(FrameView {
        seq: board.seq,
        wip: board.wip,
        user: actor.name,
        access: actor.access.to_string(),
        has_repos: !board.repos.is_empty(),
        now: board.now,
    })
}

/// The board under a filter.
#[server(input = Json)]
pub async fn board(filter: BoardFilter) -> Result<BoardView, ServerFnError> {
    let (engine, actor) = super::door::open()?;
    super::door::told(engine.board(actor.scope, &filter).await)
}

/// More cards of a lane.
#[server(input = Json)]
pub async fn lane(status: Status, filter: BoardFilter, offset: u32) -> Result<LaneView, ServerFnError> {
    let (engine, actor) = super::door::open()?;
    super::door::told(engine.lane(actor.scope, status, &filter, offset, WINDOW).await)
}

/// How many cards each lane has under a filter.
#[server(input = Json)]
pub async fn totals(filter: BoardFilter) -> Result<Vec<u32>, ServerFnError> {
    let (engine, actor) = super::door::open()?;
    let mut totals = Vec::with_capacity(Status::ALL.len());
    for status in Status::ALL {
        let lane = super::door::told(engine.lane(actor.scope, *status, &filter, 0, 1).await)?;
        totals.push(lane.total);
    }
    Ok(totals)
}

/// Moves a card to another lane.
#[server(input = Json)]
pub async fn move_card(
    id: ObjectiveId,
    to: Status,
    version: Option<i64>,
) -> Result<MovedView, ServerFnError> {
    let (engine, actor) = super::door::open()?;
    let moved = super::door::told(engine.move_to(&actor, id, to, version).await)?;
    Ok(MovedView { card: moved.card, message: moved.message })
}

/// Puts a card before another one of its lane, or at its end.
#[server(input = Json)]
pub async fn reorder_card(id: ObjectiveId, before: Option<ObjectiveId>) -> Result<CardView, ServerFnError> {
    let (engine, actor) = super::door::open()?;
    super::door::told(engine.reorder(&actor, id, before).await)
}

/// Stops every session and sets the kill switch; gives the number stopped.
#[server(input = Json)]
pub async fn stop_everything() -> Result<u32, ServerFnError> {
    let (engine, actor) = super::door::open()?;
    super::door::told(engine.stop_all(&actor).await)
}

/// Everything that waits for a person.
#[server(input = Json)]
pub async fn needs() -> Result<NeedsView, ServerFnError> {
    let (engine, actor) = super::door::open()?;
    let nothing = BoardFilter { repo: None, text: Some("#0".into()) };
    let board = super::door::told(engine.board(actor.scope, &nothing).await)?;
    let cards = super::door::told(engine.needs_you(actor.scope).await)?;
    Ok(NeedsView { cards, now: board.now, seq: board.seq })
}
