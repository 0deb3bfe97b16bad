//! The data directory: its layout and its lock.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use opkit_domain::ids::{ObjectiveId, RepositoryId, SessionId};
use opkit_domain::session::{Identity, Role};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// Linux refuses socket paths of 108 bytes and more; we keep room for names.
const LONGEST_SOCKET: usize = 100;

/// Paths below one data directory.
#[derive(Debug)]
pub(crate) struct DataDir {
    pub(crate) root: PathBuf,
    /// Where sockets live; below `root` unless its path is too long for the kernel.
    pub(crate) run: PathBuf,
    /// Held for the life of the process: two servers on one directory would fight.
    _lock: fs::File,
}

impl DataDir {
    /// Makes the layout, takes the lock and refuses what cannot work.
    pub(crate) fn open(root: &Path) -> Result<DataDir> {
        let root = std::path::absolute(root)?;
        fs::create_dir_all(&root).map_err(|error| {
            Error::Refused(format!(
                "The data directory {} cannot be made: {error}. Name another one with --data.",
                root.display()
            ))
        })?;
        let root = root.canonicalize()?;
        mode(&root, 0o711)?;
        for (name, bits) in [
            ("db", 0o700),
            ("keys", 0o700),
            ("run", 0o700),
            ("audit", 0o700),
            ("sessions", 0o700),
            ("rescue", 0o700),
            ("door", 0o755),
            ("policy", 0o755),
            ("bin", 0o755),
            ("mirrors", 0o755),
            ("work", 0o711),
            ("review", 0o711),
            ("pool", 0o700),
            ("sample", 0o755),
        ] {
            let dir = root.join(name);
            fs::create_dir_all(&dir)?;
            mode(&dir, bits)?;
        }
        let lock = lock(&root)?;
        let run = run_dir(&root)?;
        Ok(DataDir { root, run, _lock: lock })
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.root.join("db/opkit.db")
    }
    pub(crate) fn session(&self, id: &SessionId) -> PathBuf {
        self.root.join("sessions").join(id.as_str())
    }
    pub(crate) fn policy(&self, id: &SessionId) -> PathBuf {
        self.root.join("policy").join(id.as_str())
    }
    pub(crate) fn review(&self, id: &SessionId) -> PathBuf {
        self.root.join("review").join(id.as_str())
    }
    pub(crate) fn mirror(&self, id: RepositoryId) -> PathBuf {
        self.root.join(format!("mirrors/{id}.git"))
    }
    pub(crate) fn rescue(&self, id: RepositoryId) -> PathBuf {
        self.root.join(format!("rescue/{id}.git"))
    }
    pub(crate) fn work(&self, id: ObjectiveId) -> PathBuf {
        self.root.join(format!("work/{id}"))
    }
    pub(crate) fn worktree(&self, id: ObjectiveId) -> PathBuf {
        self.work(id).join(format!("cc-worktree-{id}"))
    }
    pub(crate) fn memory(&self, id: ObjectiveId) -> PathBuf {
        self.work(id).join("memory")
    }
    pub(crate) fn scratch(&self, id: ObjectiveId) -> PathBuf {
        self.work(id).join("scratch")
    }
    pub(crate) fn state(&self, id: ObjectiveId, role: Role) -> PathBuf {
        self.work(id).join("state").join(role.as_str())
    }
    pub(crate) fn door_file(&self) -> PathBuf {
        self.root.join("door/session-door")
    }
    pub(crate) fn kill_switch(&self) -> PathBuf {
        self.root.join("DISABLED")
    }
    pub(crate) fn tmux_socket(&self, account: &str) -> PathBuf {
        self.run.join("tmux").join(format!("{account}.sock"))
    }
    pub(crate) fn control_socket(&self) -> PathBuf {
        self.run.join("control.sock")
    }
}

/// Sets permission bits.
pub(crate) fn mode(path: &Path, bits: u32) -> Result<()> {
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(bits))?)
}

/// A record lock belongs to this process alone. A `flock` would live on in a child that was forked and has not
/// reached its `exec` when we are killed, and the next start would be refused.
fn lock(root: &Path) -> Result<fs::File> {
    let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(root.join("run/lock"))?;
    rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        Error::Refused(format!(
            "The data directory {} is in use by another opkit. Stop that one, or name another with --data.",
            root.display()
        ))
    })?;
    Ok(file)
}

