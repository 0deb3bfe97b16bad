//! Lock files that a killed git left in a mirror: they would stop every later fetch.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Found, age};
use crate::engine::Engine;
use crate::error::Result;

/// Whoever of ours may write has the turn while this looks; the time is for a person's own git in the mirror.
const DEAD: Duration = Duration::from_secs(120);
/// Packs that a killed fetch left half written.
const DEAD_PACK: Duration = Duration::from_secs(86_400);

impl Engine {
    pub(super) async fn clear_locks(&self, found: &mut Found) -> Result<()> {
        for repo in self.store().all_repos().await? {
            for dir in [self.dirs().mirror(repo.id()), self.dirs().rescue(repo.id())] {
                if left_behind(&dir).is_empty() {
                    continue;
                }
                // Whoever writes here has the turn; what is still there then belongs to nobody.
                let _turn = self.repo_turn(repo.id()).await;
                if in_use(&dir) {
                    continue;
                }
                for file in left_behind(&dir) {
                    fs::remove_file(&file)?;
                    let name = file.strip_prefix(&dir).unwrap_or(&file);
                    found.mended(format!(
                        "{} was left behind by a git that died in the mirror of {}, and is removed.",
                        name.display(),
                        repo.name
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Lock files and half-written packs that are too old to be anybody's.
fn left_behind(git_dir: &Path) -> Vec<PathBuf> {
    let mut list = Vec::new();
    let is_lock = |name: &str| name.ends_with(".lock");
    collect(git_dir, 0, &is_lock, DEAD, &mut list);
    collect(&git_dir.join("refs"), 40, &is_lock, DEAD, &mut list);
    collect(&git_dir.join("objects/info"), 2, &is_lock, DEAD, &mut list);
    collect(&git_dir.join("objects/pack"), 0, &|name| name.starts_with("tmp_"), DEAD_PACK, &mut list);
    list
}

fn collect(dir: &Path, depth: u32, wanted: &dyn Fn(&str) -> bool, old: Duration, list: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_dir() && depth > 0 {
            collect(&path, depth - 1, wanted, old, list);
        } else if kind.is_file() && entry.file_name().to_str().is_some_and(wanted) && age(&path) > old {
            list.push(path);
        }
    }
}

/// A git that may write there and outlived the server before us: our own have the turn, and everybody else reads.
fn in_use(dir: &Path) -> bool {
    let wanted = [b"--git-dir\0", dir.as_os_str().as_bytes(), b"\0"].concat();
    let ours = format!("PPid:\t{}\n", std::process::id());
    fs::read_dir("/proc").into_iter().flatten().flatten().any(|entry| {
        let name = entry.file_name();
        let is_process = name.as_bytes().iter().all(u8::is_ascii_digit);
        let line = if is_process { fs::read(entry.path().join("cmdline")) } else { return false };
        line.is_ok_and(|line| line.windows(wanted.len()).any(|part| part == wanted))
            && fs::read_to_string(entry.path().join("status")).is_ok_and(|status| !status.contains(&ours))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects")]
mod tests {
    use super::*;

    fn file(path: &Path, hours: u64) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = fs::File::create(path).unwrap();
        let written = crate::clock::now_ms() / 1000 - hours as i64 * 3600;
        file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(written as u64)).unwrap();
    }

    #[test]
    fn only_old_locks_and_half_packs_are_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        for (name, hours) in [
            ("config.lock", 1),
            ("packed-refs.lock", 0),
            ("refs/heads/obj/4.lock", 1),
            ("refs/heads/obj/4", 1),
            ("objects/info/commit-graph.lock", 1),
            ("objects/pack/tmp_pack_x", 25),
            ("objects/pack/tmp_pack_y", 1),
            ("objects/pack/pack-a.pack", 99),
        ] {
            file(&dir.path().join(name), hours);
        }
        let mut found: Vec<String> = left_behind(dir.path())
            .iter()
            .map(|path| path.strip_prefix(dir.path()).unwrap().to_string_lossy().into_owned())
            .collect();
        found.sort();
        let wanted = [
            "config.lock",
            "objects/info/commit-graph.lock",
            "objects/pack/tmp_pack_x",
            "refs/heads/obj/4.lock",
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_git_of_an_earlier_server_is_seen_and_our_own_is_not() {
        let dir = tempfile::tempdir().unwrap();
        // Both carry the words that git would; the second one has a parent of its own.
        let mut own = std::process::Command::new("/bin/sh")
            .args(["-c", "read line", "--git-dir"])
            .arg(dir.path())
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        assert!(!in_use(dir.path()));
        let mut other = std::process::Command::new("/bin/sh")
            .args(["-c", "/bin/sh -c 'read line; :' --git-dir \"$0\"; :"])
            .arg(dir.path())
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let limit = std::time::Instant::now() + Duration::from_secs(20);
        while !in_use(dir.path()) {
            assert!(std::time::Instant::now() < limit, "it is not seen");
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(other.stdin.take());
        other.wait().unwrap();
        own.kill().unwrap();
        own.wait().unwrap();
    }
}
