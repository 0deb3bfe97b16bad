//! The feed: committed changes become typed messages, built once and sent to everybody who watches.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use opkit_domain::access::Scope;
use opkit_domain::event::Feed;
use opkit_domain::ids::ObjectiveId;
use tokio::sync::broadcast;

use crate::engine::Engine;
use crate::error::Result;

/// A page that is further behind than this reads its data again.
const LONGEST_GAP: i64 = 10_000;
/// Slots and counts are looked at this often without a hint.
const PERIOD: Duration = Duration::from_secs(2);

/// One watcher's feed.
pub struct FeedStream {
    /// Messages that came before the joined stream.
    first: VecDeque<Feed>,
    /// Everything up to this number was sent.
    seq: i64,
    stream: broadcast::Receiver<Arc<Feed>>,
    engine: Engine,
}

impl FeedStream {
    /// The next message; none when the server drains.
    pub async fn next(&mut self) -> Option<Feed> {
        if let Some(feed) = self.first.pop_front() {
            return Some(feed);
        }
        loop {
            if self.engine.draining() {
                return None;
            }
            match tokio::time::timeout(Duration::from_secs(1), self.stream.recv()).await {
                Err(_) => {}
                Ok(Ok(feed)) => match feed.as_ref() {
                    Feed::Card { seq, .. } if *seq <= self.seq => {}
                    Feed::Hello { .. }
                    | Feed::Card { .. }
                    | Feed::Wip { .. }
                    | Feed::Activity { .. }
                    | Feed::Resync => return Some(feed.as_ref().clone()),
                },
                Ok(Err(broadcast::error::RecvError::Lagged(_))) => return Some(Feed::Resync),
                Ok(Err(broadcast::error::RecvError::Closed)) => return None,
            }
        }
    }
}

impl Engine {
    /// Joins the feed after an event number: the missed cards first, then everything new, no gap between.
    pub async fn feed(&self, scope: Scope, after: i64) -> Result<FeedStream> {
        // Subscribed before the database is read: what is committed between comes twice at worst, and an
        // older version of a card changes nothing.
        let stream = self.feed_sender().subscribe();
        let seq = self.store().seq(scope).await?;
        let mut first = VecDeque::new();
        first.push_back(Feed::Hello { seq, build: self.build_id().to_owned() });
        if after > seq || seq - after > LONGEST_GAP {
            first.push_back(Feed::Resync);
        } else if after < seq {
            let changes = self.store().changes(scope, after, LONGEST_GAP as u32).await?;
            let ids: HashSet<ObjectiveId> = changes.iter().map(|(_, id)| *id).collect();
            for id in ids {
                let card = Box::new(self.card(scope, id).await?);
                first.push_back(Feed::Card { seq, card });
            }
        }
        first.push_back(Feed::Wip { wip: self.wip(scope).await? });
        Ok(FeedStream { first, seq, stream, engine: self.clone() })
    }
}

/// The pump: one reader for all watchers.
pub(crate) fn spawn(engine: Engine) {
    tokio::spawn(async move {
        let scope = Engine::default_scope();
        let mut seq = engine.store().seq(scope).await.unwrap_or_default();
        let mut wip = None;
        loop {
            let _ = tokio::time::timeout(PERIOD, engine.feed_wake().notified()).await;
            match engine.pump(scope, &mut seq, &mut wip).await {
                Ok(()) => engine.tasks().ok("feed"),
                Err(error) => engine.tasks().failed("feed", &error),
            }
        }
    });
}

impl Engine {
    async fn pump(
        &self,
        scope: Scope,
        seq: &mut i64,
        last: &mut Option<opkit_domain::view::WipView>,
    ) -> Result<()> {
        loop {
            let changes = self.store().changes(scope, *seq, 500).await?;
            let Some((newest, _)) = changes.last().copied() else { break };
            if self.feed_sender().receiver_count() > 0 {
                let mut sent = HashSet::new();
                for (_, id) in changes.iter().rev() {
                    if sent.insert(*id) {
                        let card = Box::new(self.card(scope, *id).await?);
                        let _ = self.feed_sender().send(Arc::new(Feed::Card { seq: newest, card }));
                    }
                }
            }
            *seq = newest;
        }
        if self.feed_sender().receiver_count() > 0 {
            let wip = self.wip(scope).await?;
            if last.as_ref() != Some(&wip) {
                let _ = self.feed_sender().send(Arc::new(Feed::Wip { wip: wip.clone() }));
                *last = Some(wip);
            }
        }
        Ok(())
    }
}
