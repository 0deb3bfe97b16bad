//! `struct Tmux`: the only place that starts tmux. It is a view for people, never a witness.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use opkit_domain::ids::ObjectiveId;
use tokio::process::Command;

use crate::data_dir::{DataDir, write_atomically};
use crate::error::{Error, Result};

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

/// Starts windows on one tmux server an account.
#[derive(Debug)]
pub(crate) struct Tmux {
    program: PathBuf,
    config: PathBuf,
    /// Commands to one server queue here: a start of the server must not race another.
    turn: tokio::sync::Mutex<()>,
}

impl Tmux {
    pub(crate) fn find(dirs: &DataDir) -> Result<Tmux> {
        let program = crate::programs::find("tmux").ok_or_else(|| {
            Error::Refused("tmux is missing. Install it, for example: apt-get install tmux".into())
        })?;
        let config = dirs.run.join("tmux.conf");
        write_atomically(&config, CONFIG.as_bytes(), 0o600)?;
        Ok(Tmux { program, config, turn: tokio::sync::Mutex::new(()) })
    }

    async fn run(&self, socket: &Path, args: &[&std::ffi::OsStr]) -> Result<(bool, String)> {
        let mut command = Command::new(&self.program);
        command.env_clear();
        command.env("PATH", crate::programs::PATH).env("LANG", "C.UTF-8").env("TERM", "screen-256color");
        command.env("HOME", "/nonexistent").env("SHELL", "/bin/sh");
        command.arg("-u").arg("-S").arg(socket).arg("-f").arg(&self.config).args(args);
        command.stdin(Stdio::null()).current_dir("/").kill_on_drop(true);
        let output = tokio::time::timeout(Duration::from_secs(20), command.output())
            .await
            .map_err(|_| Error::Internal(anyhow::anyhow!("tmux did not answer within 20 s")))??;
        let mut text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() {
            text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        }
        Ok((output.status.success(), text))
    }

    /// Opens a window that runs exactly these arguments (no shell) and gives `window pane` ids.
    pub(crate) async fn open(
        &self,
        socket: &Path,
        name: ObjectiveId,
        argv: &[&std::ffi::OsStr],
    ) -> Result<String> {
        let _turn = self.turn.lock().await;
        let (alive, _) = self.run(socket, &os(&["has-session", "-t", "=opkit"])).await?;
        if !alive {
            let (ok, text) = self
                .run(
                    socket,
                    &os(&[
                        "new-session",
                        "-d",
                        "-s",
                        "opkit",
                        "-n",
                        "keeper",
                        "/usr/bin/tail",
                        "-f",
                        "/dev/null",
                    ]),
                )
                .await?;
            if !ok && !text.contains("duplicate session") {
                return Err(Error::Internal(anyhow::anyhow!("tmux could not be started: {text}")));
            }
        }
        let window = format!("obj-{name}");
        let mut args = os(&[
            "new-window",
            "-d",
            "-P",
            "-F",
            "#{window_id} #{pane_id}",
            "-t",
            "=opkit:",
            "-n",
            &window,
            "--",
        ]);
        args.extend_from_slice(argv);
        let (ok, text) = self.run(socket, &args).await?;
        if ok {
            Ok(text)
        } else {
            Err(Error::Internal(anyhow::anyhow!("tmux did not open a window: {text}")))
        }
    }

    /// Removes windows whose program ended more than ten minutes ago.
    pub(crate) async fn sweep(&self, socket: &Path, now_s: i64) -> Result<usize> {
        if !socket.exists() {
            return Ok(0);
        }
        let format = "#{window_id} #{pane_dead} #{pane_dead_time}";
        let (ok, text) = self.run(socket, &os(&["list-panes", "-a", "-F", format])).await?;
        if !ok {
            return Ok(0);
        }
        let mut removed = 0;
        for line in text.lines() {
            let mut words = line.split(' ');
            let (Some(window), Some("1"), Some(at)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            if at.parse::<i64>().is_ok_and(|at| now_s - at > KEEP_ENDED_S) {
                self.run(socket, &os(&["kill-window", "-t", window])).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

fn os<'a>(args: &[&'a str]) -> Vec<&'a std::ffi::OsStr> {
    args.iter().map(|arg| std::ffi::OsStr::new(*arg)).collect()
}
