//! `struct Tmux`: the only place that starts tmux. It is a view for people, never a witness.

mod scope;
mod server;

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use opkit_domain::ids::ObjectiveId;
use tokio::process::Command;

use crate::data_dir::{DataDir, mode, write_atomically};
use crate::error::{Error, Result};
use server::Server;

/// The server's own configuration; a person's is never read.
const CONFIG: &str = "set -g remain-on-exit on
set -g history-limit 2000
set -g default-terminal screen-256color
set -g status off
set -g set-titles off
set -g allow-rename off
set -g automatic-rename off
set -g update-environment ''
set -g exit-empty off
set -g default-size 200x50
set -g window-size largest
";

/// How long an ended window stays for people who look.
const KEEP_ENDED_S: i64 = 600;
/// A start waits so long for a server that does not answer, and then fails; it is tried again after its pause.
const PATIENCE: Duration = Duration::from_secs(10);
/// Looking for ended windows can wait until the next time.
const SWEEP_PATIENCE: Duration = Duration::from_secs(3);
/// A server makes its socket again at once when it is asked.
const SOCKET_PATIENCE: Duration = Duration::from_secs(2);

/// Starts windows on one tmux server an account.
#[derive(Debug)]
pub(crate) struct Tmux {
    program: PathBuf,
    config: PathBuf,
    scopes: Option<scope::Scopes>,
    /// One turn an account: a start of its server must not race another, and a server that hangs holds up nobody
    /// else.
    turns: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>,
    /// Sockets behind which nobody answers, until somebody does. Nothing is claimed for their accounts.
    silent: Mutex<HashSet<PathBuf>>,
}

/// What a tmux command said.
enum Answer {
    Yes(String),
    No(String),
    /// Nothing within the time.
    Silence,
}

impl Tmux {
    pub(crate) fn find(dirs: &DataDir) -> Result<Tmux> {
        let program = crate::programs::find("tmux").ok_or_else(|| {
            Error::Refused("tmux is missing. Install it, for example: apt-get install tmux".into())
        })?;
        let config = dirs.run.join("tmux.conf");
        write_atomically(&config, CONFIG.as_bytes(), 0o600)?;
        Ok(Tmux {
            program,
            config,
            scopes: scope::Scopes::find(),
            turns: Mutex::default(),
            silent: Mutex::default(),
        })
    }

