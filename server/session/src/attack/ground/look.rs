//! What is outside, before and after a row: the evidence.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::PathBuf;

use super::{CANARY, Goal, Ground, Ran, sleeper, start};

/// Paths outside and what is there.
pub(in crate::attack) type Look = BTreeMap<PathBuf, (u32, Vec<u8>)>;

impl Ground {
    /// Everything outside the session's own places.
    pub(in crate::attack) fn look(&self) -> Look {
        let mut look = Look::new();
        let own = self.writable();
        let mut left = vec![self.root.clone()];
        while let Some(dir) = left.pop() {
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                let path = entry.path();
                let Ok(meta) = fs::symlink_metadata(&path) else { continue };
                if own.contains(&path) {
                    continue;
                }
                let what = if meta.is_dir() {
                    left.push(path.clone());
                    Vec::new()
                } else if meta.len() > 64 << 10 || !meta.is_file() {
                    format!("{} {} {}", meta.ino(), meta.len(), meta.mtime_nsec()).into_bytes()
                } else {
                    fs::read(&path).unwrap_or_default()
                };
                look.insert(path, (meta.mode() & libc::S_IFMT, what));
            }
        }
        for path in self.far_markers() {
            if path.exists() {
                look.insert(path, (0, Vec::new()));
            }
        }
        look
    }

    /// Markers outside the ground.
    pub(super) fn far_markers(&self) -> Vec<PathBuf> {
        let mut dirs: Vec<PathBuf> = [
            "/tmp",
            "/var/tmp",
            "/dev/shm",
            "/etc",
            "/usr/local/bin",
            "/run",
            "/var/spool/cron/crontabs",
            "/opt",
        ]
        .map(PathBuf::from)
        .to_vec();
        dirs.extend(std::env::var_os("HOME").map(PathBuf::from));
        let tag = format!("{}-far", self.tag());
        dirs.into_iter().map(|dir| dir.join(&tag)).collect()
    }

    /// Puts back what a row changed, so that the next one finds the same ground.
    fn repair(&self, before: &Look, after: &Look) {
        for path in after.keys().filter(|path| before.get(*path) != after.get(*path)) {
            let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
        }
        // Parents come before what is in them.
        for (path, (kind, content)) in before.iter().filter(|(path, was)| after.get(*path) != Some(*was)) {
            let made = match *kind {
                libc::S_IFDIR => fs::create_dir(path),
                libc::S_IFREG => fs::write(path, content),
                _ => continue,
            };
            let mode = if *kind == libc::S_IFDIR { 0o777 } else { 0o666 };
            let _ = made.and_then(|()| fs::set_permissions(path, Permissions::from_mode(mode)));
            if let Some(identity) = &self.identity {
                let _ = lchown(path, Some(identity.uid), Some(identity.gid));
            }
        }
    }

    /// What a row changed, read, reached or ended outside.
    pub(in crate::attack) fn evidence(&mut self, before: &Look, ran: &Ran, goal: Goal) -> Option<String> {
        let after = self.look();
        let changed = |path: &&PathBuf| before.get(*path) != after.get(*path);
        if let Some(path) = before.keys().chain(after.keys()).find(changed) {
            let text = format!("changed {}", self.shorten(&path.display().to_string()));
            self.repair(before, &after);
            return Some(text);
        }
        if ran.output.contains(CANARY) && goal != Goal::Own {
            return Some("a secret was read".to_owned());
        }
        let mut bytes = [0_u8; 64];
        let reached = self.doors.iter().any(|door| door.accept().is_ok())
            || self.datagrams.iter().any(|door| door.recv(&mut bytes).is_ok());
        if reached {
            return Some("a socket was reached".to_owned());
        }
        for at in 0..self.targets.len() {
            if !matches!(self.targets[at].try_wait(), Ok(None)) {
                if let Ok(target) = start(&self.root, self.identity.as_ref(), &mut sleeper()) {
                    self.targets[at] = target;
                }
                return Some("a process outside was ended".to_owned());
            }
        }
        None
    }
}
