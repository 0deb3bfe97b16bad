//! A look over a command before the grammar reads it: how deep it is, and what its here-documents hold.
//!
//! The grammar recurses, so it must not see text that is too deep; and it loses the end of a here-document inside
//! `$(…)` when its tag is quoted or its text has brackets. Whatever this look is not sure of it does not touch.

use std::ops::Range;

/// Here-documents inside the substitutions of here-documents.
const MAX_LEVEL: usize = 6;
/// Open quotes and brackets; more is not followed.
const MAX_OPEN: usize = 200;

/// What a look found.
pub(super) struct Outline {
    /// The text. Here-documents inside substitutions are here-strings of what the shell expands in them.
    pub(super) text: String,
    /// How deep brackets and compound commands are nested, at most.
    pub(super) depth: usize,
    /// Signs between commands.
    pub(super) separators: usize,
}

/// None when the text cannot be followed.
pub(super) fn outline(text: &str) -> Option<Outline> {
    let mut scan = Scan::new(text, Frame::Code, 0);
    scan.run()?;
    Some(Outline { text: scan.render(0..text.len()), depth: scan.deepest, separators: scan.separators })
}

/// The expansions (`$(…)`, `` `…` ``, `${…}`, `$((…))`) in text that a shell reads like a here-document. None when
/// it cannot be followed.
pub(super) fn expansions(text: &str) -> Option<Vec<String>> {
    expansions_at(text, 0)
}

fn expansions_at(text: &str, level: usize) -> Option<Vec<String>> {
    if !text.contains(['$', '`']) {
        return Some(vec![]);
    }
    let mut scan = Scan::new(text, Frame::Document, level);
    scan.run()?;
    let parts = std::mem::take(&mut scan.parts);
    Some(parts.into_iter().map(|part| scan.render(part)).collect())
}

/// The same bound, for text that cannot be followed: every bracket and every word counts, wherever it stands.
pub(super) fn deepest(text: &str) -> usize {
    let (mut open, mut deepest, mut ticked) = (0usize, 0usize, false);
    for part in text.split_inclusive(|c: char| c.is_whitespace() || "(){};`\"".contains(c)) {
        let (word, end) = match part.char_indices().next_back() {
            Some((at, end)) => (&part[..at], end),
            None => continue,
        };
        match word {
            _ if OPENING.contains(&word) || UNENDED.contains(&word) => open += 1,
            "fi" | "done" | "esac" => open = open.saturating_sub(1),
            _ => {}
        }
        match end {
            '`' if ticked => open = open.saturating_sub(1),
            '(' | '{' | '`' => open += 1,
            ')' | '}' => open = open.saturating_sub(1),
            _ => {}
        }
        ticked ^= end == '`';
        deepest = deepest.max(open);
    }
    deepest
}

/// Words that `fi`, `done` or `esac` end.
const OPENING: &[&str] = &["if", "while", "until", "for", "case", "select"];
/// Words that the end of the command ends.
const UNENDED: &[&str] = &["!", "time", "coproc"];

/// What the text stands in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frame {
    Code,
    /// `(…)`
    Paren,
    /// `$(…)`
    Substitution,
    /// `$((…))` or `((…))`, with so many brackets of its own.
    Arithmetic(usize),
    /// `${…}`
    Braces,
    /// `"…"`
    Double,
    /// A here-document's text.
    Document,
}

/// A here-document that was announced and not yet read.
struct Tag {
    name: String,
    /// `<<-`: tabs before its lines do not count.
    dash: bool,
    quoted: bool,
    /// Inside `$(…)`.
    nested: bool,
    /// From `<<` to the end of the tag.
    place: Range<usize>,
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
    stack: Vec<Frame>,
    level: usize,
    pending: Vec<Tag>,
    edits: Vec<(Range<usize>, String)>,
    /// Expansions right below the bottom.
    parts: Vec<Range<usize>>,
    part_start: usize,
    /// Where the current word began, while it is plain.
    word: Option<usize>,
    /// The next word is a command's name.
    at_command: bool,
    open: usize,
    unended: usize,
    deepest: usize,
    separators: usize,
}

