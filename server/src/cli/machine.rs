//! Commands about the installation: owner, tokens, repositories, doctor, stop and enable.
//!
//! Those that a person needs before or without a server open the data themselves, under its lock.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use axum::http::Method;
use opkit_app::format;
use opkit_domain::view::{DiskUse, EditUpkeep, Upkeep};
use opkit_engine::{Engine, Probed};
use serde_json::{Value, json};

use super::arguments::{RepoArgs, RepoSetArgs, SetupArgs, TokenArgs, UpkeepArgs};
use super::client::{Client, Reached};
use super::output::{plain, say, say_json};
use crate::web::{Site, check_new, hash_now, local_actor, mint};

/// The engine without a server around it; nothing is started.
pub(super) async fn open(data: &Path) -> anyhow::Result<Engine> {
    let site = Site::find(crate::config::site())?;
    Ok(Engine::open(crate::config::engine(data, site.build_id())?).await?)
}

/// The same where data must be there already: a mistyped directory is not made, it is refused.
pub(super) async fn open_existing(data: &Path) -> anyhow::Result<Engine> {
    if !data.join("db/opkit.db").exists() {
        bail!("there is no Opkit data in {}. Name the directory with --data", data.display());
    }
    open(data).await
}

pub(super) fn me() -> opkit_domain::access::Actor {
    local_actor(rustix::process::geteuid().as_raw())
}

/// `setup --owner NAME --password-stdin`
pub(super) async fn set_up(client: &Client, data: &Path, args: &SetupArgs) -> anyhow::Result<ExitCode> {
    let mut text = String::new();
    std::io::stdin()
        .take(4096)
        .read_to_string(&mut text)
        .context("the password on standard input is not text")?;
    let password = text.lines().next().unwrap_or_default();
    if let Err((_, sentence)) = check_new(&args.owner, password) {
        bail!("{}", sentence.trim_end_matches('.'));
    }
    let body = json!({"name": args.owner, "password": password});
    if let Reached::NoServer = client.try_call(Method::POST, "/control/v1/owner", Some(body)).await? {
        open(data).await?.create_owner(&args.owner, &hash_now(password)?).await?;
    }
    say(format!("The owner is {}.", args.owner));
    Ok(ExitCode::SUCCESS)
}

/// `tokens create`: prints the token alone.
pub(super) async fn create_token(client: &Client, data: &Path, args: &TokenArgs) -> anyhow::Result<ExitCode> {
    let body = json!({"actor": args.actor, "scope": args.scope});
    let token = match client.try_call(Method::POST, "/control/v1/tokens", Some(body)).await? {
        Reached::Yes(answer) => answer["token"].as_str().unwrap_or_default().to_owned(),
        Reached::NoServer => mint(&open_existing(data).await?, &me(), &args.actor, &args.scope).await?,
    };
    say(token);
    Ok(ExitCode::SUCCESS)
}

/// `repos add`
pub(super) async fn add_repo(client: &Client, args: &RepoArgs) -> anyhow::Result<ExitCode> {
    // The server's working directory is not ours: a path that exists here is meant from here.
    let source = match std::fs::canonicalize(&args.path) {
        Ok(path) => path.to_str().context("the path of the repository is not UTF-8")?.to_owned(),
        Err(_) if !args.path.contains(':') => {
            crate::config::absolute(Path::new(&args.path))?.display().to_string()
        }
        Err(_) => args.path.clone(),
    };
    let body = json!({
        "source": source,
        "name": args.name,
        "base": args.base,
        "setup": args.setup,
        "verify": args.verify,
        "integrate": args.integrate,
    });
    let repo = client.post("/api/v1/repos", body).await?;
    say(plain(&format!("{} is registered. Work starts from {}.", text(&repo["name"]), text(&repo["base"]))));
    notes(&repo);
    Ok(ExitCode::SUCCESS)
}

/// What works differently with a repository, below its line.
fn notes(repo: &Value) {
    for note in repo["notes"].as_array().into_iter().flatten() {
        say(plain(&format!("   {}", text(note))));
    }
}

/// `repos set`
pub(super) async fn set_repo(client: &Client, args: &RepoSetArgs) -> anyhow::Result<ExitCode> {
    let change = json!({
        "setup": args.change.setup,
        "verify": args.change.verify,
        "integrate": args.change.integrate,
        "pool": args.change.pool,
    });
    let body = json!({"name": args.name, "change": change});
    let repo = client.call(Method::PATCH, "/api/v1/repos", Some(body)).await?;
    let or_none = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    let pool = repo["pool"].as_u64().map_or("default".to_owned(), |size| size.to_string());
    say(plain(&format!(
        "{}: set-up {}, verify {}, {} on approval, checkouts made ahead: {pool}.",
        text(&repo["name"]),
        or_none(&repo["setup"]),
        or_none(&repo["verify"]),
        text(&repo["integrate"]),
    )));
    Ok(ExitCode::SUCCESS)
}

