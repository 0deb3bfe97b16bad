//! `opkit objective …`: what people do with objectives, over REST.

use std::process::ExitCode;

use anyhow::{Context, bail};
use axum::http::Method;
use opkit_app::format;
use opkit_domain::ids::{ObjectiveId, SessionId};
use opkit_domain::objective::{Criterion, Status, SubState};
use opkit_domain::view::KeptView;
use serde_json::{Value, json};

use super::arguments::{AddArgs, ObjectiveCommand};
use super::client::Client;
use super::output::{plain, say, say_json};
use super::watch;

/// Does one command.
pub(super) async fn run(
    client: &Client,
    command: ObjectiveCommand,
    criteria: Vec<Criterion>,
) -> anyhow::Result<ExitCode> {
    match command {
        ObjectiveCommand::Add(args) => add(client, &args, criteria).await?,
        ObjectiveCommand::Show { id, json } => show(client, id, json).await?,
        ObjectiveCommand::List { json, status } => list(client, json, status.as_deref()).await?,
        ObjectiveCommand::Move { id, status } => {
            let answer = act(client, id, "move", json!({"status": status})).await?;
            say(plain(answer["message"].as_str().unwrap_or_default()));
        }
        ObjectiveCommand::Approve { id, integrate, reason } => {
            decide(client, id, "approve", json!({"integrate": integrate, "reason": reason})).await?;
        }
        ObjectiveCommand::Reject { id, findings } => {
            decide(client, id, "reject", json!({"findings": findings})).await?;
        }
        ObjectiveCommand::Answer { id, text } => decide(client, id, "answer", json!({"text": text})).await?,
        ObjectiveCommand::Review { id } => decide(client, id, "review", json!({})).await?,
        ObjectiveCommand::Reopen { id, reason } => {
            decide(client, id, "reopen", json!({"reason": reason})).await?
        }
        ObjectiveCommand::Cancel { id } => decide(client, id, "cancel", json!({})).await?,
        ObjectiveCommand::Resume { id } => decide(client, id, "resume", json!({})).await?,
        ObjectiveCommand::Restore { id } => decide(client, id, "restore", json!({})).await?,
        ObjectiveCommand::Integrate { id, how } => {
            let answer = act(client, id, "integrate", json!({"how": how})).await?;
            say(plain(answer["message"].as_str().unwrap_or_default()));
        }
        ObjectiveCommand::Message { id, text } => {
            let answer = act(client, id, "message", json!({"text": text})).await?;
            say(plain(answer["message"].as_str().unwrap_or_default()));
        }
        ObjectiveCommand::Kept { id, patch: Some(kept), .. } => return kept_patch(client, id, kept).await,
        ObjectiveCommand::Kept { id, json, .. } => kept(client, id, json).await?,
        ObjectiveCommand::RestoreFiles { id, kept } => {
            let answer = act(client, id, "kept/restore", json!({"kept": kept})).await?;
            say(plain(answer["message"].as_str().unwrap_or_default()));
        }
        ObjectiveCommand::Watch { id } => return watch::watch(client, id).await,
    }
    Ok(ExitCode::SUCCESS)
}

async fn act(client: &Client, id: ObjectiveId, verb: &str, body: Value) -> anyhow::Result<Value> {
    client.post(&format!("/api/v1/objectives/{id}/{verb}"), body).await
}

/// A decision, and where it brought the objective.
async fn decide(client: &Client, id: ObjectiveId, verb: &str, body: Value) -> anyhow::Result<()> {
    let answer = act(client, id, verb, body).await?;
    say(format!("#{id} is now in {}.", label(&answer["status"])));
    Ok(())
}

/// The lane's name for people.
pub(super) fn label(status: &Value) -> String {
    let word = status.as_str().unwrap_or_default();
    word.parse::<Status>().map_or_else(|_| plain(word), |status| status.label().to_owned())
}

async fn add(client: &Client, args: &AddArgs, criteria: Vec<Criterion>) -> anyhow::Result<()> {
    let body = json!({
        "title": args.title,
        "repo": args.repo,
        "type": args.kind,
        "brief": args.brief.as_deref().unwrap_or_default(),
        "goal": args.goal.as_deref().unwrap_or_default(),
        "criteria": criteria,
        "base": args.base,
        "priority": args.priority,
        "agent": args.agent,
        "script": args.script,
        "review": args.review,
        "parent": args.parent,
        "blocked_by": args.blocked_by,
        "labels": args.label,
        "hold": args.hold,
        "max_review_rounds": args.max_review_rounds,
    });
    let answer = client.post("/api/v1/objectives", body).await?;
    say(answer["id"].as_i64().context("the server's answer has no number")?.to_string());
    Ok(())
}

async fn show(client: &Client, id: ObjectiveId, as_json: bool) -> anyhow::Result<()> {
    let objective = client.get(&format!("/api/v1/objectives/{id}")).await?;
    if as_json {
        say_json(&objective);
        return Ok(());
    }
    let text = |name: &str| plain(objective[name].as_str().unwrap_or_default());
    say(format!("#{id}  {}", text("title")));
    say(format!("{}, {}, {}", text("type"), label(&objective["status"]), text("repo")));
    if let Some(attention) = objective["attention"].as_str() {
        say(format!("needs you: {} {}", plain(attention), text("attention_note")));
    }
    if let Some(why) = waits(client, &objective).await? {
        say(why);
    }
    say(format!("branch {} from {}", text("branch"), text("base")));
    for criterion in objective["criteria"].as_array().into_iter().flatten() {
        say(format!("- {}", plain(criterion["text"].as_str().unwrap_or_default())));
        if let Some(check) = criterion["check"].as_str() {
            say(format!("  check: {}", plain(check)));
        }
    }
    let brief = text("brief");
    if !brief.is_empty() {
        say(format!("\n{brief}"));
    }
    Ok(())
}

