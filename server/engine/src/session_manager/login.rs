//! A login of the agent's own program: lent to one session as a copy, and taken back when the session is over.
//!
//! The agent's configuration directory belongs to objective and role, never to the account. Only the file with the
//! login goes there, and it must come back: the program renews it, and the old one is worthless then.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use opkit_domain::session::{Identity, Role};
use opkit_domain::view::Credential;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::store::sessions::SessionRow;

/// The file that holds a login, in the program's configuration directory.
const FILE: &str = ".credentials.json";
/// That directory, in a session's home.
const CONFIG: &str = "claude";

impl Engine {
    /// A session's home: the agent's own, in a directory that is ours.
    fn session_home(&self, row: &SessionRow) -> PathBuf {
        match row.role {
            Role::Review => self.dirs().review(&row.id).join("home"),
            Role::Plan | Role::Work | Role::Delegate => self.dirs().state(row.objective, row.role),
        }
    }

    /// The configuration directory of a Claude session.
    pub(super) fn claude_config(&self, row: &SessionRow) -> PathBuf {
        self.session_home(row).join(CONFIG)
    }

    /// Gives a session the login of an account that has no key.
    pub(super) fn lend_login(&self, row: &SessionRow) -> Result<()> {
        if row.agent != "claude" || self.credential(&row.account, row.os_user.as_deref()) != Credential::Login
        {
            return Ok(());
        }
        let Some(dir) = self.login_dir(&row.account, row.os_user.as_deref()) else { return Ok(()) };
        let login = read(&dir)?;
        let identity = self.identity_of(row)?;
        lend(&self.session_home(row), &login, identity.as_ref())
    }

    /// Takes a lent login back, renewed or not, and leaves nothing of it in the session's place. Nothing of the
    /// session is alive any more.
    pub(crate) fn take_login_back(&self, row: &SessionRow) -> Result<()> {
        if row.agent != "claude" {
            return Ok(());
        }
        // Whatever else than a directory stands there is the agent's own doing, and nothing in it is ours.
        let Ok(config_dir) = open_config(&self.session_home(row)) else { return Ok(()) };
        if rustix::fs::statat(&config_dir, FILE, AtFlags::SYMLINK_NOFOLLOW).is_err() {
            return Ok(());
        }
        let config = self.claude_config(row);
        if let Some(dir) = self.login_dir(&row.account, row.os_user.as_deref()) {
            match (read(&config), read(&dir)) {
                (Ok(lent), Ok(own)) if lent != own && is_login(&lent) => {
                    put_back(&dir, &lent, self.identity_of(row)?.as_ref())?;
                }
                // Whatever else stands there is the agent's own doing and goes no further.
                (Ok(_) | Err(_), _) => {}
            }
        }
        take_away(&config_dir)
    }
}

/// Removes a lent login. What an agent did to it, a closed directory say, holds no session's end up.
fn take_away(config: &OwnedFd) -> Result<()> {
    // Without root the directory is ours as well as the agent's, who may have closed it.
    let _ = rustix::fs::fchmod(config, Mode::from_raw_mode(0o700));
    match rustix::fs::unlinkat(config, FILE, AtFlags::empty()) {
        // It made a directory of that name: no login is in it.
        Err(Errno::ISDIR | Errno::PERM | Errno::ACCESS | Errno::NOENT) | Ok(()) => Ok(()),
        Err(error) => Err(io(error)),
    }
}

fn io(error: Errno) -> Error {
    std::io::Error::from(error).into()
}

fn open_dir(at: impl std::os::fd::AsFd, path: impl rustix::path::Arg) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, path, flags, Mode::empty()).map_err(io)
}

/// The configuration directory, if it is one: the agent may have put a link in its place.
fn open_config(home: &Path) -> Result<OwnedFd> {
    open_dir(open_dir(CWD, home)?, CONFIG)
}

/// Puts a copy of a login into a session's home. Nothing of the session runs, and nothing is followed.
fn lend(home: &Path, login: &[u8], identity: Option<&Identity>) -> Result<()> {
    let home_dir = open_dir(CWD, home)?;
    let config = match open_config(home) {
        Ok(config) => config,
        Err(_) => {
            // Nothing, or what an earlier session put there instead.
            match rustix::fs::unlinkat(&home_dir, CONFIG, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(io(error)),
            }
            rustix::fs::mkdirat(&home_dir, CONFIG, Mode::from_raw_mode(0o700)).map_err(io)?;
            open_config(home)?
        }
    };
    own(&config, identity)?;
    match rustix::fs::unlinkat(&config, FILE, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(_) => {
            return Err(Error::Refused(format!(
                "{} is not a file, so no login can be lent. Delete it.",
                home.join(CONFIG).join(FILE).display()
            )));
        }
    }
    let mut file = new_file(&config, FILE)?;
    own(&file, identity)?;
    file.write_all(login)?;
    Ok(())
}