/// `upkeep`
pub(super) async fn upkeep(client: &Client, args: &UpkeepArgs) -> anyhow::Result<ExitCode> {
    let edit = EditUpkeep {
        warm_pool: args.warm_pool,
        disk_budget_mb: args.disk_budget,
        worktree_days: args.worktree_days,
        rescue_days: args.rescue_days,
        record_days: args.record_days,
    };
    let (method, body) = if edit == EditUpkeep::default() {
        (Method::GET, None)
    } else {
        (Method::PATCH, Some(serde_json::to_value(edit)?))
    };
    let answer = client.call(method, "/api/v1/upkeep", body).await?;
    if args.json {
        say_json(&answer);
        return Ok(ExitCode::SUCCESS);
    }
    let upkeep: Upkeep =
        serde_json::from_value(answer["upkeep"].clone()).context("the server's answer is not understood")?;
    let disk: DiskUse =
        serde_json::from_value(answer["disk"].clone()).context("the server's answer is not understood")?;
    say(format!("worktrees of finished objectives are cleared after {} days", upkeep.worktree_days));
    say(format!("what was kept of them is dropped after {} days", upkeep.rescue_days));
    say(format!("records and transcripts are deleted after {} days", upkeep.record_days));
    say(format!("checkouts made ahead: {} a repository", upkeep.warm_pool));
    let mb = |bytes: u64| bytes >> 20;
    say(format!(
        "{} MB in use of a budget of {} MB, {} MB free",
        mb(disk.counted()),
        mb(disk.budget),
        mb(disk.free)
    ));
    say(format!(
        "mirrors {} MB, worktrees {} MB, made ahead {} MB, exports {} MB, kept {} MB; records {} MB, other {} MB",
        mb(disk.mirrors),
        mb(disk.work),
        mb(disk.pool),
        mb(disk.review),
        mb(disk.rescue),
        mb(disk.records),
        mb(disk.other)
    ));
    say(format!("counted at {}; budget and free room are as of now", format::exact(disk.at)));
    Ok(ExitCode::SUCCESS)
}

/// `repos list`
pub(super) async fn list_repos(client: &Client, as_json: bool) -> anyhow::Result<ExitCode> {
    let list = client.get("/api/v1/repos").await?;
    if as_json {
        say_json(&list);
        return Ok(ExitCode::SUCCESS);
    }
    for repo in list["items"].as_array().into_iter().flatten() {
        let line = format!("{}  {}  {}", text(&repo["name"]), text(&repo["base"]), text(&repo["source"]));
        say(plain(&line));
        notes(repo);
    }
    Ok(ExitCode::SUCCESS)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// `doctor`: one line for each check; exit 1 if one fails.
pub(super) async fn doctor(client: &Client, data: &Path) -> anyhow::Result<ExitCode> {
    let checks: Vec<(bool, String)> = match client.try_call(Method::GET, "/control/v1/doctor", None).await? {
        Reached::Yes(answer) => {
            serde_json::from_value(answer).context("the server's answer is not understood")?
        }
        Reached::NoServer => match open(data).await {
            Ok(engine) => engine.doctor().await,
            Err(error) => vec![(false, format!("{error:#}"))],
        },
    };
    for (fine, line) in &checks {
        say(format!("{} {}", if *fine { "ok" } else { "!!" }, plain(line)));
    }
    let all = checks.iter().all(|(fine, _)| *fine);
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `doctor --wall`: the attack table against the kernel of this machine. Nothing of the installation is touched.
pub(super) fn doctor_wall() -> anyhow::Result<ExitCode> {
    let program = crate::config::session_binary()?;
    let status = std::process::Command::new(&program)
        .args(["attack", "--table"])
        .status()
        .with_context(|| format!("{} does not start", program.display()))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `doctor --agent`: probes Claude Code as sessions start it. From then on only that version starts.
pub(super) async fn doctor_agent(client: &Client, data: &Path) -> anyhow::Result<ExitCode> {
    let probed: Probed =
        match client.try_call(Method::POST, "/control/v1/agent-probe", Some(json!({}))).await? {
            Reached::Yes(answer) => {
                serde_json::from_value(answer).context("the server's answer is not understood")?
            }
            Reached::NoServer => open(data).await?.probe_agent(&me()).await?,
        };
    say(plain(&format!("{}, {}", probed.name(), probed.program)));
    for case in &probed.cases {
        let detail = if case.detail.is_empty() { String::new() } else { format!(": {}", case.detail) };
        say(plain(&format!("{} {}{detail}", if case.fine { "ok" } else { "!!" }, case.name)));
    }
    say(plain(&probed.summary()));
    Ok(if probed.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `stop-all`: works without a server too, because sessions live without it.
pub(super) async fn stop_all(client: &Client, data: &Path) -> anyhow::Result<ExitCode> {
    let stopped = match client.try_call(Method::POST, "/api/v1/stop-all", Some(json!({}))).await? {
        Reached::Yes(answer) => answer["stopped"].as_u64().unwrap_or(0),
        Reached::NoServer => u64::from(open_existing(data).await?.stop_all(&me()).await?),
    };
    let sessions = if stopped == 1 { "1 session is".to_owned() } else { format!("{stopped} sessions are") };
    say(format!("{sessions} asked to stop. Nothing new starts until `opkit enable`."));
    Ok(ExitCode::SUCCESS)
}

/// `resume-all`
pub(super) async fn resume_all(client: &Client) -> anyhow::Result<ExitCode> {
    let answer = client.call(Method::POST, "/api/v1/resume-all", Some(json!({}))).await?;
    say(format!("{} stopped objectives start again.", answer["resumed"].as_u64().unwrap_or(0)));
    Ok(ExitCode::SUCCESS)
}

/// `enable`
pub(super) async fn enable(client: &Client, data: &Path) -> anyhow::Result<ExitCode> {
    if let Reached::NoServer = client.try_call(Method::POST, "/control/v1/enable", Some(json!({}))).await? {
        open_existing(data).await?.enable(&me()).await?;
    }
    say("Sessions may start again.");
    Ok(ExitCode::SUCCESS)
}
