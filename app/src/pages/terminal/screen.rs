//! The lines of a terminal as real text. Painted at most once a frame; what was painted is acknowledged.

use std::cell::RefCell;
use std::collections::VecDeque;

use leptos::prelude::*;
use opkit_domain::screen::{Line, TerminalDown, TerminalStatus, TerminalUp};
use wasm_bindgen::JsCast;
use web_sys::HtmlElement;

use super::paint;
use crate::socket::{Frame, Link, Socket};

/// Lines kept while following.
const KEEP: usize = 2000;
/// Lines kept while somebody reads further up.
const KEEP_PAUSED: usize = 6000;
/// Lines asked for at once.
const RANGE: u64 = 400;

/// What the page shows beside the lines.
#[derive(Clone, Copy)]
pub(crate) struct Signals {
    /// Connection.
    pub(crate) link: RwSignal<Link>,
    /// Facts of the head.
    pub(crate) status: RwSignal<Option<TerminalStatus>>,
    /// How it ended.
    pub(crate) ended: RwSignal<Option<String>>,
    /// The first frame was drawn.
    pub(crate) ready: RwSignal<bool>,
    /// Follows the newest line.
    pub(crate) follow: RwSignal<bool>,
    /// Lines that came since it does not.
    pub(crate) unseen: RwSignal<u64>,
    /// Lines in the record before the first loaded one.
    pub(crate) earlier: RwSignal<u64>,
    /// The match that is shown (from 1) and how many there are.
    pub(crate) hits: RwSignal<(usize, usize)>,
    /// Something is searched for.
    pub(crate) searching: RwSignal<bool>,
}

impl Signals {
    /// For the page.
    pub(crate) fn new() -> Signals {
        Signals {
            link: RwSignal::new(Link::Connecting),
            status: RwSignal::new(None),
            ended: RwSignal::new(None),
            ready: RwSignal::new(false),
            follow: RwSignal::new(true),
            unseen: RwSignal::new(0),
            earlier: RwSignal::new(0),
            hits: RwSignal::new((0, 0)),
            searching: RwSignal::new(false),
        }
    }
}

/// The lines that are loaded, and how they stand in the page.
struct Screen {
    shown: Signals,
    /// Scrolls.
    frame: HtmlElement,
    /// Holds one element a line.
    list: HtmlElement,
    lines: VecDeque<Line>,
    /// Number of the first loaded line.
    base: u64,
    /// The oldest line that the record still has.
    oldest: u64,
    /// One beyond the newest line that was told of.
    newest: u64,
    /// Offset to resume from.
    end: Option<u64>,
    /// The first line whose element is not right; none = all are.
    dirty: Option<u64>,
    scheduled: bool,
    /// Somebody reads far from the end: new lines are counted, not loaded.
    detached: bool,
    asked: bool,
    goal: Option<u64>,
    paused_at: u64,
    /// Where the page itself scrolled to last: an event at this place is not the person's.
    own_top: i32,
    query: String,
    hits: Vec<u64>,
    hit: usize,
    socket: Option<Socket>,
}

thread_local! {
    /// One terminal a page. The server never touches it.
    static SCREEN: RefCell<Option<Screen>> = const { RefCell::new(None) };
}

fn with<T>(act: impl FnOnce(&mut Screen) -> T) -> Option<T> {
    SCREEN.with_borrow_mut(|screen| screen.as_mut().map(act))
}

/// Opens the terminal of a session in these elements.
pub(crate) fn open(session: String, shown: Signals, frame: HtmlElement, list: HtmlElement) {
    list.set_inner_html("");
    SCREEN.set(Some(Screen {
        shown,
        frame,
        list,
        lines: VecDeque::new(),
        base: 0,
        oldest: 0,
        newest: 0,
        end: None,
        dirty: None,
        scheduled: false,
        detached: false,
        asked: false,
        goal: None,
        paused_at: 0,
        own_top: 0,
        query: String::new(),
        hits: Vec::new(),
        hit: 0,
        socket: None,
    }));
    let path = move || {
        let from = SCREEN.with_borrow(|screen| screen.as_ref().and_then(|screen| screen.end));
        let from = from.map(|end| format!("?from={end}")).unwrap_or_default();
        format!("/ws/terminal/{session}{from}")
    };
    let socket = Socket::keep(shown.link, path, |frame| {
        if let Frame::Bytes(bytes) = frame
            && let Ok(down) = postcard::from_bytes::<TerminalDown>(&bytes)
        {
            with(|screen| screen.take(down));
        }
    });
    with(|screen| screen.socket = Some(socket));
}

/// Ends it.
pub(crate) fn close() {
    let screen = SCREEN.take();
    drop(screen);
}

/// Goes on with the newest line.
pub(crate) fn follow() {
    with(Screen::follow);
}

/// The person scrolled.
pub(crate) fn scrolled() {
    with(Screen::scrolled);
}

/// Searches in the loaded lines.
pub(crate) fn search(query: &str) {
    with(|screen| screen.search(query));
}

