//! What the attack table found, as JSON and as the matrix of the manual.

use std::fmt::Write;

use opkit_domain::session::WallProof;
use serde::Serialize;

/// The kernel's answer to one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kernel {
    /// It did not happen.
    Refused,
    /// It happened.
    Allowed,
    /// The program it needs is not installed, or it cannot be tried here.
    Skipped,
}

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// From 1 on.
    pub number: usize,
    /// The family.
    pub group: String,
    /// What is tried.
    pub name: String,
    /// It is the session's own right and must work.
    pub own: bool,
    /// The command, or the native call.
    pub way: String,
    /// Whether the guard allows the same as a tool call; none where no tool could make it.
    pub hook: Option<bool>,
    /// The kernel's answer.
    pub kernel: Kernel,
    /// What was changed, read or reached outside. Must be none.
    pub marker: Option<String>,
    /// What the agent sees.
    pub message: String,
    /// Why it is allowed, when it is known to be.
    pub gap: Option<String>,
}

impl Row {
    /// Nothing is wrong with this row.
    pub fn holds(&self) -> bool {
        match self.kernel {
            Kernel::Skipped => true,
            Kernel::Refused => !self.own && self.marker.is_none(),
            Kernel::Allowed => self.marker.is_none() && (self.own || self.gap.is_some()),
        }
    }
}

/// The whole run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The wall it ran behind.
    pub proof: WallProof,
    /// All rows.
    pub rows: Vec<Row>,
}

impl Report {
    /// No marker, nothing allowed that is not a stated gap, and everything of the session's own works.
    pub fn holds(&self) -> bool {
        self.rows.iter().all(Row::holds)
    }

    /// Rows that were tried, without the session's own rights.
    pub fn attacks(&self) -> usize {
        self.rows.iter().filter(|row| !row.own && row.kernel != Kernel::Skipped).count()
    }

    /// As JSON, with the sums.
    fn to_value(&self) -> serde_json::Value {
        serde_json::json!({
            "holds": self.holds(),
            "attacks": self.attacks(),
            "markers": self.rows.iter().filter(|row| row.marker.is_some()).count(),
            "proof": self.proof,
            "rows": self.rows,
        })
    }

    /// As Markdown.
    pub fn to_table(&self) -> String {
        let count = |what: &dyn Fn(&Row) -> bool| self.rows.iter().filter(|row| what(row)).count();
        let mut text = format!(
            "{} attacks: {} refused, {} allowed as stated gaps, {} allowed otherwise, {} markers outside; {} of {} own rights work; \
             {} rows skipped. Landlock ABI {}, socket filter {}.\n\n",
            self.attacks(),
            count(&|row| !row.own && row.kernel == Kernel::Refused),
            count(&|row| !row.own && row.kernel == Kernel::Allowed && row.gap.is_some()),
            count(&|row| !row.own && row.kernel == Kernel::Allowed && row.gap.is_none()),
            count(&|row| row.marker.is_some()),
            count(&|row| row.own && row.kernel == Kernel::Allowed),
            count(&|row| row.own && row.kernel != Kernel::Skipped),
            count(&|row| row.kernel == Kernel::Skipped),
            self.proof.landlock_abi,
            if self.proof.seccomp { "on" } else { "off" },
        );
        text.push_str("| # | Family | What | Guard | Kernel | Marker | What the agent sees |\n");
        text.push_str("|--:|---|---|---|---|---|---|\n");
        for row in &self.rows {
            let hook = row.hook.map_or("–", |allowed| if allowed { "passes on" } else { "denied" });
            let kernel = match (row.kernel, row.own) {
                (Kernel::Skipped, _) => "skipped",
                (Kernel::Refused, true) => "**FAILS**",
                (Kernel::Refused, false) => "refused",
                (Kernel::Allowed, true) => "works",
                (Kernel::Allowed, false) if row.gap.is_some() => "allowed (gap)",
                (Kernel::Allowed, false) => "**ALLOWED**",
            };
            let marker =
                row.marker.as_deref().map_or("none".to_owned(), |what| format!("**{}**", cell(what)));
            let message = if row.own { String::new() } else { cell(&row.message) };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {hook} | {kernel} | {marker} | {message} |",
                row.number,
                cell(&row.group),
                cell(&row.name),
            );
        }
        text
    }
}

/// Both modes as JSON; `os_users` is null where it could not be tried.
pub(super) fn to_json(homes: &Report, accounts: Option<&Report>) -> String {
    let holds = homes.holds() && accounts.is_none_or(Report::holds);
    let accounts = accounts.map(Report::to_value);
    let value = serde_json::json!({"holds": holds, "homes": homes.to_value(), "os_users": accounts});
    format!("{value:#}\n")
}

/// Both modes as Markdown, as the manual has them.
pub(super) fn to_text(homes: &Report, accounts: Option<&Report>) -> String {
    let accounts = match accounts {
        Some(report) => report.to_table(),
        None => "Not tried: it needs two users and groups, so it needs root.\n".to_owned(),
    };
    format!("### Mode homes\n\n{}\n### Mode os-users\n\n{accounts}", homes.to_table())
}

/// Text that cannot break a table.
fn cell(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;")
}
