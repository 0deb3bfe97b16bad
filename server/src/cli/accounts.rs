//! `opkit accounts …`: the pool from the machine's side, with a server or, under the lock, without.

use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use axum::http::Method;
use opkit_domain::view::{AccountView, PoolView};
use opkit_engine::{LoginPlan, NewAccount, Provisioned, now_ms};
use rustix::fs::MemfdFlags;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::arguments::{AccountArgs, AccountsCommand};
use super::client::{Client, Reached};
use super::machine::{me, open_existing};
use super::output::{plain, say, say_json};

/// A key is shorter.
const LONGEST_KEY: u64 = 16 << 10;

/// Does one of the commands.
pub(super) async fn run(client: &Client, data: &Path, command: AccountsCommand) -> anyhow::Result<ExitCode> {
    match command {
        AccountsCommand::Provision { count, prefix } => provision(client, data, &prefix, count).await,
        AccountsCommand::List { json } => list(client, data, json).await,
        AccountsCommand::Add(args) => add(client, data, args).await,
        AccountsCommand::Disable { name } => set(client, data, &name, false).await,
        AccountsCommand::Enable { name } => set(client, data, &name, true).await,
        AccountsCommand::Limit { name, limit } => set_limit(client, data, &name, limit).await,
        AccountsCommand::Key { name, stdin: _ } => key(client, data, &name).await,
        AccountsCommand::Test { name } => test(client, data, &name).await,
        AccountsCommand::Login { name } => login(client, data, &name).await,
    }
}

async fn set_limit(client: &Client, data: &Path, name: &str, limit: u32) -> anyhow::Result<ExitCode> {
    let path = format!("/control/v1/accounts/{}/limit", name_in_path(name)?);
    if let Reached::NoServer = client.try_call(Method::POST, &path, Some(json!({"limit": limit}))).await? {
        open_existing(data).await?.limit_account(&me(), name, limit).await?;
    }
    say(format!("{name} takes {limit} {} at once.", if limit == 1 { "session" } else { "sessions" }));
    Ok(ExitCode::SUCCESS)
}

/// The name as it stands in an address; whether there is such an account the server says.
fn name_in_path(name: &str) -> anyhow::Result<&str> {
    let fits = !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-');
    if !fits {
        bail!("“{}” is not an account's name. See: opkit accounts list", plain(name));
    }
    Ok(name)
}

fn understood<T: DeserializeOwned>(value: Value) -> anyhow::Result<T> {
    serde_json::from_value(value).context("the server's answer is not understood")
}

async fn provision(client: &Client, data: &Path, prefix: &str, count: u32) -> anyhow::Result<ExitCode> {
    if !rustix::process::geteuid().is_root() {
        bail!(
            "only root can make OS users. Run this as root; without it accounts go on sharing the server's user, \
             and only the wall separates them"
        );
    }
    let body = json!({"prefix": prefix, "count": count});
    let done: Provisioned = match client.try_call(Method::POST, "/control/v1/provision", Some(body)).await? {
        Reached::Yes(answer) => understood(answer)?,
        // Before the first start, too: provisioning is a part of setting a machine up.
        Reached::NoServer => super::machine::open(data).await?.provision(&me(), prefix, count).await?,
    };
    Ok(report(&done, true))
}

async fn add(client: &Client, data: &Path, args: AccountArgs) -> anyhow::Result<ExitCode> {
    let new = NewAccount {
        name: args.name,
        os_user: args.os_user,
        limit: args.limit,
        git_name: args.git_name,
        git_email: args.git_email,
    };
    let body = serde_json::to_value(&new)?;
    let done: Provisioned = match client.try_call(Method::POST, "/control/v1/accounts", Some(body)).await? {
        Reached::Yes(answer) => understood(answer)?,
        Reached::NoServer => open_existing(data).await?.add_account(&me(), new).await?,
    };
    Ok(report(&done, false))
}

