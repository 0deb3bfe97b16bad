//! The board's data in the browser: one list a lane, cards that only get newer, moves that can be taken back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use leptos::prelude::*;
use leptos::task::spawn_local;
use opkit_domain::event::Feed;
use opkit_domain::ids::ObjectiveId;
use opkit_domain::objective::Status;
use opkit_domain::state_machine::{self, Trigger};
use opkit_domain::view::{BoardFilter, BoardView, CardView, LaneView};

use crate::api::Refusal;
use crate::api::board::{MovedView, lane, move_card, reorder_card, totals};
use crate::api::objective::{Act, decide};
use crate::format;
use crate::live::{self, Live};
use crate::socket::Link;
use crate::ui::clock::{Clock, use_clock};
use crate::ui::toast::{Toasts, Undo, use_toasts};

/// Cards of a lane that stand in the page at most.
pub(crate) const SHOWN: usize = 90;
/// By how many the window of a lane goes on.
pub(crate) const STEP: usize = 30;

/// One lane.
#[derive(Clone, Copy)]
pub(crate) struct Lane {
    /// Which.
    pub(crate) status: Status,
    /// Cards on the server under the filter.
    pub(crate) total: RwSignal<u32>,
    /// Those that were loaded, from the first on.
    pub(crate) cards: RwSignal<Vec<Arc<CardView>>>,
    /// The first that stands in the page.
    pub(crate) start: RwSignal<usize>,
    /// Heights of the steps that went out at the top.
    pub(crate) above: RwSignal<VecDeque<f64>>,
    /// More are on their way.
    pub(crate) loading: RwSignal<bool>,
    /// Shown at full width.
    pub(crate) open: RwSignal<bool>,
}

/// What a lane would do with a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It is there already.
    Here,
    /// It takes it: what is written in the slot and in the menu.
    Takes {
        /// "Start next"
        act: &'static str,
        /// The rest of the sentence.
        then: &'static str,
    },
    /// It does not, because.
    Refuses(String),
}

/// A card in the hand.
#[derive(Clone, PartialEq)]
pub(crate) struct Drag {
    /// The card.
    pub(crate) card: Arc<CardView>,
    /// What each lane says, in order.
    pub(crate) offers: Vec<Offer>,
    /// The lane under the pointer.
    pub(crate) over: Option<Status>,
}

/// The open *Move to* menu.
#[derive(Clone, PartialEq)]
pub(crate) struct Menu {
    /// The card.
    pub(crate) card: Arc<CardView>,
    /// What each lane says, in order.
    pub(crate) offers: Vec<Offer>,
    /// Where it opens, in the window.
    pub(crate) at: (f64, f64),
}

/// The board.
#[derive(Clone, Copy)]
pub(crate) struct Model {
    /// Seven lanes in order.
    pub(crate) lanes: [Lane; 7],
    /// The filter of the address.
    pub(crate) filter: StoredValue<BoardFilter>,
    /// A card in the hand.
    pub(crate) drag: RwSignal<Option<Drag>>,
    /// The open menu.
    pub(crate) menu: RwSignal<Option<Menu>>,
    /// Where the page's clock stands.
    pub(crate) clock: Clock,
    /// When the first account comes back by itself, if none is free, ms since 1970.
    pub(crate) until: Signal<Option<i64>>,
    live: Option<Live>,
    toasts: Toasts,
    counting: StoredValue<bool>,
}

impl Model {
    /// From what the server sent.
    pub(crate) fn new(view: &BoardView, filter: BoardFilter) -> Model {
        let make = |at: usize| {
            let status = Status::ALL[at];
            let found = view.lanes.iter().find(|lane| lane.status == status);
            let cards =
                found.map(|lane| lane.cards.iter().cloned().map(Arc::new).collect()).unwrap_or_default();
            Lane {
                status,
                total: RwSignal::new(found.map_or(0, |lane| lane.total)),
                cards: RwSignal::new(cards),
                start: RwSignal::new(0),
                above: RwSignal::new(VecDeque::new()),
                loading: RwSignal::new(false),
                open: RwSignal::new(status != Status::Cancelled),
            }
        };
        let live = use_context::<Live>();
        let first = view.wip.accounts_until;
        let until = Memo::new(move |_| {
            let told = live.and_then(|live| live.wip.with(|wip| wip.as_ref().map(|wip| wip.accounts_until)));
            told.unwrap_or(first)
        });
        Model {
            lanes: std::array::from_fn(make),
            filter: StoredValue::new(filter),
            drag: RwSignal::new(None),
            menu: RwSignal::new(None),
            clock: use_clock(),
            until: until.into(),
            live,
            toasts: use_toasts(),
            counting: StoredValue::new(false),
        }
    }

