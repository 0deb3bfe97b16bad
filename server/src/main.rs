//! The `opkit` command.

fn main() -> std::process::ExitCode {
    opkit_server::run()
}
