//! Files that appear whole or not at all, clocks and identifiers from the kernel.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// How hard a replaced file must be on the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// A power cut may lose it.
    Cached,
    /// File and directory are synced.
    Synced,
}

/// Writes `content` under a temporary name and renames it into place; for the service's eyes only.
pub(crate) fn replace(path: &Path, content: &[u8], durability: Durability) -> io::Result<()> {
    replace_as(path, content, durability, 0o600)
}

/// The same with a mode that holds whatever the umask is.
pub(crate) fn replace_as(path: &Path, content: &[u8], durability: Durability, mode: u32) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let mut file = File::create(&temporary)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(content)?;
    if durability == Durability::Synced {
        file.sync_all()?;
    }
    drop(file);
    fs::rename(&temporary, path)?;
    if durability == Durability::Synced
        && let Some(dir) = path.parent()
    {
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Microseconds since 1970.
pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// A fresh random UUID.
pub(crate) fn uuid() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned())
}