fn new_file(dir: &OwnedFd, name: &str) -> Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(0o600)).map_err(io)?.into())
}

fn own(file: impl std::os::fd::AsFd, identity: Option<&Identity>) -> Result<()> {
    let Some(identity) = identity else { return Ok(()) };
    let (uid, gid) =
        (rustix::process::Uid::from_raw(identity.uid), rustix::process::Gid::from_raw(identity.gid));
    rustix::fs::fchown(file, Some(uid), Some(gid)).map_err(io)
}

fn read(dir: &Path) -> Result<Vec<u8>> {
    // From the directory above: the configuration directory itself may have become a link.
    let (Some(above), Some(name)) = (dir.parent(), dir.file_name().and_then(|name| name.to_str())) else {
        return Err(Error::Refused(format!("{} is not a directory of a login.", dir.display())));
    };
    crate::memory::read_bytes(above, &format!("{name}/{FILE}"))
        .map_err(|why| Error::Refused(format!("The login in {} cannot be read: {why}", dir.display())))
}

/// A JSON object, which is all that can be told.
fn is_login(bytes: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(bytes)
        .is_ok_and(|map| !map.is_empty())
}

/// Replaces the login in an account's home by descriptors: the home is the account's own to change.
fn put_back(dir: &Path, login: &[u8], identity: Option<&Identity>) -> Result<()> {
    let handle = open_dir(CWD, dir)?;
    let temporary = format!("{FILE}.{}", uuid::Uuid::new_v4().simple());
    let mut file = new_file(&handle, &temporary)?;
    own(&file, identity)?;
    file.write_all(login)?;
    file.sync_all()?;
    rustix::fs::renameat(&handle, &temporary, &handle, FILE).map_err(io)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects")]
mod tests {
    use super::*;

    #[test]
    fn a_renewed_login_replaces_the_old_one_and_no_link_is_followed() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join(".claude");
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join(FILE), "{\"old\":1}").unwrap();
        put_back(&dir, b"{\"new\":1}", None).unwrap();
        assert_eq!(read(&dir).unwrap(), b"{\"new\":1}");
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "nothing else is left");

        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::write(elsewhere.path().join(FILE), "{\"root\":1}").unwrap();
        let link = home.path().join("linked");
        std::os::unix::fs::symlink(elsewhere.path(), &link).unwrap();
        assert!(read(&link).is_err());
        assert!(put_back(&link, b"{\"new\":1}", None).is_err());
        assert_eq!(std::fs::read(elsewhere.path().join(FILE)).unwrap(), b"{\"root\":1}");
    }

    #[test]
    fn a_login_is_lent_past_whatever_an_agent_left() {
        let home = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::write(elsewhere.path().join(FILE), "{\"root\":1}").unwrap();
        let config = home.path().join(CONFIG);
        lend(home.path(), b"{\"a\":1}", None).unwrap();
        lend(home.path(), b"{\"b\":1}", None).unwrap();
        assert_eq!(std::fs::read(config.join(FILE)).unwrap(), b"{\"b\":1}");

        std::fs::remove_dir_all(&config).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), &config).unwrap();
        assert!(open_config(home.path()).is_err(), "a link is no directory of ours");
        lend(home.path(), b"{\"c\":1}", None).unwrap();
        assert_eq!(std::fs::read(elsewhere.path().join(FILE)).unwrap(), b"{\"root\":1}");
        assert!(!std::fs::symlink_metadata(&config).unwrap().is_symlink());

        std::fs::remove_file(config.join(FILE)).unwrap();
        std::fs::create_dir_all(config.join(FILE).join("deep")).unwrap();
        let error = lend(home.path(), b"{\"d\":1}", None).unwrap_err().to_string();
        assert!(error.contains("Delete it"), "{error}");
        take_away(&open_config(home.path()).unwrap()).unwrap();
        assert!(config.join(FILE).is_dir(), "no login, and nothing of ours");
    }

    #[test]
    fn only_a_json_object_is_a_login() {
        assert!(is_login(b"{\"a\":{}}"));
        for text in ["", "{}", "[]", "x"] {
            assert!(!is_login(text.as_bytes()), "{text}");
        }
    }
}
