//! A stand-in for the Messages API on loopback: scripted turns, streamed as the real one streams them.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

/// What the model answers once: a few words, or calls of tools with their input.
pub(crate) enum Turn {
    Says(&'static str),
    Calls(Vec<(&'static str, Value)>),
}

/// The turns of one conversation, in order. Answers are chosen by the assistant messages a request carries,
/// so a repeated request gets the same answer.
pub(crate) struct Script {
    pub(crate) name: &'static str,
    /// Text of the first user message by which it is known.
    pub(crate) known_by: &'static str,
    pub(crate) turns: Vec<Turn>,
}

/// One request, as far as tests look at it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// The script's name; empty for a request that no script is for.
    pub(crate) script: &'static str,
    /// Which turn was asked for, from 0.
    pub(crate) turn: usize,
    /// The header `x-api-key`.
    pub(crate) key: String,
    /// Text that came after the model's last turn: results of tools, and reminders.
    pub(crate) news: String,
    /// Names of the tools that the model may call.
    pub(crate) tools: Vec<String>,
}

/// A running stand-in. Its thread ends with the test's process.
pub(crate) struct StandIn {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    scripts: Vec<Script>,
    seen: Mutex<Vec<Seen>>,
}

impl StandIn {
    pub(crate) fn start(scripts: Vec<Script>) -> StandIn {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        listener.set_nonblocking(true).expect("a listener for tokio");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared { scripts, seen: Mutex::default() });
        let router = Router::new()
            .route("/v1/messages", post(messages))
            .fallback(other)
            .layer(DefaultBodyLimit::max(32 << 20))
            .with_state(Arc::clone(&shared));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                axum::serve(listener, router).await
            })
        });
        StandIn { address, shared }
    }

    /// Every request for a message so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The newest request of a script for a turn.
    pub(crate) fn asked(&self, script: &str, turn: usize) -> Seen {
        let seen = self.seen();
        let found = seen.iter().rev().find(|seen| seen.script == script && seen.turn == turn);
        found.cloned().unwrap_or_else(|| panic!("turn {turn} of {script} was not asked for: {seen:#?}"))
    }
}

/// The CLI first asks whether anybody is there, and is content with any answer.
async fn other(request: Request) -> Response {
    match request.uri().path() {
        "/" => Json(json!({})).into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn messages(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let first = messages.iter().find(|message| message["role"] == "user").map(text_of).unwrap_or_default();
    let turn = messages.iter().filter(|message| message["role"] == "assistant").count();
    let since = messages.iter().rposition(|message| message["role"] == "assistant").map_or(0, |at| at + 1);
    let news: Vec<String> = messages[since..].iter().map(text_of).collect();
    let script = shared.scripts.iter().find(|script| first.contains(script.known_by));
    let seen = Seen {
        script: script.map_or("", |script| script.name),
        turn,
        key: headers.get("x-api-key").and_then(|key| key.to_str().ok()).unwrap_or_default().to_owned(),
        news: news.join("\n"),
        tools: body["tools"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|tool| tool["name"].as_str().map(str::to_owned))
            .collect(),
    };
    shared.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
    let over = Turn::Says("The script is over.");
    let answer = script.and_then(|script| script.turns.get(turn)).unwrap_or(&over);
    let message = message(answer, turn, &body["model"]);
    if body["stream"] != true {
        return Json(message).into_response();
    }
    let events: Vec<Result<Event, Infallible>> = stream(&message).into_iter().map(Ok).collect();
    Sse::new(futures_util::stream::iter(events)).into_response()
}

/// All text of a message, that of tool results and reminders too.
fn text_of(message: &Value) -> String {
    fn collect(content: &Value, texts: &mut Vec<String>) {
        match content {
            Value::String(text) => texts.push(text.clone()),
            Value::Array(blocks) => blocks.iter().for_each(|block| {
                collect(&block["text"], texts);
                collect(&block["content"], texts);
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
        }
    }
    let mut texts = Vec::new();
    collect(&message["content"], &mut texts);
    texts.join("\n")
}

fn message(answer: &Turn, turn: usize, model: &Value) -> Value {
    let (blocks, reason) = match answer {
        Turn::Says(text) => (vec![json!({"type": "text", "text": text})], "end_turn"),
        Turn::Calls(calls) => {
            let block = |(tool, input): &(&str, Value)| {
                let id = format!("toolu_{turn}_{}", uuid::Uuid::new_v4().simple());
                json!({"type": "tool_use", "id": id, "name": tool, "input": input})
            };
            (calls.iter().map(block).collect(), "tool_use")
        }
    };
    json!({
        "id": format!("msg_{}", uuid::Uuid::new_v4().simple()),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": reason,
        "stop_sequence": null,
        "usage": {"input_tokens": 100, "output_tokens": 20,
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
    })
}

/// The message in the pieces and the order of the real stream.
fn stream(message: &Value) -> Vec<Event> {
    let mut events = Vec::new();
    let mut add = |kind: &str, mut data: Value| {
        data["type"] = kind.into();
        events.push(Event::default().event(kind).data(data.to_string()));
    };
    let mut begin = message.clone();
    begin["content"] = json!([]);
    begin["stop_reason"] = Value::Null;
    begin["usage"]["output_tokens"] = 1.into();
    add("message_start", json!({"message": begin}));
    for (index, block) in message["content"].as_array().into_iter().flatten().enumerate() {
        let mut empty = block.clone();
        let (text, delta, field) = match block["type"].as_str() {
            Some("tool_use") => {
                empty["input"] = json!({});
                (block["input"].to_string(), "input_json_delta", "partial_json")
            }
            _ => {
                empty["text"] = "".into();
                (block["text"].as_str().unwrap_or_default().to_owned(), "text_delta", "text")
            }
        };
        add("content_block_start", json!({"index": index, "content_block": empty}));
        for piece in text.chars().collect::<Vec<_>>().chunks(40) {
            let piece: String = piece.iter().collect();
            add("content_block_delta", json!({"index": index, "delta": {"type": delta, field: piece}}));
        }
        add("content_block_stop", json!({"index": index}));
    }
    let delta = json!({"stop_reason": message["stop_reason"], "stop_sequence": null});
    add("message_delta", json!({"delta": delta, "usage": message["usage"]}));
    add("message_stop", json!({}));
    events
}
