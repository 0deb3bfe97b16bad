//! Where a shell command clearly writes. Courtesy only: what is unclear here, the kernel decides.

use std::fs;
use std::path::{Path, PathBuf};

use brush_parser::ast::{
    AndOr, AssignmentName, AssignmentValue, CaseClauseCommand, Command, CommandPrefixOrSuffixItem as Item,
    CompoundCommand, CompoundList, ExtendedTestExpr, FunctionDefinition, IoFileRedirectKind,
    IoFileRedirectTarget, IoRedirect, Pipeline, SeparatorOperator, SimpleCommand, UnexpandedArithmeticExpr,
};
use brush_parser::{Parser, ParserOptions, SourceInfo};

use super::outline::{self, Outline};
use super::{git, writers};

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

/// Stand in a text for `*`, `?` and `[` that the shell replaces by names. No file has them: they are no characters.
const GLOBS: [(char, char); 3] = [('*', '\u{fdd0}'), ('?', '\u{fdd1}'), ('[', '\u{fdd2}')];

/// Whether the shell replaces a part of `text` by names of files.
pub(super) fn is_glob(text: &str) -> bool {
    text.contains(GLOBS.map(|(_, mark)| mark))
}

/// `text` with marks for its globs.
pub(super) fn mark_globs(text: &str) -> String {
    text.chars().map(|c| GLOBS.iter().find(|(sign, _)| *sign == c).map_or(c, |(_, mark)| *mark)).collect()
}

/// As it was written.
fn unmark_globs(text: &str) -> String {
    text.chars().map(|c| GLOBS.iter().find(|(_, mark)| *mark == c).map_or(c, |(sign, _)| *sign)).collect()
}

/// Whether all that is not known of `path` is a name in a known directory. Names that begin with a dot are not
/// meant by a glob that does not.
pub(super) fn is_glob_in_last_part(path: &str) -> bool {
    let (dir, last) = path.rsplit_once('/').unwrap_or(("", path));
    !is_glob(dir) && is_glob(last) && !last.starts_with('.')
}

