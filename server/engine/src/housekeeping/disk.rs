//! What the data directory takes of the disk, in blocks as the disk counts them.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use opkit_domain::view::DiskUse;

use crate::clock::now_ms;
use crate::engine::Engine;
use crate::error::Result;

/// Files after which a count for nobody in particular makes a pause.
const BREATH: u32 = 500;

impl Engine {
    /// What was counted last.
    pub(crate) fn disk_known(&self) -> Option<DiskUse> {
        *self.counted()
    }

    /// What was counted last, with budget and free room as they are now; counted first if nobody has.
    pub async fn disk(&self) -> Result<DiskUse> {
        let Some(mut disk) = self.disk_known() else { return self.disk_use().await };
        disk.budget = self.disk_budget().await?;
        disk.free = self.disk_free();
        *self.counted() = Some(disk);
        Ok(disk)
    }

    async fn disk_budget(&self) -> Result<u64> {
        let size = rustix::fs::statvfs(&self.dirs().root).map_or(0, |stat| stat.f_blocks * stat.f_frsize);
        let mb = self.upkeep().await?.disk_budget_mb;
        Ok(mb.map_or(size / 5, |mb| mb.saturating_mul(1 << 20)))
    }

    /// Counts what the data directory holds. It reads every directory, so pages show what was counted last.
    pub async fn disk_use(&self) -> Result<DiskUse> {
        let root = self.dirs().root.clone();
        let mut disk = super::at_leisure(move || count(&root)).await??;
        disk.budget = self.disk_budget().await?;
        disk.free = self.disk_free();
        disk.at = now_ms();
        *self.counted() = Some(disk);
        Ok(disk)
    }
}

fn count(root: &Path) -> Result<DiskUse> {
    let mut disk = DiskUse::default();
    // What was thrown away is as good as gone.
    let bin = sum(&root.join("pool/trash"), true);
    for entry in fs::read_dir(root)?.flatten() {
        let bytes = sum(&entry.path(), true);
        match entry.file_name().to_str().unwrap_or_default() {
            "mirrors" => disk.mirrors += bytes,
            "work" => disk.work += bytes,
            "pool" => {
                disk.pool += bytes.saturating_sub(bin);
                disk.other += bin;
            }
            "review" => disk.review += bytes,
            "rescue" => disk.rescue += bytes,
            "sessions" => disk.records += bytes,
            _ => disk.other += bytes,
        }
    }
    Ok(disk)
}

/// Bytes that a tree takes.
pub(crate) fn blocks(dir: &Path) -> u64 {
    sum(dir, false)
}

/// A file with several names counts once; what vanishes or cannot be read counts nothing.
fn sum(dir: &Path, calm: bool) -> u64 {
    let mut names: HashSet<(u64, u64)> = HashSet::new();
    let mut left: Vec<PathBuf> = vec![dir.to_owned()];
    let (mut bytes, mut files) = (0, 0u32);
    while let Some(path) = left.pop() {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        let counted = meta.is_dir() || meta.nlink() == 1 || names.insert((meta.dev(), meta.ino()));
        if counted {
            bytes += meta.blocks() * 512;
        }
        if meta.is_dir() {
            left.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
        files += 1;
        if calm && files.is_multiple_of(BREATH) {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    bytes
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects")]
mod tests {
    use super::*;

    #[test]
    fn a_file_counts_once_whatever_its_names_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let before = blocks(dir.path());
        let file = dir.path().join("one");
        fs::write(&file, vec![7; 1 << 20]).unwrap();
        fs::File::open(&file).unwrap().sync_all().unwrap();
        let one = blocks(dir.path()) - before;
        assert!(one >= 1 << 20);
        fs::hard_link(&file, dir.path().join("two")).unwrap();
        std::os::unix::fs::symlink("/usr", dir.path().join("three")).unwrap();
        assert!(blocks(dir.path()) - before - one < 64 << 10);
        // A hole takes no room.
        fs::File::create(dir.path().join("hole")).unwrap().set_len(1 << 30).unwrap();
        assert!(blocks(dir.path()) < 16 << 20);
    }
}
