//! `accounts test`: what a session on this account would meet, tried one after the other.

use std::fs;
use std::os::unix::fs::MetadataExt;

use opkit_domain::access::Actor;
use opkit_domain::view::Credential;

use super::{AGENT_CONFIG, Place, admin};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::store::accounts::AccountRow;

/// (fine, sentence).
type Line = (bool, String);

impl Engine {
    /// One line for each check. A line that is not fine says what mends it.
    pub async fn test_account(&self, actor: &Actor, name: &str) -> Result<Vec<Line>> {
        admin(actor)?;
        let account = self.store().account(name).await?;
        let mut lines = vec![state(&account)];
        let place = match self.place(&account) {
            Ok(place) => place,
            Err(error @ Error::Internal(_)) => return Err(error),
            Err(error) => {
                lines.push((false, error.to_string()));
                return Ok(lines);
            }
        };
        lines.push(user(&place));
        let home = home(&place);
        let there = home.0;
        lines.push(home);
        if there {
            lines.push(self.writable(&account, &place).await?);
            lines.push(configuration(&place));
        }
        lines.push(self.key(&account));
        if there {
            lines.push(self.program(&account, &place).await?);
        }
        Ok(lines)
    }

    /// Makes and removes a directory in the home, as its user: quotas and read-only disks show only so.
    async fn writable(&self, account: &AccountRow, place: &Place) -> Result<Line> {
        let probe = place.home.join(format!(".opkit-test-{:08x}", rand::random::<u32>()));
        let probe = probe.to_string_lossy();
        let shown = place.home.display();
        for program in ["mkdir", "rmdir"] {
            let path = crate::programs::find(program)
                .ok_or_else(|| Error::Refused(format!("{program} is missing. Install coreutils.")))?;
            match self.run_behind(account, place, &[&path.to_string_lossy(), "--", &probe]).await {
                Ok(output) if output.status.success() => {}
                Ok(output) => {
                    let why = last_line(&output.stderr);
                    return Ok((
                        false,
                        format!(
                            "Home {shown} is not writable by {}: {why}. Run: chmod u+rwx {shown}",
                            place.user
                        ),
                    ));
                }
                Err(error @ Error::Internal(_)) => return Err(error),
                Err(error) => return Ok((false, format!("Home {shown} could not be tried: {error}"))),
            }
        }
        Ok((true, format!("Home {shown} is writable by {}", place.user)))
    }

    /// The credential's file: there, not empty, for the service alone.
    fn key(&self, account: &AccountRow) -> Line {
        let source = self.credential(&account.name, account.os_user.as_deref());
        let file = match source {
            Credential::OwnKey => self.key_file(&account.name),
            Credential::SharedKey => self.key_file("anthropic"),
            Credential::Login => {
                let text =
                    "Credential: a login in its home. One session at a time, and no review of its own work";
                return (true, text.into());
            }
            Credential::None if self.agents().claude().is_none() => {
                return (
                    true,
                    "No credential: the demo agent, the only one that is set up, needs none".into(),
                );
            }
            Credential::None => {
                return (false, format!("No credential. Run: opkit accounts key {} --stdin", account.name));
            }
        };
        let shown = file.display();
        let meta = match fs::symlink_metadata(&file) {
            Ok(meta) => meta,
            Err(error) => return (false, format!("The key file {shown} cannot be read: {error}")),
        };
        let own = rustix::process::geteuid().as_raw();
        let plain = meta.is_file() && meta.uid() == own;
        if !plain || meta.mode() & 0o077 != 0 {
            return (
                false,
                format!(
                    "The key file {shown} is not the service's alone (mode {:03o}, user {}). Run: chmod 600 {shown}",
                    meta.mode() & 0o777,
                    meta.uid()
                ),
            );
        }
        if fs::read_to_string(&file).is_ok_and(|text| text.trim().is_empty()) {
            return (false, format!("The key file {shown} is empty"));
        }
        (true, format!("Credential: {} ({shown}, mode 600)", source.label()))
    }

    /// The agent's program answers as the account's user, behind the wall.
    async fn program(&self, account: &AccountRow, place: &Place) -> Result<Line> {
        let (name, program) = match self.agents().claude() {
            Some(claude) => ("Claude Code", claude),
            None => ("The demo agent", self.runner()),
        };
        if let Err(error) = crate::agents::readable(program, place.identity.as_ref()) {
            return Ok((false, error.to_string()));
        }
        match self.run_behind(account, place, &[&program.to_string_lossy(), "--version"]).await {
            Ok(output) if output.status.success() => {
                Ok((true, format!("{name} runs behind the wall: {}", last_line(&output.stdout))))
            }
            Ok(output) => Ok((
                false,
                format!(
                    "{name} does not run behind the wall ({}): {}",
                    output.status,
                    last_line(&output.stderr)
                ),
            )),
            Err(error @ Error::Internal(_)) => Err(error),
            Err(error) => Ok((false, format!("{name} does not run behind the wall: {error}"))),
        }
    }
}

fn state(account: &AccountRow) -> Line {
    let fine = account.available();
    let way = if fine { String::new() } else { format!(". Run: opkit accounts enable {}", account.name) };
    let reason = if account.reason.is_empty() { String::new() } else { format!(": {}", account.reason) };
    let reason = reason.trim_end_matches('.');
    (fine, format!("State {}{reason}{way}", account.state))
}

fn user(place: &Place) -> Line {
    match &place.identity {
        Some(identity) => (true, format!("Runs as {} (user {})", place.user, identity.uid)),
        None => {
            let own = rustix::process::geteuid();
            (!own.is_root(), format!("Runs as the service's own user ({})", own.as_raw()))
        }
    }
}

/// Whom the home must belong to.
fn owner(place: &Place) -> u32 {
    place.identity.as_ref().map_or_else(|| rustix::process::geteuid().as_raw(), |identity| identity.uid)
}

fn home(place: &Place) -> Line {
    let shown = place.home.display();
    let meta = match fs::symlink_metadata(&place.home) {
        Ok(meta) if meta.is_dir() => meta,
        Ok(_) => {
            return (false, format!("Home {shown} is a link or no directory. Run: opkit accounts provision"));
        }
        Err(error) => return (false, format!("Home {shown}: {error}. Run: opkit accounts provision")),
    };
    if meta.uid() != owner(place) {
        let text = format!("Home {shown} belongs to user {}. Run: chown {} {shown}", meta.uid(), place.user);
        return (false, text);
    }
    if let Some(identity) = &place.identity
        && let Err(error) = crate::data_dir::passable(&place.home, identity)
    {
        return (false, error.to_string());
    }
    if meta.mode() & 0o022 != 0 {
        return (false, format!("Home {shown} can be written by others. Run: chmod 700 {shown}"));
    }
    (true, format!("Home {shown} belongs to {} (mode {:03o})", place.user, meta.mode() & 0o777))
}

fn configuration(place: &Place) -> Line {
    let dir = place.home.join(AGENT_CONFIG);
    let shown = dir.display();
    match fs::symlink_metadata(&dir) {
        Ok(meta) if meta.is_dir() && meta.uid() == owner(place) && meta.mode() & 0o077 == 0 => {
            (true, format!("Agent configuration directory {shown}"))
        }
        Ok(_) => (
            false,
            format!("{shown} is not a directory of {} alone. Run: opkit accounts provision", place.user),
        ),
        Err(_) => (false, format!("{shown} is missing. Run: opkit accounts provision")),
    }
}

/// The last line a program wrote, cut, as text.
fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    line.chars().filter(|c| !c.is_control()).take(300).collect()
}
