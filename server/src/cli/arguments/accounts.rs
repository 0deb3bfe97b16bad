//! `opkit accounts …`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum AccountsCommand {
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
pub(in crate::cli) struct AccountArgs {
    /// Its name: a letter, then letters, digits and dashes
    pub(in crate::cli) name: String,
    /// An existing user of this machine that its sessions run as
    #[arg(long, value_name = "U")]
    pub(in crate::cli) os_user: Option<String>,
    /// Sessions at most [default: 5]
    #[arg(long, value_name = "N")]
    pub(in crate::cli) limit: Option<u32>,
    /// Author of its commits
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) git_name: Option<String>,
    /// The author's address
    #[arg(long, value_name = "ADDRESS")]
    pub(in crate::cli) git_email: Option<String>,
}
