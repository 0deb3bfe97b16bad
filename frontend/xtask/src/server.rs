//! Building the two binaries, and starting the server for a person.

use crate::steps::{cargo, output_of, program, run as run_command, step, target};
use crate::{Profile, install, site};
use anyhow::{Context, Result, bail};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

/// Bundle and binaries of one profile.
pub(crate) fn build_all(profile: Profile) -> Result<()> {
    install::wasm_target()?;
    site::build(profile)?;
    binaries(profile)?;
    for name in ["opkit", "opkit-session"] {
        eprintln!("    {}", binary(name, profile)?.display());
    }
    Ok(())
}

/// The server and the session binary. A release carries the site that lies in `dist/`.
pub(crate) fn binaries(profile: Profile) -> Result<()> {
    step("server and session", || {
        let mut build = cargo();
        build.args(["build", "-p", "opkit", "-p", "opkit-session"]);
        match profile {
            Profile::Debug => {}
            Profile::Local => {
                build.args(["--profile", "local"]);
            }
            Profile::Release => {
                // The id makes cargo build the server anew when only the bundle changed.
                build
                    .args(["--release", "--features", "opkit/embed-site"])
                    .env("OPKIT_BUILD_ID", site::build_id()?);
            }
        }
        run_command(&mut build)?;
        if profile == Profile::Release { static_session() } else { Ok(()) }
    })
}

/// A session starts this program three times. Without shared libraries each start takes a third less; where the C
/// library has no static half, the program that was built stays.
fn static_session() -> Result<()> {
    let library = output_of("cc", &["-print-file-name=libc.a"]).unwrap_or_default();
    if !Path::new(library.trim()).is_absolute() {
        eprintln!("    no libc.a here: opkit-session uses shared libraries");
        return Ok(());
    }
    let args = ["rustc", "--release", "-p", "opkit-session", "--bin", "opkit-session"];
    run_command(cargo().args(args).args(["--", "-C", "target-feature=+crt-static"]))
}

/// The path of a binary that was built.
pub(crate) fn binary(name: &str, profile: Profile) -> Result<PathBuf> {
    let folder = match profile {
        Profile::Debug => "debug",
        Profile::Local => "local",
        Profile::Release => "release",
    };
    let file = target().join(folder).join(name);
    if !file.is_file() {
        bail!("there is no {}. Run `cargo xtask build` first", file.display());
    }
    Ok(file)
}

/// Installs, builds, and becomes `opkit serve`: signals and exit code are the server's own.
pub(crate) fn run(args: &[String]) -> Result<i32> {
    install::server_tools()?;
    build_all(Profile::Local)?;
    let mut serve = program(binary("opkit", Profile::Local)?);
    serve.arg("serve").args(args).env("OPKIT_SITE", site::dist());
    eprintln!("==> opkit serve");
    Err(serve.exec()).context("cannot start the server")
}
