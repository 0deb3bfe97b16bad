//! What a script of `sed` writes or runs by itself.

use super::shell::{Text, Walk};
use super::writers::{Options, is_standard_input, split};

/// Its options with a value.
pub(super) const OPTIONS: Options = Options { short: "efl", long: &["expression", "file", "line-length"] };

pub(super) fn judge(walk: &mut Walk<'_>, args: &[Text]) {
    let words = split(args, &OPTIONS);
    let in_options = words.has(&["e", "expression", "f", "file"]);
    for (name, value) in &words.options {
        match name.as_str() {
            "e" | "expression" => script(walk, value),
            "f" | "file" if is_standard_input(value) => walk.unclear(),
            _ => {}
        }
    }
    if !in_options {
        words.operands.first().into_iter().for_each(|text| script(walk, text));
    }
    if words.has(&["i", "in-place"]) {
        let files = words.operands.get(usize::from(!in_options)..).unwrap_or_default();
        files.iter().for_each(|file| walk.writes(file));
    }
}

fn script(walk: &mut Walk<'_>, text: &Text) {
    // Most scripts have none of the letters that matter.
    match text {
        Some(text) if !text.contains(['w', 'W', 'e']) => {}
        Some(text) if commands(walk, text).is_some() => {}
        _ => walk.unclear(),
    }
}

/// None when a command runs something, or is not known.
fn commands(walk: &mut Walk<'_>, text: &str) -> Option<()> {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || ";{}".contains(c));
        let Some(after) = address(rest) else { return rest.is_empty().then_some(()) };
        let mut chars = after.chars();
        let Some(command) = chars.next() else { return Some(()) };
        rest = chars.as_str();
        let to_end_of_line = rest.split_once('\n').map_or("", |(_, next)| next);
        rest = match command {
            's' | 'y' => {
                let delimiter = rest.chars().next()?;
                let pattern = &rest[delimiter.len_utf8()..];
                let replacement = if command == 's' {
                    past_pattern(pattern, delimiter)?
                } else {
                    past(pattern, delimiter)?
                };
                let flags = past(replacement, delimiter)?;
                let others = flags.trim_start_matches(|c: char| c.is_ascii_digit() || "gpiImM ".contains(c));
                match others.chars().next() {
                    Some('w') => {
                        writes(walk, &others[1..]);
                        others.split_once('\n').map_or("", |(_, next)| next)
                    }
                    None | Some(';' | '}' | '\n' | '#') => others,
                    Some(_) => return None,
                }
            }
            'w' | 'W' => {
                writes(walk, rest);
                to_end_of_line
            }
            'a' | 'i' | 'c' => past_text(rest),
            'r' | 'R' | '#' => to_end_of_line,
            'b' | 't' | 'T' | ':' | 'v' => {
                rest.trim_start_matches(|c: char| c != ';' && c != '\n' && c != '}')
            }
            'q' | 'Q' | 'l' | 'L' => rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' '),
            'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | '=' | 'F' | '{' | '}' => {
                rest
            }
            _ => return None,
        };
    }
}

fn writes(walk: &mut Walk<'_>, rest: &str) {
    let file = rest.split('\n').next().unwrap_or_default().trim_start();
    walk.writes(&Some(file.to_owned()));
}

/// Past the lines that a command of text adds.
fn past_text(rest: &str) -> &str {
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        if c == '\n' && !escaped {
            return &rest[at + 1..];
        }
        escaped = c == '\\' && !escaped;
    }
    ""
}

/// Past the next `end` that is not escaped.
fn past(text: &str, end: char) -> Option<&str> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if c == end && !escaped {
            return Some(&text[at + c.len_utf8()..]);
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

/// The same for a pattern, in which brackets hide the end.
fn past_pattern(text: &str, end: char) -> Option<&str> {
    let mut rest = text;
    loop {
        let c = rest.chars().next()?;
        let after = &rest[c.len_utf8()..];
        rest = match c {
            _ if c == end => return Some(after),
            '\\' => &after[after.chars().next()?.len_utf8()..],
            '[' => past_bracket(after)?,
            _ => after,
        };
    }
}

fn past_bracket(text: &str) -> Option<&str> {
    let text = text.strip_prefix('^').unwrap_or(text);
    let mut rest = text.strip_prefix(']').unwrap_or(text);
    loop {
        let c = rest.chars().next()?;
        let after = &rest[c.len_utf8()..];
        rest = match (c, after.chars().next()) {
            (']', _) => return Some(after),
            ('[', Some(kind @ (':' | '.' | '='))) => after[1..].split_once(&format!("{kind}]"))?.1,
            _ => after,
        };
    }
}

/// Past the lines that a command is for. None when there is no command.
fn address(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        let first = rest.chars().next()?;
        rest = match first {
            '/' => past_pattern(&rest[1..], '/')?.trim_start_matches(['I', 'M']),
            '\\' => {
                let delimiter = rest[1..].chars().next()?;
                past_pattern(&rest[1 + delimiter.len_utf8()..], delimiter)?.trim_start_matches(['I', 'M'])
            }
            '0'..='9' | '$' | ',' | '~' | '+' | '!' | ' ' | '\t' => &rest[1..],
            _ => return Some(rest),
        };
    }
}