/// `<root>/run`, or a short directory elsewhere whose name is kept in `<root>/run/where`.
fn run_dir(root: &Path) -> Result<PathBuf> {
    let inside = root.join("run");
    let longest = inside.join("tmux/ccuser-00.sock");
    let place = if longest.as_os_str().len() <= LONGEST_SOCKET {
        let _ = fs::remove_file(inside.join("where"));
        inside.clone()
    } else {
        let digest = hex::encode(Sha256::digest(root.as_os_str().as_encoded_bytes()));
        let short = &digest[..8];
        let base = match std::env::var_os("XDG_RUNTIME_DIR") {
            Some(dir) if !rustix::process::geteuid().is_root() => {
                PathBuf::from(dir).join(format!("opkit-{short}"))
            }
            _ => PathBuf::from("/run/opkit").join(short),
        };
        if base.join("tmux/ccuser-00.sock").as_os_str().len() > LONGEST_SOCKET {
            return Err(Error::Refused(format!(
                "The path {} is too long for a socket. Choose a shorter data directory with --data.",
                root.display()
            )));
        }
        fs::create_dir_all(&base).map_err(|error| {
            Error::Refused(format!(
                "The data directory's path is too long for a socket, and {} cannot be made: {error}. \
                 Choose a shorter data directory with --data.",
                base.display()
            ))
        })?;
        fs::write(inside.join("where"), base.as_os_str().as_encoded_bytes())?;
        base
    };
    mode(&place, 0o700)?;
    fs::create_dir_all(place.join("tmux"))?;
    mode(&place.join("tmux"), 0o700)?;
    Ok(place)
}

/// Refuses a path that the agents' user cannot get to, and says what mends it.
pub(crate) fn passable(path: &Path, identity: &Identity) -> Result<()> {
    let mut so_far = PathBuf::new();
    for part in path.components() {
        so_far.push(part);
        let Ok(meta) = fs::metadata(&so_far) else { break };
        if meta.is_dir() && !may(&meta, identity, 0o1) {
            return Err(Error::Refused(format!(
                "Agents run as another user and cannot get through {}. Run: chmod o+x {} — or choose another \
                 data directory with --data.",
                so_far.display(),
                so_far.display()
            )));
        }
    }
    Ok(())
}

/// Whether a user has these rwx bits on a file.
pub(crate) fn may(meta: &fs::Metadata, identity: &Identity, bits: u32) -> bool {
    let shift = if meta.uid() == identity.uid {
        6
    } else if meta.gid() == identity.gid || identity.groups.contains(&meta.gid()) {
        3
    } else {
        0
    };
    (meta.mode() >> shift) & bits == bits
}

/// Makes a directory that belongs to a session's user, mode 0700. One that is there stays as it is.
pub(crate) fn own_dir(path: &Path, identity: Option<&Identity>) -> Result<()> {
    match fs::create_dir(path) {
        Ok(()) => {
            mode(path, 0o700)?;
            give(path, identity)
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // `state` itself is the service's, closed until a session may pass.
            let parent = path.parent().ok_or(error)?;
            fs::create_dir(parent)?;
            mode(parent, 0o700)?;
            own_dir(path, identity)
        }
        Err(error) => Err(error.into()),
    }
}

/// Hands a path that we just made over to a session's user, never through a link.
pub(crate) fn give(path: &Path, identity: Option<&Identity>) -> Result<()> {
    if let Some(identity) = identity {
        std::os::unix::fs::lchown(path, Some(identity.uid), Some(identity.gid))?;
    }
    Ok(())
}

/// Writes a file under a temporary name, makes it durable and renames it into place.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8], bits: u32) -> Result<()> {
    replace(path, bytes, bits, true)
}

/// The same without waiting for the disk: for what is written again after a power cut.
pub(crate) fn write_quickly(path: &Path, bytes: &[u8], bits: u32) -> Result<()> {
    replace(path, bytes, bits, false)
}

fn replace(path: &Path, bytes: &[u8], bits: u32, durable: bool) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    // One that a server left when it was killed may be closed to us.
    let _ = fs::remove_file(&temporary);
    let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(bits).open(&temporary)?;
    // Whatever the umask, and before anybody can see it: what takes its name is right at once.
    file.set_permissions(fs::Permissions::from_mode(bits))?;
    file.write_all(bytes)?;
    if durable {
        file.sync_all()?;
    }
    // A program that is open for writing cannot be started.
    drop(file);
    fs::rename(&temporary, path)?;
    if durable && let Some(dir) = path.parent() {
        // The name, too.
        fs::File::open(dir)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects")]
mod tests {
    use super::*;

    #[test]
    fn what_is_replaced_has_its_mode_whatever_the_umask_and_what_was_left_half_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("settings.json");
        fs::write(dir.path().join("settings.json.new"), "half").unwrap();
        mode(&dir.path().join("settings.json.new"), 0o444).unwrap();
        for bits in [0o666, 0o444, 0o600] {
            write_atomically(&file, b"whole", bits).unwrap();
            assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, bits);
            assert_eq!(fs::read(&file).unwrap(), b"whole");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
