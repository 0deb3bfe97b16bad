//! Tries what must fail, before anything runs behind the wall.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::bail;
use opkit_domain::session::{ProofLine, WallMode, WallProof, WallSpec};

use super::wall::Wall;

const ALLOWED: &str = "allowed";

/// Tries every forbidden thing of `spec`; anything that is allowed refuses the start. In mode `hook_only` it
/// refuses nothing: then the proof says what stands open.
pub(super) fn prove(spec: &WallSpec, wall: &Wall) -> anyhow::Result<WallProof> {
    let mut tried = Vec::new();
    let mut attempt = |what: &str, path: &Path, result: io::Result<()>| {
        let answer = result.err().map_or_else(|| ALLOWED.to_owned(), |error| name(&error));
        tried.push(ProofLine { what: what.to_owned(), path: path.to_owned(), answer });
    };
    spec.prove_no_write.iter().for_each(|path| attempt("write", path, write(path)));
    spec.prove_no_read.iter().for_each(|path| attempt("read", path, read(path)));
    spec.prove_no_connect.iter().for_each(|path| attempt("connect", path, connect(path)));
    if spec.mode == WallMode::Enforced {
        check(&tried)?;
    }
    Ok(WallProof {
        mode: spec.mode,
        landlock_abi: wall.landlock_abi,
        seccomp: wall.seccomp,
        uid: rustix::process::getuid().as_raw(),
        tried,
    })
}

fn check(tried: &[ProofLine]) -> anyhow::Result<()> {
    if let Some(line) = tried.iter().find(|line| line.answer == ALLOWED) {
        bail!("the wall has a hole: {} {} was allowed", line.what, line.path.display());
    }
    let refusals = ["EACCES", "EPERM", "EROFS"];
    let writes = || tried.iter().filter(|line| line.what == "write");
    if writes().next().is_some() && !writes().any(|line| refusals.contains(&line.answer.as_str())) {
        bail!("the wall is not proven: no forbidden write was refused by it");
    }
    Ok(())
}

fn write(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return write(&path.join(format!(".opkit-proof-{}", std::process::id())));
    }
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    match options.clone().create_new(true).open(path) {
        Ok(_) => fs::remove_file(path),
        // It is there already: opening it for writing is enough, nothing is written.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(path).map(drop),
        Err(error) => Err(error),
    }
}

fn read(path: &Path) -> io::Result<()> {
    if path.is_dir() { fs::read_dir(path).map(drop) } else { File::open(path).map(drop) }
}

fn connect(path: &Path) -> io::Result<()> {
    UnixStream::connect(path).map(drop)
}

fn name(error: &io::Error) -> String {
    let known = [
        (libc::EACCES, "EACCES"),
        (libc::EPERM, "EPERM"),
        (libc::EROFS, "EROFS"),
        (libc::ENOENT, "ENOENT"),
        (libc::ENOTDIR, "ENOTDIR"),
        (libc::ECONNREFUSED, "ECONNREFUSED"),
        (libc::ELOOP, "ELOOP"),
    ];
    match error.raw_os_error() {
        Some(code) => known
            .iter()
            .find(|(number, _)| *number == code)
            .map_or_else(|| format!("errno {code}"), |(_, name)| (*name).to_owned()),
        None => error.kind().to_string(),
    }
}
