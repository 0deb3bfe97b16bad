//! What a session may ask the server, through the session door.

use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// A restart of the server takes less; after this the call gives up.
const PATIENCE: Duration = Duration::from_secs(600);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Says what happens now.
pub fn progress(text: &str) -> ExitCode {
    finish(post("progress", &serde_json::json!({"text": text})))
}

/// Asks for a person.
pub fn blocked(reason: &str) -> ExitCode {
    finish(post("blocked", &serde_json::json!({"reason": reason})))
}

/// Says that the objective is delivered.
pub fn done() -> ExitCode {
    finish(post("done", &serde_json::json!({})))
}

/// Prints what the server says about `what`: "objective" or "siblings".
pub fn show(what: &str) -> ExitCode {
    finish(call(what, None))
}

/// One POST with one idempotency key for all its tries.
pub(crate) fn post(what: &str, body: &serde_json::Value) -> anyhow::Result<String> {
    call(what, Some(body.to_string()))
}

fn finish(answer: anyhow::Result<String>) -> ExitCode {
    match answer {
        Ok(text) => {
            if !text.is_empty() {
                println!("{text}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("opkit-session: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn call(what: &str, body: Option<String>) -> anyhow::Result<String> {
    let door =
        std::env::var("OPKIT_DOOR_FILE").context("OPKIT_DOOR_FILE is not set: not inside a session")?;
    let token_file =
        std::env::var("OPKIT_TOKEN_FILE").context("this session has no token: it may not call")?;
    let token = std::fs::read_to_string(&token_file).context("the session's token cannot be read")?;
    let key = crate::files::uuid()?;
    let config = ureq::Agent::config_builder();
    let agent: ureq::Agent = config
        .timeout_global(Some(Duration::from_secs(30)))
        .http_status_as_error(false)
        .proxy(None)
        .build()
        .into();
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let tried = attempt(&agent, Path::new(&door), what, token.trim(), &key, body.as_deref());
        match tried {
            Ok(Answer::Taken(text)) => return Ok(text),
            Ok(Answer::Refused(text)) => bail!("{text}"),
            Ok(Answer::Later(reason)) if start.elapsed() > PATIENCE => {
                bail!("the server did not answer: {reason}")
            }
            Err(error) if start.elapsed() > PATIENCE => {
                return Err(error.context("the server did not answer"));
            }
            Ok(Answer::Later(_)) | Err(_) => thread::sleep(pause),
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

enum Answer {
    Taken(String),
    Refused(String),
    Later(String),
}

/// Reads the door at every try: after a restart it has another port.
fn attempt(
    agent: &ureq::Agent,
    door: &Path,
    what: &str,
    token: &str,
    key: &str,
    body: Option<&str>,
) -> anyhow::Result<Answer> {
    let address = std::fs::read_to_string(door)?;
    let address: std::net::SocketAddr = address.trim().parse().context("the door file holds no address")?;
    if !address.ip().is_loopback() {
        bail!("the door is not on this machine");
    }
    let url = format!("http://{address}/session/v1/{what}");
    let token = format!("Bearer {token}");
    let answer = match body {
        None => agent.get(&url).header("Authorization", &token).call(),
        Some(body) => agent
            .post(&url)
            .header("Authorization", &token)
            .header("Content-Type", "application/json")
            .header("Idempotency-Key", key)
            .send(body),
    };
    let mut answer = answer?;
    let status = answer.status();
    let text = answer.body_mut().with_config().limit(4 << 20).read_to_string()?;
    Ok(match status.as_u16() {
        200..=299 => Answer::Taken(text),
        400..=499 => {
            Answer::Refused(problem(&text).unwrap_or_else(|| format!("the server refused: {status}")))
        }
        _ => Answer::Later(status.to_string()),
    })
}

/// `title: detail` of a problem document.
fn problem(text: &str) -> Option<String> {
    let problem: serde_json::Value = serde_json::from_str(text).ok()?;
    let title = problem.get("title")?.as_str()?;
    Some(match problem.get("detail").and_then(|detail| detail.as_str()) {
        Some(detail) if !detail.is_empty() => format!("{title}: {detail}"),
        _ => title.to_owned(),
    })
}