/// Goes to the next match, or back.
pub(crate) fn next_hit(forward: bool) {
    with(|screen| screen.next_hit(forward));
}

/// Goes to a line, loaded or not.
pub(crate) fn go_to(line: u64) {
    with(|screen| screen.go_to(line));
}

/// Goes to the first line of the record.
pub(crate) fn start() {
    with(Screen::start);
}

/// The text of the loaded lines.
pub(crate) fn text() -> String {
    with(|screen| screen.lines.iter().map(paint::plain).collect::<Vec<_>>().join("\n")).unwrap_or_default()
}

impl Screen {
    fn take(&mut self, down: TerminalDown) {
        match down {
            TerminalDown::Lines { first, end, lines, .. } => self.take_lines(first, end, lines),
            TerminalDown::Range { first, lines, oldest } => self.take_range(first, lines, oldest),
            TerminalDown::Status(status) => {
                self.newest = self.newest.max(status.lines);
                self.shown.status.set(Some(status));
            }
            TerminalDown::Ended { text } => {
                self.shown.ended.set(Some(text));
                self.shown.ready.set(true);
                if let Some(socket) = &self.socket {
                    socket.calm();
                }
                // The line that says so comes into view.
                self.schedule();
            }
        }
    }

    fn loaded_end(&self) -> u64 {
        self.base + self.lines.len() as u64
    }

    fn take_lines(&mut self, first: u64, end: u64, lines: Vec<Line>) {
        self.newest = self.newest.max(first + lines.len() as u64);
        self.end = Some(end);
        if !self.shown.follow.get_untracked() {
            self.shown.unseen.set(self.newest.saturating_sub(self.paused_at));
            // Far up nothing is lost by not loading it: following again starts with the newest window.
            self.detached |= self.lines.len() + lines.len() > KEEP_PAUSED || first > self.loaded_end();
        }
        if self.detached {
            self.schedule();
            return;
        }
        if self.lines.is_empty() || first > self.loaded_end() || first < self.base {
            self.lines.clear();
            self.base = first;
            self.dirty = Some(0);
        }
        let keep = usize::try_from(first - self.base).unwrap_or(usize::MAX);
        self.lines.truncate(keep);
        self.lines.extend(lines);
        self.dirty = Some(self.dirty.map_or(first, |dirty| dirty.min(first)));
        self.schedule();
    }

    fn schedule(&mut self) {
        if !self.scheduled {
            self.scheduled = true;
            request_animation_frame(|| {
                with(Screen::paint);
            });
        }
    }

    fn paint(&mut self) {
        self.scheduled = false;
        if let Some(dirty) = self.dirty.take() {
            let from = usize::try_from(dirty.saturating_sub(self.base)).unwrap_or(0);
            paint::cut(&self.list, from);
            for (at, line) in self.lines.iter().enumerate().skip(from) {
                paint::append(&self.list, self.base + at as u64, line, &self.query);
            }
            self.find();
        }
        if self.shown.follow.get_untracked() {
            let over = self.lines.len().saturating_sub(KEEP);
            self.lines.drain(..over);
            self.base += over as u64;
            paint::drop_first(&self.list, over);
            self.scroll_down();
        }
        self.tell_earlier();
        self.shown.ready.set(true);
        if let Some(end) = self.end {
            self.send(&TerminalUp::Ack { end });
        }
    }

    fn tell_earlier(&self) {
        let earlier = self.base.saturating_sub(self.oldest);
        if self.shown.earlier.get_untracked() != earlier {
            self.shown.earlier.set(earlier);
        }
    }

    fn scroll_down(&mut self) {
        self.frame.set_scroll_top(self.frame.scroll_height());
        self.own_top = self.frame.scroll_top();
    }

    fn send(&self, up: &TerminalUp) {
        if let Some(socket) = &self.socket
            && let Ok(bytes) = postcard::to_allocvec(up)
        {
            socket.send(&bytes);
        }
    }

    fn take_range(&mut self, first: u64, mut lines: Vec<Line>, oldest: u64) {
        self.asked = false;
        self.oldest = oldest;
        if self.lines.is_empty() {
            self.base = first;
            self.lines = lines.into();
            self.dirty = Some(0);
            self.paint();
        } else if first < self.base && first + lines.len() as u64 >= self.base {
            lines.truncate(usize::try_from(self.base - first).unwrap_or(0));
            let before = self.frame.scroll_height();
            let top = self.frame.scroll_top();
            paint::prepend(&self.list, first, &lines, &self.query);
            self.frame.set_scroll_top(top + self.frame.scroll_height() - before);
            for line in lines.into_iter().rev() {
                self.lines.push_front(line);
            }
            self.base = first;
            self.drop_newest();
            self.find();
            self.tell_earlier();
        } else if first == self.loaded_end() {
            self.dirty = Some(first);
            self.lines.extend(lines);
            self.detached = self.loaded_end() < self.newest;
            self.paint();
        }
        if let Some(goal) = self.goal.take() {
            // What was wanted may have left the record meanwhile.
            self.show(goal.max(self.base));
        }
    }

