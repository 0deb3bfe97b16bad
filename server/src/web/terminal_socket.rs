//! `/ws/terminal/{session}?from=OFFSET`: a session's terminal as binary postcard frames.

use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::extract::{Extension, State};
use axum::response::Response;
use opkit_domain::screen::TerminalUp;
use opkit_engine::TerminalStream;
use serde::Deserialize;

use super::Door;
use super::identity::{Identity, Who};
use super::problem::Problem;
use super::rest::{Params, SessionPath};
use super::socket::{LARGEST, Leash, Source, carry};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    /// Record offset to resume from; none = the newest window.
    #[serde(default)]
    from: Option<u64>,
}

struct Terminal(TerminalStream);

impl Source for Terminal {
    async fn next(&mut self) -> Option<Message> {
        let down = self.0.next().await?;
        match postcard::to_stdvec(&down) {
            Ok(bytes) => Some(Message::Binary(bytes.into())),
            Err(error) => {
                tracing::error!(%error, "a terminal message cannot be written");
                None
            }
        }
    }

    fn hear(&mut self, message: Message) -> bool {
        match message {
            Message::Binary(bytes) => match postcard::from_bytes::<TerminalUp>(&bytes) {
                Ok(up) => {
                    self.0.up(up);
                    true
                }
                Err(_) => false,
            },
            Message::Text(_) => false,
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) => true,
        }
    }
}

/// Login and origin were checked on the way here; the session's client is checked by the engine.
pub(super) async fn open(
    State(door): State<Door>,
    Who(actor): Who,
    Extension(identity): Extension<Identity>,
    SessionPath(session): SessionPath,
    Params(query): Params<Query>,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Problem> {
    let terminal = door.engine().terminal(actor.scope, &session, query.from).await?;
    let leash = Leash::new(door, identity);
    Ok(upgrade.max_message_size(LARGEST).on_upgrade(move |socket| carry(socket, Terminal(terminal), leash)))
}
