//! What people see of the board, cards and sessions, with the live lines of running ones.

use std::collections::HashMap;

use opkit_domain::access::Scope;
use opkit_domain::ids::{ObjectiveId, SessionId};
use opkit_domain::objective::Status;
use opkit_domain::view::{BoardFilter, BoardView, CardView, LaneView, SessionView, WipView};

use super::{Engine, ListQuery, SessionQuery};
use crate::error::Result;
use crate::store::cards::ObjectiveFields;

impl Engine {
    fn with_live_lines(&self, mut card: CardView) -> CardView {
        if let Some(session) = &card.session
            && let Some(status) = self.live_lines().get(session)
        {
            card.activity.clone_from(&status.activity);
            card.denial = status.last_denial.clone().unwrap_or_default();
            card.cost_usd_micros += status.cost_usd_micros;
        }
        card
    }

    /// The board: the first cards of every lane.
    pub async fn board(&self, scope: Scope, filter: &BoardFilter) -> Result<BoardView> {
        // The number is read first: a change between here and the lanes is sent again, never missed.
        let seq = self.0.store.seq(scope).await?;
        let mut lanes = Vec::with_capacity(Status::ALL.len());
        for status in Status::ALL {
            let limit = if *status == Status::Cancelled { 10 } else { 30 };
            lanes.push(self.lane(scope, *status, filter, 0, limit).await?);
        }
        Ok(BoardView {
            seq,
            lanes,
            wip: self.wip(scope).await?,
            repos: self.0.store.repos(scope).await?,
            now: crate::clock::now_ms(),
        })
    }

    /// The number of the last event, and the server's time (ms since 1970).
    pub async fn feed_position(&self, scope: Scope) -> Result<(i64, i64)> {
        Ok((self.0.store.seq(scope).await?, crate::clock::now_ms()))
    }

    /// A window of one lane.
    pub async fn lane(
        &self,
        scope: Scope,
        status: Status,
        filter: &BoardFilter,
        offset: u32,
        limit: u32,
    ) -> Result<LaneView> {
        let mut lane = self.0.store.lane(scope, status, filter, offset, limit.clamp(1, 200)).await?;
        lane.cards = lane.cards.into_iter().map(|card| self.with_live_lines(card)).collect();
        Ok(lane)
    }

    /// One card.
    pub async fn card(&self, scope: Scope, id: ObjectiveId) -> Result<CardView> {
        Ok(self.with_live_lines(self.0.store.card(scope, id).await?))
    }

    /// Slots and counts.
    pub async fn wip(&self, scope: Scope) -> Result<WipView> {
        let (work, plan, review, oldest_in_queue, review_depth, needs_you) =
            self.0.store.wip_figures(scope).await?;
        let (room, all, accounts_until) = self.account_room().await?;
        let slots = opkit_domain::dispatch::Slots::new(self.cap_setting(), room, all);
        let switch = crate::kill_switch::reason(&self.0.dirs.kill_switch());
        let disabled = switch.is_some();
        let stopped = switch
            .or_else(|| self.broken_guards().values().next().cloned())
            .or_else(|| self.low_disk())
            .or_else(|| self.agent_hold("claude"));
        Ok(WipView {
            cap: slots.total,
            reserve: slots.reserve(),
            work,
            plan,
            review,
            oldest_in_queue,
            review_depth,
            needs_you,
            stopped,
            disabled,
            accounts_until,
        })
    }

    /// Objectives by number.
    pub async fn list(&self, scope: Scope, query: &ListQuery) -> Result<Vec<CardView>> {
        self.0.store.list(scope, query).await
    }

    /// The fields beside the card that REST shows, for objectives in a range of numbers.
    pub async fn fields(
        &self,
        scope: Scope,
        first: ObjectiveId,
        last: ObjectiveId,
    ) -> Result<HashMap<ObjectiveId, ObjectiveFields>> {
        self.0.store.fields(scope, first, last).await
    }

    /// What waits for a person, oldest first.
    pub async fn needs_you(&self, scope: Scope) -> Result<Vec<CardView>> {
        self.0.store.needs_you(scope).await
    }

    /// Sessions, newest first.
    pub async fn sessions(&self, scope: Scope, query: &SessionQuery) -> Result<Vec<SessionView>> {
        let mut list = self.0.store.sessions(scope, query).await?;
        let live = self.live_lines();
        for session in &mut list {
            if let Some(status) = live.get(&session.id) {
                session.activity.clone_from(&status.activity);
                session.turns = status.turns;
                session.cost_usd_micros = status.cost_usd_micros;
            }
        }
        Ok(list)
    }

    /// One session.
    pub async fn session(&self, scope: Scope, id: &SessionId) -> Result<SessionView> {
        let mut session = self.0.store.session(scope, id).await?;
        if let Some(status) = self.live_lines().get(id) {
            session.activity.clone_from(&status.activity);
            session.turns = status.turns;
            session.cost_usd_micros = status.cost_usd_micros;
        }
        Ok(session)
    }
}
