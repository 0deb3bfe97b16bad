//! Installing what a fresh machine lacks: the wasm target and a few system packages.

use crate::steps::{output_of, program, root, run, shown, step, which};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const WASM: &str = "wasm32-unknown-unknown";

/// A system package manager: how it installs, and whether it wants root.
struct Manager {
    program: &'static str,
    install: &'static [&'static str],
    refresh: &'static [&'static str],
    root: bool,
}

const MANAGERS: [Manager; 5] = [
    Manager {
        program: "apt-get",
        install: &["install", "-y", "-q", "--no-install-recommends"],
        refresh: &["update", "-q"],
        root: true,
    },
    Manager { program: "dnf", install: &["install", "-y"], refresh: &[], root: true },
    Manager { program: "apk", install: &["add"], refresh: &[], root: true },
    Manager { program: "pacman", install: &["-S", "--noconfirm", "--needed"], refresh: &[], root: true },
    Manager { program: "brew", install: &["install"], refresh: &[], root: false },
];

/// Adds the browser's compile target when the toolchain lacks it.
pub(crate) fn wasm_target() -> Result<()> {
    let installed = match output_of("rustup", &["target", "list", "--installed"]) {
        Some(list) => list.lines().any(|line| line.trim() == WASM),
        None => output_of("rustc", &["--print", "sysroot"])
            .is_some_and(|dir| Path::new(dir.trim()).join("lib/rustlib").join(WASM).is_dir()),
    };
    if installed {
        return Ok(());
    }
    if which("rustup").is_none() {
        bail!("rust's target {WASM} is missing. Install it with your rust packages, or install rustup");
    }
    step("rustup target add wasm32-unknown-unknown", || run(program("rustup").args(["target", "add", WASM])))
}

/// Adds rustfmt and clippy where a minimal toolchain lacks them.
pub(crate) fn lint_tools() -> Result<()> {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if output_of("cargo", &[subcommand, "--version"]).is_none() {
            step(&format!("rustup component add {component}"), || {
                run(program("rustup").args(["component", "add", component]))
            })?;
        }
    }
    Ok(())
}

/// Installs tmux and git where they are missing.
pub(crate) fn server_tools() -> Result<()> {
    let missing: Vec<&str> = ["tmux", "git"].into_iter().filter(|tool| which(tool).is_none()).collect();
    packages(&missing)?;
    still_missing(&["tmux", "git"])
}

/// Installs what the browser tests need: Chromium with fonts, Node 20, the locked node packages.
pub(crate) fn browser_tools() -> Result<()> {
    if chromium().is_none() {
        let fonts =
            if which("apt-get").is_some() { &["chromium", "fonts-dejavu-core"][..] } else { &["chromium"] };
        packages(fonts)?;
        if chromium().is_none() {
            bail!("the browser tests need Chromium. Install it, or name it in OPKIT_CHROMIUM");
        }
    }
    let node_tools: Vec<&str> = ["node", "npm"].into_iter().filter(|tool| which(tool).is_none()).collect();
    if !node_tools.is_empty() {
        packages(&["nodejs", "npm"])?;
    }
    still_missing(&["node", "npm"])?;
    let version = output_of("node", &["--version"]).unwrap_or_default();
    let major: u32 =
        version.trim().trim_start_matches('v').split('.').next().unwrap_or("").parse().unwrap_or(0);
    if major < 20 {
        bail!("the browser tests need Node 20 or newer, here is {}", version.trim());
    }
    node_packages()
}

fn node_packages() -> Result<()> {
    let folder = root().join("end2end");
    let wanted = std::fs::read(folder.join("package-lock.json"))?;
    let stamp = folder.join("node_modules/.opkit-lock");
    if std::fs::read(&stamp).is_ok_and(|have| have == wanted) {
        return Ok(());
    }
    step("npm ci in end2end", || {
        run(program("npm").current_dir(&folder).args(["ci", "--no-audit", "--no-fund"]))?;
        Ok(std::fs::write(&stamp, &wanted)?)
    })
}

/// The browser the tests drive: OPKIT_CHROMIUM, else one of the usual names.
pub(crate) fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("OPKIT_CHROMIUM") {
        return Some(named.into()).filter(|path: &PathBuf| path.is_file());
    }
    ["chromium", "chromium-browser", "google-chrome"].iter().find_map(|name| which(name))
}

fn still_missing(tools: &[&str]) -> Result<()> {
    let missing: Vec<&str> = tools.iter().copied().filter(|tool| which(tool).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    bail!("still missing: {}", missing.join(", "))
}

/// Installs system packages, or stops with the command a person has to run.
fn packages(names: &[&str]) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let Some(manager) = MANAGERS.iter().find(|manager| which(manager.program).is_some()) else {
        bail!("missing: {}. Install them with your system's packages and run this again", names.join(", "));
    };
    let is_root = output_of("id", &["-u"]).is_some_and(|id| id.trim() == "0");
    let sudo = manager.root && !is_root;
    if sudo && output_of("sudo", &["-n", "true"]).is_none() {
        let mut command = program("sudo");
        command.arg(manager.program).args(manager.install).args(names);
        bail!("missing: {}. Run this and start again:\n  {}", names.join(", "), shown(&command));
    }
    step(&format!("installing {} with {}", names.join(", "), manager.program), || {
        if !manager.refresh.is_empty() {
            // Stale lists may still do; the install below tells.
            elevated(manager, sudo).args(manager.refresh).status().ok();
        }
        run(elevated(manager, sudo).args(manager.install).args(names))
    })
}

fn elevated(manager: &Manager, sudo: bool) -> Command {
    let mut command = if sudo { program("sudo") } else { program(manager.program) };
    if sudo {
        command.args(["-n", manager.program]);
    }
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}
