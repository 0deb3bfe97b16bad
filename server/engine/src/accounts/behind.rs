//! Runs a program as an account's user behind a wall that lets it write in the account's home and nowhere else.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use opkit_domain::access::Actor;
use opkit_domain::session::{SYSTEM_READS, WallSpec};
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{AGENT_CONFIG, Place, admin};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::store::accounts::AccountRow;

/// A program that is asked for its version or its help answers sooner.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the command line needs to open an account's login on its own terminal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoginPlan {
    /// The program that goes behind the wall.
    pub runner: PathBuf,
    /// Its specification; it holds no secret.
    pub spec: Value,
    /// The program prints a long-lived token, which goes into a key file.
    pub prints_token: bool,
}

impl Engine {
    /// The specification of an `opkit-session enter` for an account. It always runs in a session of its own:
    /// without the terminal as its controlling one it cannot type into the shell of whoever started it.
    pub(super) fn behind_wall(&self, account: &AccountRow, place: &Place, argv: &[&str]) -> Value {
        let home = place.home.to_string_lossy();
        let config = place.home.join(AGENT_CONFIG);
        let mut path: Vec<String> = self.claude_dirs().iter().map(|dir| text(dir)).collect();
        path.push(crate::programs::PATH.to_owned());
        let env = [
            ("PATH", path.join(":")),
            ("HOME", home.to_string()),
            ("LANG", "C.UTF-8".into()),
            ("TERM", "dumb".into()),
            ("SHELL", "/bin/sh".into()),
            ("USER", account.os_user.clone().unwrap_or_else(|| account.name.clone())),
            ("LOGNAME", account.os_user.clone().unwrap_or_else(|| account.name.clone())),
            ("TMPDIR", home.to_string()),
            ("CLAUDE_CONFIG_DIR", text(&config)),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
            ("DISABLE_AUTOUPDATER", "1".into()),
            ("DISABLE_TELEMETRY", "1".into()),
        ];
        json!({
            "identity": place.identity,
            "wall": self.home_wall(account, place),
            "cwd": place.home,
            "argv": argv,
            "env": env,
            "new_session": true,
        })
    }

    fn home_wall(&self, account: &AccountRow, place: &Place) -> WallSpec {
        let root = &self.dirs().root;
        let mut read: Vec<PathBuf> = SYSTEM_READS.iter().map(PathBuf::from).collect();
        read.push(place.home.clone());
        read.push(root.join("bin"));
        read.extend(self.claude_dirs());
        WallSpec {
            mode: self.wall_mode(),
            write: vec![place.home.clone()],
            read: Some(read),
            block_unix_sockets: account.os_user.is_none(),
            prove_no_write: vec![
                root.join(format!("proof-{}", account.name)),
                PathBuf::from(format!("/tmp/opkit-proof-{}", account.name)),
            ],
            prove_no_read: vec![self.dirs().database(), root.join("keys")],
            prove_no_connect: vec![self.dirs().control_socket()],
        }
    }

    /// Where Claude Code is: as it is named, and where that leads.
    fn claude_dirs(&self) -> Vec<PathBuf> {
        let Some(program) = self.agents().claude() else { return vec![] };
        let real = program.canonicalize().ok();
        let mut dirs: Vec<PathBuf> = program.parent().map(Path::to_owned).into_iter().collect();
        dirs.extend(real.as_deref().and_then(Path::parent).map(Path::to_owned));
        dirs.dedup();
        dirs
    }

    /// Runs it to its end; at the time limit everything it started in its session is killed.
    pub(super) async fn run_behind(
        &self,
        account: &AccountRow,
        place: &Place,
        argv: &[&str],
    ) -> Result<Output> {
        let spec = memory(&self.behind_wall(account, place, argv))?;
        let child = tokio::process::Command::new(self.runner())
            .args(["enter", "--spec", &reached(&spec)])
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .current_dir("/")
            .kill_on_drop(true)
            .spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        match tokio::time::timeout(PATIENCE, child.wait_with_output()).await {
            Ok(output) => Ok(output?),
            Err(_) => {
                if let Some(group) = group {
                    // It may have ended at this moment.
                    let _ = rustix::process::kill_process_group(group, Signal::KILL);
                }
                Err(Error::Refused(format!("it did not end within {} s", PATIENCE.as_secs())))
            }
        }
    }

    /// Prepares the agent's own login for the terminal of whoever asks, who must be on the machine.
    pub async fn login_plan(&self, actor: &Actor, name: &str) -> Result<LoginPlan> {
        admin(actor)?;
        let account = self.store().account(name).await?;
        let program = self.agents().claude().map(text).ok_or_else(|| {
            Error::Refused(
                "Claude Code is not set up here, and the demo agent needs no login. Start the server with \
                 OPKIT_CLAUDE=/path/to/claude."
                    .into(),
            )
        })?;
        let place = self.place(&account)?;
        crate::agents::readable(Path::new(&program), place.identity.as_ref())?;
        let help = self.run_behind(&account, &place, &[&program, "--help"]).await?;
        let prints_token = String::from_utf8_lossy(&help.stdout).contains("setup-token");
        let argv: &[&str] = if prints_token { &[&program, "setup-token"] } else { &[&program] };
        let spec = self.behind_wall(&account, &place, argv);
        self.audit(actor, "account_login_opened", name, json!({ "as": place.user })).await?;
        Ok(LoginPlan { runner: self.runner().to_owned(), spec, prints_token })
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// An anonymous file with the specification; the child opens it through [`reached`].
fn memory(spec: &Value) -> Result<File> {
    let memory =
        rustix::fs::memfd_create("account-enter", MemfdFlags::CLOEXEC).map_err(std::io::Error::from)?;
    let mut file = File::from(memory);
    file.write_all(&serde_json::to_vec(spec)?)?;
    Ok(file)
}

fn reached(file: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}
