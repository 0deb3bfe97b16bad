//! The board's feed: one socket a page, its listeners, and the newest cards for pages that come later.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use leptos::prelude::*;
use opkit_domain::event::Feed;
use opkit_domain::view::{CardView, WipView};

use crate::socket::{Frame, Link, Socket};

/// Cards kept for a page whose data was read before they came.
const RECENT: usize = 500;

type Listener = Rc<dyn Fn(&Feed)>;

#[derive(Default)]
struct Inner {
    seq: Option<i64>,
    /// What the last hello said: where the feed goes on after a resync.
    hello: i64,
    recent: VecDeque<(i64, Arc<CardView>)>,
    listeners: Vec<(u64, Listener)>,
    next: u64,
    socket: Option<Socket>,
}

thread_local! {
    /// One page, one feed. The server never touches it: only handlers and effects do, and those run in browsers.
    static INNER: RefCell<Inner> = RefCell::default();
}

/// What every page may read of the feed.
#[derive(Clone, Copy)]
pub(crate) struct Live {
    /// How the page stands to the server.
    pub(crate) link: RwSignal<Link>,
    /// The newest slots, once the feed told.
    pub(crate) wip: RwSignal<Option<WipView>>,
    /// When the connection was lost, ms; 0 = it was not.
    pub(crate) lost_at: RwSignal<i64>,
}

impl Live {
    /// For the frame.
    pub(crate) fn new() -> Live {
        Live { link: RwSignal::new(Link::Connecting), wip: RwSignal::new(None), lost_at: RwSignal::new(0) }
    }

    /// Opens the socket. `seq` = the number that the page's data was read at.
    pub(crate) fn start(self, seq: i64) {
        INNER.with_borrow_mut(|inner| inner.seq = Some(inner.seq.map_or(seq, |have| have.min(seq))));
        let socket = Socket::keep(
            self.link,
            || {
                let after = INNER.with_borrow(|inner| inner.seq.unwrap_or(0));
                format!("/ws/board?after={after}")
            },
            move |frame| self.take(frame),
        );
        INNER.with_borrow_mut(|inner| inner.socket = Some(socket));
    }

    /// Ends the socket.
    pub(crate) fn stop() {
        let socket = INNER.with_borrow_mut(|inner| inner.socket.take());
        drop(socket);
    }

    /// Tries again now.
    pub(crate) fn again() {
        INNER.with_borrow(|inner| {
            if let Some(socket) = &inner.socket {
                socket.again();
            }
        });
    }

    fn take(self, frame: Frame) {
        let Frame::Text(text) = frame else { return };
        // A frame that this build cannot read comes from another one; its hello has caused a reload.
        let Ok(feed) = serde_json::from_str::<Feed>(&text) else { return };
        match &feed {
            Feed::Hello { seq, build } => {
                INNER.with_borrow_mut(|inner| {
                    inner.hello = *seq;
                    inner.seq.get_or_insert(*seq);
                });
                if !build.is_empty() && *build != build_id() {
                    reload_once(build);
                }
            }
            Feed::Card { seq, card } => INNER.with_borrow_mut(|inner| {
                inner.seq = Some(inner.seq.map_or(*seq, |have| have.max(*seq)));
                inner.recent.push_back((*seq, Arc::new((**card).clone())));
                if inner.recent.len() > RECENT {
                    inner.recent.pop_front();
                }
            }),
            Feed::Wip { wip } => self.wip.set(Some(wip.clone())),
            Feed::Activity { .. } => {}
            // What was missed is read anew by the pages; from here on the feed goes on with the present.
            Feed::Resync => INNER.with_borrow_mut(|inner| {
                inner.recent.clear();
                inner.seq = Some(inner.hello);
            }),
        }
        let listeners: Vec<Listener> =
            INNER.with_borrow(|inner| inner.listeners.iter().map(|(_, listener)| listener.clone()).collect());
        for listener in listeners {
            listener(&feed);
        }
    }
}

/// Calls `act` for every message until the owner is gone.
pub(crate) fn listen(act: impl Fn(&Feed) + 'static) {
    let key = INNER.with_borrow_mut(|inner| {
        inner.next += 1;
        inner.listeners.push((inner.next, Rc::new(act)));
        inner.next
    });
    on_cleanup(move || INNER.with_borrow_mut(|inner| inner.listeners.retain(|(have, _)| *have != key)));
}

/// The cards that came after an event number.
pub(crate) fn since(seq: i64) -> Vec<Arc<CardView>> {
    INNER.with_borrow(|inner| {
        inner.recent.iter().filter(|(at, _)| *at > seq).map(|(_, card)| card.clone()).collect()
    })
}

/// The page's data was read anew at this number.
pub(crate) fn read_at(seq: i64) {
    INNER.with_borrow_mut(|inner| {
        if inner.socket.is_none() {
            inner.seq = Some(inner.seq.map_or(seq, |have| have.min(seq)));
        }
    });
}

/// The build that this page belongs to.
pub(crate) fn build_id() -> String {
    document()
        .query_selector("meta[name=opkit-build]")
        .ok()
        .flatten()
        .and_then(|meta| meta.get_attribute("content"))
        .unwrap_or_default()
}

/// Another build serves: the page is loaded anew, but not in a circle.
fn reload_once(build: &str) {
    let Ok(Some(store)) = window().session_storage() else { return };
    if store.get_item("opkit-build").ok().flatten().as_deref() == Some(build) {
        return;
    }
    if store.set_item("opkit-build", build).is_ok() {
        window().location().reload().ok();
    }
}
