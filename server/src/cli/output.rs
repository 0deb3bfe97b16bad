//! Words for people and programs on standard output.

use std::io::Write;

/// Prints a line; a reader that has gone away is no error.
pub(super) fn say(text: impl AsRef<str>) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{}", text.as_ref()).and_then(|()| out.flush());
}

/// Prints a value as indented JSON.
pub(super) fn say_json(value: &serde_json::Value) {
    say(serde_json::to_string_pretty(value).unwrap_or_default());
}

/// Plain text for a terminal: what other programs wrote may not steer it.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}
