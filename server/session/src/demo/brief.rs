//! What the demo agent reads out of its context document: one fenced block of JSON.

use anyhow::Context;
use serde::Deserialize;

/// The objective, as the context document tells it.
#[derive(Debug, Deserialize)]
pub(super) struct Brief {
    pub(super) objective: i64,
    #[serde(default)]
    pub(super) title: String,
    #[serde(default)]
    pub(super) brief: String,
    #[serde(default)]
    pub(super) criteria: Vec<Criterion>,
    #[serde(default)]
    pub(super) findings: Vec<String>,
    #[serde(default)]
    pub(super) round: u32,
    #[serde(default)]
    pub(super) session: Option<String>,
    #[serde(default)]
    pub(super) nonce: Option<String>,
    #[serde(default)]
    pub(super) commit: Option<String>,
    /// The commit that the branch began at.
    #[serde(default)]
    pub(super) base: Option<String>,
}

/// One acceptance criterion.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Criterion {
    pub(super) index: usize,
    pub(super) text: String,
    #[serde(default)]
    pub(super) check: Option<String>,
}

impl Brief {
    /// Finds the block that starts with the line "```json opkit".
    pub(super) fn find(context: &str) -> anyhow::Result<Brief> {
        let mut lines = context.lines().skip_while(|line| line.trim_end() != "```json opkit");
        lines.next().context("the context document has no block \"```json opkit\"")?;
        let block: Vec<&str> = lines.take_while(|line| line.trim_end() != "```").collect();
        serde_json::from_str(&block.join("\n")).context("the block \"```json opkit\" is not valid")
    }

    /// Relative paths that the brief and the criteria name: backticked, or a word with an extension.
    pub(super) fn named_files(&self) -> Vec<String> {
        let texts = std::iter::once(&self.brief).chain(self.criteria.iter().map(|criterion| &criterion.text));
        let mut found = Vec::new();
        for text in texts {
            for word in words(text) {
                if is_file_name(&word) && !found.contains(&word) {
                    found.push(word);
                }
            }
        }
        found
    }
}

fn words(text: &str) -> Vec<String> {
    let cut = |c: char| c.is_whitespace() || "`'\"()[]<>,;".contains(c);
    text.split(cut).map(|word| word.trim_end_matches(['.', ':', '?', '!']).to_owned()).collect()
}

/// Relative, without `..`, and with an extension that begins with a letter.
pub(super) fn is_file_name(word: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    if word.is_empty() || word.len() > 200 || !word.chars().all(allowed) || word.starts_with(['/', '-']) {
        return false;
    }
    if word.split('/').any(|part| part.is_empty() || part == ".." || part == "." || part == ".git") {
        return false;
    }
    let name = word.rsplit('/').next().unwrap_or("");
    match name.rsplit_once('.') {
        Some((stem, extension)) => {
            let known = extension.len() <= 8 && extension.starts_with(|c: char| c.is_ascii_alphabetic());
            // "e.g" and "i.e" are words, not files.
            !stem.is_empty() && known && !(stem.len() == 1 && extension.len() == 1)
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_is_found_in_a_document() {
        let context = "# Objective\n\n```json\n{}\n```\n\n```json opkit\n{\"objective\":42,\"title\":\"T\",\"brief\":\"Write `docs/a.md`, see README.md.\",\"criteria\":[{\"index\":0,\"text\":\"e.g. x\",\"check\":null}]}\n```\nmore";
        let brief = Brief::find(context).expect("a block");
        assert_eq!(brief.objective, 42);
        assert_eq!(brief.named_files(), ["docs/a.md", "README.md"]);
    }

    #[test]
    fn only_relative_files_are_names() {
        for good in ["a.md", "src/lib.rs", "docs/x-y_z.html"] {
            assert!(is_file_name(good), "{good}");
        }
        for bad in [
            "/etc/passwd.txt",
            "../a.md",
            "a/../b.md",
            "1.5",
            "e.g",
            "word",
            ".git/x.y",
            "https://x.org",
            "-f.x",
        ] {
            assert!(!is_file_name(bad), "{bad}");
        }
    }
}
