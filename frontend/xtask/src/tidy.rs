//! The house rules that neither the compiler nor clippy knows.

use crate::steps::{output_of, root};
use anyhow::{Result, bail};
use std::fs;

/// Folders of machines, not of the product. Spelled in halves, or this file would break its own rule.
const MACHINE_PATHS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
const SQL: [&str; 5] = ["SELECT ", "INSERT INTO ", "DELETE FROM ", "CREATE TABLE ", "UPDATE "];
/// The store, and the bench that measures it against bare statements.
const STORE: [&str; 2] = ["server/engine/src/store", "server/engine/examples/"];

/// Looks at every file git knows or would know.
pub(crate) fn tidy() -> Result<()> {
    let Some(files) = output_of("git", &["ls-files", "--cached", "--others", "--exclude-standard"]) else {
        bail!("tidy asks git for the list of files, and git did not answer");
    };
    let mut faults = Vec::new();
    for name in files.lines() {
        // Binary files and files just deleted have no text to look at.
        let Ok(text) = fs::read_to_string(root().join(name)) else { continue };
        if name.ends_with(".rs") {
            rust_faults(name, &text, &mut faults);
        }
        if !name.ends_with("-lock.json") {
            path_faults(name, &text, &mut faults);
        }
    }
    if !faults.is_empty() {
        bail!("{} faults:\n  {}", faults.len(), faults.join("\n  "));
    }
    Ok(())
}

fn rust_faults(name: &str, text: &str, faults: &mut Vec<String>) {
    if !text.starts_with("//!") {
        faults.push(format!("{name}: does not begin with a //! sentence"));
    }
    let may_have_sql = STORE.iter().any(|place| name.starts_with(place))
        || name.contains("/tests/")
        || name.starts_with("frontend/xtask/");
    if may_have_sql {
        return;
    }
    for (number, line) in text.lines().enumerate() {
        if is_sql(line) {
            faults.push(format!("{name}:{}: SQL outside {}", number + 1, STORE[0]));
        }
    }
}

/// A literal that begins with a statement. `"SELECT` alone would also hit prose.
fn is_sql(line: &str) -> bool {
    line.split('"').skip(1).step_by(2).any(|literal| {
        let literal = literal.trim_start();
        SQL.iter().any(|verb| literal.starts_with(verb))
    })
}

fn path_faults(name: &str, text: &str, faults: &mut Vec<String>) {
    for (number, line) in text.lines().enumerate() {
        for path in MACHINE_PATHS {
            // Only an absolute path counts: `<data>/x/y` holds the same letters.
            let absolute = line.match_indices(path).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                before.is_none_or(|c| !c.is_alphanumeric() && !">})]-_.*$/".contains(c))
            });
            if absolute {
                faults.push(format!("{name}:{}: a path of this machine ({path})", number + 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MACHINE_PATHS, is_sql, path_faults};

    #[test]
    fn absolute_machine_paths_are_found() {
        let faults = |line: String| {
            let mut faults = Vec::new();
            path_faults("x", &line, &mut faults);
            faults.len()
        };
        let path = MACHINE_PATHS[0];
        assert_eq!(faults(format!("open(\"{path}main\")")), 1);
        assert_eq!(faults(format!("<data>{path}42 {{dir}}{path}42 $HOME{path}")), 0);
    }

    #[test]
    fn statements_are_told_from_prose() {
        assert!(is_sql(r#"query("  SELECT id FROM objective")"#));
        assert!(!is_sql(r#"title("Select a repository") // SELECT 1"#));
    }
}
