//! The binary: the first argument chooses what to be.

fn main() -> std::process::ExitCode {
    opkit_session::command_line::main()
}