    /// The lane of a status.
    pub(crate) fn lane(&self, status: Status) -> Lane {
        let at = Status::ALL.iter().position(|have| *have == status).unwrap_or(0);
        self.lanes[at]
    }

    /// Where a card is.
    pub(crate) fn find(&self, id: ObjectiveId) -> Option<(Lane, Arc<CardView>)> {
        self.lanes.iter().find_map(|lane| {
            lane.cards
                .with_untracked(|cards| cards.iter().find(|card| card.id == id).cloned())
                .map(|card| (*lane, card))
        })
    }

    /// Takes a message of the feed; `resync` reads the board anew.
    pub(crate) fn take(self, feed: &Feed, resync: impl Fn()) {
        match feed {
            Feed::Card { card, .. } => {
                self.apply(&Arc::new((**card).clone()), false);
            }
            Feed::Activity { id, line, cost_usd_micros } => self.activity(*id, line, *cost_usd_micros),
            Feed::Resync => resync(),
            Feed::Hello { .. } | Feed::Wip { .. } => {}
        }
    }

    /// Cards that came while the page's data was on its way.
    pub(crate) fn catch_up(self, seq: i64) {
        for card in live::since(seq) {
            self.apply(&card, false);
        }
    }

    /// Puts a card where it belongs now. Older ones are ignored; `force` lets an equal version through.
    pub(crate) fn apply(self, card: &Arc<CardView>, force: bool) {
        let old = self.find(card.id);
        if let Some((_, have)) = &old
            && (have.version > card.version || (have.version == card.version && !force))
        {
            return;
        }
        let focus = focused_card().filter(|id| *id == card.id);
        let stays = old.as_ref().is_some_and(|(lane, _)| lane.status == card.status);
        if let Some((lane, _)) = &old {
            if !stays {
                lane.total.update(|total| *total = total.saturating_sub(1));
            }
            let id = card.id;
            // One update when it stays in its lane: the list never shows it missing.
            if stays && self.fits(card) {
                lane.cards.update(|cards| {
                    cards.retain(|have| have.id != id);
                    insert(cards, card, lane.status, lane.total.get_untracked());
                });
            } else {
                lane.cards.update(|cards| cards.retain(|have| have.id != id));
            }
        }
        if !stays && self.fits(card) {
            let lane = self.lane(card.status);
            lane.total.update(|total| *total += 1);
            lane.cards.update(|cards| insert(cards, card, lane.status, lane.total.get_untracked()));
        }
        if old.is_none() {
            self.count_again();
        }
        if let Some(id) = focus {
            focus_card(id);
        }
    }

    /// A card that was not loaded may have been counted already: the server says the true numbers.
    fn count_again(self) {
        let all_loaded = self.lanes.iter().all(|lane| {
            lane.cards.with_untracked(Vec::len) >= lane.total.get_untracked().saturating_sub(1) as usize
        });
        if all_loaded || self.counting.get_value() {
            return;
        }
        self.counting.set_value(true);
        let later = move || {
            // The board may be gone by then.
            let Some(filter) = self.filter.try_get_value() else { return };
            self.counting.set_value(false);
            spawn_local(async move {
                if let Ok(counts) = totals(filter).await {
                    for (lane, count) in self.lanes.iter().zip(counts) {
                        let loaded = lane.cards.try_with_untracked(Vec::len).unwrap_or(0);
                        lane.total.try_set(count.max(u32::try_from(loaded).unwrap_or(0)));
                    }
                }
            });
        };
        set_timeout(later, Duration::from_millis(1200));
    }

    fn fits(self, card: &CardView) -> bool {
        self.filter.with_value(|filter| {
            let repo = filter.repo.as_ref().is_none_or(|repo| *repo == card.repo);
            let text = filter.text.as_deref().unwrap_or("").trim();
            let title = card.title.to_lowercase();
            let words = text.split_whitespace().all(|word| title.contains(&word.to_lowercase()));
            let number =
                text.strip_prefix('#').unwrap_or(text).parse::<i64>().is_ok_and(|id| id == card.id.0);
            repo && (words || number)
        })
    }

    /// The live line changes in place: nothing is rendered anew for it.
    fn activity(self, id: ObjectiveId, line: &str, cost: i64) {
        let Some((lane, card)) = self.find(id) else { return };
        let mut card = (*card).clone();
        card.activity = line.to_owned();
        card.cost_usd_micros = card.cost_usd_micros.max(cost);
        super::card::write_live(&card);
        let card = Arc::new(card);
        lane.cards.update_untracked(|cards| {
            if let Some(slot) = cards.iter_mut().find(|have| have.id == id) {
                *slot = card;
            }
        });
    }

