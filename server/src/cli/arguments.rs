//! The commands, options and their help.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Args, Parser, Subcommand};
use opkit_domain::ids::ObjectiveId;
use opkit_domain::objective::Criterion;

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

#[derive(Debug, Subcommand)]
pub(super) enum AccountsCommand {
    /// Make an OS user, a home and a git identity for each account; needs root and may be repeated
    Provision {
        /// How many accounts
        #[arg(long, value_name = "N", default_value_t = 5)]
        count: u32,
        /// Accounts are named PREFIX-0, PREFIX-1 and so on
        #[arg(long, default_value = "ccuser")]
        prefix: String,
    },
    /// Show the accounts, their states and what they work with
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Add an account
    Add(AccountArgs),
    /// Give an account no new sessions; its live ones go on
    Disable {
        /// Its name
        name: String,
    },
    /// Give an account sessions again, after disable, a cool-down or a missing login
    Enable {
        /// Its name
        name: String,
    },
    /// Change how many sessions an account takes at once; live ones go on
    Limit {
        /// Its name
        name: String,
        /// Sessions at once, 1 to 100
        limit: u32,
    },
    /// Store an API key or a long-lived token for an account
    Key {
        /// Its name
        name: String,
        /// Read it from standard input
        #[arg(long, required = true)]
        stdin: bool,
    },
    /// Try everything that a session on an account needs
    Test {
        /// Its name
        name: String,
    },
    /// Open the agent's own login on this terminal, as the account's user
    Login {
        /// Its name
        name: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct AccountArgs {
    /// Its name: a letter, then letters, digits and dashes
    pub(super) name: String,
    /// An existing user of this machine that its sessions run as
    #[arg(long, value_name = "U")]
    pub(super) os_user: Option<String>,
    /// Sessions at most [default: 5]
    #[arg(long, value_name = "N")]
    pub(super) limit: Option<u32>,
    /// Author of its commits
    #[arg(long, value_name = "NAME")]
    pub(super) git_name: Option<String>,
    /// The author's address
    #[arg(long, value_name = "ADDRESS")]
    pub(super) git_email: Option<String>,
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

#[derive(Debug, Subcommand)]
pub(super) enum ObjectiveCommand {
    /// Create an objective and print its number
    Add(Box<AddArgs>),
    /// Show one objective
    Show {
        /// Its number
        id: ObjectiveId,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show all objectives
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
        /// Only those of one status
        #[arg(long)]
        status: Option<String>,
    },
    /// Move an objective to a status
    Move {
        /// Its number
        id: ObjectiveId,
        /// planning, queue, working, ai_review, human_review, done or cancelled
        status: String,
    },
    /// Accept the work
    Approve {
        /// Its number
        id: ObjectiveId,
        /// Where the branch goes
        #[arg(long, value_name = "keep|merge", value_parser = ["keep", "merge"])]
        integrate: Option<String>,
        /// Why, where the machine's review says otherwise
        #[arg(long)]
        reason: Option<String>,
    },
    /// Send the work back
    Reject {
        /// Its number
        id: ObjectiveId,
        /// What must change
        #[arg(long)]
        findings: String,
    },
    /// Answer what blocks it
    Answer {
        /// Its number
        id: ObjectiveId,
        /// The answer
        text: String,
    },
    /// Ask for a fresh review
    Review {
        /// Its number
        id: ObjectiveId,
    },
    /// Open a finished objective again
    Reopen {
        /// Its number
        id: ObjectiveId,
        /// Why
        #[arg(long)]
        reason: String,
    },
    /// Bring the delivered branch where it belongs
    Integrate {
        /// Its number
        id: ObjectiveId,
        /// keep or merge
        #[arg(value_parser = ["keep", "merge"])]
        how: String,
    },
    /// Leave a message for its next session
    Message {
        /// Its number
        id: ObjectiveId,
        /// The message
        text: String,
    },
    /// End it early
    Cancel {
        /// Its number
        id: ObjectiveId,
    },
    /// Start what was stopped or lost again
    Resume {
        /// Its number
        id: ObjectiveId,
    },
    /// Bring a cancelled objective back
    Restore {
        /// Its number
        id: ObjectiveId,
    },
    /// Show what was kept of its worktree when sessions ended
    Kept {
        /// Its number
        id: ObjectiveId,
        /// Print one of them as a patch, by its number
        #[arg(long, value_name = "N", conflicts_with = "json")]
        patch: Option<i64>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Give its next session what was kept, on a branch of its own
    RestoreFiles {
        /// Its number
        id: ObjectiveId,
        /// The number that `kept` shows
        kept: i64,
    },
    /// Follow it until done (exit 0), human_review (3) or cancelled (4)
    Watch {
        /// Its number
        id: ObjectiveId,
    },
}

#[derive(Debug, Args)]
pub(super) struct AddArgs {
    /// Name of the repository
    #[arg(long, value_name = "N")]
    pub(super) repo: String,
    /// task, bug or project
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) kind: String,
    /// What shall be true afterwards, in a few words
    #[arg(long, value_name = "T")]
    pub(super) title: String,
    /// More of it, as Markdown
    #[arg(long, value_name = "TEXT")]
    pub(super) brief: Option<String>,
    /// The purpose, in one line
    #[arg(long, value_name = "TEXT")]
    pub(super) goal: Option<String>,
    /// What must be true; may be repeated
    #[arg(long, value_name = "TEXT")]
    criterion: Vec<String>,
    /// A command that shows it, for the criterion before it
    #[arg(long, value_name = "CMD")]
    check: Vec<String>,
    /// The branch to start from
    #[arg(long, value_name = "BRANCH")]
    pub(super) base: Option<String>,
    /// 0 (none) to 4 (highest)
    #[arg(long, value_name = "0-4", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=4))]
    pub(super) priority: u8,
    /// The agent, as in demo or claude
    #[arg(long)]
    pub(super) agent: Option<String>,
    /// What the demo agent plays
    #[arg(long, value_name = "NAME")]
    pub(super) script: Option<String>,
    /// The objective it is part of
    #[arg(long, value_name = "ID")]
    pub(super) parent: Option<ObjectiveId>,
    /// An objective that must be done first; may be repeated
    #[arg(long, value_name = "ID")]
    pub(super) blocked_by: Vec<ObjectiveId>,
    /// A label; may be repeated
    #[arg(long, value_name = "WORD")]
    pub(super) label: Vec<String>,
    /// More review than the type asks for: ai or ai_human
    #[arg(long)]
    pub(super) review: Option<String>,
    /// Failed rounds before a person is asked
    #[arg(long, value_name = "N")]
    pub(super) max_review_rounds: Option<u32>,
    /// Do not start yet
    #[arg(long)]
    pub(super) hold: bool,
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
