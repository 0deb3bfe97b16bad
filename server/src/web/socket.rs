//! What both websockets share: one frame at a time, a heartbeat, and the ends that people cause.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use tokio::sync::watch;
use tokio::time::{Instant, interval_at, timeout};

use super::Door;
use super::identity::Identity;
use opkit_engine::now_ms;

/// The login ended: the page shows the login form.
const LOGGED_OUT: u16 = 4001;
/// The server restarts: the page comes back and resumes.
const RESTART: u16 = 1012;
const PING: Duration = Duration::from_secs(25);
/// A viewer that answers no ping for so long is gone.
const SILENCE: Duration = Duration::from_secs(80);
/// A viewer that reads nothing for so long is gone.
const STALLED: Duration = Duration::from_secs(600);
/// The largest message a viewer may send, bytes.
pub(super) const LARGEST: usize = 64 * 1024;

/// Where frames come from and what becomes of a viewer's messages.
pub(super) trait Source: Send {
    /// The next frame; none when the source ended. Dropping the future loses nothing.
    fn next(&mut self) -> impl Future<Output = Option<Message>> + Send;
    /// A message of the viewer; false closes the socket.
    fn hear(&mut self, message: Message) -> bool;
}

/// Whatever ends a socket from our side.
pub(super) struct Leash {
    door: Door,
    identity: Identity,
    ended: watch::Receiver<u64>,
    leaving: watch::Receiver<bool>,
}

impl Leash {
    pub(super) fn new(door: Door, identity: Identity) -> Leash {
        let (ended, leaving) = (door.ended().changed(), door.leaving());
        Leash { door, identity, ended, leaving }
    }

    /// Waits until the login ends or the server leaves.
    async fn pulled(&mut self) -> CloseFrame {
        loop {
            if *self.leaving.borrow() {
                return restart();
            }
            let left_ms = self.identity.expires.map(|at| at.saturating_sub(now_ms()));
            let ended = self.identity.login.as_ref().is_some_and(|login| self.door.ended().contains(login));
            if ended || left_ms.is_some_and(|left| left <= 0) {
                return CloseFrame { code: LOGGED_OUT, reason: "logged out".into() };
            }
            // Looked at again every minute at least: the wall clock may jump.
            let pause = left_ms.map_or(60_000, |left| left.clamp(1, 60_000)).unsigned_abs();
            tokio::select! {
                _ = self.leaving.changed() => {}
                _ = self.ended.changed() => {}
                () = tokio::time::sleep(Duration::from_millis(pause)) => {}
            }
        }
    }
}

fn restart() -> CloseFrame {
    CloseFrame { code: RESTART, reason: "the server restarts".into() }
}

/// Carries frames until one side ends. The next frame is asked for only when the last one was sent, so a slow
/// viewer costs one frame of memory and gets newer content instead of a queue.
pub(super) async fn carry<S: Source>(mut socket: WebSocket, mut source: S, mut leash: Leash) {
    let mut ping = interval_at(Instant::now() + PING, PING);
    let mut heard = Instant::now();
    let end = loop {
        let message = tokio::select! {
            end = leash.pulled() => break end,
            message = socket.recv() => match message {
                None | Some(Err(_) | Ok(Message::Close(_))) => return,
                Some(Ok(message)) => {
                    heard = Instant::now();
                    if !source.hear(message) {
                        break CloseFrame { code: 1008, reason: "not understood".into() };
                    }
                    continue;
                }
            },
            message = source.next() => match message {
                Some(message) => message,
                None => break restart(),
            },
            _ = ping.tick() => {
                if heard.elapsed() > SILENCE {
                    return;
                }
                Message::Ping(Default::default())
            }
        };
        let before = Instant::now();
        tokio::select! {
            end = leash.pulled() => break end,
            sent = timeout(STALLED, socket.send(message)) => {
                if !matches!(sent, Ok(Ok(()))) {
                    return;
                }
                // While it did not read we did not listen either: that time is no silence.
                heard += before.elapsed();
            }
        }
    };
    let _ = timeout(Duration::from_secs(1), socket.send(Message::Close(Some(end)))).await;
}