    /// Reads more cards of a lane.
    pub(crate) fn load_more(self, lane_: Lane) {
        let have = lane_.cards.with_untracked(Vec::len);
        if lane_.loading.get_untracked() || have >= lane_.total.get_untracked() as usize {
            return;
        }
        lane_.loading.set(true);
        let filter = self.filter.get_value();
        let offset = u32::try_from(have).unwrap_or(u32::MAX);
        spawn_local(async move {
            let more = lane(lane_.status, filter, offset).await;
            lane_.loading.try_set(false);
            match more {
                Ok(LaneView { cards, total, .. }) => {
                    self.take_more(lane_, cards, total);
                    super::lane::look_again(lane_.status);
                }
                Err(refusal) => self.toasts.failed("The rest of the lane did not come.", &refusal),
            }
        });
    }

    fn take_more(self, lane: Lane, cards: Vec<CardView>, total: u32) {
        if cards.is_empty() {
            let loaded = lane.cards.with_untracked(Vec::len);
            lane.total.set(u32::try_from(loaded).unwrap_or(0));
            return;
        }
        lane.total.set(total);
        lane.cards.update(|have| {
            for card in cards {
                if !have.iter().any(|old| old.id == card.id) {
                    have.push(Arc::new(card));
                }
            }
        });
    }

    /// What each lane would do with a card, before anything is dropped.
    pub(crate) fn offers(self, card: &CardView) -> Vec<Offer> {
        Status::ALL.iter().map(|status| offer(card, *status)).collect()
    }

    /// Moves a card: at once on the page, then on the server; a refusal puts it back and says why.
    pub(crate) fn move_to(self, id: ObjectiveId, to: Status) {
        let Some((_, before)) = self.find(id) else { return };
        if self.is_stale() {
            self.toasts.bad(
                format!("#{id} stays where it is."),
                "There is no connection. Moving is off until it is back.",
            );
            return;
        }
        match offer(&before, to) {
            Offer::Here => return,
            Offer::Refuses(why) => {
                self.toasts.bad(format!("#{id} cannot go to {}.", to.label()), why);
                return;
            }
            Offer::Takes { .. } => {}
        }
        let starts_next = to == Status::Working && before.status == Status::Queue;
        let target = if starts_next { Status::Queue } else { to };
        let mut shown = (*before).clone();
        shown.position = self.first_position(target) - 1;
        if !starts_next {
            shown.status = to;
            shown.sub_state = None;
            shown.attention = None;
            shown.since = self.clock.exact();
        }
        self.apply(&Arc::new(shown), true);
        spawn_local(async move {
            match move_card(id, to, Some(before.version)).await {
                Ok(MovedView { card, message }) => {
                    self.apply(&Arc::new(card), true);
                    if to == Status::Cancelled {
                        self.toasts.with_undo(message, self.undo(&before));
                    } else {
                        self.toasts.good(message);
                    }
                }
                Err(refusal) => self.take_back(&before, &refusal),
            }
        });
    }

    /// Puts a card before another one of its lane; `None` = at the end.
    pub(crate) fn reorder(self, id: ObjectiveId, next: Option<ObjectiveId>) {
        let Some((lane, before)) = self.find(id) else { return };
        if self.is_stale() || next == Some(id) {
            return;
        }
        let position = lane.cards.with_untracked(|cards| match next {
            Some(next) => cards.iter().find(|card| card.id == next).map(|card| (card.position, next)),
            None => cards.last().map(|card| (card.position.saturating_add(1), ObjectiveId(0))),
        });
        let Some((position, _)) = position else { return };
        lane.cards.update(|cards| {
            let Some(at) = cards.iter().position(|card| card.id == id) else { return };
            let mut card = (*cards.remove(at)).clone();
            card.position = position;
            let to =
                next.and_then(|next| cards.iter().position(|card| card.id == next)).unwrap_or(cards.len());
            cards.insert(to, Arc::new(card));
        });
        spawn_local(async move {
            match reorder_card(id, next).await {
                Ok(card) => self.apply(&Arc::new(card), true),
                Err(refusal) => self.take_back(&before, &refusal),
            }
        });
    }

