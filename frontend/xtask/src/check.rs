//! What is checked without running anything: formatting, clippy, tidy rules.

use crate::steps::{cargo, run, step};
use crate::{install, tidy};
use anyhow::Result;

/// Two clippy calls: the browser's and the server's features must never meet in one build. Beside `opkit`, the
/// pages are compiled as on the server.
const CLIPPY: [(&str, &str); 2] = [
    (
        "clippy: server side",
        "-p opkit -p opkit-app -p opkit-engine -p opkit-domain -p opkit-session -p xtask --all-targets",
    ),
    ("clippy: browser side", "-p frontend --target wasm32-unknown-unknown"),
];

/// All of it, cheapest first.
pub(crate) fn check() -> Result<()> {
    step("tidy", tidy::tidy)?;
    install::lint_tools()?;
    step("fmt", || run(cargo().args(["fmt", "--all", "--check"])))?;
    install::wasm_target()?;
    for (name, args) in CLIPPY {
        step(name, || run(cargo().arg("clippy").args(args.split(' ')).args(["--", "-D", "warnings"])))?;
    }
    Ok(())
}
