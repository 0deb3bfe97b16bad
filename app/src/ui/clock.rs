//! The page's clock. The first render uses the server's time; later the browser keeps ages fresh.

use std::time::Duration;

use leptos::prelude::*;
use wasm_bindgen::JsCast;

use crate::format;

/// Now, ms since 1970.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    now: StoredValue<i64>,
    /// Server minus browser, when they differ by more than a slow page takes.
    offset: StoredValue<i64>,
}

impl Clock {
    /// A clock that does not run yet.
    pub(crate) fn new() -> Clock {
        Clock { now: StoredValue::new(0), offset: StoredValue::new(0) }
    }

    /// The page's data was read at this server time.
    pub(crate) fn seed(self, now: i64) {
        if now > self.now.get_value() {
            self.now.set_value(now);
        }
    }

    /// Now, as precise as an age needs.
    pub(crate) fn now(self) -> i64 {
        self.now.get_value()
    }

    /// Now, to the second; only in the browser.
    pub(crate) fn exact(self) -> i64 {
        browser_now() + self.offset.get_value()
    }

    /// Starts it: every 30 s all ages on the page are written anew, and every second what goes on.
    pub(crate) fn run(self) {
        let difference = self.now.get_value() - browser_now();
        if self.now.get_value() > 0 && difference.abs() > 10_000 {
            self.offset.set_value(difference);
        }
        let tick = move || {
            self.now.set_value(self.exact());
            refresh("data-since", self.now(), format::age);
            refresh("data-ago", self.now(), format::ago);
        };
        let second = move || refresh("data-for", self.exact(), format::duration);
        for (act, every) in [(Box::new(tick) as Box<dyn Fn()>, 30), (Box::new(second), 1)] {
            if let Ok(timer) = set_interval_with_handle(act, Duration::from_secs(every)) {
                on_cleanup(move || timer.clear());
            }
        }
    }
}

#[allow(clippy::cast_possible_truncation)] // Milliseconds since 1970 fit.
fn browser_now() -> i64 {
    js_sys::Date::now() as i64
}

/// Writes every time of a kind on the page. The text node stays the one that was rendered.
fn refresh(kind: &str, now: i64, words: fn(i64) -> String) {
    let Ok(list) = document().query_selector_all(&format!("[{kind}]")) else { return };
    for at in 0..list.length() {
        let Some(element) = list.get(at).and_then(|node| node.dyn_into::<web_sys::Element>().ok()) else {
            continue;
        };
        let Some(since) = element.get_attribute(kind).and_then(|text| text.parse::<i64>().ok()) else {
            continue;
        };
        let words = words(now - since);
        // A write that changes nothing would still end a selection.
        if let Some(text) = element.first_child().filter(|text| text.node_value().as_ref() != Some(&words)) {
            text.set_node_value(Some(&words));
        }
    }
}

/// The clock of the page.
pub(crate) fn use_clock() -> Clock {
    use_context::<Clock>().unwrap_or_else(Clock::new)
}

/// An age that stays fresh, with the exact time in reach.
pub(crate) fn age(class: &'static str, since: i64) -> AnyView {
    let text = format::age(use_clock().now() - since);
    view! {
        <time class=class data-since=since.to_string() title=format::exact(since)>
            {text}
        </time>
    }
    .into_any()
}

/// How long ago, as the end of a sentence.
pub(crate) fn ago(since: i64) -> AnyView {
    let text = format::ago(use_clock().now() - since);
    view! {
        <time data-ago=since.to_string() title=format::exact(since)>
            {text}
        </time>
    }
    .into_any()
}

/// How long something goes on already: it ticks. `now` = when the page was read.
pub(crate) fn lasting(since: i64, now: i64) -> AnyView {
    let text = format::duration((now - since).max(0));
    view! {
        <time data-for=since.to_string() title=format::exact(since)>
            {text}
        </time>
    }
    .into_any()
}