    /// Brings a cancelled card back. What was running does not run on: then it is not called undo.
    fn undo(self, before: &CardView) -> Undo {
        let (id, toasts) = (before.id, self.toasts);
        let label = if before.status == Status::Queue { "Undo" } else { "Bring it back" };
        let run = move || {
            spawn_local(async move {
                match decide(id, Act::Restore).await {
                    Ok(message) => toasts.good(message),
                    Err(refusal) => toasts.failed(format!("#{id} stays cancelled."), &refusal),
                }
            });
        };
        Undo { label, run: Arc::new(run) }
    }

    fn take_back(self, before: &Arc<CardView>, refusal: &Refusal) {
        // Something newer may have come meanwhile; then that stands.
        self.apply(before, true);
        self.toasts.failed(format!("#{} moved back to {}.", before.id, before.status.label()), refusal);
    }

    fn first_position(self, status: Status) -> i64 {
        self.lane(status).cards.with_untracked(|cards| cards.first().map_or(0, |card| card.position))
    }

    fn is_stale(self) -> bool {
        self.live.is_some_and(|live| live.link.get_untracked() == Link::Stale)
    }

    /// Read aloud.
    pub(crate) fn announce(self, text: impl Into<String>) {
        self.toasts.announce(text);
    }
}

/// Puts a card at its place among the loaded ones; beyond their end it waits on the server.
fn insert(cards: &mut Vec<Arc<CardView>>, card: &Arc<CardView>, status: Status, total: u32) {
    let at = cards.partition_point(|have| comes_before(status, have, card));
    let is_beyond = at == cards.len() && (cards.len() as u64) + 1 < u64::from(total);
    if !is_beyond {
        cards.insert(at, card.clone());
    }
}

fn comes_before(status: Status, a: &CardView, b: &CardView) -> bool {
    if status.is_final() {
        (a.since, a.id) > (b.since, b.id)
    } else {
        (a.position, a.id) < (b.position, b.id)
    }
}

/// What a lane says to a card.
pub(crate) fn offer(card: &CardView, to: Status) -> Offer {
    match state_machine::drag(&card.facts(), to) {
        Ok(Trigger::StartNext) if !card.waits_for.is_empty() => {
            // The engine says the same; nobody should have to drop the card to hear it.
            Offer::Refuses(card.waits_for.first().map(|first| format::waits_for(*first)).unwrap_or_default())
        }
        Ok(trigger) => {
            let (act, then) = words(trigger);
            Offer::Takes { act, then }
        }
        Err(_) if card.status == to => Offer::Here,
        Err(refused) => Offer::Refuses(refused.0),
    }
}

/// What a drop does, in words.
fn words(trigger: Trigger) -> (&'static str, &'static str) {
    match trigger {
        Trigger::StartNext => ("start", "First in line. Starts when a slot is free."),
        Trigger::SkipPlanning => ("queue", "It has criteria. Planning is skipped."),
        Trigger::AskPlan => ("plan", "It waits for another plan, or for your criteria."),
        Trigger::Approve { .. } => ("approve", "It is finished. The branch goes where the repository says."),
        Trigger::FreshReview => ("review", "Another reviewer grades what was delivered."),
        Trigger::Cancel => ("cancel", "A running session is stopped. You can bring it back."),
        Trigger::Restore => ("bring back", "It starts anew. Its branch is kept."),
        Trigger::Claimed(_)
        | Trigger::SessionEnded(..)
        | Trigger::NoSlot
        | Trigger::NoAccountFree
        | Trigger::NoAccountForADay
        | Trigger::ChildEnded
        | Trigger::MergeConflict
        | Trigger::Tampered
        | Trigger::BudgetUsedUp
        | Trigger::Reject
        | Trigger::Answer
        | Trigger::Resume
        | Trigger::Reopen => ("move", ""),
    }
}

/// Whole pixels: writing fractions takes a bundle more code than it is worth.
#[allow(clippy::cast_possible_truncation)] // A place in a window.
pub(crate) fn px(length: f64) -> i32 {
    length.round() as i32
}

/// The card that has the focus.
fn focused_card() -> Option<ObjectiveId> {
    let card = document().active_element()?.closest("[data-card]").ok()??;
    card.get_attribute("data-card")?.parse().ok()
}

/// Gives a card the focus once it is drawn.
pub(crate) fn focus_card(id: ObjectiveId) {
    request_animation_frame(move || {
        use wasm_bindgen::JsCast;
        let link = document().query_selector(&format!("[data-card=\"{id}\"] [data-open]")).ok().flatten();
        if let Some(link) = link.and_then(|link| link.dyn_into::<web_sys::HtmlElement>().ok()) {
            link.focus().ok();
        }
    });
}
