//! A viewer of a terminal: what it was sent, by line number.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;

use futures_util::{SinkExt, StreamExt};
use opkit_domain::screen::{Line, TerminalDown, TerminalUp};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::support::{PATIENCE, Server};

pub(crate) type Stream =
    tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

/// Opens a terminal's socket, at the newest window or after an offset.
pub(crate) async fn open(server: &Server, cookie: &str, session: &str, from: Option<u64>) -> Stream {
    let from = from.map(|from| format!("?from={from}")).unwrap_or_default();
    let address = format!("ws://{}/ws/terminal/{session}{from}", server.address);
    let mut request = address.into_client_request().expect("an address");
    request.headers_mut().insert("origin", server.origin().parse().expect("a header"));
    request.headers_mut().insert("cookie", cookie.parse().expect("a header"));
    tokio_tungstenite::connect_async(request).await.expect("the terminal opens").0
}

pub(crate) fn message(up: &TerminalUp) -> Message {
    Message::Binary(postcard::to_stdvec(up).expect("a message").into())
}

pub(crate) fn text(line: &Line) -> String {
    line.iter().map(|span| span.text.as_str()).collect()
}

/// Everything one viewer was shown, over any number of connections.
#[derive(Default)]
pub(crate) struct Viewer {
    pub(crate) lines: BTreeMap<u64, String>,
    /// The offset to resume from.
    pub(crate) end: u64,
    /// Ends of all windows.
    pub(crate) ends: Vec<u64>,
}

impl Viewer {
    /// Takes the next message; a window is kept and acknowledged.
    pub(crate) async fn next(&mut self, stream: &mut Stream) -> TerminalDown {
        let down = loop {
            let message = timeout(PATIENCE, stream.next()).await.expect("a frame in time");
            if let Message::Binary(bytes) = message.expect("the socket is open").expect("a good frame") {
                break postcard::from_bytes(&bytes).expect("a frame");
            }
        };
        if let TerminalDown::Lines { first, at, end, lines } = &down {
            assert!(at < end && *at >= self.end, "a window from {at} to {end} after {}", self.end);
            self.keep(*first, lines);
            self.end = *end;
            self.ends.push(*end);
            stream.send(message(&TerminalUp::Ack { end: *end })).await.expect("it is taken");
        }
        down
    }

    fn keep(&mut self, first: u64, lines: &[Line]) {
        for (number, line) in (first..).zip(lines) {
            let text = text(line);
            let before = self.lines.insert(number, text.clone());
            assert!(before.is_none_or(|before| before == text), "line {number} changed to {text}");
        }
    }

    /// Takes windows until this offset was shown.
    pub(crate) async fn follow(&mut self, stream: &mut Stream, wanted: u64) {
        while self.end < wanted {
            self.next(stream).await;
        }
    }

    /// Fetches what was jumped over, by line number.
    pub(crate) async fn fill(&mut self, stream: &mut Stream) {
        let last = *self.lines.keys().next_back().expect("lines");
        let mut next = 0;
        while next <= last {
            if self.lines.contains_key(&next) {
                next += 1;
                continue;
            }
            let range = TerminalUp::Range { first: next, count: 500 };
            stream.send(message(&range)).await.expect("it is taken");
            let (first, lines) = loop {
                if let TerminalDown::Range { first, lines, .. } = self.next(stream).await {
                    break (first, lines);
                }
            };
            assert!(
                first == next && !lines.is_empty(),
                "asked for line {next}, got {} from {first}",
                lines.len()
            );
            self.keep(first, &lines);
            next += lines.len() as u64;
        }
    }
}
