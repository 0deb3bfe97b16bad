//! The commands, options and their help.

mod accounts;
mod objective;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Args, Parser, Subcommand};
use opkit_domain::ids::ObjectiveId;
use opkit_domain::objective::Criterion;

pub(super) use accounts::{AccountArgs, AccountsCommand};
pub(super) use objective::{AddArgs, ObjectiveCommand};

/// Runs coding agents on objectives, reviews what they deliver, and keeps people in charge.
#[derive(Debug, Parser)]
#[command(name = "opkit", version, about, max_term_width = 100)]
pub(super) struct Cli {
    /// The data directory
    #[arg(long, env = "OPKIT_DATA", global = true, value_name = "DIR", hide_env_values = true)]
    pub(super) data: Option<PathBuf>,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the server
    Serve(ServeArgs),
    /// Create the owner
    Setup(SetupArgs),
    /// API tokens
    Tokens {
        #[command(subcommand)]
        command: TokensCommand,
    },
    /// Repositories
    Repos {
        #[command(subcommand)]
        command: ReposCommand,
    },
    /// Agent accounts
    Accounts {
        #[command(subcommand)]
        command: AccountsCommand,
    },
    /// Show or change how long things are kept, and how much room they may take
    Upkeep(UpkeepArgs),
    /// Check whether this machine has what is needed
    Doctor {
        /// Try every known way out of a session's walls, as the agents' user, and print what the kernel answered
        #[arg(long)]
        wall: bool,
        /// Try whether the agent's CLI keeps the promises that sessions rely on, with a stand-in for the model
        #[arg(long, conflicts_with = "wall")]
        agent: bool,
    },
    /// Stop every session and let nothing new start
    StopAll,
    /// Let sessions start again after stop-all
    Enable,
    /// Start again every objective that a person or stop-all stopped
    ResumeAll,
    /// Copy the database, keys and what else cannot be made again into one archive; the server may run
    Backup(BackupArgs),
    /// Unpack a backup into an empty directory, named with --data
    RestoreBackup {
        /// The archive
        file: PathBuf,
    },
    /// Print the context document of a session, or of an objective's newest session
    Context {
        /// 42, #42 or a session's id
        id: String,
    },
    /// Objectives
    Objective {
        #[command(subcommand)]
        command: ObjectiveCommand,
    },
}

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Address to listen on; may be repeated; port 0 picks one [default: 127.0.0.1:3000]
    #[arg(long, env = "OPKIT_LISTEN", value_delimiter = ',', value_name = "ADDR")]
    pub(super) listen: Vec<String>,
    /// Where people reach the server, if a proxy stands before it
    #[arg(long, env = "OPKIT_PUBLIC_URL", value_name = "URL")]
    pub(super) public_url: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct SetupArgs {
    /// Name of the owner
    #[arg(long, value_name = "NAME")]
    pub(super) owner: String,
    /// Read the password from standard input
    #[arg(long, required = true)]
    pub(super) password_stdin: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum TokensCommand {
    /// Create a token and print it; it is shown this once
    Create(TokenArgs),
}

#[derive(Debug, Args)]
pub(super) struct TokenArgs {
    /// Who acts with it, as the audit shows it
    #[arg(long, value_name = "NAME")]
    pub(super) actor: String,
    /// What it may do, as in operate
    #[arg(long)]
    pub(super) scope: String,
}

#[derive(Debug, Subcommand)]
pub(super) enum ReposCommand {
    /// Register a git repository
    Add(RepoArgs),
    /// Change a repository's commands, or how many checkouts are made ahead
    Set(RepoSetArgs),
    /// Show the registered repositories
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct RepoArgs {
    /// Path or address of the repository
    pub(super) path: String,
    /// Its name here
    #[arg(long, value_name = "N")]
    pub(super) name: Option<String>,
    /// The branch that work starts from
    #[arg(long, value_name = "BRANCH")]
    pub(super) base: Option<String>,
    /// A command that runs once in a new worktree
    #[arg(long, value_name = "CMD")]
    pub(super) setup: Option<String>,
    /// A command that must succeed before every review
    #[arg(long, value_name = "CMD")]
    pub(super) verify: Option<String>,
    /// Where delivered branches go
    #[arg(long, value_name = "keep|merge", value_parser = ["keep", "merge"])]
    pub(super) integrate: Option<String>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(super) struct RepoChange {
    /// A command that runs once in a new worktree; empty = none
    #[arg(long, value_name = "CMD")]
    pub(super) setup: Option<String>,
    /// A command that must succeed before every review; empty = none
    #[arg(long, value_name = "CMD")]
    pub(super) verify: Option<String>,
    /// Where delivered branches go
    #[arg(long, value_name = "keep|merge", value_parser = ["keep", "merge"])]
    pub(super) integrate: Option<String>,
    /// Checkouts made ahead: a number, 0 for none, or default
    #[arg(long, value_name = "N")]
    pub(super) pool: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct RepoSetArgs {
    /// Its name
    pub(super) name: String,
    #[command(flatten)]
    pub(super) change: RepoChange,
}

#[derive(Debug, Args)]
pub(super) struct UpkeepArgs {
    /// Checkouts made ahead for each repository that has no number of its own
    #[arg(long, value_name = "N")]
    pub(super) warm_pool: Option<u32>,
    /// Megabytes for mirrors, worktrees, checkouts made ahead and what is kept; 0 = a fifth of the disk
    #[arg(long, value_name = "MB")]
    pub(super) disk_budget: Option<u64>,
    /// Days after which the worktree of a finished objective is cleared
    #[arg(long, value_name = "N")]
    pub(super) worktree_days: Option<u32>,
    /// Days after which what was kept of a worktree is dropped
    #[arg(long, value_name = "N")]
    pub(super) rescue_days: Option<u32>,
    /// Days after which the record and the transcript of a session are deleted
    #[arg(long, value_name = "N")]
    pub(super) record_days: Option<u32>,
    /// As JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct BackupArgs {
    /// Where to: FILE.tar, or FILE.tar.gz for a packed one
    pub(super) file: PathBuf,
    /// Mirrors of repositories, with delivered branches, and what was kept of worktrees
    #[arg(long)]
    pub(super) with_repositories: bool,
    /// Records and transcripts of sessions
    #[arg(long)]
    pub(super) with_records: bool,
}

/// `opkit approve 42` is `opkit objective approve 42`.
pub(super) fn with_short_forms(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    const SHORT: [&str; 13] = [
        "move",
        "approve",
        "reject",
        "answer",
        "review",
        "reopen",
        "integrate",
        "message",
        "cancel",
        "watch",
        "resume",
        "restore",
        "show",
    ];
    let mut args: Vec<OsString> = args.collect();
    // `restore 42` brings back what an objective lost; `restore FILE` an installation.
    if args.get(1).is_some_and(|word| word == "restore") && !about_an_objective(&args[2..]) {
        args[1] = "restore-backup".into();
    }
    if args.get(1).and_then(|word| word.to_str()).is_some_and(|word| SHORT.contains(&word)) {
        args.insert(1, "objective".into());
    }
    args
}

fn about_an_objective(args: &[OsString]) -> bool {
    let numbers =
        args.iter().filter_map(|word| word.to_str()).any(|word| word.parse::<ObjectiveId>().is_ok());
    numbers || args.iter().any(|word| word == "--help" || word == "-h") || args.is_empty()
}

/// Pairs each `--check` with the `--criterion` before it; the error is a sentence.
pub(super) fn criteria(matches: &ArgMatches) -> Result<Vec<Criterion>, String> {
    let add =
        matches.subcommand_matches("objective").and_then(|objective| objective.subcommand_matches("add"));
    let Some(add) = add else { return Ok(Vec::new()) };
    let with_place = |name: &str| -> Vec<(usize, String)> {
        let places = add.indices_of(name).into_iter().flatten();
        places.zip(add.get_many::<String>(name).into_iter().flatten().cloned()).collect()
    };
    let texts = with_place("criterion");
    let mut list: Vec<Criterion> =
        texts.iter().map(|(_, text)| Criterion { text: text.clone(), check: None }).collect();
    for (place, check) in with_place("check") {
        let before = texts.iter().rposition(|(at, _)| *at < place);
        let Some(criterion) = before.and_then(|at| list.get_mut(at)) else {
            return Err(
                "--check stands before any --criterion. Write it after the criterion it belongs to".into()
            );
        };
        if criterion.check.replace(check).is_some() {
            return Err(
                "two --check follow one --criterion. Join them with && or write a criterion for each".into(),
            );
        }
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &[&str]) -> Result<ArgMatches, clap::Error> {
        let args = ["opkit"].iter().chain(line).map(OsString::from);
        Cli::command().try_get_matches_from(with_short_forms(args))
    }

    const ADD: [&str; 8] = ["objective", "add", "--repo", "r", "--type", "bug", "--title", "t"];

    #[test]
    fn the_commands_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn each_check_belongs_to_the_criterion_before_it() {
        let line =
            ["--criterion", "a", "--criterion", "b", "--check", "true", "--criterion", "c", "--check=false"];
        let list = criteria(&parse(&[&ADD[..], &line[..]].concat()).unwrap()).unwrap();
        let pairs: Vec<_> = list.iter().map(|c| (c.text.as_str(), c.check.as_deref())).collect();
        assert_eq!(pairs, [("a", None), ("b", Some("true")), ("c", Some("false"))]);
        let early = parse(&[&ADD[..], &["--check", "x", "--criterion", "a"]].concat()).unwrap();
        assert!(criteria(&early).is_err());
        let two = parse(&[&ADD[..], &["--criterion", "a", "--check", "x", "--check", "y"]].concat()).unwrap();
        assert!(criteria(&two).is_err());
    }

    #[test]
    fn numbers_may_have_a_hash_and_decisions_a_short_form() {
        assert!(parse(&["objective", "show", "#42", "--json"]).is_ok());
        assert!(parse(&["approve", "42", "--integrate", "merge"]).is_ok());
        assert!(parse(&["objective", "integrate", "42", "push"]).is_err());
        assert!(parse(&["watch", "x"]).is_err());
        let name = |line: &[&str]| parse(line).unwrap().subcommand_name().map(str::to_owned);
        assert_eq!(name(&["restore", "old.tar", "--data", "d"]).as_deref(), Some("restore-backup"));
        assert_eq!(name(&["restore", "./42"]).as_deref(), Some("restore-backup"));
    }
}
