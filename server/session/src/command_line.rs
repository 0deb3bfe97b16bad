//! Reads the arguments and hands over to the part they name.

use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
opkit-session: everything that runs beside an agent

For a session (its token must be in reach):
  opkit-session progress TEXT       say what happens now
  opkit-session blocked REASON      ask for a person
  opkit-session done                say that the objective is delivered
  opkit-session objective show      this objective as JSON
  opkit-session siblings            the other objectives, six fields each

Started by Opkit:
  opkit-session run SESSION_DIR
  opkit-session enter [--spec FILE] [--proof FILE]
  opkit-session guard [--post] [POLICY]
  opkit-session snapshot GIT
  opkit-session attack [--json|--table] [--dir DIR]
  opkit-session probe < SPEC
  opkit-session demo-agent --role work|review --script NAME
";

/// Runs the part that the first argument names.
pub fn main() -> ExitCode {
    let args: Vec<String> =
        std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["run", dir] => crate::run::run(&PathBuf::from(dir)),
        ["enter", rest @ ..] => crate::enter::main(rest),
        ["guard", rest @ ..] => crate::guard::main(rest),
        ["attack", rest @ ..] => crate::attack::main(rest),
        ["snapshot", git] => crate::snapshot::main(git),
        ["probe"] => crate::probe::main(),
        ["demo-agent", rest @ ..] => crate::demo::main(rest),
        ["progress", text @ ..] if !text.is_empty() => crate::call::progress(&text.join(" ")),
        ["blocked", reason @ ..] if !reason.is_empty() => crate::call::blocked(&reason.join(" ")),
        ["done"] => crate::call::done(),
        ["objective", "show"] => crate::call::show("objective"),
        ["siblings"] => crate::call::show("siblings"),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        ["--version" | "-V"] => {
            println!("opkit-session {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        _ => {
            eprint!("{HELP}");
            ExitCode::from(2)
        }
    }
}
