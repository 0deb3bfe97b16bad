//! An account's home and what stands in it, made and mended through descriptors: whatever an agent planted there is
//! never followed.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use super::AGENT_CONFIG;
use crate::error::{Error, Result};

const PRIVATE: u32 = 0o700;

fn io(error: Errno) -> Error {
    Error::from(std::io::Error::from(error))
}

fn directory(at: &OwnedFd, name: &str) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(at, name, flags(), Mode::empty())
}

fn flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// Opens a directory of the service's, in which homes are made.
pub(super) fn parent(path: &Path) -> Result<OwnedFd> {
    rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(io)
}

/// Opens a home that is there; refused when it is a link, no directory, or another user's.
pub(super) fn open(home: &Path, uid: u32) -> Result<OwnedFd> {
    let refused = |why: &str| Error::Refused(format!("the home {} {why}", home.display()));
    let dir = match rustix::fs::openat(CWD, home, flags(), Mode::empty()) {
        Ok(dir) => dir,
        Err(Errno::NOENT) => return Err(refused("does not exist. Make it, owned by the account's user")),
        Err(Errno::LOOP | Errno::NOTDIR) => return Err(refused("is a link or no directory")),
        Err(error) => return Err(io(error)),
    };
    let stat = rustix::fs::fstat(&dir).map_err(io)?;
    if stat.st_uid != uid {
        return Err(refused(&format!("belongs to user {}. Give it to the account's user", stat.st_uid)));
    }
    Ok(dir)
}

/// Makes a directory for its owner alone, or mends mode and owner of one that is there. Gives it, and whether
/// anything changed. One of a third user is refused.
pub(super) fn private(
    parent: &OwnedFd,
    name: &str,
    shown: &Path,
    uid: u32,
    gid: u32,
) -> Result<(OwnedFd, Option<&'static str>)> {
    let made = match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(PRIVATE)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(io(error)),
    };
    let refused = |why: String| Error::Refused(format!("{} {why}", shown.display()));
    let dir = match directory(parent, name) {
        Ok(dir) => dir,
        Err(Errno::LOOP | Errno::NOTDIR) => {
            return Err(refused("is a link or no directory. Remove it and run this again".into()));
        }
        Err(error) => return Err(io(error)),
    };
    let stat = rustix::fs::fstat(&dir).map_err(io)?;
    let own = rustix::process::geteuid().as_raw();
    // Nobody but root can put a directory of root's here, so it is one that we made and did not finish.
    if stat.st_uid != uid && stat.st_uid != own {
        return Err(refused(format!("belongs to user {}. Give it to the account's user", stat.st_uid)));
    }
    let mut mended = false;
    if stat.st_uid != uid {
        rustix::fs::fchown(&dir, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))).map_err(io)?;
        mended = true;
    }
    if stat.st_mode & 0o7777 != PRIVATE {
        rustix::fs::fchmod(&dir, Mode::from_raw_mode(PRIVATE)).map_err(io)?;
        mended = true;
    }
    let what = match (made, mended) {
        (true, _) => Some("made"),
        (false, true) => Some("mended"),
        (false, false) => None,
    };
    Ok((dir, what))
}

/// The agent's configuration directory.
pub(super) fn agent_config(home: &OwnedFd, uid: u32, gid: u32) -> Result<Option<&'static str>> {
    Ok(private(home, AGENT_CONFIG, Path::new(AGENT_CONFIG), uid, gid)?.1)
}

/// The git identity for whoever works in the home by hand; an existing file stays as it is.
pub(super) fn git_identity(home: &OwnedFd, uid: u32, gid: u32, name: &str, email: &str) -> Result<bool> {
    const FILE: &str = ".gitconfig";
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(home, FILE, flags, Mode::from_raw_mode(0o600)) {
        Ok(file) => file,
        Err(Errno::EXIST) => {
            let stat = rustix::fs::statat(home, FILE, AtFlags::SYMLINK_NOFOLLOW).map_err(io)?;
            let plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            if plain && stat.st_uid == uid {
                return Ok(false);
            }
            return Err(Error::Refused(format!(
                "{FILE} in its home is no file of its user's. Remove it and run this again"
            )));
        }
        Err(error) => return Err(io(error)),
    };
    rustix::fs::fchown(&file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))).map_err(io)?;
    File::from(file).write_all(format!("[user]\n\tname = \"{name}\"\n\temail = \"{email}\"\n").as_bytes())?;
    Ok(true)
}
