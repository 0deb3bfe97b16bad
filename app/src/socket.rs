//! A WebSocket that comes back: back-off with jitter, at once when the page is seen again or the network is back.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use leptos::leptos_dom::helpers::TimeoutHandle;
use leptos::prelude::*;
use wasm_bindgen::prelude::*;
use web_sys::{BinaryType, MessageEvent, WebSocket};

/// How a page stands to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// Not there yet.
    Connecting,
    /// Connected.
    Live,
    /// Lost for some seconds: what is shown may be old.
    Stale,
}

impl Link {
    /// The word of the data attribute.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Link::Connecting => "connecting",
            Link::Live => "live",
            Link::Stale => "stale",
        }
    }
}

/// What came in.
pub(crate) enum Frame {
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

type Handler = Closure<dyn FnMut(JsValue)>;

struct Open {
    socket: WebSocket,
    /// Kept alive as long as the socket may call them.
    _handlers: [Handler; 3],
}

impl Drop for Open {
    fn drop(&mut self) {
        self.socket.set_onopen(None);
        self.socket.set_onmessage(None);
        self.socket.set_onclose(None);
        // Closing what is closed is no fault.
        self.socket.close().ok();
    }
}

struct Inner {
    /// The path with its query, asked anew for every attempt: it carries where to resume.
    path: Box<dyn Fn() -> String>,
    frame: Box<dyn Fn(Frame)>,
    link: RwSignal<Link>,
    open: RefCell<Option<Open>>,
    tries: Cell<u32>,
    over: Cell<bool>,
    /// Nothing more is expected: a closed connection stays closed until somebody sends.
    calm: Cell<bool>,
    waiting: RefCell<Vec<Vec<u8>>>,
    retry: Cell<Option<TimeoutHandle>>,
    hidden_at: Cell<f64>,
    listeners: RefCell<Vec<WindowListenerHandle>>,
}

/// A connection that stays until it is closed or dropped.
pub(crate) struct Socket(Rc<Inner>);

impl Drop for Socket {
    fn drop(&mut self) {
        self.close();
    }
}

impl Socket {
    /// Opens and keeps open. `path` gives path and query, `frame` takes what comes.
    pub(crate) fn keep(
        link: RwSignal<Link>,
        path: impl Fn() -> String + 'static,
        frame: impl Fn(Frame) + 'static,
    ) -> Socket {
        let inner = Rc::new(Inner {
            path: Box::new(path),
            frame: Box::new(frame),
            link,
            open: RefCell::new(None),
            tries: Cell::new(0),
            over: Cell::new(false),
            calm: Cell::new(false),
            waiting: RefCell::new(Vec::new()),
            retry: Cell::new(None),
            hidden_at: Cell::new(0.0),
            listeners: RefCell::new(Vec::new()),
        });
        watch_page(&inner);
        connect(&inner);
        Socket(inner)
    }

    /// Sends bytes. Without a connection they are lost, because the next one starts with its own question;
    /// but when nothing more is expected, the connection is opened for them.
    pub(crate) fn send(&self, bytes: &[u8]) {
        if self.is_open() {
            if let Some(open) = self.0.open.borrow().as_ref() {
                open.socket.send_with_u8_array(bytes).ok();
            }
        } else if self.0.calm.get() {
            self.0.waiting.borrow_mut().push(bytes.to_vec());
            self.again();
        }
    }

    /// Nothing more is expected.
    pub(crate) fn calm(&self) {
        self.0.calm.set(true);
    }

    fn is_open(&self) -> bool {
        self.0.open.borrow().as_ref().is_some_and(|open| open.socket.ready_state() == WebSocket::OPEN)
    }

    /// Tries again now; not within this call, because the path is asked from whoever calls.
    pub(crate) fn again(&self) {
        self.0.tries.set(0);
        try_after(&self.0, Duration::ZERO);
    }

