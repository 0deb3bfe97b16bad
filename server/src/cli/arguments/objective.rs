//! `opkit objective …` and `opkit add …`.

use clap::{Args, Subcommand};
use opkit_domain::ids::ObjectiveId;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ObjectiveCommand {
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
pub(in crate::cli) struct AddArgs {
    /// Name of the repository
    #[arg(long, value_name = "N")]
    pub(in crate::cli) repo: String,
    /// task, bug or project
    #[arg(long = "type", value_name = "TYPE")]
    pub(in crate::cli) kind: String,
    /// What shall be true afterwards, in a few words
    #[arg(long, value_name = "T")]
    pub(in crate::cli) title: String,
    /// More of it, as Markdown
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) brief: Option<String>,
    /// The purpose, in one line
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) goal: Option<String>,
    /// What must be true; may be repeated
    #[arg(long, value_name = "TEXT")]
    criterion: Vec<String>,
    /// A command that shows it, for the criterion before it
    #[arg(long, value_name = "CMD")]
    check: Vec<String>,
    /// The branch to start from
    #[arg(long, value_name = "BRANCH")]
    pub(in crate::cli) base: Option<String>,
    /// 0 (none) to 4 (highest)
    #[arg(long, value_name = "0-4", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=4))]
    pub(in crate::cli) priority: u8,
    /// The agent, as in demo or claude
    #[arg(long)]
    pub(in crate::cli) agent: Option<String>,
    /// What the demo agent plays
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) script: Option<String>,
    /// The objective it is part of
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) parent: Option<ObjectiveId>,
    /// An objective that must be done first; may be repeated
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) blocked_by: Vec<ObjectiveId>,
    /// A label; may be repeated
    #[arg(long, value_name = "WORD")]
    pub(in crate::cli) label: Vec<String>,
    /// More review than the type asks for: ai or ai_human
    #[arg(long)]
    pub(in crate::cli) review: Option<String>,
    /// Failed rounds before a person is asked
    #[arg(long, value_name = "N")]
    pub(in crate::cli) max_review_rounds: Option<u32>,
    /// Do not start yet
    #[arg(long)]
    pub(in crate::cli) hold: bool,
}