impl<'a> Scan<'a> {
    fn new(text: &'a str, bottom: Frame, level: usize) -> Self {
        Scan {
            text,
            at: 0,
            stack: vec![bottom],
            level,
            pending: vec![],
            edits: vec![],
            parts: vec![],
            part_start: 0,
            word: None,
            at_command: true,
            open: 0,
            unended: 0,
            deepest: 0,
            separators: 0,
        }
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn run(&mut self) -> Option<()> {
        while let Some(byte) = self.byte(0) {
            match self.stack.last()? {
                Frame::Code | Frame::Paren | Frame::Substitution => self.code(byte)?,
                Frame::Arithmetic(inner) => self.arithmetic(byte, *inner)?,
                frame @ (Frame::Braces | Frame::Double | Frame::Document) => self.quoted(byte, *frame)?,
            }
            let inner = match self.stack.last() {
                Some(Frame::Arithmetic(inner)) => *inner,
                _ => 0,
            };
            let depth = self.stack.len() - 1 + inner + self.open + self.unended;
            self.deepest = self.deepest.max(depth);
            if self.stack.len() + inner > MAX_OPEN {
                return None;
            }
        }
        self.end_word()?;
        (self.stack.len() == 1 && self.pending.is_empty()).then_some(())
    }

    /// Text with its edits.
    fn render(&mut self, range: Range<usize>) -> String {
        self.edits.sort_by_key(|(place, _)| place.start);
        let (mut text, mut from) = (String::new(), range.start);
        for (place, new) in &self.edits {
            if place.start >= from && place.end <= range.end {
                text.push_str(&self.text[from..place.start]);
                text.push_str(new);
                from = place.end;
            }
        }
        text.push_str(&self.text[from..range.end]);
        text
    }

    fn push(&mut self, frame: Frame, bytes: usize) {
        if self.stack.len() == 1 {
            self.part_start = self.at;
        }
        self.stack.push(frame);
        self.at += bytes;
        if matches!(frame, Frame::Paren | Frame::Substitution) {
            self.at_command = true;
            self.word = None;
        }
    }

    fn pop(&mut self, bytes: usize) {
        self.stack.pop();
        self.at += bytes;
        self.end_part();
    }

    /// After something that stood right in the bottom's text.
    fn end_part(&mut self) {
        if self.stack == [Frame::Document] {
            self.parts.push(self.part_start..self.at);
        }
    }

    fn code(&mut self, byte: u8) -> Option<()> {
        match byte {
            b'\\' => {
                self.spoil_word();
                self.at += 2;
            }
            b'\'' => {
                self.spoil_word();
                self.skip_to(b'\'', false)?;
            }
            b'$' if self.byte(1) == Some(b'\'') => {
                self.spoil_word();
                self.at += 1;
                self.skip_to(b'\'', true)?;
            }
            b'"' => {
                self.spoil_word();
                self.push(Frame::Double, 1);
            }
            b'`' => {
                self.spoil_word();
                self.backticks()?;
            }
            b'$' => {
                self.spoil_word();
                self.dollar();
            }
            b'#' if self.word.is_none() && self.is_word_start() => {
                self.at += self.text[self.at..].find('\n').unwrap_or(self.text.len() - self.at);
            }
            b' ' | b'\t' | b'\r' => {
                self.end_word()?;
                self.at += 1;
            }
            b'\n' => {
                self.end_word()?;
                (self.at_command, self.unended) = (true, 0);
                self.at += 1;
                self.documents()?;
            }
            b';' | b'&' | b'|' => {
                self.end_word()?;
                self.at_command = true;
                self.unended = if byte == b';' { 0 } else { self.unended };
                self.separators += 1;
                self.at += 1;
            }
            b'(' | b')' => self.bracket(byte)?,
            b'<' if self.byte(1) == Some(b'<') => self.announce()?,
            b'<' | b'>' => {
                self.end_word()?;
                self.at += 1;
            }
            _ => {
                self.word = self.word.or_else(|| self.is_word_start().then_some(self.at));
                self.at += 1;
            }
        }
        Some(())
    }

    fn bracket(&mut self, byte: u8) -> Option<()> {
        if byte == b'(' {
            // A pattern like `@(a|b)`: the grammar reads what is in it in its own way.
            if self.at > 0 && b"@!?+*".contains(&self.text.as_bytes()[self.at - 1]) {
                return None;
            }
            self.end_word()?;
            match self.byte(1) {
                Some(b'(') => self.push(Frame::Arithmetic(0), 2),
                _ => self.push(Frame::Paren, 1),
            }
            return Some(());
        }
        self.end_word()?;
        if self.stack.len() == 1 {
            // The end of a pattern of `case`.
            self.at += 1;
        } else {
            let substitution = self.stack.last() == Some(&Frame::Substitution);
            if substitution && self.pending.iter().any(|tag| tag.nested) {
                return None;
            }
            self.pop(1);
        }
        self.at_command = true;
        Some(())
    }

    fn arithmetic(&mut self, byte: u8, inner: usize) -> Option<()> {
        match byte {
            b'(' => self.set_inner(inner + 1),
            b')' if inner > 0 => self.set_inner(inner - 1),
            b')' if self.byte(1) == Some(b')') => self.pop(2),
            b')' | b'\'' => return None,
            b'"' => self.push(Frame::Double, 1),
            b'`' => self.backticks()?,
            b'$' => self.dollar(),
            b'\\' => self.at += 2,
            b'\n' if !self.pending.is_empty() => return None,
            _ => self.at += 1,
        }
        Some(())
    }

    fn set_inner(&mut self, inner: usize) {
        self.stack.pop();
        self.stack.push(Frame::Arithmetic(inner));
        self.at += 1;
    }

    fn quoted(&mut self, byte: u8, frame: Frame) -> Option<()> {
        match (byte, frame) {
            (b'\\', _) => self.at += 2,
            (b'$', _) => self.dollar(),
            (b'`', _) => {
                self.part_start = if self.stack.len() == 1 { self.at } else { self.part_start };
                self.backticks()?;
                self.end_part();
            }
            (b'"', Frame::Double) | (b'}', Frame::Braces) => self.pop(1),
            (b'"', Frame::Braces) => self.push(Frame::Double, 1),
            // Whether it quotes there depends on what the braces stand in.
            (b'\'', Frame::Braces) => return None,
            (b'\n', _) if !self.pending.is_empty() => return None,
            _ => self.at += 1,
        }
        Some(())
    }

    fn dollar(&mut self) {
        match (self.byte(1), self.byte(2)) {
            (Some(b'('), Some(b'(')) => self.push(Frame::Arithmetic(0), 3),
            (Some(b'('), _) => self.push(Frame::Substitution, 2),
            (Some(b'{'), _) => self.push(Frame::Braces, 2),
            (Some(b'$'), _) => self.at += 2,
            _ => self.at += 1,
        }
    }

    /// Past the end of a quotation that starts here.
    fn skip_to(&mut self, end: u8, escapes: bool) -> Option<()> {
        let start = self.at;
        self.at += 1;
        while self.byte(0)? != end {
            self.at += if escapes && self.byte(0) == Some(b'\\') { 2 } else { 1 };
        }
        self.at += 1;
        (self.pending.is_empty() || !self.text.get(start..self.at)?.contains('\n')).then_some(())
    }

    fn backticks(&mut self) -> Option<()> {
        self.deepest = self.deepest.max(self.stack.len() + self.open);
        self.skip_to(b'`', true)
    }

    fn is_word_start(&self) -> bool {
        self.at == 0 || b" \t\r\n;&|()<>".contains(&self.text.as_bytes()[self.at - 1])
    }

    /// The word has quoted parts, so it is no keyword.
    fn spoil_word(&mut self) {
        self.word = None;
        self.at_command = false;
    }

    fn end_word(&mut self) -> Option<()> {
        let Some(start) = self.word.take() else { return Some(()) };
        let word = &self.text[start..self.at];
        let first = self.at_command;
        match word {
            // The brackets of its patterns have no partner.
            "case" if self.stack != [Frame::Code] => return None,
            _ if OPENING.contains(&word) => self.open += 1,
            _ if UNENDED.contains(&word) => self.unended += 1,
            "{" => self.open += 1,
            "fi" | "done" | "esac" | "}" if first => self.open = self.open.saturating_sub(1),
            _ => {}
        }
        let goes_on = ["if", "while", "until", "then", "do", "else", "elif", "!", "time", "coproc", "{"];
        self.at_command = first && (goes_on.contains(&word) || word.contains('='));
        Some(())
    }

    /// `<<TAG`: its text begins in the next line.
    fn announce(&mut self) -> Option<()> {
        self.end_word()?;
        if self.byte(2) == Some(b'<') {
            self.at += 3;
            return Some(());
        }
        let start = self.at;
        let rest = &self.text[start + 2..];
        let dash = rest.starts_with('-');
        let word = rest[usize::from(dash)..].trim_start_matches([' ', '\t']);
        let mut length =
            word.find(|c: char| c.is_whitespace() || "|&;()<>".contains(c)).unwrap_or(word.len());
        let mut tag = &word[..length];
        let mut quoted = true;
        if let Some(inner) = word.strip_prefix('\'').or_else(|| word.strip_prefix('"')) {
            let end = inner.find(&word[..1])?;
            (tag, length) = (&inner[..end], end + 2);
        } else if let Some(inner) = tag.strip_prefix('\\') {
            tag = inner;
        } else {
            quoted = false;
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        let ends = word[length..].chars().next().is_none_or(|c| c.is_whitespace() || "|&;()<>".contains(c));
        if tag.is_empty() || !tag.chars().all(is_plain) || !ends {
            return None;
        }
        self.at = self.text.len() - word.len() + length;
        let nested = self.stack.contains(&Frame::Substitution);
        self.pending.push(Tag { name: tag.to_owned(), dash, quoted, nested, place: start..self.at });
        Some(())
    }

    /// The texts of all that was announced in the line that has just ended.
    fn documents(&mut self) -> Option<()> {
        for tag in std::mem::take(&mut self.pending) {
            let start = self.at;
            let body = self.document(&tag)?;
            if !tag.nested {
                continue;
            }
            let mut parts = vec![];
            if !tag.quoted {
                if self.level >= MAX_LEVEL {
                    return None;
                }
                parts = expansions_at(&self.text[body], self.level + 1)?;
            }
            self.edits.push((tag.place, format!("<<<\"{}\"", parts.join(" "))));
            self.edits.push((start..self.at, String::new()));
        }
        Some(())
    }

    /// Goes past the tag's line; the text before it.
    fn document(&mut self, tag: &Tag) -> Option<Range<usize>> {
        let start = self.at;
        // Lines that a backslash joins to one.
        let mut joined = String::new();
        loop {
            let line_start = self.at;
            let rest = &self.text[line_start..];
            let (line, used) = match rest.find('\n') {
                Some(end) => (&rest[..end], end + 1),
                None if rest.is_empty() => return None,
                None => (rest, rest.len()),
            };
            let line = if tag.dash { line.trim_start_matches('\t') } else { line };
            self.at += used;
            if line == tag.name && joined.is_empty() {
                return Some(start..line_start);
            }
            let slashes = line.len() - line.trim_end_matches('\\').len();
            let goes_on = !tag.quoted && slashes % 2 == 1;
            joined.push_str(if goes_on { &line[..line.len() - 1] } else { line });
            // Shells do not agree on these: a tag made of joined lines, and `TAG)` inside a substitution.
            let doubtful = line == tag.name || !goes_on && joined == tag.name;
            if doubtful || tag.nested && line.starts_with(&tag.name) {
                return None;
            }
            if !goes_on {
                joined.clear();
            }
        }
    }
}
