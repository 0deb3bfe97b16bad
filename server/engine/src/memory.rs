//! Reads what a session left: regular files only, no links, bounded, from a directory handle.

use std::io::Read;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

/// The longest file that is taken.
const LIMIT: u64 = 1 << 20;

/// Reads a text file beneath a directory that an agent may write to. The error is a sentence for people.
pub(crate) fn read_text(dir: &Path, name: &str) -> Result<String, String> {
    read_bytes(dir, name).and_then(|bytes| {
        let text = String::from_utf8(bytes).map_err(|_| format!("{name} is not UTF-8 text."))?;
        Ok(text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect())
    })
}

/// Reads a file beneath a directory that an agent may write to.
pub(crate) fn read_bytes(dir: &Path, name: &str) -> Result<Vec<u8>, String> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(CWD, dir, flags, Mode::empty())
        .map_err(|error| format!("The directory of {name} cannot be opened: {error}."))?;
    // NONBLOCK: a pipe that nobody writes to must not hold us.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let file =
        rustix::fs::openat2(&handle, name, flags, Mode::empty(), beneath).map_err(|error| match error {
            rustix::io::Errno::NOENT => format!("{name} is missing."),
            rustix::io::Errno::LOOP | rustix::io::Errno::XDEV => {
                format!("{name} is a link. Only a regular file counts.")
            }
            other => format!("{name} cannot be read: {other}."),
        })?;
    let file = std::fs::File::from(file);
    let meta = file.metadata().map_err(|error| format!("{name} cannot be read: {error}."))?;
    if !meta.is_file() {
        return Err(format!("{name} is not a regular file."));
    }
    if meta.len() > LIMIT {
        return Err(format!("{name} has {} bytes, {LIMIT} at most.", meta.len()));
    }
    let mut bytes = Vec::new();
    file.take(LIMIT).read_to_end(&mut bytes).map_err(|error| format!("{name} cannot be read: {error}."))?;
    Ok(bytes)
}

/// An ARTIFACT.md that counts: it says something. The error is the finding.
pub(crate) fn artifact(dir: &Path) -> Result<String, String> {
    let text = read_text(dir, "ARTIFACT.md")?;
    let said: String = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let placeholder =
        ["todo", "tbd", "placeholder"].iter().any(|word| said.trim().eq_ignore_ascii_case(word));
    if said.trim().len() < 20 || placeholder {
        return Err(
            "ARTIFACT.md says nothing. Write what was done, where, and the evidence for each criterion."
                .into(),
        );
    }
    Ok(text)
}

/// Lists what a reviewer could see: at most 500 paths, relative.
pub(crate) fn listing(root: &Path) -> Vec<String> {
    let mut list = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
        for entry in entries.flatten() {
            if list.len() >= 500 {
                list.push("… and more".to_owned());
                return list;
            }
            let path = entry.path();
            // The entry's own type: a link is listed, never followed.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(path);
            } else if let Ok(relative) = path.strip_prefix(root) {
                list.push(relative.to_string_lossy().chars().filter(|c| !c.is_control()).collect());
            }
        }
    }
    list.sort();
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_pipes_and_big_files_are_refused_with_the_reason() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path();
        std::fs::write(path.join("secret"), "x").unwrap();
        std::os::unix::fs::symlink("secret", path.join("ARTIFACT.md")).unwrap();
        assert!(artifact(path).unwrap_err().contains("link"));
        std::fs::remove_file(path.join("ARTIFACT.md")).unwrap();
        rustix::fs::mknodat(CWD, path.join("ARTIFACT.md"), rustix::fs::FileType::Fifo, Mode::RUSR, 0)
            .unwrap();
        assert!(artifact(path).unwrap_err().contains("regular file"));
        std::fs::remove_file(path.join("ARTIFACT.md")).unwrap();
        std::fs::write(path.join("ARTIFACT.md"), vec![b'a'; (LIMIT + 1) as usize]).unwrap();
        assert!(artifact(path).unwrap_err().contains("at most"));
        std::fs::write(path.join("ARTIFACT.md"), "# Title\n\nTODO\n").unwrap();
        assert!(artifact(path).is_err());
        std::fs::write(path.join("ARTIFACT.md"), "Criterion 1: met. Evidence: hello.txt exists.").unwrap();
        assert!(artifact(path).is_ok());
        assert!(read_text(path, "../x").is_err());
    }
}
