//! The command line: what each command does, and how errors and exit codes look.

mod accounts;
mod arguments;
mod backup;
mod client;
mod machine;
mod objective;
mod output;
mod serve;
mod watch;

use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches};

use arguments::{Cli, Command, ReposCommand, TokensCommand};
use client::Client;

/// Parses the command line, does it, and says on stderr what went wrong.
pub fn run() -> ExitCode {
    let matches = Cli::command().get_matches_from(arguments::with_short_forms(std::env::args_os()));
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let criteria = match arguments::criteria(&matches) {
        Ok(criteria) => criteria,
        Err(text) => Cli::command().error(clap::error::ErrorKind::ArgumentConflict, text).exit(),
    };
    match execute(cli, criteria) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("opkit: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn execute(cli: Cli, criteria: Vec<opkit_domain::objective::Criterion>) -> anyhow::Result<ExitCode> {
    let data = crate::config::absolute(&cli.data.unwrap_or_else(crate::config::default_data))?;
    if let Command::Serve(args) = cli.command {
        return serve::run(data, args);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the machine gives no runtime for the command")?;
    let client = Client::new(&data)?;
    runtime.block_on(async {
        match cli.command {
            Command::Serve(_) => Ok(ExitCode::SUCCESS),
            Command::Setup(args) => machine::set_up(&client, &data, &args).await,
            Command::Tokens { command: TokensCommand::Create(args) } => {
                machine::create_token(&client, &data, &args).await
            }
            Command::Repos { command: ReposCommand::Add(args) } => machine::add_repo(&client, &args).await,
            Command::Repos { command: ReposCommand::Set(args) } => machine::set_repo(&client, &args).await,
            Command::Upkeep(args) => machine::upkeep(&client, &args).await,
            Command::Repos { command: ReposCommand::List { json } } => {
                machine::list_repos(&client, json).await
            }
            Command::Accounts { command } => accounts::run(&client, &data, command).await,
            Command::Doctor { wall: true, .. } => machine::doctor_wall(),
            Command::Doctor { agent: true, .. } => machine::doctor_agent(&client, &data).await,
            Command::Doctor { .. } => machine::doctor(&client, &data).await,
            Command::StopAll => machine::stop_all(&client, &data).await,
            Command::Enable => machine::enable(&client, &data).await,
            Command::ResumeAll => machine::resume_all(&client).await,
            Command::Backup(args) => backup::make(&client, &data, &args).await,
            Command::RestoreBackup { file } => backup::restore(&data, &file).await,
            Command::Context { id } => objective::context(&client, &id).await,
            Command::Objective { command } => objective::run(&client, command, criteria).await,
        }
    })
}
