//! Changes the owner of a directory tree by descriptors only, never through a link.
//!
//! Used where nothing can reach the tree any more: its processes are gone and its parent is closed. Even so, what
//! stands in it was written by an agent: a link is changed itself, and a file with a name outside the tree is refused.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use opkit_domain::session::Identity;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::process::{Gid, Uid};

use crate::error::{Error, Result};

/// Deeper trees are refused: nobody needs them, and each level holds a descriptor.
const DEEPEST: usize = 400;

/// Gives `dir` and everything below it to another user. Every entry must belong to one of `from`, or to the new
/// owner already; otherwise nothing is changed and the error names the first that does not.
pub(crate) fn change_owner(dir: &Path, from: &[u32], to: &Identity) -> Result<()> {
    let root = open_dir(CWD, dir)?;
    let mut names: HashMap<(u64, u64), (i128, i128)> = HashMap::new();
    walk(&root, Path::new(""), 0, &mut |_, path, stat| {
        if stat.st_uid != to.uid && !from.contains(&stat.st_uid) {
            return Err(refused(dir, path, "belongs to another user"));
        }
        let file = FileType::from_raw_mode(stat.st_mode) != FileType::Directory;
        if file && stat.st_nlink > 1 {
            let entry = names.entry((stat.st_dev, stat.st_ino)).or_insert((i128::from(stat.st_nlink), 0));
            entry.1 += 1;
        }
        Ok(())
    })?;
    if names.values().any(|(all, here)| here < all) {
        return Err(refused(dir, Path::new(""), "holds a hard link to a file outside"));
    }
    let (uid, gid) = (Uid::from_raw(to.uid), Gid::from_raw(to.gid));
    walk(&root, Path::new(""), 0, &mut |parent, path, stat| {
        if stat.st_uid == to.uid && stat.st_gid == to.gid {
            return Ok(());
        }
        let name = path.file_name().unwrap_or_default();
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::chownat(parent, name, Some(uid), Some(gid), flags).map_err(std::io::Error::from)?)
    })?;
    Ok(rustix::fs::fchown(&root, Some(uid), Some(gid)).map_err(std::io::Error::from)?)
}

fn refused(dir: &Path, path: &Path, why: &str) -> Error {
    Error::Refused(format!("{} cannot be handed to another account: it {why}.", dir.join(path).display()))
}

fn open_dir(at: impl AsFd, path: impl rustix::path::Arg) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, path, flags, Mode::empty()).map_err(std::io::Error::from)?)
}

/// Calls `visit(parent, path, stat)` for every entry below `dir`, children before their directory.
fn walk(
    dir: &OwnedFd,
    path: &Path,
    depth: usize,
    visit: &mut impl FnMut(&OwnedFd, &Path, &Stat) -> Result<()>,
) -> Result<()> {
    if depth > DEEPEST {
        return Err(Error::Refused(format!("{} is nested too deeply.", path.display())));
    }
    for entry in Dir::read_from(dir).map_err(std::io::Error::from)? {
        let entry = entry.map_err(std::io::Error::from)?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let path = path.join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name.to_bytes()));
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(std::io::Error::from)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            walk(&open_dir(dir, name)?, &path, depth + 1, visit)?;
        }
        visit(dir, &path, &stat)?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects")]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    use super::*;

    const A: u32 = 64_011;
    const B: u32 = 64_012;

    fn to(uid: u32) -> Identity {
        Identity { uid, gid: uid, groups: vec![] }
    }

    /// A tree of user A with a file, a link to a file of root outside, and two names of one file.
    fn tree() -> Option<tempfile::TempDir> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can hand files over");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().join("work");
        fs::create_dir_all(work.join("deep/er")).unwrap();
        fs::write(dir.path().join("outside"), "root's").unwrap();
        fs::write(work.join("deep/file"), "a").unwrap();
        fs::write(work.join("one"), "b").unwrap();
        fs::hard_link(work.join("one"), work.join("deep/other name")).unwrap();
        symlink(dir.path().join("outside"), work.join("link")).unwrap();
        change_owner(&work, &[0], &to(A)).unwrap();
        Some(dir)
    }

    #[test]
    fn a_tree_changes_hands_and_links_are_changed_themselves() {
        let Some(dir) = tree() else { return };
        let work = dir.path().join("work");
        change_owner(&work, &[A], &to(B)).unwrap();
        for name in ["", "deep", "deep/er", "deep/file", "one", "deep/other name", "link"] {
            let meta = fs::symlink_metadata(work.join(name)).unwrap();
            assert_eq!((meta.uid(), meta.gid()), (B, B), "{name}");
        }
        assert_eq!(fs::metadata(dir.path().join("outside")).unwrap().uid(), 0);
    }

    #[test]
    fn a_stranger_s_file_is_refused_and_nothing_is_changed() {
        let Some(dir) = tree() else { return };
        let work = dir.path().join("work");
        lchown(work.join("deep/file"), Some(64_099), None).unwrap();
        let error = change_owner(&work, &[A], &to(B)).unwrap_err().to_string();
        assert!(error.contains("deep/file"), "{error}");
        assert_eq!(fs::metadata(work.join("one")).unwrap().uid(), A);
    }

    #[test]
    fn a_hard_link_to_a_file_outside_is_refused() {
        let Some(dir) = tree() else { return };
        let work = dir.path().join("work");
        let outside = dir.path().join("a's other file");
        fs::write(&outside, "a's").unwrap();
        lchown(&outside, Some(A), None).unwrap();
        fs::hard_link(&outside, work.join("taken along")).unwrap();
        let error = change_owner(&work, &[A], &to(B)).unwrap_err().to_string();
        assert!(error.contains("hard link"), "{error}");
        assert_eq!(fs::metadata(&outside).unwrap().uid(), A);
    }

    #[test]
    fn the_tree_itself_may_not_be_a_link() {
        let Some(dir) = tree() else { return };
        let link = dir.path().join("to work");
        symlink(dir.path().join("work"), &link).unwrap();
        assert!(change_owner(&link, &[A], &to(B)).is_err());
    }
}