    /// Reading far up: the newest lines leave the page and are read again when wanted.
    fn drop_newest(&mut self) {
        if self.lines.len() > KEEP_PAUSED {
            self.lines.truncate(KEEP_PAUSED);
            paint::cut(&self.list, KEEP_PAUSED);
            self.detached = true;
        }
    }

    fn ask(&mut self, first: u64, count: u64) {
        if self.asked || count == 0 {
            return;
        }
        self.asked = true;
        self.send(&TerminalUp::Range { first, count: u32::try_from(count).unwrap_or(500).min(500) });
    }

    fn scrolled(&mut self) {
        let top = self.frame.scroll_top();
        let left = self.frame.scroll_height() - top - self.frame.client_height();
        let at_end = left < 30;
        if !at_end && self.shown.follow.get_untracked() && (top - self.own_top).abs() <= 1 {
            // Something grew around the lines after the page had scrolled.
            self.scroll_down();
            return;
        }
        if at_end && !self.detached {
            if !self.shown.follow.get_untracked() {
                self.shown.follow.set(true);
                self.shown.unseen.set(0);
            }
        } else if self.shown.follow.get_untracked() && !at_end {
            self.pause();
        }
        if top < 300 && self.base > self.oldest && !self.lines.is_empty() {
            let first = self.base.saturating_sub(RANGE).max(self.oldest);
            self.ask(first, self.base - first);
        } else if left < 300 && self.detached {
            let first = self.loaded_end();
            self.ask(first, self.newest.saturating_sub(first).min(RANGE));
        }
    }

    fn pause(&mut self) {
        self.shown.follow.set(false);
        self.paused_at = self.newest;
        self.shown.unseen.set(0);
    }

    fn follow(&mut self) {
        self.shown.follow.set(true);
        self.shown.unseen.set(0);
        if self.detached {
            self.detached = false;
            self.lines.clear();
            self.dirty = Some(0);
            self.end = None;
            if let Some(socket) = &self.socket {
                socket.again();
            }
        } else {
            self.scroll_down();
        }
    }

    fn go_to(&mut self, line: u64) {
        self.pause();
        if line >= self.base && line < self.loaded_end() {
            self.show(line);
            return;
        }
        self.detached = true;
        self.asked = false;
        self.lines.clear();
        paint::cut(&self.list, 0);
        self.goal = Some(line);
        self.ask(line.saturating_sub(RANGE / 2), RANGE);
    }

    fn start(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        if self.base <= self.oldest {
            self.pause();
            self.frame.set_scroll_top(0);
        } else {
            self.go_to(self.oldest);
        }
    }

    fn show(&self, line: u64) {
        let found = self.list.query_selector(&format!("[data-line=\"{line}\"]")).ok().flatten();
        let Some(row) = found.and_then(|row| row.dyn_into::<HtmlElement>().ok()) else { return };
        self.frame.set_scroll_top(row.offset_top() - self.frame.client_height() / 3);
        if let Ok(Some(old)) = self.list.query_selector(".is-here") {
            old.class_list().remove_1("is-here").ok();
        }
        row.class_list().add_1("is-here").ok();
    }

    fn search(&mut self, query: &str) {
        let old = std::mem::replace(&mut self.query, query.to_lowercase());
        self.shown.searching.set(!self.query.is_empty());
        for (at, line) in self.lines.iter().enumerate() {
            let text = paint::plain(line).to_lowercase();
            let had = !old.is_empty() && text.contains(&old);
            let has = !self.query.is_empty() && text.contains(&self.query);
            if had || has {
                paint::again(&self.list, at, line, &self.query);
            }
        }
        self.find();
        self.hit = self.hits.len();
        self.show_hit();
    }

    fn find(&mut self) {
        self.hits.clear();
        if !self.query.is_empty() {
            for (at, line) in self.lines.iter().enumerate() {
                if paint::plain(line).to_lowercase().contains(&self.query) {
                    self.hits.push(self.base + at as u64);
                }
            }
        }
        let told = (self.hit.min(self.hits.len()), self.hits.len());
        if self.shown.hits.get_untracked() != told {
            self.shown.hits.set(told);
        }
    }

    fn next_hit(&mut self, forward: bool) {
        let count = self.hits.len();
        if count == 0 {
            self.hit = 0;
            self.shown.hits.set((0, 0));
            return;
        }
        self.hit = match (forward, self.hit) {
            (true, hit) if hit >= count => 1,
            (true, hit) => hit + 1,
            (false, 0 | 1) => count,
            (false, hit) => hit.min(count + 1) - 1,
        };
        self.show_hit();
    }

    fn show_hit(&mut self) {
        self.shown.hits.set((self.hit, self.hits.len()));
        if let Some(line) = self.hit.checked_sub(1).and_then(|at| self.hits.get(at)).copied() {
            self.pause();
            self.show(line);
        }
    }
}
