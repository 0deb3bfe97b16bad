//! Terminal lines as styled text, and the messages of the terminal socket.
//!
//! A headless session's record is a list of numbered lines. The server cuts the newest window out of the
//! record, turns SGR colour into spans and sends it; the browser only draws text. Frames are postcard.

use serde::{Deserialize, Serialize};

/// Text style: foreground colour 0 = default, 1–8 = ANSI 30–37, 9–16 = bright; plus flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Style {
    /// 0 default, 1–8 ANSI, 9–16 bright ANSI.
    pub fg: u8,
    /// Bit 0 bold, 1 dim, 2 italic, 3 underline, 4 removed-line background, 5 added-line background.
    pub flags: u8,
}

/// Bold.
pub const BOLD: u8 = 1;
/// Dim.
pub const DIM: u8 = 2;
/// Italic.
pub const ITALIC: u8 = 4;
/// Underlined.
pub const UNDERLINE: u8 = 8;
/// Background of a removed line (SGR 41).
pub const DEL: u8 = 16;
/// Background of an added line (SGR 42).
pub const ADD: u8 = 32;

/// A run of text in one style.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The style.
    pub style: Style,
    /// The text, without control characters but tab.
    pub text: String,
}

/// One line.
pub type Line = Vec<Span>;

/// Turns one line of the record (no newline) into spans. Everything but SGR is dropped.
pub fn spans(bytes: &[u8]) -> Line {
    let text = String::from_utf8_lossy(bytes);
    let mut line: Line = Vec::new();
    let mut style = Style::default();
    let mut run = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            if c == '\t' || !c.is_control() {
                run.push(c);
            }
            continue;
        }
        if chars.peek() != Some(&'[') {
            continue;
        }
        chars.next();
        let mut parameters = String::new();
        let mut end = None;
        for c in chars.by_ref() {
            if ('@'..='~').contains(&c) {
                end = Some(c);
                break;
            }
            parameters.push(c);
        }
        if end == Some('m') {
            let next = sgr(style, &parameters);
            if next != style && !run.is_empty() {
                line.push(Span { style, text: std::mem::take(&mut run) });
            }
            style = next;
        }
    }
    if !run.is_empty() {
        line.push(Span { style, text: run });
    }
    line
}

/// Applies the parameters of one SGR sequence; unknown ones change nothing.
fn sgr(mut style: Style, parameters: &str) -> Style {
    for word in parameters.split(';') {
        match word.parse::<u8>().unwrap_or(0) {
            0 => style = Style::default(),
            1 => style.flags |= BOLD,
            2 => style.flags |= DIM,
            3 => style.flags |= ITALIC,
            4 => style.flags |= UNDERLINE,
            22 => style.flags &= !(BOLD | DIM),
            23 => style.flags &= !ITALIC,
            24 => style.flags &= !UNDERLINE,
            n @ 30..=37 => style.fg = n - 29,
            39 => style.fg = 0,
            41 => style.flags = (style.flags & !ADD) | DEL,
            42 => style.flags = (style.flags & !DEL) | ADD,
            49 => style.flags &= !(ADD | DEL),
            n @ 90..=97 => style.fg = n - 81,
            _ => {}
        }
    }
    style
}

/// From the server to a viewer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TerminalDown {
    /// Lines in order. `first` is the number (from 0) of the first; `at` the record offset where it begins.
    /// The viewer replaces what it has from `first` on; a jump beyond its end means lines it can fetch.
    Lines {
        /// Number of the first line.
        first: u64,
        /// Byte offset of the first line.
        at: u64,
        /// Byte offset after the last line: the version to acknowledge and to resume from.
        end: u64,
        /// The lines.
        lines: Vec<Line>,
    },
    /// The answer to `Range`.
    Range {
        /// Number of the first line.
        first: u64,
        /// The lines.
        lines: Vec<Line>,
        /// Lines before this were dropped from the record.
        oldest: u64,
    },
    /// Facts beside the lines; sent when they change.
    Status(TerminalStatus),
    /// The session is over and everything was sent.
    Ended {
        /// How, for people.
        text: String,
    },
}

/// What the head of the terminal shows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TerminalStatus {
    /// "running", "ended"...
    pub state: String,
    /// Live line.
    pub activity: String,
    /// Turns so far.
    pub turns: u32,
    /// Cost so far.
    pub cost_usd_micros: i64,
    /// Viewers now.
    pub viewers: u32,
    /// Lines in the record.
    pub lines: u64,
    /// Line numbers of errors, newest 200.
    pub errors: Vec<u64>,
}

/// From a viewer to the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TerminalUp {
    /// "I have everything up to this offset." The next window follows only after it: a slow viewer gets
    /// fewer, newer windows and nothing queues.
    Ack {
        /// The `end` of the last `Lines`.
        end: u64,
    },
    /// Scrollback: `count` lines from number `first`, at most 500.
    Range {
        /// First line number.
        first: u64,
        /// How many.
        count: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_colour_and_drops_everything_else() {
        let line = spans(b"\x1b[1mRead\x1b[22m a\x1b]0;title\x07\x1b[2J\tb\x1b[31mc\x1b[0m");
        let texts: Vec<_> = line.iter().map(|span| span.text.as_str()).collect();
        assert_eq!(texts, ["Read", " a]0;title\tb", "c"]);
        assert_eq!(line[0].style.flags, BOLD);
        assert_eq!(line[2].style.fg, 2);
    }
}