    fn turn(&self, socket: &Path) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.entry(socket.to_owned()).or_default().clone()
    }

    /// `tmux -u -S SOCKET -f CONFIG ARGS`, as an argument array.
    fn argv<'a>(&'a self, socket: &'a Path, args: &[&'a OsStr]) -> Vec<&'a OsStr> {
        let mut argv = vec![self.program.as_os_str(), OsStr::new("-u"), OsStr::new("-S"), socket.as_os_str()];
        argv.extend([OsStr::new("-f"), self.config.as_os_str()]);
        argv.extend_from_slice(args);
        argv
    }

    async fn run(&self, socket: &Path, patience: Duration, args: &[&OsStr]) -> Result<Answer> {
        let answer = execute(&self.argv(socket, args), &[], patience).await?;
        self.heard(socket, &answer);
        Ok(answer)
    }

    /// Remembers whether a server answers.
    fn heard(&self, socket: &Path, answer: &Answer) {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Answer::Silence => silent.insert(socket.to_owned()),
            Answer::Yes(_) | Answer::No(_) => silent.remove(socket),
        };
    }

    /// The server behind this socket was asked and did not answer since.
    pub(crate) fn is_silent(&self, socket: &Path) -> bool {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner).contains(socket)
    }

    /// Some server does not answer.
    pub(crate) fn any_silent(&self) -> bool {
        !self.silent.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Opens a window that runs exactly these arguments (no shell) and gives `window pane` ids.
    pub(crate) async fn open(&self, socket: &Path, name: ObjectiveId, argv: &[&OsStr]) -> Result<String> {
        let knew = self.is_silent(socket);
        let turn = self.turn(socket);
        let _turn = turn.lock().await;
        // Whoever waited behind one that got no answer need not wait again.
        if !knew && self.is_silent(socket) {
            return Err(no_answer(socket));
        }
        match self.open_in_turn(socket, name, argv).await? {
            Answer::Yes(text) => Ok(text),
            Answer::No(text) => Err(Error::Internal(anyhow::anyhow!("tmux did not open a window: {text}"))),
            Answer::Silence => Err(no_answer(socket)),
        }
    }

    /// Starts an account's server, so that the first window need not wait for it. One that is silent is left alone.
    pub(crate) async fn start_ahead(&self, socket: &Path) -> Result<()> {
        let turn = self.turn(socket);
        let _turn = turn.lock().await;
        if self.is_silent(socket) || (socket.exists() && Server::recorded(socket).is_some()) {
            return Ok(());
        }
        match self.ready(socket).await? {
            Answer::Yes(_) => Ok(()),
            Answer::No(text) => Err(Error::Internal(anyhow::anyhow!("tmux could not be started: {text}"))),
            Answer::Silence => Err(no_answer(socket)),
        }
    }

    async fn open_in_turn(&self, socket: &Path, name: ObjectiveId, argv: &[&OsStr]) -> Result<Answer> {
        let window = format!("obj-{name}");
        let head =
            ["new-window", "-d", "-P", "-F", "#{window_id} #{pane_id}", "-t", "=opkit:", "-n", &window];
        let mut args = os(&head);
        args.push(OsStr::new("--"));
        args.extend_from_slice(argv);
        // The usual case costs one command: the server that we know is there.
        if socket.exists() && Server::recorded(socket).is_some() {
            match self.run(socket, PATIENCE, &args).await? {
                Answer::No(text) => tracing::info!(reason = text, "a tmux server is looked after"),
                answer @ (Answer::Yes(_) | Answer::Silence) => return Ok(answer),
            }
        }
        match self.ready(socket).await? {
            Answer::Yes(_) => self.run(socket, PATIENCE, &args).await,
            answer @ (Answer::No(_) | Answer::Silence) => Ok(answer),
        }
    }

    /// Brings an account's server into a state in which it takes windows. A new one is started only when none lives.
    async fn ready(&self, socket: &Path) -> Result<Answer> {
        if let Some(dir) = socket.parent().filter(|dir| !dir.exists()) {
            std::fs::create_dir_all(dir)?;
            mode(dir, 0o700)?;
        }
        let living = Server::recorded(socket).or_else(|| Server::started_for(socket));
        let reached = match &living {
            Some(server) => self.reach(socket, server).await?,
            None => self.run(socket, PATIENCE, &os(&["has-session", "-t", "=opkit"])).await?,
        };
        match reached {
            Answer::Yes(text) => {
                self.note(socket).await?;
                return Ok(Answer::Yes(text));
            }
            Answer::Silence => return Ok(Answer::Silence),
            Answer::No(text) if living.is_some() && nobody_listens(&text) => {
                return Err(Error::Refused(format!(
                    "The tmux server of account {} lives (process {}) and does not make its socket again. End its \
                     sessions, then that process.",
                    account(socket),
                    living.map_or(0, |server| server.pid),
                )));
            }
            Answer::No(_) => {}
        }
        let started = self.new_session(socket, living.is_none()).await?;
        if matches!(started, Answer::Yes(_)) {
            self.note(socket).await?;
        }
        Ok(started)
    }

    /// Asks a server that lives; one without a socket makes it again first.
    async fn reach(&self, socket: &Path, server: &Server) -> Result<Answer> {
        let ask = os(&["has-session", "-t", "=opkit"]);
        if socket.exists() {
            match self.run(socket, PATIENCE, &ask).await? {
                // Something stands in the socket's place.
                Answer::No(text) if nobody_listens(&text) => {}
                answer @ (Answer::Yes(_) | Answer::No(_) | Answer::Silence) => return Ok(answer),
            }
        }
        tracing::warn!(account = account(socket), pid = server.pid, "a tmux server lost its socket");
        server.ask_for_socket();
        let deadline = Instant::now() + SOCKET_PATIENCE;
        loop {
            let answer = match socket.exists() {
                true => self.run(socket, PATIENCE, &ask).await?,
                false => Answer::No("no server running: no socket".into()),
            };
            match answer {
                Answer::No(text) if nobody_listens(&text) && Instant::now() < deadline => {}
                answer @ (Answer::Yes(_) | Answer::No(_) | Answer::Silence) => return Ok(answer),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The session with the keeper window. Where systemd runs the machine a new server gets a scope of its own.
    async fn new_session(&self, socket: &Path, new_server: bool) -> Result<Answer> {
        let head = ["new-session", "-d", "-s", "opkit", "-n", "keeper", "/usr/bin/tail", "-f", "/dev/null"];
        let args = os(&head);
        if let Some(scopes) = self.scopes.as_ref().filter(|_| new_server) {
            let argv = self.argv(socket, &args);
            let unit = scope::unit(account(socket), &format!("{}", uuid::Uuid::new_v4().simple()));
            let answer =
                execute(&scopes.argv(&unit, &ENVIRONMENT, &argv), scopes.environment(), PATIENCE).await?;
            self.heard(socket, &answer);
            match answer {
                Answer::No(text) => {
                    tracing::warn!(
                        unit,
                        reason = text,
                        "no scope for a tmux server: it stays with the service"
                    );
                }
                answer @ (Answer::Yes(_) | Answer::Silence) => return Ok(answer),
            }
        }
        match self.run(socket, PATIENCE, &args).await? {
            Answer::No(text) if text.contains("duplicate session") => Ok(Answer::Yes(text)),
            Answer::No(text) => Err(Error::Internal(anyhow::anyhow!("tmux could not be started: {text}"))),
            answer @ (Answer::Yes(_) | Answer::Silence) => Ok(answer),
        }
    }

    /// Notes which process serves a socket.
    async fn note(&self, socket: &Path) -> Result<()> {
        let answer = self.run(socket, PATIENCE, &os(&["display-message", "-p", "#{pid}"])).await?;
        let Answer::Yes(pid) = answer else { return Ok(()) };
        let server = pid.parse().ok().and_then(Server::of);
        match server {
            Some(server) if Server::recorded(socket).as_ref() != Some(&server) => server.note(socket),
            Some(_) | None => Ok(()),
        }
    }

    /// Removes windows whose program ended more than ten minutes ago, and gives a server its lost socket back.
    pub(crate) async fn sweep(&self, socket: &Path, now_s: i64) -> Result<usize> {
        if !socket.exists() {
            let Some(server) = Server::recorded(socket) else {
                // Nobody is there who could be silent.
                self.heard(socket, &Answer::No(String::new()));
                return Ok(0);
            };
            let turn = self.turn(socket);
            let _turn = turn.lock().await;
            self.reach(socket, &server).await?;
        }
        let format = "#{window_id} #{pane_dead} #{pane_dead_time}";
        let list = self.run(socket, SWEEP_PATIENCE, &os(&["list-panes", "-a", "-F", format])).await?;
        let text = match list {
            Answer::Yes(text) => text,
            // Nobody's windows to remove.
            Answer::No(_) => return Ok(0),
            Answer::Silence => return Err(no_answer(socket)),
        };
        let mut removed = 0;
        for line in text.lines() {
            let mut words = line.split(' ');
            let (Some(window), Some("1"), Some(at)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            if at.parse::<i64>().is_ok_and(|at| now_s - at > KEEP_ENDED_S) {
                self.run(socket, SWEEP_PATIENCE, &os(&["kill-window", "-t", window])).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// Everything that a tmux server, and with it each pane, sees of an environment.
const ENVIRONMENT: [(&str, &str); 5] = [
    ("PATH", crate::programs::PATH),
    ("LANG", "C.UTF-8"),
    ("TERM", "screen-256color"),
    ("HOME", "/nonexistent"),
    ("SHELL", "/bin/sh"),
];

async fn execute(
    argv: &[impl AsRef<OsStr>],
    more: &[(String, String)],
    patience: Duration,
) -> Result<Answer> {
    let Some((program, args)) = argv.split_first() else { return Ok(Answer::No("nothing to run".into())) };
    let mut command = Command::new(program);
    command.env_clear().envs(ENVIRONMENT).envs(more.iter().map(|(name, value)| (name, value)));
    command.args(args).stdin(Stdio::null()).current_dir("/").kill_on_drop(true);
    let Ok(output) = tokio::time::timeout(patience, command.output()).await else {
        return Ok(Answer::Silence);
    };
    let output = output?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Ok(match output.status.success() {
        true => Answer::Yes(text(&output.stdout)),
        false => Answer::No(text(&output.stderr)),
    })
}

/// tmux says so when it finds no server behind a socket.
fn nobody_listens(text: &str) -> bool {
    ["no server running", "error connecting", "lost server", "server exited"]
        .iter()
        .any(|words| text.contains(words))
}

fn account(socket: &Path) -> &str {
    socket.file_stem().and_then(OsStr::to_str).unwrap_or_default()
}

fn no_answer(socket: &Path) -> Error {
    Error::Refused(format!(
        "The tmux server of account {} does not answer. Nothing starts on this account until it does.",
        account(socket)
    ))
}

fn os<'a>(args: &[&'a str]) -> Vec<&'a OsStr> {
    args.iter().map(|arg| OsStr::new(*arg)).collect()
}
