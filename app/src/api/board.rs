//! What the board, the frame around every page and the list of decisions read and do.

use leptos::prelude::*;
use leptos::server_fn::codec::Json;
use opkit_domain::ids::ObjectiveId;
use opkit_domain::objective::Status;
use opkit_domain::view::{BoardFilter, CardView, LaneView, WipView};
use serde::{Deserialize, Serialize};

use super::answer::opened;
use super::{Answer, Refusal, Told};

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

/// The frame's facts: [`FrameView`].
#[server(input = Json, output = Told)]
pub async fn read_frame() -> Result<Answer, ServerFnError> {
    super::door::told(serve::frame().await)
}

/// The board under a filter: a `BoardView`.
#[server(input = Json, output = Told)]
pub async fn read_board(filter: BoardFilter) -> Result<Answer, ServerFnError> {
    super::door::told(serve::board(filter).await)
}

/// More cards of a lane.
#[server(input = Json, output = Told)]
pub async fn read_lane(status: Status, filter: BoardFilter, offset: u32) -> Result<Answer, ServerFnError> {
    super::door::told(serve::lane(status, filter, offset).await)
}

/// How many cards each lane has under a filter.
#[server(input = Json, output = Told)]
pub async fn read_totals(filter: BoardFilter) -> Result<Answer, ServerFnError> {
    super::door::told(serve::totals(filter).await)
}

/// Moves a card to another lane.
#[server(input = Json, output = Told)]
pub async fn send_move(id: ObjectiveId, to: Status, version: Option<i64>) -> Result<Answer, ServerFnError> {
    super::door::told(serve::move_card(id, to, version).await)
}

/// Puts a card before another one of its lane, or at its end.
#[server(input = Json, output = Told)]
pub async fn send_order(id: ObjectiveId, before: Option<ObjectiveId>) -> Result<Answer, ServerFnError> {
    super::door::told(serve::reorder(id, before).await)
}

/// Stops every session and sets the kill switch; gives the number stopped.
#[server(input = Json, output = Told)]
pub async fn send_stop() -> Result<Answer, ServerFnError> {
    super::door::told(serve::stop().await)
}

/// Starts again everything that was stopped; gives how many.
#[server(input = Json, output = Told)]
pub async fn send_resume_all() -> Result<Answer, ServerFnError> {
    super::door::told(serve::resume_all().await)
}

/// Everything that waits for a person: [`NeedsView`].
#[server(input = Json, output = Told)]
pub async fn read_needs() -> Result<Answer, ServerFnError> {
    super::door::told(serve::needs().await)
}

/// More cards of a lane.
pub async fn lane(status: Status, filter: BoardFilter, offset: u32) -> Result<LaneView, Refusal> {
    opened(read_lane(status, filter, offset).await)
}

/// How many cards each lane has under a filter.
pub async fn totals(filter: BoardFilter) -> Result<Vec<u32>, Refusal> {
    opened(read_totals(filter).await)
}

/// Moves a card to another lane.
pub async fn move_card(id: ObjectiveId, to: Status, version: Option<i64>) -> Result<MovedView, Refusal> {
    opened(send_move(id, to, version).await)
}

/// Puts a card before another one of its lane, or at its end.
pub async fn reorder_card(id: ObjectiveId, before: Option<ObjectiveId>) -> Result<CardView, Refusal> {
    opened(send_order(id, before).await)
}

/// Stops every session and sets the kill switch; gives the number stopped.
pub async fn stop_everything() -> Result<u32, Refusal> {
    opened(send_stop().await)
}

/// Starts again everything that a person or stop-all stopped; gives how many.
pub async fn resume_everything() -> Result<u32, Refusal> {
    opened(send_resume_all().await)
}

#[cfg(feature = "ssr")]
mod serve {
    //! The engine's side.

    use opkit_domain::ids::ObjectiveId;
    use opkit_domain::objective::Status;
    use opkit_domain::view::{BoardFilter, BoardView, CardView, LaneView};

    use super::{FrameView, MovedView, NeedsView, WINDOW};
    use crate::api::Refusal;
    use crate::api::door::open;

    pub(super) async fn frame() -> Result<FrameView, Refusal> {
        let (engine, actor) = open()?;
        let (seq, now) = engine.feed_position(actor.scope).await?;
        let wip = engine.wip(actor.scope).await?;
        Ok(FrameView { seq, wip, user: actor.name, access: actor.access.to_string(), now })
    }

    pub(super) async fn board(filter: BoardFilter) -> Result<BoardView, Refusal> {
        let (engine, actor) = open()?;
        Ok(engine.board(actor.scope, &filter).await?)
    }

    pub(super) async fn lane(status: Status, filter: BoardFilter, offset: u32) -> Result<LaneView, Refusal> {
        let (engine, actor) = open()?;
        Ok(engine.lane(actor.scope, status, &filter, offset, WINDOW).await?)
    }

    pub(super) async fn totals(filter: BoardFilter) -> Result<Vec<u32>, Refusal> {
        let (engine, actor) = open()?;
        let mut totals = Vec::with_capacity(Status::ALL.len());
        for status in Status::ALL {
            totals.push(engine.lane(actor.scope, *status, &filter, 0, 1).await?.total);
        }
        Ok(totals)
    }

    pub(super) async fn move_card(
        id: ObjectiveId,
        to: Status,
        version: Option<i64>,
    ) -> Result<MovedView, Refusal> {
        let (engine, actor) = open()?;
        let moved = engine.move_to(&actor, id, to, version).await?;
        Ok(MovedView { card: moved.card, message: moved.message })
    }

    pub(super) async fn reorder(id: ObjectiveId, before: Option<ObjectiveId>) -> Result<CardView, Refusal> {
        let (engine, actor) = open()?;
        Ok(engine.reorder(&actor, id, before).await?)
    }

    pub(super) async fn stop() -> Result<u32, Refusal> {
        let (engine, actor) = open()?;
        Ok(engine.stop_all(&actor).await?)
    }

    pub(super) async fn resume_all() -> Result<u32, Refusal> {
        let (engine, actor) = open()?;
        Ok(engine.resume_all(&actor).await?)
    }

    pub(super) async fn needs() -> Result<NeedsView, Refusal> {
        let (engine, actor) = open()?;
        // The number first: a card that comes in between is told of twice rather than never.
        let (seq, now) = engine.feed_position(actor.scope).await?;
        let cards = engine.needs_you(actor.scope).await?;
        Ok(NeedsView { cards, now, seq })
    }
}
