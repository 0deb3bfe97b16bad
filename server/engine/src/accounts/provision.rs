//! `accounts provision`: an OS user, a home, an agent configuration directory and a git identity for each account.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use opkit_domain::access::Actor;
use serde::{Deserialize, Serialize};

use super::{admin, author, home, only_root};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::os_users::{OsUser, lookup};
use crate::store::accounts::AccountPatch;

/// Accounts of one call at most.
const MOST: u32 = 100;
/// Homes of new users where the machine has no `/home`.
const OTHER_HOMES: &str = "/var/lib/opkit-accounts";

/// What a provisioning came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provisioned {
    /// One line an account: (fine, sentence).
    pub lines: Vec<(bool, String)>,
    /// Accounts that changed.
    pub changed: u32,
}

impl Provisioned {
    pub(super) fn note(&mut self, account: &str, outcome: Result<Vec<String>>) {
        let line = match outcome {
            Ok(changes) if changes.is_empty() => (true, format!("{account}: nothing to do")),
            Ok(changes) => {
                self.changed += 1;
                (true, format!("{account}: {}", changes.join(", ")))
            }
            Err(Error::Internal(source)) => {
                tracing::error!(
                    account,
                    error = format!("{source:#}"),
                    "an account could not be provisioned"
                );
                (false, format!("{account}: {source:#}"))
            }
            Err(
                error @ (Error::NotFound(_)
                | Error::Refused(_)
                | Error::Conflict(_)
                | Error::BadInput(_)
                | Error::Forbidden(_)),
            ) => (false, format!("{account}: {error}")),
        };
        self.lines.push(line);
    }
}

impl Engine {
    /// Makes `<prefix>-0` … ready as OS users and gives them to the accounts of the same names. A second call
    /// changes nothing; whatever is half done is finished, whatever is wrong is named.
    pub async fn provision(&self, actor: &Actor, prefix: &str, count: u32) -> Result<Provisioned> {
        admin(actor)?;
        if !(1..=MOST).contains(&count) {
            return Err(Error::BadInput(format!("The number of accounts is from 1 to {MOST}.")));
        }
        let names: Vec<String> = (0..count).map(|number| format!("{prefix}-{number}")).collect();
        names.iter().try_for_each(|name| self.fits(name))?;
        let gid = self.identity().ok_or_else(only_root)?.gid;
        let mut done = Provisioned::default();
        for name in names {
            let outcome = self.provision_one(actor, &name, gid).await;
            done.note(&name, outcome);
        }
        self.changed();
        Ok(done)
    }

    async fn provision_one(&self, actor: &Actor, name: &str, gid: u32) -> Result<Vec<String>> {
        let known = self.store().accounts().await?.into_iter().find(|account| account.name == name);
        let user = known.and_then(|account| account.os_user).unwrap_or_else(|| name.to_owned());
        let made = {
            let user = user.clone();
            blocking(move || make_user(&user, gid)).await?
        };
        let email = format!("{name}@opkit.invalid");
        let patch =
            AccountPatch { name, os_user: Some(&user), git_name: Some(name), git_email: Some(&email) };
        let mut changes: Vec<String> = made.into_iter().map(str::to_owned).collect();
        let in_pool = self.store().provision_account(actor, &patch).await;
        changes.extend(self.equip(name, &user).await?);
        if in_pool? {
            changes.push(format!("runs as {user}"));
        }
        Ok(changes)
    }

    /// Home, agent configuration directory and git identity of an account with an OS user.
    pub(super) async fn equip(&self, account: &str, user: &str) -> Result<Vec<String>> {
        let row = self.store().account(account).await?;
        let user = lookup(user)?.ok_or_else(|| Error::Refused(format!("there is no OS user {user}")))?;
        let git_name = row.git_name.unwrap_or_else(|| row.name.clone());
        let git_email = row.git_email.unwrap_or_else(|| format!("{}@opkit.invalid", row.name));
        blocking(move || {
            let mut changes = Vec::new();
            let home = if user.home == new_home(&user.name) {
                let (dir, what) = make_home(&user)?;
                changes.extend(what.map(|what| format!("home {what}")));
                dir
            } else {
                // Somebody else made this home: its mode is theirs to choose.
                home::open(&user.home, user.uid)?
            };
            let config = home::agent_config(&home, user.uid, user.gid)?;
            changes.extend(config.map(|what| format!("agent configuration directory {what}")));
            let (name, email) = (author("name", &git_name)?, author("address", &git_email)?);
            if home::git_identity(&home, user.uid, user.gid, name, email)? {
                changes.push("git identity written".into());
            }
            Ok(changes)
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Error::Internal(anyhow::Error::new(error).context("provisioning broke off")))?
}

/// Where a user that we make has its home.
fn new_home(name: &str) -> PathBuf {
    home_base().join(name)
}

fn home_base() -> &'static Path {
    if Path::new("/home").is_dir() { Path::new("/home") } else { Path::new(OTHER_HOMES) }
}

fn make_home(user: &OsUser) -> Result<(std::os::fd::OwnedFd, Option<&'static str>)> {
    let base = home_base();
    if base == Path::new(OTHER_HOMES) {
        std::fs::create_dir_all(base)?;
        crate::data_dir::mode(base, 0o755)?;
    }
    let parent = home::parent(base)?;
    let stat = rustix::fs::fstat(&parent).map_err(std::io::Error::from)?;
    if stat.st_uid != 0 || stat.st_mode & 0o022 != 0 {
        return Err(Error::Refused(format!(
            "{} can be written by others than root, so homes cannot be made there safely. Run: chmod go-w {}",
            base.display(),
            base.display()
        )));
    }
    home::private(&parent, &user.name, &user.home, user.uid, user.gid)
}

/// Makes an OS user unless it is there. A name that is root's is refused by the look-up.
fn make_user(name: &str, gid: u32) -> Result<Option<&'static str>> {
    if lookup(name)?.is_some() {
        return Ok(None);
    }
    let program = crate::programs::find("useradd").ok_or_else(|| {
        Error::Refused(
            "useradd is missing. Install it (package passwd or shadow), or make the user by hand".into(),
        )
    })?;
    // Users of the system's range have no subordinate ids, with which a process could become more than itself.
    let mut complaint = String::new();
    for _ in 0..40 {
        let made = Command::new(&program)
            .env_clear()
            .env("PATH", crate::programs::PATH)
            .args(["--system", "--no-create-home", "--shell", "/usr/sbin/nologin"])
            .arg("--home-dir")
            .arg(new_home(name))
            .arg("--gid")
            .arg(gid.to_string())
            .arg(name)
            .output()?;
        if lookup(name)?.is_some() {
            return Ok(Some("OS user made"));
        }
        complaint = String::from_utf8_lossy(&made.stderr).trim().to_owned();
        // 1 is "the password file could not be changed": somebody else has it locked.
        if made.status.code() != Some(1) {
            break;
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    Err(Error::Refused(format!("the OS user {name} could not be made: {complaint}")))
}
