//! The only build entry: `cargo xtask run | test | build | check | e2e | bench`.

mod bench;
mod check;
mod install;
mod server;
mod site;
mod steps;
mod styles;
mod testing;
mod tidy;

use anyhow::{Result, bail};

const USAGE: &str = "\
cargo xtask run [-- ARGS]      install what is missing, build, start the server (ARGS go to `opkit serve`)
cargo xtask test               install what is missing, run the Rust and the browser tests
cargo xtask build [--release]  browser bundle and binaries; --release puts the site into target/release/opkit
cargo xtask site [--release]   the browser bundle alone
cargo xtask check              formatting, clippy, tidy rules
cargo xtask e2e [FILTER]       the browser tests alone
cargo xtask bench [--built] [PART…]  release build, sizes, starts, memory, decision rate; PARTs are only printed";

/// How the packages are compiled, by the name cargo knows it under.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Debug,
    Local,
    Release,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(code) => std::process::exit(code),
        Err(error) => {
            eprintln!("xtask: {error:#}");
            std::process::exit(1);
        }
    }
}

fn dispatch(args: &[String]) -> Result<i32> {
    let (name, rest) = args.split_first().map_or(("help", args), |(n, r)| (n.as_str(), r));
    let rest = if rest.first().is_some_and(|a| a == "--") { &rest[1..] } else { rest };
    match name {
        "run" => server::run(rest),
        "test" => Ok(testing::test()),
        "e2e" => Ok(testing::e2e(rest)),
        "build" => server::build_all(profile_of(rest)?).map(|()| 0),
        "site" => {
            install::wasm_target()?;
            site::build(profile_of(rest)?).map(|()| 0)
        }
        "check" => check::check().map(|()| 0),
        "tidy" => tidy::tidy().map(|()| 0),
        "trunk-hook" => site::from_trunk().map(|()| 0),
        "bench" => bench::bench(rest).map(|()| 0),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(0)
        }
        other => bail!("there is no task {other}.\n{USAGE}"),
    }
}

fn profile_of(args: &[String]) -> Result<Profile> {
    match args {
        [] => Ok(Profile::Debug),
        [one] if one == "--release" => Ok(Profile::Release),
        _ => bail!("the only option here is --release.\n{USAGE}"),
    }
}
