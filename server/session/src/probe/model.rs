//! A stand-in for the Messages API on loopback: scripted turns, streamed as the real one streams them.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

/// Calls of tools: name and input.
pub(super) type Turn = Vec<(&'static str, Value)>;

/// A request is not read beyond this.
const REQUEST_BYTES: usize = 32 << 20;
const PATIENCE: Duration = Duration::from_secs(20);

/// One request for a message.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// Which turn was asked for, from 0.
    pub(super) turn: usize,
    /// The header `x-api-key`.
    pub(super) key: String,
    /// What came after the model's last turn: results of tools, and reminders.
    pub(super) news: String,
}

/// A running stand-in; it ends when it is dropped.
pub(super) struct Model {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    turns: Vec<Turn>,
    asked: Mutex<Vec<Asked>>,
    over: AtomicBool,
}

impl Model {
    /// After its turns the model says that it is done.
    pub(super) fn start(turns: Vec<Turn>) -> io::Result<Model> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { turns, asked: Mutex::default(), over: AtomicBool::new(false) });
        let served = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if served.over.load(Ordering::Relaxed) {
                    return;
                }
                let served = Arc::clone(&served);
                // Whatever a client does wrong is its own loss.
                std::thread::spawn(move || drop(serve(&served, stream)));
            }
        });
        Ok(Model { address, shared, thread: Some(thread) })
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for the next connection.
        let woken = TcpStream::connect(self.address);
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// Answers one request; the connection is closed after it.
fn serve(shared: &Shared, stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut out = stream;
    let mut first = String::new();
    reader.by_ref().take(8 << 10).read_line(&mut first)?;
    let (mut length, mut key) = (0, String::new());
    loop {
        let mut line = String::new();
        if reader.by_ref().take(64 << 10).read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        let Some((name, value)) = line.split_once(':') else { continue };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or_default(),
            "x-api-key" => value.trim().clone_into(&mut key),
            _ => {}
        }
    }
    if !first.starts_with("POST /v1/messages") || first.contains("count_tokens") || length > REQUEST_BYTES {
        // The CLI first asks whether anybody is there, and is content with any answer.
        let status = if first.starts_with("HEAD / ") || first.starts_with("GET / ") {
            "200 OK"
        } else {
            "404 Not Found"
        };
        return write!(out, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body: Value = serde_json::from_slice(&body).map_err(io::Error::other)?;
    let (kind, text) = answer(shared, &body, key);
    let length = text.len();
    write!(
        out,
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}"
    )?;
    out.flush()
}

/// The answer is chosen by the assistant messages that a request carries, so a repeated one gets the same.
fn answer(shared: &Shared, body: &Value, key: String) -> (&'static str, String) {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let turn = messages.iter().filter(|message| message["role"] == "assistant").count();
    let since = messages.iter().rposition(|message| message["role"] == "assistant").map_or(0, |at| at + 1);
    let mut news = String::new();
    messages[since..].iter().for_each(|message| collect(&message["content"], &mut news));
    // A request without tools is for a title or the like: it is no turn.
    let tools = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    if tools {
        shared.asked.lock().unwrap_or_else(PoisonError::into_inner).push(Asked { turn, key, news });
    }
    let message = message(shared.turns.get(turn).filter(|_| tools), turn, &body["model"]);
    if body["stream"] == true {
        ("text/event-stream", stream(&message))
    } else {
        ("application/json", message.to_string())
    }
}

/// All text of a message's content, that of tool results too.
fn collect(content: &Value, text: &mut String) {
    match content {
        Value::String(part) => {
            text.push_str(part);
            text.push('\n');
        }
        Value::Array(blocks) => blocks.iter().for_each(|block| {
            collect(&block["text"], text);
            collect(&block["content"], text);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
    }
}

fn message(calls: Option<&Turn>, turn: usize, model: &Value) -> Value {
    let (blocks, reason): (Vec<Value>, _) = match calls {
        None => (vec![json!({"type": "text", "text": "Done."})], "end_turn"),
        Some(calls) => {
            let block = |(at, (tool, input)): (usize, &(&str, Value))| json!({"type": "tool_use", "id": format!("toolu_probe_{turn}_{at}"), "name": tool, "input": input});
            (calls.iter().enumerate().map(block).collect(), "tool_use")
        }
    };
    json!({
        "id": format!("msg_probe_{turn}"), "type": "message", "role": "assistant", "model": model,
        "content": blocks, "stop_reason": reason, "stop_sequence": null,
        "usage": {"input_tokens": 100, "output_tokens": 20, "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0},
    })
}

/// The message in the pieces and the order of the real stream.
fn stream(message: &Value) -> String {
    let mut text = String::new();
    let mut add = |kind: &str, mut data: Value| {
        data["type"] = kind.into();
        text.push_str(&format!("event: {kind}\ndata: {data}\n\n"));
    };
    let mut begin = message.clone();
    begin["content"] = json!([]);
    begin["stop_reason"] = Value::Null;
    add("message_start", json!({"message": begin}));
    for (index, block) in message["content"].as_array().into_iter().flatten().enumerate() {
        let mut empty = block.clone();
        let delta = if block["type"] == "tool_use" {
            empty["input"] = json!({});
            json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})
        } else {
            empty["text"] = "".into();
            json!({"type": "text_delta", "text": block["text"]})
        };
        add("content_block_start", json!({"index": index, "content_block": empty}));
        add("content_block_delta", json!({"index": index, "delta": delta}));
        add("content_block_stop", json!({"index": index}));
    }
    let delta = json!({"stop_reason": message["stop_reason"], "stop_sequence": null});
    add("message_delta", json!({"delta": delta, "usage": message["usage"]}));
    add("message_stop", json!({}));
    text
}
