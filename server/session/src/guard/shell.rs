//! Where a shell command clearly writes. Courtesy only: what is unclear here, the kernel decides.

use std::path::{Path, PathBuf};

use brush_parser::ast::{
    AndOr, AssignmentName, AssignmentValue, Command, CommandPrefixOrSuffixItem as Item, CompoundCommand,
    CompoundList, IoFileRedirectKind, IoFileRedirectTarget, IoRedirect, Pipeline, SeparatorOperator,
    SimpleCommand, Word,
};
use brush_parser::word::WordPiece;
use brush_parser::{Parser, ParserOptions, SourceInfo};

use super::writers;

/// Longer commands are not read: the grammar must never cost a call its time.
const MAX_BYTES: usize = 64 << 10;
/// More open brackets than this are not read: the parser recurses.
const MAX_DEPTH: usize = 40;
/// More separators than this are not read: a chain of pipes costs more than its length.
const MAX_SEPARATORS: usize = 1000;
/// Shells inside shells.
const MAX_NESTED: u32 = 4;
/// Scripts and substitutions in one command.
const MAX_SCRIPTS: u32 = 100;

/// What the grammar found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Finding {
    /// The first path outside that is clearly written to.
    pub(super) outside: Option<String>,
    /// Something may write, and it cannot be said where.
    pub(super) unclear: bool,
}

/// A word of a command line: its text, or none when only a running shell knows it.
pub(super) type Text = Option<String>;

/// Judges `command`, started in `cwd`. `is_outside` answers for an absolute path.
pub(super) fn judge(command: &str, cwd: &Path, is_outside: &dyn Fn(&Path) -> bool) -> Finding {
    let mut walk = Walk {
        cwd: Some(cwd.to_owned()),
        is_outside,
        found: Finding::default(),
        depth: 0,
        scripts: 0,
        variables: vec![],
    };
    walk.script(command);
    walk.found
}

/// One walk over a command, in the order in which a shell would run it.
pub(super) struct Walk<'a> {
    /// None once a `cd` was not clear.
    cwd: Option<PathBuf>,
    is_outside: &'a dyn Fn(&Path) -> bool,
    found: Finding,
    depth: u32,
    scripts: u32,
    /// Assignments before the command that is looked at.
    variables: Vec<(String, Text)>,
}

