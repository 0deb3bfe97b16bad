//! Deleting trees that agents wrote.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Deletes a tree that nothing can reach any more. Links are deleted, never followed. `rm` does it, because an agent
/// may have nested directories deeper than a stack or a table of descriptors.
pub(crate) fn remove_tree(dir: &Path) -> std::io::Result<()> {
    let gone = || fs::symlink_metadata(dir).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    // Most often it is nothing, or a file.
    if gone() || fs::remove_file(dir).is_ok() {
        return Ok(());
    }
    let mut said = remove_once(dir)?;
    if !gone() {
        // Directories that their owner closed for itself.
        open_up(dir);
        said = remove_once(dir)?;
    }
    if gone() { Ok(()) } else { Err(std::io::Error::other(format!("{} stays: {said}", dir.display()))) }
}

fn remove_once(dir: &Path) -> std::io::Result<String> {
    let rm = crate::programs::find("rm").unwrap_or_else(|| PathBuf::from("/bin/rm"));
    let output = std::process::Command::new(rm)
        .args(["-rf", "--"])
        .arg(dir)
        .env_clear()
        .stdin(std::process::Stdio::null())
        .output()?;
    Ok(crate::git::short(String::from_utf8_lossy(&output.stderr).trim()))
}

/// Makes every directory passable for its owner, as far as names reach.
fn open_up(dir: &Path) {
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        let is_dir = fs::symlink_metadata(&dir).is_ok_and(|meta| meta.is_dir());
        if is_dir && fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).is_ok() {
            left.extend(fs::read_dir(&dir).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects")]
mod tests {
    use rustix::fs::{CWD, Mode, OFlags};

    use super::*;

    #[test]
    fn a_tree_deeper_than_any_stack_is_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("deep");
        fs::create_dir(&root).unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let mut at = rustix::fs::openat(CWD, &root, flags, Mode::empty()).unwrap();
        for _ in 0..20_000 {
            rustix::fs::mkdirat(&at, "d", Mode::from_raw_mode(0o755)).unwrap();
            at = rustix::fs::openat(&at, "d", flags, Mode::empty()).unwrap();
        }
        drop(at);
        remove_tree(&root).unwrap();
        assert!(!root.exists());
    }

    #[test]
    fn files_links_and_closed_directories_go_and_what_links_point_to_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (kept, root) = (dir.path().join("kept"), dir.path().join("root"));
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "x").unwrap();
        fs::create_dir_all(root.join("closed/inner")).unwrap();
        fs::write(root.join("closed/inner/file"), "x").unwrap();
        std::os::unix::fs::symlink(&kept, root.join("link")).unwrap();
        fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
        remove_tree(&root).unwrap();
        assert!(!root.exists() && kept.join("file").exists());
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&kept, &link).unwrap();
        remove_tree(&link).unwrap();
        assert!(fs::symlink_metadata(&link).is_err() && kept.join("file").exists());
        remove_tree(&link).unwrap();
    }
}