/// Judges `command`, started in `cwd`. `is_outside` answers for an absolute path.
pub(super) fn judge(command: &str, cwd: &Path, is_outside: &dyn Fn(&Path) -> bool) -> Finding {
    let mut walk = Walk {
        cwd: Some(cwd.to_owned()),
        is_outside,
        found: Finding::default(),
        depth: 0,
        scripts: 0,
        variables: vec![],
        movers: vec![],
        moved: false,
        texts: vec![],
        assigned: false,
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
    /// Assignments before the command that is looked at, and exported ones.
    pub(super) variables: Vec<(String, Text)>,
    /// Functions that go to another directory.
    movers: Vec<String>,
    /// Something went to another directory.
    moved: bool,
    /// The scripts read so far.
    texts: Vec<String>,
    /// Something assigned variables that nobody knows.
    pub(super) assigned: bool,
}

impl Walk<'_> {
    /// Notes a path that is written to.
    pub(super) fn writes(&mut self, path: &Text) {
        let Some(path) = path else { return self.unclear() };
        if path.is_empty() || is_device(path) {
            return;
        }
        let glob = is_glob(path);
        match self.absolute(path) {
            Some(_) if glob && !is_glob_in_last_part(path) => self.unclear(),
            None => self.unclear(),
            Some(full) if (self.is_outside)(&full) => {
                self.found.outside.get_or_insert_with(|| unmark_globs(path));
            }
            Some(full) if glob && self.may_mean_link_out(&full) => self.unclear(),
            Some(_) => {}
        }
    }

    /// Whether a glob in the last part may mean a link that leads outside.
    fn may_mean_link_out(&self, path: &Path) -> bool {
        let (Some(dir), Some(last)) = (path.parent(), path.file_name().and_then(|last| last.to_str())) else {
            return true;
        };
        let mut fixed = last.split(GLOBS.map(|(_, mark)| mark));
        let (start, end) = (fixed.next().unwrap_or_default(), fixed.next_back().unwrap_or_default());
        // A class like `[ab]` ends within what follows its sign.
        let end = end.rsplit(']').next().unwrap_or_default();
        let is_link_out = |entry: &fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let may_be_meant = name.starts_with(start) && name.ends_with(end);
            may_be_meant
                && entry.file_type().is_ok_and(|kind| kind.is_symlink())
                && (self.is_outside)(&entry.path())
        };
        fs::read_dir(dir).is_ok_and(|entries| entries.flatten().any(|entry| is_link_out(&entry)))
    }

    /// Whether `path` clearly stays inside, wherever the shell is.
    pub(super) fn stays_inside(&self, path: &Text) -> bool {
        let Some(path) = path.as_deref() else { return false };
        let climbs = path.split('/').any(|part| part == "..");
        !climbs && !is_glob(path) && self.absolute(path).is_some_and(|full| !(self.is_outside)(&full))
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

    pub(super) fn has_too_many_scripts(&self) -> bool {
        self.scripts > MAX_SCRIPTS
    }

    fn absolute(&self, path: &str) -> Option<PathBuf> {
        if path.starts_with('/') { Some(path.into()) } else { Some(self.cwd.as_ref()?.join(path)) }
    }

    /// Reads and walks the text of a script.
    pub(super) fn script(&mut self, text: &str) {
        self.scripts += 1;
        if self.depth >= MAX_NESTED || self.has_too_many_scripts() || text.len() > MAX_BYTES || is_glob(text)
        {
            return self.unclear();
        }
        let followed = outline::outline(text);
        // The grammar takes both for the beginning of `$'…'`, a shell does not; and where here-documents end must
        // be sure, or commands pass for text.
        if text.contains("\\$'") || text.contains("$$'") || followed.is_none() && text.contains("<<") {
            self.unclear();
        }
        let Outline { text: bare, depth, separators } = followed.unwrap_or_else(|| Outline {
            text: text.to_owned(),
            depth: outline::deepest(text),
            separators: text.bytes().filter(|byte| b"|&;".contains(byte)).count(),
        });
        if depth > MAX_DEPTH || separators > MAX_SEPARATORS {
            return self.unclear();
        }
        let options = ParserOptions::default();
        let mut parser = Parser::new(bare.as_bytes(), &options, &SourceInfo::default());
        let Ok(program) = parser.parse_program() else { return self.unclear() };
        self.texts.push(text.to_owned());
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
            Command::Function(function) => self.function(function),
            Command::ExtendedTest(test) => self.test(&test.expr),
        }
    }

    fn function(&mut self, function: &FunctionDefinition) {
        let name = function.fname.value.as_str();
        if ["cd", "chdir", "pushd", "popd", "builtin", "command"].contains(&name) {
            self.unclear();
        }
        // It runs later, wherever the shell is then.
        let before = self.cwd.take();
        let moved = std::mem::take(&mut self.moved);
        function.body.1.iter().flat_map(|list| &list.0).for_each(|redirect| self.redirect(redirect));
        self.compound(&function.body.0);
        if self.moved {
            self.movers.push(name.to_owned());
        }
        self.moved |= moved;
        self.cwd = before;
    }

    fn test(&mut self, expr: &ExtendedTestExpr) {
        match expr {
            ExtendedTestExpr::And(left, right) | ExtendedTestExpr::Or(left, right) => {
                self.test(left);
                self.test(right);
            }
            ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => self.test(inner),
            ExtendedTestExpr::UnaryTest(_, word) => drop(self.text(word)),
            ExtendedTestExpr::BinaryTest(_, left, right) => {
                self.text(left);
                self.text(right);
            }
        }
    }

    fn case(&mut self, clause: &CaseClauseCommand) {
        self.text(&clause.value);
        for case in &clause.cases {
            case.patterns.iter().for_each(|pattern| drop(self.text(pattern)));
            case.cmd.iter().for_each(|list| self.list(list));
        }
    }

    fn compound(&mut self, compound: &CompoundCommand) {
        let before = self.cwd.clone();
        match compound {
            CompoundCommand::Arithmetic(command) => self.expanded(&command.expr.value),
            CompoundCommand::BraceGroup(group) => return self.list(&group.list),
            CompoundCommand::Subshell(shell) => {
                self.list(&shell.list);
                self.cwd = before;
                return;
            }
            CompoundCommand::ArithmeticForClause(clause) => {
                let parts: [&Option<UnexpandedArithmeticExpr>; 3] =
                    [&clause.initializer, &clause.condition, &clause.updater];
                parts.into_iter().flatten().for_each(|part| self.expanded(&part.value));
                self.list(&clause.body.list);
            }
            CompoundCommand::ForClause(clause) => {
                clause.values.iter().flatten().for_each(|word| drop(self.text(word)));
                self.list(&clause.body.list);
            }
            CompoundCommand::CaseClause(clause) => self.case(clause),
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
        // Those before a command are its own; without one, or exported, they stay.
        let exports = ["export", "declare", "typeset", "readonly"];
        if words.first().is_some_and(|name| !name.as_deref().is_some_and(|name| exports.contains(&name))) {
            self.variables.truncate(known);
        }
    }

    fn item(&mut self, item: &Item, words: &mut Vec<Text>, before: bool) {
        match item {
            Item::IoRedirect(redirect) => self.redirect(redirect),
            Item::Word(word) => words.push(self.text(word)),
            Item::AssignmentWord(assignment, word) => {
                let text = match &assignment.value {
                    AssignmentValue::Scalar(value) => self.text(value),
                    AssignmentValue::Array(items) => {
                        items.iter().flat_map(|(key, value)| key.iter().chain([value])).for_each(|word| {
                            self.text(word);
                        });
                        None
                    }
                };
                match &assignment.name {
                    AssignmentName::VariableName(name) => git::variable(self, name, &text),
                    AssignmentName::ArrayElementName(_, index) => self.expanded(index),
                }
                if let AssignmentName::VariableName(name) = &assignment.name {
                    self.variables.push((name.clone(), text));
                }
                if !before {
                    // `dd of=x` and `env A=b` look like assignments.
                    words.push(self.text(word));
                }
            }
            Item::ProcessSubstitution(_, shell) => self.aside(|walk| walk.list(&shell.list)),
        }
    }

    /// What a subshell does does not move this one.
    pub(super) fn aside(&mut self, what: impl FnOnce(&mut Self)) {
        let before = self.cwd.clone();
        what(self);
        self.cwd = before;
    }

    fn redirect(&mut self, redirect: &IoRedirect) {
        let word = match redirect {
            IoRedirect::OutputAndError(word, _) => word,
            IoRedirect::HereString(_, word) => return drop(self.text(word)),
            IoRedirect::HereDocument(_, here) if here.requires_expansion => {
                return self.expanded(&here.doc.value);
            }
            IoRedirect::HereDocument(_, _) => return,
            IoRedirect::File(_, kind, target) => match (kind, target) {
                (_, IoFileRedirectTarget::ProcessSubstitution(_, shell)) => {
                    return self.aside(|walk| walk.list(&shell.list));
                }
                (_, IoFileRedirectTarget::Fd(_)) => return,
                (
                    IoFileRedirectKind::Read | IoFileRedirectKind::DuplicateInput,
                    IoFileRedirectTarget::Filename(word) | IoFileRedirectTarget::Duplicate(word),
                ) => return drop(self.text(word)),
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
        self.moved = true;
        let to = match to {
            None => self.known("HOME"),
            Some(text) => text.clone().filter(|text| text != "-" && !is_glob(text)),
        };
        self.cwd = to.and_then(|to| self.absolute(&to)).and_then(|path| super::resolve(&path).ok());
    }

    /// The directory is not known any more.
    pub(super) fn lose_directory(&mut self) {
        self.moved = true;
        self.cwd = None;
    }

    /// Whether `name` is a function of this command that goes to another directory.
    pub(super) fn is_mover(&self, name: &str) -> bool {
        self.movers.iter().any(|mover| mover == name)
    }

    /// A variable of the session that the command leaves as it is.
    pub(super) fn known(&self, name: &str) -> Text {
        let stands = !self.assigned && !self.texts.iter().any(|text| names_otherwise(text, name));
        if !stands || !is_session_variable(name) {
            return None;
        }
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }
}

/// Variables that the runner sets and that a shell keeps.
pub(super) fn is_session_variable(name: &str) -> bool {
    ["TMPDIR", "HOME"].contains(&name) || name.starts_with("OPKIT_")
}

/// Whether `text` names the variable other than in `$NAME` and `${NAME…}`: it may assign it.
fn names_otherwise(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let before = &text[..at];
        let inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let longer = before.ends_with(inner) || text[at + name.len()..].starts_with(inner);
        !longer && !before.ends_with('$') && !before.ends_with("${")
    })
}

/// Devices that every session may write.
fn is_device(path: &str) -> bool {
    let descriptor = path.strip_prefix("/dev/fd/");
    let network = ["/dev/tcp/", "/dev/udp/"].iter().any(|dir| path.starts_with(dir));
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"].contains(&path)
        || ["/dev/stdout", "/dev/stderr"].contains(&path)
        || descriptor.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
        || network && !path.split('/').any(|part| part == "..")
}
