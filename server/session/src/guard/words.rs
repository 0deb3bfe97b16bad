//! The words of a command, as the program will see them.

use brush_parser::ParserOptions;
use brush_parser::ast::Word;
use brush_parser::word::{Parameter, ParameterExpr, WordPiece, WordPieceWithSource};

use super::outline;
use super::shell::{Text, Walk, is_glob, is_glob_in_last_part, mark_globs};

impl Walk<'_> {
    /// The word as the program will see it. Commands inside it are judged on the way.
    pub(super) fn text(&mut self, word: &Word) -> Text {
        self.text_of(&word.value)
    }

    fn text_of(&mut self, word: &str) -> Text {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(&byte) || byte >= 0x80;
        // `[` alone is the program.
        if word.bytes().all(plain) || word == "[" {
            return Some(word.to_owned());
        }
        let Ok(pieces) = brush_parser::word::parse(word, &ParserOptions::default()) else {
            self.unclear();
            return None;
        };
        let mut text = Some(String::new());
        self.pieces(word, &pieces, false, &mut text);
        text.filter(|text| !is_glob(text) || is_glob_in_last_part(text))
    }

    /// Judges what a shell runs while it expands `source` as it expands a here-document.
    pub(super) fn expanded(&mut self, source: &str) {
        match outline::expansions(source) {
            None => self.unclear(),
            Some(parts) => {
                let runs = |part: &&String| part.contains(['`', '(']);
                for part in parts.iter().filter(runs) {
                    // It is unclear by then.
                    if self.has_too_many_scripts() {
                        return;
                    }
                    self.text_of(part);
                }
            }
        }
    }

    fn pieces(&mut self, source: &str, pieces: &[WordPieceWithSource], quoted: bool, text: &mut Text) {
        let mut dollar = false;
        for WordPieceWithSource { piece, start_index, end_index } in pieces {
            if let WordPiece::Text(part) = piece {
                // The grammar takes a substitution that it cannot read for text.
                if dollar && part.starts_with(['(', '{']) || part.contains('`') {
                    self.unclear();
                }
                dollar = part.ends_with('$');
            } else {
                dollar = false;
            }
            let own = source.get(*start_index..*end_index).unwrap_or_default();
            self.piece(source, own, piece, quoted, text);
        }
    }

    fn piece(&mut self, source: &str, own: &str, piece: &WordPiece, quoted: bool, text: &mut Text) {
        let add = match piece {
            WordPiece::Text(part) if quoted => Some(part.clone()),
            WordPiece::Text(part) if !part.contains('(') && !expands_braces(part) => Some(mark_globs(part)),
            WordPiece::SingleQuotedText(part) => Some(part.clone()),
            WordPiece::AnsiCQuotedText(part) if !part.contains('\\') => Some(part.clone()),
            WordPiece::EscapeSequence(part) => {
                Some(part.strip_prefix('\\').unwrap_or(part).trim_start_matches('\n').to_owned())
            }
            WordPiece::TildePrefix(user) if user.is_empty() => self.known("HOME"),
            WordPiece::DoubleQuotedSequence(parts) | WordPiece::GettextDoubleQuotedSequence(parts) => {
                return self.pieces(source, parts, true, text);
            }
            WordPiece::CommandSubstitution(script) | WordPiece::BackquotedCommandSubstitution(script) => {
                self.aside(|walk| walk.script(script));
                None
            }
            WordPiece::ParameterExpansion(expr) => {
                // Less the sign in front, or the same expansion would be found again.
                self.expanded(own.trim_start_matches('$'));
                if own.contains("<(") || own.contains(">(") {
                    self.unclear();
                }
                self.parameter(expr, quoted)
            }
            WordPiece::ArithmeticExpression(expr) => {
                self.expanded(&expr.value);
                None
            }
            WordPiece::Text(_) | WordPiece::AnsiCQuotedText(_) | WordPiece::TildePrefix(_) => None,
        };
        match (add, text.as_mut()) {
            (Some(add), Some(text)) => text.push_str(&add),
            _ => *text = None,
        }
    }

    /// The value of a variable of the session. Without quotes a shell would take it apart at blanks.
    fn parameter(&self, expr: &ParameterExpr, quoted: bool) -> Text {
        let (ParameterExpr::Parameter { parameter, indirect: false }
        | ParameterExpr::UseDefaultValues { parameter, indirect: false, .. }) = expr
        else {
            return None;
        };
        let Parameter::Named(name) = parameter else { return None };
        let splits = |value: &String| value.contains(|c: char| c.is_whitespace() || "*?[".contains(c));
        self.known(name).filter(|value| quoted || !splits(value))
    }
}

/// `{a,b}` and `{1..3}`, perhaps with other pieces of the word between; `{}` and `@{u}` stay as they are.
fn expands_braces(part: &str) -> bool {
    let count = |sign: char| part.matches(sign).count();
    part.contains('{') && (part.contains(',') || part.contains("..") || count('{') != count('}'))
}
