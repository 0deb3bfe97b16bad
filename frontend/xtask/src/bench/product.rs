//! A release server with sessions for the bench: set up, asked through REST, and cleaned up to the last process.

use super::fixture::Folder;
use super::http;
use crate::steps::program;
use crate::{Profile, server};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PASSWORD: &str = "a password for the bench";

/// Whom sessions run as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// One user for all accounts, or the developer's own.
    Homes,
    /// An OS user for each account.
    OsUsers,
}

impl Mode {
    /// Those that this machine can measure: users of their own need root.
    pub(super) fn all() -> Vec<Mode> {
        let root =
            fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0);
        if root { vec![Mode::Homes, Mode::OsUsers] } else { vec![Mode::Homes] }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::Homes => "homes",
            Mode::OsUsers => "os-users",
        }
    }
}

/// A running server, its data and a token.
pub(super) struct Product {
    pub(super) data: Folder,
    pub(super) address: String,
    child: Child,
    token: String,
}

impl Product {
    /// Sets up a data directory with one repository and starts the server.
    pub(super) fn start(mode: Mode, repo: &Path, variables: &[(&str, &str)]) -> Result<Product> {
        let folder = Folder::new(&format!("data-{}", mode.name()))?;
        let data: &Path = &folder;
        opkit(data, &["setup", "--owner", "bench", "--password-stdin"], PASSWORD)?;
        if mode == Mode::OsUsers {
            opkit(data, &["accounts", "provision"], "")?;
        }
        let mut command = command(data, &["serve", "--listen", "127.0.0.1:0"])?;
        command.env("MAX_CONCURRENT_SESSIONS", "32").envs(variables.iter().copied());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
        let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
            Some(line.split_once("listening on http://")?.1.trim().trim_end_matches('/').to_owned())
        });
        // Whatever it still says must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let mut product = Product { data: folder, address: String::new(), child, token: String::new() };
        let data = product.data.to_owned();
        let data: &Path = &data;
        product.address = address.context("the server ended before it listened")?;
        product.token = opkit(data, &["tokens", "create", "--actor", "bench", "--scope", "operate"], "")?;
        let source = repo.to_str().context("the repository's path is not UTF-8")?;
        // Nothing is made ahead unless a measurement asks for it.
        opkit(data, &["upkeep", "--warm-pool", "0"], "")?;
        opkit(data, &["repos", "add", source, "--name", "bench"], "")?;
        product
            .wait("the server to be ready", || Ok(http::get(&product.address, "/readyz")?.status == 200))?;
        Ok(product)
    }

    /// Waits for a condition, two minutes at most.
    pub(super) fn wait(&self, what: &str, mut there: impl FnMut() -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !there()? {
            ensure!(Instant::now() < deadline, "waited two minutes for {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let bearer = format!("Bearer {}", self.token);
        let mut headers = vec![("authorization", bearer.as_str())];
        let text = body.map(Value::to_string).unwrap_or_default();
        if body.is_some() {
            headers.push(("content-type", "application/json"));
        }
        let answer = http::call(&self.address, method, path, &headers, &text)?;
        ensure!(answer.status < 300, "{method} {path}: {} {}", answer.status, answer.body);
        Ok(serde_json::from_str(&answer.body)?)
    }

    /// Writes an objective and gives its number.
    pub(super) fn add(&self, agent: &str, script: Option<&str>) -> Result<i64> {
        let body = json!({"title": "Measured", "repo": "bench", "type": "task", "brief": "Start.",
            "agent": agent, "script": script, "criteria": [{"text": "it began"}]});
        self.call("POST", "/api/v1/objectives", Some(&body))?["id"].as_i64().context("no number")
    }

    /// Sessions of an objective, or all live ones.
    pub(super) fn sessions(&self, objective: Option<i64>) -> Result<Vec<Value>> {
        let path = match objective {
            Some(id) => format!("/api/v1/objectives/{id}/sessions?limit=500"),
            None => "/api/v1/sessions?state=live&limit=500".to_owned(),
        };
        Ok(self.call("GET", &path, None)?["items"].as_array().cloned().unwrap_or_default())
    }

    /// Ends objectives and waits until nothing of them lives.
    pub(super) fn cancel(&self, ids: &[i64]) -> Result<()> {
        for id in ids {
            self.call("POST", &format!("/api/v1/objectives/{id}/cancel"), Some(&json!({})))?;
        }
        self.wait("sessions to end", || {
            Ok(!self
                .sessions(None)?
                .iter()
                .any(|s| s["objective"].as_i64().is_some_and(|id| ids.contains(&id))))
        })
    }

    /// Where its sockets are.
    pub(super) fn run_dir(&self) -> PathBuf {
        fs::read_to_string(self.data.join("run/where")).map_or(self.data.join("run"), PathBuf::from)
    }

    /// The kill switch: while it is there nothing starts.
    pub(super) fn hold(&self, on: bool) -> Result<()> {
        let switch = self.data.join("DISABLED");
        let done =
            if on { fs::write(switch, "the bench holds starts back") } else { fs::remove_file(switch) };
        done.context("the kill switch")
    }

    pub(super) fn session_dir(&self, session: &Value) -> Result<PathBuf> {
        Ok(self.data.join("sessions").join(session["id"].as_str().context("no session id")?))
    }

    /// A browser's cookie.
    pub(super) fn log_in(&self) -> Result<String> {
        let origin = format!("http://{}", self.address);
        let headers = [("origin", origin.as_str()), ("content-type", "application/x-www-form-urlencoded")];
        let body = format!("name=bench&password={}&next=", PASSWORD.replace(' ', "+"));
        let answer = http::call(&self.address, "POST", "/login", &headers, &body)?;
        let cookie = answer.header("set-cookie").and_then(|line| line.split(';').next());
        Ok(cookie.context("the login gave no cookie")?.to_owned())
    }
}

impl Drop for Product {
    fn drop(&mut self) {
        // Sessions outlive their server, which the bench's must not.
        let stopped = opkit(&self.data, &["stop-all"], "");
        let gone = self.wait("sessions to end", || Ok(self.sessions(None)?.is_empty()));
        for problem in [stopped.map(drop), gone].into_iter().filter_map(Result::err) {
            eprintln!("    cleaning up: {problem:#}");
        }
        let pid = self.child.id().to_string();
        Command::new("kill").arg(&pid).status().ok();
        let deadline = Instant::now() + Duration::from_secs(15);
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.child.kill().ok();
        self.child.wait().ok();
        for socket in fs::read_dir(self.run_dir().join("tmux")).into_iter().flatten().flatten() {
            Command::new("tmux").arg("-S").arg(socket.path()).arg("kill-server").output().ok();
        }
    }
}

fn command(data: &Path, args: &[&str]) -> Result<Command> {
    let mut command = program(server::binary("opkit", Profile::Release)?);
    for name in ["OPKIT_LISTEN", "OPKIT_PUBLIC_URL", "OPKIT_SITE", "OPKIT_URL", "OPKIT_TOKEN", "RUST_LOG"] {
        command.env_remove(name);
    }
    command.args(args).env("OPKIT_DATA", data);
    Ok(command)
}

/// Runs the command line; gives what it prints.
pub(super) fn opkit(data: &Path, args: &[&str], stdin: &str) -> Result<String> {
    let mut command = command(data, args)?;
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().context("no stdin")?.write_all(stdin.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("opkit {args:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
