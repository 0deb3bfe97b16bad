//! Sees in a check what would make it true: only the plain forms, without a shell.

use std::path::{Component, Path, PathBuf};

/// Something to do in the worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Need {
    /// A file with some content.
    File(PathBuf),
    /// A directory (git keeps it by a file inside).
    Directory(PathBuf),
    /// A file that can be executed.
    Executable(PathBuf),
    /// A file with this text in a line.
    Line(PathBuf, String),
}

/// What the commands of `check`, joined by `&&`, ask for; parts it does not understand are left out.
pub(super) fn needs(check: &str) -> Vec<Need> {
    check.split("&&").filter_map(|part| need(&split_words(part))).collect()
}

fn need(words: &[String]) -> Option<Need> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test", flag, path] | ["[", flag, path, "]"] => {
            let path = relative(path)?;
            match *flag {
                "-f" | "-e" | "-s" | "-r" => Some(Need::File(path)),
                "-d" => Some(Need::Directory(path)),
                "-x" => Some(Need::Executable(path)),
                _ => None,
            }
        }
        ["grep", rest @ ..] => {
            let rest: Vec<&str> = rest.iter().copied().filter(|word| !word.starts_with('-')).collect();
            match rest.as_slice() {
                [pattern, path] => Some(Need::Line(relative(path)?, literal(pattern)?)),
                _ => None,
            }
        }
        _ => None,
    }
}

fn relative(path: &str) -> Option<PathBuf> {
    let plain = !path.contains(['$', '*', '?', '~', '`']);
    let inside =
        Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    (plain && inside && !path.is_empty())
        .then(|| Path::new(path).components().filter(|p| *p != Component::CurDir).collect())
}

/// A line that the pattern matches; none for patterns that need more than reading.
fn literal(pattern: &str) -> Option<String> {
    let text = pattern.trim_start_matches('^').trim_end_matches('$').replace("\\.", ".").replace(".*", " ");
    (!text.contains(['[', ']', '(', ')', '|', '\\', '*', '+', '?', '{', '$', '`'])).then_some(text)
}

/// Words of a simple command, with quotes.
fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_checks_are_understood() {
        let file = |path: &str| Need::File(path.into());
        let table = [
            ("test -f docs/a.md", vec![file("docs/a.md")]),
            ("[ -f ./a.md ]", vec![file("a.md")]),
            (
                "test -d src && test -x run.sh",
                vec![Need::Directory("src".into()), Need::Executable("run.sh".into())],
            ),
            ("grep -q 'two words' a.txt", vec![Need::Line("a.txt".into(), "two words".into())]),
            ("grep -qi ^Title a.txt && cargo test", vec![Need::Line("a.txt".into(), "Title".into())]),
            ("test -f /etc/passwd", vec![]),
            ("test -f ../x", vec![]),
            ("test -f $HOME/x", vec![]),
            ("grep -q '[0-9]+' a.txt", vec![]),
            ("make check", vec![]),
        ];
        for (check, expected) in table {
            assert_eq!(needs(check), expected, "{check}");
        }
    }
}