    /// Ends it for good.
    pub(crate) fn close(&self) {
        self.0.over.set(true);
        if let Some(timer) = self.0.retry.take() {
            timer.clear();
        }
        for listener in self.0.listeners.borrow_mut().drain(..) {
            listener.remove();
        }
        self.0.open.borrow_mut().take();
    }
}

/// A suspended page has sockets that only look open; a page that is seen again asks anew.
fn watch_page(inner: &Rc<Inner>) {
    let seen = weak(inner, |inner| {
        let now = js_sys::Date::now();
        if document().visibility_state() == web_sys::VisibilityState::Hidden {
            inner.hidden_at.set(now);
        } else if inner.hidden_at.get() > 0.0 && now - inner.hidden_at.get() > 15_000.0 {
            inner.tries.set(0);
            connect(inner);
        }
    });
    let online = weak(inner, |inner| {
        inner.tries.set(0);
        connect(inner);
    });
    let offline = weak(inner, lost);
    let mut listeners = inner.listeners.borrow_mut();
    listeners.push(window_event_listener_untyped("visibilitychange", move |_| seen()));
    listeners.push(window_event_listener_untyped("online", move |_| online()));
    listeners.push(window_event_listener_untyped("offline", move |_| offline()));
}

fn weak(inner: &Rc<Inner>, act: impl Fn(&Rc<Inner>) + 'static) -> impl Fn() + 'static {
    let inner: Weak<Inner> = Rc::downgrade(inner);
    move || {
        if let Some(inner) = inner.upgrade()
            && !inner.over.get()
        {
            act(&inner);
        }
    }
}

fn connect(inner: &Rc<Inner>) {
    if inner.over.get() {
        return;
    }
    if let Some(timer) = inner.retry.take() {
        timer.clear();
    }
    inner.open.borrow_mut().take();
    let location = window().location();
    let (Ok(host), Ok(protocol)) = (location.host(), location.protocol()) else { return };
    let scheme = if protocol == "https:" { "wss" } else { "ws" };
    let url = format!("{scheme}://{host}{}", (inner.path)());
    let Ok(socket) = WebSocket::new(&url) else {
        lost(inner);
        return;
    };
    socket.set_binary_type(BinaryType::Arraybuffer);
    let opened = weak(inner, |inner| {
        inner.tries.set(0);
        inner.link.set(Link::Live);
        let waiting = inner.waiting.take();
        if let Some(open) = inner.open.borrow().as_ref() {
            for bytes in waiting {
                open.socket.send_with_u8_array(&bytes).ok();
            }
        }
    });
    let closed = weak(inner, lost);
    let weak_inner = Rc::downgrade(inner);
    let opened: Handler = Closure::new(move |_: JsValue| opened());
    let closed: Handler = Closure::new(move |_: JsValue| closed());
    let message: Handler = Closure::new(move |event: JsValue| {
        let Some(inner) = weak_inner.upgrade() else { return };
        let data = event.unchecked_into::<MessageEvent>().data();
        if let Some(text) = data.as_string() {
            (inner.frame)(Frame::Text(text));
        } else if let Ok(buffer) = data.dyn_into::<js_sys::ArrayBuffer>() {
            (inner.frame)(Frame::Bytes(js_sys::Uint8Array::new(&buffer).to_vec()));
        }
    });
    socket.set_onopen(Some(opened.as_ref().unchecked_ref()));
    socket.set_onclose(Some(closed.as_ref().unchecked_ref()));
    socket.set_onmessage(Some(message.as_ref().unchecked_ref()));
    *inner.open.borrow_mut() = Some(Open { socket, _handlers: [opened, closed, message] });
}

/// Says so and tries again later: 0.5 s doubling to 15 s, each stretched or shortened by a quarter.
fn lost(inner: &Rc<Inner>) {
    if inner.calm.get() {
        return;
    }
    let tries = inner.tries.get();
    inner.tries.set(tries.saturating_add(1));
    let state = if tries >= 3 { Link::Stale } else { Link::Connecting };
    if inner.link.get_untracked() != Link::Stale {
        inner.link.set(state);
    }
    let wait =
        (500.0 * f64::from(1_u32 << tries.min(5))).min(15_000.0) * (0.75 + js_sys::Math::random() / 2.0);
    // The number is positive and far below the bound.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let wait = Duration::from_millis(wait as u64);
    try_after(inner, wait);
}

fn try_after(inner: &Rc<Inner>, wait: Duration) {
    if let Some(old) = inner.retry.take() {
        old.clear();
    }
    inner.retry.set(set_timeout_with_handle(weak(inner, connect), wait).ok());
}
