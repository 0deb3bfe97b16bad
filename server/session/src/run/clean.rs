//! Makes foreign text safe to show: printable characters, tabs and SGR colours, nothing else.

/// Longer lines are cut in the record; the transcript has all.
pub(super) const LINE_BYTES: usize = 4096;

/// Appends `text` (one line) to `out` without control characters and sequences other than SGR.
pub(super) fn clean_into(out: &mut String, text: &str) {
    let text = after_last_return(text);
    let (shown, hidden) = cut(text);
    if shown.bytes().all(|byte| (0x20..0x7f).contains(&byte) || byte == b'\t') {
        out.push_str(shown);
    } else {
        clean_slowly(out, shown);
    }
    if hidden > 0 {
        out.push_str(&format!(" \x1b[2m… {hidden} more bytes are in the transcript\x1b[0m"));
    }
}

/// A progress bar paints over itself: what a terminal would leave standing.
fn after_last_return(text: &str) -> &str {
    let text = text.trim_end_matches('\r');
    text.rfind('\r').map_or(text, |at| &text[at + 1..])
}

fn cut(text: &str) -> (&str, usize) {
    if text.len() <= LINE_BYTES {
        return (text, 0);
    }
    let at = text.floor_char_boundary(LINE_BYTES);
    (&text[..at], text.len() - at)
}

fn clean_slowly(out: &mut String, text: &str) {
    let mut rest = text;
    let mut styled = false;
    while let Some(c) = rest.chars().next() {
        if c == '\x1b' || c == '\u{9b}' {
            let (sequence, after) = split_sequence(rest);
            if let Some(colours) = sequence {
                out.push_str("\x1b[");
                out.push_str(colours);
                out.push('m');
                styled = true;
            }
            rest = after;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        if c == '\t' || !(c.is_control() || is_invisible(c)) {
            out.push(c);
        }
    }
    if styled {
        out.push_str("\x1b[0m");
    }
}

/// Characters that reorder or hide text.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Splits the escape sequence off the front; SGR parameters are returned, everything else is dropped.
fn split_sequence(text: &str) -> (Option<&str>, &str) {
    let body = match text.strip_prefix('\u{9b}') {
        Some(body) => body,
        None => match text[1..].chars().next() {
            Some('[') => &text[2..],
            // Strings run to BEL or ST; an open one swallows the rest of the line.
            Some(']' | 'P' | 'X' | '^' | '_') => return (None, after_string(&text[2..])),
            Some(c @ (' '..='/')) => return (None, text[1 + c.len_utf8()..].get(1..).unwrap_or("")),
            Some(c) => return (None, &text[1 + c.len_utf8()..]),
            None => return (None, ""),
        },
    };
    let Some(end) = body.find(|c: char| !(' '..='?').contains(&c)) else { return (None, "") };
    let after = &body[end..];
    let Some(last) = after.chars().next() else { return (None, "") };
    if !('@'..='~').contains(&last) {
        // Not a sequence after all: only its beginning is dropped.
        return (None, after);
    }
    let parameters = &body[..end];
    let is_sgr =
        last == 'm' && parameters.bytes().all(|byte| byte.is_ascii_digit() || byte == b';' || byte == b':');
    (is_sgr.then_some(parameters), &after[1..])
}

fn after_string(text: &str) -> &str {
    let ends = [
        text.find('\x07').map(|at| at + 1),
        text.find("\x1b\\").map(|at| at + 2),
        text.find('\u{9c}').map(|at| at + 2),
    ];
    ends.into_iter().flatten().min().map_or("", |at| &text[at..])
}

/// Text without any escape at all, one line, at most `chars` characters: for JSON files and status lines.
pub(super) fn plain(text: &str, chars: usize) -> String {
    let mut out = String::new();
    clean_slowly(&mut out, text);
    let mut bare = String::new();
    let mut rest = out.as_str();
    while let Some(at) = rest.find('\x1b') {
        bare.push_str(&rest[..at]);
        rest = split_sequence(&rest[at..]).1;
    }
    bare.push_str(rest);
    match bare.char_indices().nth(chars) {
        None => bare,
        Some((at, _)) => format!("{}…", &bare[..at]),
    }
}

/// Several lines without escapes.
pub(super) fn plain_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<String> =
        text.split('\n').map(|line| plain(after_last_return(line), usize::MAX)).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(text: &str) -> String {
        let mut out = String::new();
        clean_into(&mut out, text);
        out
    }

    #[test]
    fn only_text_tabs_and_colours_survive() {
        let table = [
            ("plain\ttext", "plain\ttext"),
            ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m\x1b[0m"),
            ("a\x1b[2Jb\x1b[1;1Hc", "abc"),
            ("a\x1b]0;title\x07b", "ab"),
            ("a\x1b]8;;http://x\x1b\\b", "ab"),
            ("a\x1b]52;c;never closed", "a"),
            ("a\x1bPq\x1b\\b", "ab"),
            ("a\x1b(Bb\x1b=c", "abc"),
            ("a\x07\x08\x00b", "ab"),
            ("a\u{9b}31mb", "a\x1b[31mb\x1b[0m"),
            ("a\u{202e}b", "ab"),
            ("10 %\r20 %\r100 %\r", "100 %"),
            ("a\x1b", "a"),
            ("a\x1b[", "a"),
            ("a\x1b[31", "a"),
            ("a\x1b[31é", "aé"),
            ("a\x1b[?25lb", "ab"),
            ("a\x1b[>4;1mb", "ab"),
            ("Grüße ☃", "Grüße ☃"),
        ];
        for (dirty, expected) in table {
            assert_eq!(clean(dirty), expected, "{dirty:?}");
        }
    }

    #[test]
    fn a_long_line_is_cut_with_a_note() {
        let shown = clean(&"é".repeat(5000));
        assert!(shown.len() < LINE_BYTES + 100);
        assert!(shown.contains("more bytes are in the transcript"));
    }

    #[test]
    fn plain_text_has_no_escape_and_a_bound() {
        assert_eq!(plain("\x1b[1mbold\x1b[0m text", 6), "bold t…");
        assert_eq!(plain_lines(b"a\x1b[31mb\nc\xff"), "ab\nc\u{fffd}");
    }
}