fn report(done: &Provisioned, count: bool) -> ExitCode {
    let all = lines(&done.lines);
    if count && all && done.changed == 0 {
        say("Everything was there already. Nothing changed.");
    }
    if all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints a line for each check and gives whether all are fine.
fn lines(list: &[(bool, String)]) -> bool {
    for (fine, line) in list {
        say(format!("{} {}", if *fine { "ok" } else { "!!" }, plain(line)));
    }
    list.iter().all(|(fine, _)| *fine)
}

async fn list(client: &Client, data: &Path, as_json: bool) -> anyhow::Result<ExitCode> {
    let answer = match client.try_call(Method::GET, "/api/v1/accounts", None).await? {
        Reached::Yes(answer) => answer,
        Reached::NoServer => {
            let pool: PoolView = open_existing(data).await?.account_pool(me().scope).await?;
            json!({"items": pool.accounts, "next": null, "mode": pool.mode, "until": pool.until})
        }
    };
    if as_json {
        say_json(&answer);
        return Ok(ExitCode::SUCCESS);
    }
    say(plain(&format!("Mode {}", answer["mode"].as_str().unwrap_or_default())));
    let accounts: Vec<AccountView> = understood(answer["items"].clone())?;
    let wide = accounts.iter().map(|account| account.name.len()).max().unwrap_or(0);
    let user = accounts.iter().map(|account| account.runs_as.len()).max().unwrap_or(0);
    for account in &accounts {
        say(plain(&format!(
            "{:wide$}  {:12}  {:>8}  {:user$}  {}{}",
            account.name,
            account.state,
            format!("{} of {}", account.live, account.limit),
            account.runs_as,
            account.credential.label(),
            why(account),
        )));
    }
    Ok(ExitCode::SUCCESS)
}

/// Why it is not available, and until when.
fn why(account: &AccountView) -> String {
    let mut text = String::new();
    if let Some(until) = account.until {
        let minutes = ((until - now_ms()).max(0) + 59_999) / 60_000;
        let left = if minutes < 120 { format!("{minutes} min") } else { format!("{} h", minutes / 60) };
        text.push_str(&format!("  until {} (in {left})", opkit_app::format::exact(until)));
    }
    if !account.reason.is_empty() {
        text.push_str(&format!("  {}", account.reason));
    }
    text
}

async fn set(client: &Client, data: &Path, name: &str, enabled: bool) -> anyhow::Result<ExitCode> {
    let name = name_in_path(name)?;
    let act = if enabled { "enable" } else { "disable" };
    let path = format!("/api/v1/accounts/{name}/{act}");
    if let Reached::NoServer = client.try_call(Method::POST, &path, Some(json!({}))).await? {
        let engine = open_existing(data).await?;
        match enabled {
            true => engine.enable_account(&me(), name).await?,
            false => engine.disable_account(&me(), name).await?,
        }
    }
    say(match enabled {
        true => format!("{name} takes sessions again."),
        false => format!("{name} gets no new session. Its live ones go on."),
    });
    Ok(ExitCode::SUCCESS)
}

async fn key(client: &Client, data: &Path, name: &str) -> anyhow::Result<ExitCode> {
    let name = name_in_path(name)?;
    let mut text = String::new();
    std::io::stdin()
        .take(LONGEST_KEY)
        .read_to_string(&mut text)
        .context("the key on standard input is not text")?;
    let path = format!("/control/v1/accounts/{name}/key");
    let body = json!({"key": text.trim()});
    if let Reached::NoServer = client.try_call(Method::POST, &path, Some(body)).await? {
        open_existing(data).await?.store_account_key(&me(), name, &text).await?;
    }
    say(format!("The key of {name} is stored. Try it: opkit accounts test {name}"));
    Ok(ExitCode::SUCCESS)
}

async fn test(client: &Client, data: &Path, name: &str) -> anyhow::Result<ExitCode> {
    let name = name_in_path(name)?;
    let path = format!("/control/v1/accounts/{name}/test");
    let list: Vec<(bool, String)> = match client.try_call(Method::GET, &path, None).await? {
        Reached::Yes(answer) => understood(answer)?,
        Reached::NoServer => open_existing(data).await?.test_account(&me(), name).await?,
    };
    Ok(if lines(&list) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Opens the agent's login on this terminal. The server only says how; the program is our child, so that its input
/// and output are this terminal.
async fn login(client: &Client, data: &Path, name: &str) -> anyhow::Result<ExitCode> {
    let name = name_in_path(name)?;
    if !std::io::stdin().is_terminal() {
        bail!(
            "a login needs a terminal, and standard input is none. Where there is none, store a key: \
             opkit accounts key {name} --stdin"
        );
    }
    let path = format!("/control/v1/accounts/{name}/login");
    let plan: LoginPlan = match client.try_call(Method::GET, &path, None).await? {
        Reached::Yes(answer) => understood(answer)?,
        Reached::NoServer => open_existing(data).await?.login_plan(&me(), name).await?,
    };
    let fine = on_this_terminal(plan.runner.as_path(), with_terminal(plan.spec)).await?;
    if !fine {
        return Ok(ExitCode::FAILURE);
    }
    if plan.prints_token {
        say(format!("Store the token that was shown: opkit accounts key {name} --stdin"));
    }
    say(format!("Then: opkit accounts test {name}, and opkit accounts enable {name} if it needed a login."));
    Ok(ExitCode::SUCCESS)
}

/// The kind of this terminal is the caller's to know.
fn with_terminal(mut spec: Value) -> Value {
    let fits = |term: &String| {
        term.len() < 40 && term.bytes().all(|c| c.is_ascii_alphanumeric() || b"-.+_".contains(&c))
    };
    if let Some(term) = crate::config::terminal().filter(fits)
        && let Some(list) = spec["env"].as_array_mut()
    {
        list.retain(|pair| pair[0] != "TERM");
        list.push(json!(["TERM", term]));
    }
    spec
}

async fn on_this_terminal(runner: &Path, spec: Value) -> anyhow::Result<bool> {
    let memory = rustix::fs::memfd_create("account-login", MemfdFlags::CLOEXEC)?;
    let mut file = File::from(memory);
    file.write_all(&serde_json::to_vec(&spec)?)?;
    let before = stty(&["-g"]);
    // Ctrl-C is for the program; it hears of it through us, because this is not its controlling terminal.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut child = tokio::process::Command::new(runner)
        .args(["enter", "--spec", &format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())])
        .env_clear()
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("{} does not start", runner.display()))?;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            _ = interrupts.recv() => {
                if let Some(pid) = child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
                }
            }
        }
    };
    // A program that was killed may have left the terminal in a mode of its own.
    if let Some(before) = before {
        stty(&[before.trim()]);
    }
    Ok(status.success())
}

/// Reads or sets the modes of this terminal.
fn stty(args: &[&str]) -> Option<String> {
    let output =
        Command::new("stty").args(args).stdin(Stdio::inherit()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