/// Why no session works on it, where something is to come.
async fn waits(client: &Client, objective: &Value) -> anyhow::Result<Option<String>> {
    let Ok(status) = objective["status"].as_str().unwrap_or_default().parse::<Status>() else {
        return Ok(None);
    };
    let is_busy = !objective["session"].is_null() || status == Status::HumanReview || status.is_final();
    if is_busy {
        return Ok(None);
    }
    if objective["hold"] == true {
        return Ok(Some("It is on hold: nothing starts it.".into()));
    }
    let first = objective["waits_for"][0].as_i64();
    if let Some(first) = first.filter(|_| status == Status::Queue) {
        return Ok(Some(format::waits_for(ObjectiveId(first))));
    }
    let sub_state = objective["sub_state"].as_str().and_then(|word| word.parse::<SubState>().ok());
    if status == Status::Queue || sub_state == Some(SubState::WaitingAccount) {
        let until = client.get("/api/v1/accounts").await?["until"].as_i64();
        if let Some(until) = until {
            return Ok(Some(format!("No account is free until {}.", format::exact(until))));
        }
    }
    Ok(sub_state.map(|sub_state| {
        match sub_state {
            SubState::WaitingSlot => "It waits for a slot.",
            SubState::WaitingAccount => {
                "It waits for an account: `opkit accounts list` says what keeps them."
            }
            SubState::WaitingChildren => "It waits for its children.",
            SubState::BetweenRuns => "Its next session starts soon.",
        }
        .to_owned()
    }))
}

async fn list(client: &Client, as_json: bool, status: Option<&str>) -> anyhow::Result<()> {
    if let Some(word) = status {
        word.parse::<Status>()?;
    }
    let mut items = Vec::new();
    let mut after = json!(0);
    loop {
        let status = status.map(|status| format!("&status={status}")).unwrap_or_default();
        let mut page = client.get(&format!("/api/v1/objectives?limit=500&after={after}{status}")).await?;
        items.extend(page["items"].as_array_mut().map(std::mem::take).unwrap_or_default());
        if page["next"].is_null() {
            break;
        }
        after = page["next"].take();
    }
    if as_json {
        say_json(&json!({"items": items, "next": null}));
        return Ok(());
    }
    for item in &items {
        let title = plain(item["title"].as_str().unwrap_or_default());
        say(format!("#{}  {:12}  {title}", item["id"], label(&item["status"])));
    }
    Ok(())
}

async fn kept(client: &Client, id: ObjectiveId, as_json: bool) -> anyhow::Result<()> {
    let list = client.get(&format!("/api/v1/objectives/{id}/kept")).await?;
    if as_json {
        say_json(&list);
        return Ok(());
    }
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        say(format!("Nothing was kept of #{id}: every session left its worktree clean."));
    }
    for item in items {
        let kept: KeptView =
            serde_json::from_value(item.clone()).context("the server's answer is not understood")?;
        let session = kept.session.as_ref().map_or("housekeeping", |session| session.short());
        let state = match (kept.dropped, kept.restored) {
            (true, _) => ", dropped",
            (false, true) => ", brought back",
            (false, false) => "",
        };
        let files = if kept.files.files.len() == 1 { "file" } else { "files" };
        say(format!("{}  session {session}, {} {files}{state}", kept.id, kept.files.files.len()));
        for file in &kept.files.files {
            say(plain(&format!("   {}  {}  +{} -{}", file.change, file.path, file.added, file.removed)));
        }
        for line in kept.files.left_out.iter().chain(&kept.notes) {
            say(plain(&format!("   {line}")));
        }
    }
    Ok(())
}

async fn kept_patch(client: &Client, id: ObjectiveId, kept: i64) -> anyhow::Result<ExitCode> {
    let path = format!("/api/v1/objectives/{id}/kept/patch?kept={kept}");
    let bytes = client.fetch(Method::GET, &path, None).await?.ok_or_else(|| client.no_server())?;
    // A patch is bytes: binary files, any encoding. It goes out as it is.
    std::io::Write::write_all(&mut std::io::stdout(), &bytes)?;
    Ok(ExitCode::SUCCESS)
}

/// `opkit context ID`
pub(super) async fn context(client: &Client, id: &str) -> anyhow::Result<ExitCode> {
    let session: SessionId = match id.parse::<SessionId>() {
        Ok(session) => session,
        Err(_) => {
            let objective: ObjectiveId =
                id.parse().ok().with_context(|| format!("“{id}” is neither a number nor a session's id"))?;
            newest(client, objective).await?
        }
    };
    let path = format!("/api/v1/sessions/{session}/context");
    let bytes = client.fetch(Method::GET, &path, None).await?.ok_or_else(|| client.no_server())?;
    say(plain(&String::from_utf8_lossy(&bytes)));
    Ok(ExitCode::SUCCESS)
}

async fn newest(client: &Client, id: ObjectiveId) -> anyhow::Result<SessionId> {
    let list = client.get(&format!("/api/v1/objectives/{id}/sessions?limit=1")).await?;
    match list["items"][0]["id"].as_str() {
        Some(session) => session.parse().context("the server's answer is not understood"),
        None => bail!("#{id} has had no session yet, so it has no context document"),
    }
}
