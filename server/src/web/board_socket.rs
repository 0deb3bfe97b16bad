//! `/ws/board?after=SEQ`: the board's feed as JSON text frames.

use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::extract::{Extension, State};
use axum::response::Response;
use opkit_engine::FeedStream;
use serde::Deserialize;

use super::Door;
use super::identity::{Identity, Who};
use super::problem::Problem;
use super::rest::Params;
use super::socket::{LARGEST, Leash, Source, carry};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    /// The event number the page was read at.
    #[serde(default)]
    after: i64,
}

struct Board(FeedStream);

impl Source for Board {
    async fn next(&mut self) -> Option<Message> {
        let feed = self.0.next().await?;
        match serde_json::to_string(&feed) {
            Ok(text) => Some(Message::Text(text.into())),
            Err(error) => {
                tracing::error!(%error, "a board message cannot be written");
                None
            }
        }
    }

    fn hear(&mut self, _: Message) -> bool {
        true
    }
}

/// Login and origin were checked on the way here.
pub(super) async fn open(
    State(door): State<Door>,
    Who(actor): Who,
    Extension(identity): Extension<Identity>,
    Params(query): Params<Query>,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Problem> {
    let feed = door.engine().feed(actor.scope, query.after).await?;
    let leash = Leash::new(door, identity);
    Ok(upgrade.max_message_size(LARGEST).on_upgrade(move |socket| carry(socket, Board(feed), leash)))
}