impl Walk<'_> {
    /// Notes a path that is written to.
    pub(super) fn writes(&mut self, path: &Text) {
        let Some(path) = path else { return self.unclear() };
        if path.is_empty() || is_device(path) {
            return;
        }
        match self.absolute(path) {
            None => self.unclear(),
            Some(full) if (self.is_outside)(&full) => {
                self.found.outside.get_or_insert_with(|| path.clone());
            }
            Some(_) => {}
        }
    }

    /// Notes that something is written nobody knows where.
    pub(super) fn unclear(&mut self) {
        self.found.unclear = true;
    }

    /// A variable set right before the command, or in the environment.
    pub(super) fn variable(&self, name: &str) -> Option<Text> {
        let own = self.variables.iter().rev().find(|(known, _)| known == name).map(|(_, text)| text.clone());
        own.or_else(|| std::env::var(name).ok().map(Some))
    }

    /// `path` below `base`, as `git -C` and `tar -C` read it.
    pub(super) fn below(base: &Text, path: &Text) -> Text {
        let (base, path) = (base.as_deref()?, path.as_deref()?);
        let base = if base == "." { "" } else { base };
        Some(Path::new(base).join(path).to_string_lossy().into_owned())
    }

    fn absolute(&self, path: &str) -> Option<PathBuf> {
        if path.starts_with('/') { Some(path.into()) } else { Some(self.cwd.as_ref()?.join(path)) }
    }

    /// Reads and walks the text of a script.
    pub(super) fn script(&mut self, text: &str) {
        self.scripts += 1;
        let separators = || text.bytes().filter(|byte| b"|&;".contains(byte)).count();
        if self.depth >= MAX_NESTED
            || self.scripts > MAX_SCRIPTS
            || text.len() > MAX_BYTES
            || separators() > MAX_SEPARATORS
            || deepest(text) > MAX_DEPTH
        {
            return self.unclear();
        }
        let options = ParserOptions::default();
        let mut parser = Parser::new(text.as_bytes(), &options, &SourceInfo::default());
        let Ok(program) = parser.parse_program() else { return self.unclear() };
        self.depth += 1;
        program.complete_commands.iter().for_each(|list| self.list(list));
        self.depth -= 1;
    }

    fn list(&mut self, list: &CompoundList) {
        for item in &list.0 {
            let before = self.cwd.clone();
            self.pipeline(&item.0.first);
            for next in &item.0.additional {
                let (AndOr::And(pipeline) | AndOr::Or(pipeline)) = next;
                self.pipeline(pipeline);
            }
            if matches!(item.1, SeparatorOperator::Async) {
                self.cwd = before;
            }
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline) {
        let before = self.cwd.clone();
        pipeline.seq.iter().for_each(|command| self.command(command));
        if pipeline.seq.len() > 1 {
            self.cwd = before;
        }
    }

    fn command(&mut self, command: &Command) {
        match command {
            Command::Simple(simple) => self.simple(simple),
            Command::Compound(compound, redirects) => {
                redirects.iter().flat_map(|list| &list.0).for_each(|redirect| self.redirect(redirect));
                self.compound(compound);
            }
            Command::Function(function) => {
                // It runs later, wherever the shell is then.
                let before = self.cwd.take();
                function.body.1.iter().flat_map(|list| &list.0).for_each(|redirect| self.redirect(redirect));
                self.compound(&function.body.0);
                self.cwd = before;
            }
            Command::ExtendedTest(_) => {}
        }
    }

    fn compound(&mut self, compound: &CompoundCommand) {
        let before = self.cwd.clone();
        match compound {
            CompoundCommand::Arithmetic(_) => {}
            CompoundCommand::BraceGroup(group) => return self.list(&group.list),
            CompoundCommand::Subshell(shell) => {
                self.list(&shell.list);
                self.cwd = before;
                return;
            }
            CompoundCommand::ArithmeticForClause(clause) => self.list(&clause.body.list),
            CompoundCommand::ForClause(clause) => {
                clause.values.iter().flatten().for_each(|word| drop(self.text(word)));
                self.list(&clause.body.list);
            }
            CompoundCommand::CaseClause(clause) => {
                clause.cases.iter().filter_map(|case| case.cmd.as_ref()).for_each(|list| self.list(list));
            }
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition);
                self.list(&clause.then);
                for other in clause.elses.iter().flatten() {
                    other.condition.iter().for_each(|list| self.list(list));
                    self.list(&other.body);
                }
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                self.list(&clause.0);
                self.list(&clause.1.list);
            }
        }
        // Whether the branch with the `cd` ran is not known.
        if self.cwd != before {
            self.cwd = None;
        }
    }

    fn simple(&mut self, simple: &SimpleCommand) {
        let known = self.variables.len();
        let mut words: Vec<Text> = Vec::new();
        let prefix = simple.prefix.iter().flat_map(|prefix| &prefix.0);
        prefix.for_each(|item| self.item(item, &mut words, true));
        simple.word_or_name.iter().for_each(|word| words.push(self.text(word)));
        let suffix = simple.suffix.iter().flat_map(|suffix| &suffix.0);
        suffix.for_each(|item| self.item(item, &mut words, false));
        if !words.is_empty() {
            writers::judge(self, &words);
        }
        self.variables.truncate(known);
    }

    fn item(&mut self, item: &Item, words: &mut Vec<Text>, before: bool) {
        match item {
            Item::IoRedirect(redirect) => self.redirect(redirect),
            Item::Word(word) => words.push(self.text(word)),
            Item::AssignmentWord(assignment, word) => {
                let text = match &assignment.value {
                    AssignmentValue::Scalar(value) => self.text(value),
                    AssignmentValue::Array(_) => None,
                };
                if let (true, AssignmentName::VariableName(name)) = (before, &assignment.name) {
                    self.variables.push((name.clone(), text));
                } else {
                    // `dd of=x` and `env A=b` look like assignments.
                    words.push(self.text(word));
                }
            }
            Item::ProcessSubstitution(_, shell) => self.aside(|walk| walk.list(&shell.list)),
        }
    }

    /// What a subshell does does not move this one.
    fn aside(&mut self, what: impl FnOnce(&mut Self)) {
        let before = self.cwd.clone();
        what(self);
        self.cwd = before;
    }

    fn redirect(&mut self, redirect: &IoRedirect) {
        let word = match redirect {
            IoRedirect::OutputAndError(word, _) => word,
            IoRedirect::HereString(_, word) => return drop(self.text(word)),
            IoRedirect::HereDocument(_, _) => return,
            IoRedirect::File(_, kind, target) => match (kind, target) {
                (_, IoFileRedirectTarget::ProcessSubstitution(_, shell)) => {
                    return self.aside(|walk| walk.list(&shell.list));
                }
                (IoFileRedirectKind::Read | IoFileRedirectKind::DuplicateInput, _)
                | (_, IoFileRedirectTarget::Fd(_)) => return,
                (
                    IoFileRedirectKind::DuplicateOutput,
                    IoFileRedirectTarget::Filename(word) | IoFileRedirectTarget::Duplicate(word),
                ) if word.value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => return,
                (_, IoFileRedirectTarget::Filename(word) | IoFileRedirectTarget::Duplicate(word)) => word,
            },
        };
        let text = self.text(word);
        self.writes(&text);
    }

    /// `cd`: where the next command runs.
    pub(super) fn change_directory(&mut self, to: Option<&Text>) {
        let home = || std::env::var("HOME").ok();
        let to = match to {
            None => home(),
            Some(text) => text.clone().filter(|text| text != "-"),
        };
        self.cwd = to.and_then(|to| self.absolute(&to)).and_then(|path| super::resolve(&path).ok());
    }

    /// The directory is not known any more.
    pub(super) fn lose_directory(&mut self) {
        self.cwd = None;
    }

    /// The word as the program will see it. Commands inside it are judged on the way.
    fn text(&mut self, word: &Word) -> Text {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(&byte) || byte >= 0x80;
        if word.value.bytes().all(plain) {
            return Some(word.value.clone());
        }
        let pieces = brush_parser::word::parse(&word.value, &ParserOptions::default());
        let Ok(pieces) = pieces else {
            self.unclear();
            return None;
        };
        let mut text = Some(String::new());
        pieces.iter().for_each(|piece| self.piece(&piece.piece, false, &mut text));
        text
    }

    fn piece(&mut self, piece: &WordPiece, quoted: bool, text: &mut Text) {
        let add = match piece {
            WordPiece::Text(part) if quoted || !part.contains(['*', '?', '[', '{']) => Some(part.clone()),
            WordPiece::SingleQuotedText(part) => Some(part.clone()),
            WordPiece::AnsiCQuotedText(part) if !part.contains('\\') => Some(part.clone()),
            WordPiece::EscapeSequence(part) => {
                Some(part.strip_prefix('\\').unwrap_or(part).trim_start_matches('\n').to_owned())
            }
            WordPiece::TildePrefix(user) if user.is_empty() => std::env::var("HOME").ok(),
            WordPiece::DoubleQuotedSequence(parts) | WordPiece::GettextDoubleQuotedSequence(parts) => {
                return parts.iter().for_each(|part| self.piece(&part.piece, true, text));
            }
            WordPiece::CommandSubstitution(script) | WordPiece::BackquotedCommandSubstitution(script) => {
                self.aside(|walk| walk.script(script));
                None
            }
            WordPiece::Text(_)
            | WordPiece::AnsiCQuotedText(_)
            | WordPiece::TildePrefix(_)
            | WordPiece::ParameterExpansion(_)
            | WordPiece::ArithmeticExpression(_) => None,
        };
        match (add, text.as_mut()) {
            (Some(add), Some(text)) => text.push_str(&add),
            _ => *text = None,
        }
    }
}

/// How deep brackets and compound commands may be nested in `text`, at most.
fn deepest(text: &str) -> usize {
    let (mut open, mut deepest) = (0usize, 0usize);
    for part in text.split_inclusive(|c: char| c.is_whitespace() || "(){};`\"".contains(c)) {
        let (word, end) = match part.char_indices().next_back() {
            Some((at, end)) => (&part[..at], end),
            None => continue,
        };
        match word {
            "if" | "while" | "until" | "for" | "case" | "select" | "!" | "time" | "coproc" => open += 1,
            "fi" | "done" | "esac" => open = open.saturating_sub(1),
            _ => {}
        }
        match end {
            '(' | '{' | '`' => open += 1,
            ')' | '}' => open = open.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest
}

/// Devices that every session may write.
fn is_device(path: &str) -> bool {
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"].contains(&path)
        || ["/dev/stdout", "/dev/stderr"].contains(&path)
        || ["/dev/fd/", "/dev/tcp/", "/dev/udp/"].iter().any(|dir| path.starts_with(dir))
}
