//! Installs the session binary into `bin/<build id>/`, so that sessions keep the version they began with.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::data_dir::{DataDir, mode, write_atomically};
use crate::error::{Error, Result};

/// Copies the program in place (once a build) and gives its path. Beside it: the hooks of checkouts.
pub(crate) fn runner(dirs: &DataDir, source: &Path) -> Result<PathBuf> {
    let bytes = fs::read(source).map_err(|error| {
        Error::Refused(format!(
            "The program opkit-session is missing beside opkit ({}: {error}). Build both, or copy both.",
            source.display()
        ))
    })?;
    let digest = hex::encode(Sha256::digest(&bytes));
    let dir = dirs.root.join("bin").join(&digest[..12]);
    let target = dir.join("opkit-session");
    if !target.exists() {
        fs::create_dir_all(&dir)?;
        mode(&dir, 0o755)?;
        let temporary = dir.join(format!("new-{}", std::process::id()));
        fs::write(&temporary, &bytes)?;
        mode(&temporary, 0o755)?;
        fs::rename(&temporary, &target)?;
    }
    let hooks = dirs.root.join("bin/hooks");
    fs::create_dir_all(&hooks)?;
    mode(&hooks, 0o755)?;
    let hook = hooks.join("prepare-commit-msg");
    // Sessions that go on start it with each commit: a server that comes back leaves it alone.
    if fs::read(&hook).is_ok_and(|text| text == HOOK.as_bytes()) {
        mode(&hook, 0o755)?;
    } else {
        write_atomically(&hook, HOOK.as_bytes(), 0o755)?;
    }
    Ok(target)
}

/// Runs inside the session's own walls; a missing trailer is noted, never an error.
const HOOK: &str = "#!/bin/sh
git interpret-trailers --in-place --if-exists doNothing \\
    --trailer \"Objective: #$OPKIT_OBJECTIVE\" --trailer \"Session-Id: $OPKIT_SESSION\" \\
    --trailer \"Co-authored-by: $GIT_AUTHOR_NAME <$GIT_AUTHOR_EMAIL>\" \"$1\" || true
";

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects")]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn what_sessions_start_is_not_touched_by_the_next_server() {
        let data = tempfile::tempdir().unwrap();
        let source = data.path().join("opkit-session");
        fs::write(&source, "a program").unwrap();
        let install = || {
            let target = runner(&DataDir::open(data.path()).unwrap(), &source).unwrap();
            let hook = data.path().join("bin/hooks/prepare-commit-msg");
            [target, hook].map(|file| {
                let meta = fs::metadata(file).unwrap();
                (meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.mode() & 0o777)
            })
        };
        let before = install();
        assert_eq!(before.map(|(.., bits)| bits), [0o755, 0o755]);
        assert_eq!(install(), before);
    }
}
