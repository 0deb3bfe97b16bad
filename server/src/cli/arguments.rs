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
    /// Check whether this machine has what is needed
    Doctor {
        /// Try every known way out of a session's walls, as the agents' user, and print what the kernel answered
        #[arg(long)]
        wall: bool,
    },
    /// Stop every session and let nothing new start
    StopAll,
    /// Let sessions start again after stop-all
    Enable,
    /// Start again every objective that a person or stop-all stopped
    ResumeAll,
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
    /// A command that must succeed before every review
    #[arg(long, value_name = "CMD")]
    pub(super) verify: Option<String>,
    /// Where delivered branches go
    #[arg(long, value_name = "keep|merge", value_parser = ["keep", "merge"])]
    pub(super) integrate: Option<String>,
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
    if args.get(1).and_then(|word| word.to_str()).is_some_and(|word| SHORT.contains(&word)) {
        args.insert(1, "objective".into());
    }
    args
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
    }
}
