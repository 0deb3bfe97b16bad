//! A login of the agent's own program: lent to one session as a copy, and taken back when the session is over.
//!
//! The agent's configuration directory belongs to objective and role, never to the account. Only the file with the
//! login goes there, and it must come back: the program renews it, and the old one is worthless then.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use opkit_domain::session::{Identity, Role};
use opkit_domain::view::Credential;
use rustix::fs::{CWD, Mode, OFlags};

use super::give_file;
use crate::data_dir::own_dir;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::store::sessions::SessionRow;

/// The file that holds a login, in the program's configuration directory.
const FILE: &str = ".credentials.json";

impl Engine {
    /// The configuration directory of a Claude session.
    pub(super) fn claude_config(&self, row: &SessionRow) -> PathBuf {
        let home = match row.role {
            Role::Review => self.dirs().review(&row.id).join("home"),
            Role::Plan | Role::Work | Role::Delegate => self.dirs().state(row.objective, row.role),
        };
        home.join("claude")
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
        let config = self.claude_config(row);
        own_dir(&config, identity.as_ref(), &[])?;
        give_file(&config.join(FILE), &login, 0o600, identity.as_ref())
    }

    /// Takes a lent login back, renewed or not, and leaves nothing of it in the session's place. Nothing of the
    /// session is alive any more.
    pub(crate) fn take_login_back(&self, row: &SessionRow) -> Result<()> {
        let config = self.claude_config(row);
        if row.agent != "claude" || std::fs::symlink_metadata(config.join(FILE)).is_err() {
            return Ok(());
        }
        if let Some(dir) = self.login_dir(&row.account, row.os_user.as_deref()) {
            match (read(&config), read(&dir)) {
                (Ok(lent), Ok(own)) if lent != own && is_login(&lent) => {
                    put_back(&dir, &lent, self.identity_of(row)?.as_ref())?;
                }
                // Whatever else stands there is the agent's own doing and goes no further.
                (Ok(_) | Err(_), _) => {}
            }
        }
        std::fs::remove_file(config.join(FILE))?;
        Ok(())
    }
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
    let io = |error: rustix::io::Errno| Error::from(std::io::Error::from(error));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(CWD, dir, flags, Mode::empty()).map_err(io)?;
    let temporary = format!("{FILE}.{}", uuid::Uuid::new_v4().simple());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&handle, &temporary, flags, Mode::from_raw_mode(0o600)).map_err(io)?;
    if let Some(identity) = identity {
        let (uid, gid) =
            (rustix::process::Uid::from_raw(identity.uid), rustix::process::Gid::from_raw(identity.gid));
        rustix::fs::fchown(&file, Some(uid), Some(gid)).map_err(io)?;
    }
    let mut file = File::from(file);
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
    fn only_a_json_object_is_a_login() {
        assert!(is_login(b"{\"a\":{}}"));
        for text in ["", "{}", "[]", "x"] {
            assert!(!is_login(text.as_bytes()), "{text}");
        }
    }
}
