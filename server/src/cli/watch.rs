//! `opkit objective watch ID`: prints each transition until a person is needed or nothing follows.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use axum::http::Method;
use opkit_domain::ids::ObjectiveId;
use serde_json::Value;

use super::client::{Client, Reached};
use super::objective::label;
use super::output::{plain, say};

const PERIOD: Duration = Duration::from_millis(400);
/// A restart of the server takes less.
const PATIENCE: Duration = Duration::from_secs(60);

/// Exit 0 done, 3 human_review, 4 cancelled.
pub(super) async fn watch(client: &Client, id: ObjectiveId) -> anyhow::Result<ExitCode> {
    let mut after = 0;
    let mut answered: Option<Instant> = None;
    loop {
        // The status is read before the events, so that no transition is missed at the end.
        let objective = ask(client, &format!("/api/v1/objectives/{id}"), &mut answered).await?;
        while let Some(page) =
            ask(client, &format!("/api/v1/objectives/{id}/events?after={after}"), &mut answered).await?
        {
            let events = page["items"].as_array().cloned().unwrap_or_default();
            events.iter().filter_map(line).for_each(say);
            after = events.iter().filter_map(|event| event["seq"].as_i64()).fold(after, i64::max);
            if page["next"].is_null() {
                break;
            }
        }
        let status = objective.as_ref().and_then(|objective| objective["status"].as_str());
        match status {
            Some("done") => return Ok(ExitCode::SUCCESS),
            Some("human_review") => return Ok(ExitCode::from(3)),
            Some("cancelled") => return Ok(ExitCode::from(4)),
            _ => tokio::time::sleep(PERIOD).await,
        }
    }
}

/// None while a server that answered before is away.
async fn ask(client: &Client, path: &str, answered: &mut Option<Instant>) -> anyhow::Result<Option<Value>> {
    let outcome = client.try_call(Method::GET, path, None).await;
    let away = matches!(outcome, Ok(Reached::NoServer)) || outcome.as_ref().is_err_and(broken_off);
    if away && answered.is_some_and(|at| at.elapsed() < PATIENCE) {
        return Ok(None);
    }
    match outcome? {
        Reached::Yes(value) => {
            *answered = Some(Instant::now());
            Ok(Some(value))
        }
        Reached::NoServer => Err(client.no_server()),
    }
}

fn broken_off(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<hyper::Error>())
}

/// A transition as a line; other events are none.
fn line(event: &Value) -> Option<String> {
    if event["to"].is_null() || event["from"] == event["to"] {
        return None;
    }
    let reason = plain(event["reason"].as_str().unwrap_or_default());
    let from =
        if event["from"].is_null() { String::new() } else { format!("{} → ", label(&event["from"])) };
    Some(format!("{from}{}  {reason}", label(&event["to"])).trim_end().to_owned())
}
