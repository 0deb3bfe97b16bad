//! Programs that run what their words say: shells, wrappers, interpreters.

use super::sed;
use super::shell::{Text, Walk, is_glob};
use super::writers::{Options, is_standard_input, judge, split};

/// `sh -c TEXT`, `sh FILE` or a script on standard input.
pub(super) fn shell(walk: &mut Walk<'_>, args: &[Text]) {
    let (mut inline, mut input, mut rest) = (false, false, args.iter());
    let first = loop {
        let Some(arg) = rest.next() else { return walk.unclear() };
        let text = arg.as_deref().unwrap_or_default();
        if text == "--" {
            break rest.next();
        } else if let Some(long) = text.strip_prefix("--") {
            if ["version", "help"].contains(&long) {
                return;
            }
            if ["rcfile", "init-file"].contains(&long) {
                rest.next();
            }
        } else if text.len() > 1 && text.starts_with(['-', '+']) {
            inline |= text.starts_with('-') && text.contains('c');
            input |= text.contains('s');
            let values = text.chars().filter(|letter| "oO".contains(*letter)).count();
            rest = rest.as_slice().get(values..).unwrap_or_default().iter();
        } else {
            break Some(arg);
        }
    };
    match first {
        // Its own process: where it goes, the outer shell does not.
        Some(Some(script)) if inline && !is_glob(script) => walk.aside(|walk| walk.script(script)),
        // A script in a file is a program like any other.
        Some(Some(_)) if !inline && !input && !first.is_none_or(is_standard_input) => {}
        _ => walk.unclear(),
    }
}

/// How a wrapper's own options look. A long option that is not here makes it unclear.
struct Wrapper {
    /// Letters with a value.
    short: &'static str,
    /// With a value.
    long: &'static [&'static str],
    /// Without, or with one after `=`.
    flags: &'static [&'static str],
}

fn wrapper_options(name: &str) -> Wrapper {
    let (short, long, flags): (_, &[_], &[_]) = match name {
        "env" => (
            "uCSa",
            &["unset", "chdir", "split-string", "argv0"],
            &["ignore-environment", "null", "debug", "block-signal", "default-signal", "ignore-signal"],
        ),
        "sudo" | "doas" => (
            "ugCDhpRrTtU",
            &["user", "group", "chdir", "host", "prompt", "role", "type", "close-from", "command-timeout"],
            &["non-interactive", "preserve-env", "stdin", "background", "set-home", "reset-timestamp"],
        ),
        "nice" => ("n", &["adjustment"], &[]),
        "ionice" => ("cn", &["class", "classdata"], &["ignore"]),
        "stdbuf" => ("ioe", &["input", "output", "error"], &[]),
        "timeout" => ("ks", &["kill-after", "signal"], &["preserve-status", "foreground", "verbose"]),
        "time" => ("fo", &["format", "output"], &["append", "portability", "verbose", "quiet"]),
        "setsid" => ("", &[], &["ctty", "fork", "wait"]),
        "exec" => ("a", &[], &[]),
        "xargs" => (
            "InLPdEsa",
            &["max-args", "max-procs", "delimiter", "max-chars", "arg-file", "process-slot-var"],
            &["null", "no-run-if-empty", "verbose", "exit", "open-tty", "replace", "eof", "max-lines"],
        ),
        _ => ("", &[], &[]),
    };
    Wrapper { short, long, flags }
}

/// Programs that run the command in their own arguments.
pub(super) fn wrapper(walk: &mut Walk<'_>, name: &str, args: &[Text]) {
    match name {
        // They run it in the shell itself.
        "command" | "builtin" => wrapped(walk, name, args),
        _ => walk.aside(|walk| wrapped(walk, name, args)),
    }
}

fn wrapped(walk: &mut Walk<'_>, name: &str, args: &[Text]) {
    let looks = wrapper_options(name);
    let mut rest = args;
    let mut replaced = None;
    while let [Some(arg), tail @ ..] = rest {
        let assigns = matches!(name, "env" | "sudo") && !arg.starts_with('-') && arg.contains('=');
        if let (true, Some((variable, value))) = (assigns, arg.split_once('=')) {
            walk.variables.push((variable.to_owned(), Some(value.to_owned())));
            rest = tail;
            continue;
        }
        if arg == "--" {
            rest = tail;
            break;
        }
        if !arg.starts_with('-') || arg == "-" && name != "env" {
            break;
        }
        let Some((option, value, used)) = option(&looks, arg, tail) else {
            walk.unclear();
            rest = tail;
            continue;
        };
        rest = tail.get(used..).unwrap_or_default();
        match (name, option.as_str()) {
            ("env", "C" | "chdir") | ("sudo", "D" | "chdir") => walk.change_directory(Some(&value)),
            ("env", "S" | "split-string") => return split_string(walk, &value, rest),
            ("sudo", "R" | "e" | "i") => walk.unclear(),
            ("time", "o" | "output") => walk.writes(&value),
            ("xargs", "I" | "replace") => replaced = Some(value.unwrap_or_else(|| "{}".to_owned())),
            _ => {}
        }
    }
    if name == "timeout" {
        rest = rest.get(1..).unwrap_or_default();
    }
    match (name, rest) {
        (_, []) => {}
        ("xargs", _) => xargs(walk, rest, replaced.as_deref()),
        _ => judge(walk, rest),
    }
}

/// The option that `arg` ends with or takes a value for, the value, and how many words of `tail` it uses.
fn option(looks: &Wrapper, arg: &str, tail: &[Text]) -> Option<(String, Text, usize)> {
    let next = || tail.first().cloned().flatten();
    if let Some(long) = arg.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        let known = looks.long.contains(&name);
        return match value {
            None if known => Some((name.to_owned(), next(), 1)),
            value if known || looks.flags.contains(&name) => Some((name.to_owned(), value, 0)),
            _ => None,
        };
    }
    for (at, letter) in arg.char_indices().skip(1) {
        if looks.short.contains(letter) {
            let after = &arg[at + letter.len_utf8()..];
            let used = usize::from(after.is_empty());
            let value = if after.is_empty() { next() } else { Some(after.to_owned()) };
            return Some((letter.to_string(), value, used));
        }
    }
    Some((arg.chars().skip(1).last().map(String::from).unwrap_or_default(), None, 0))
}

/// `env -S 'PROGRAM WORDS' MORE`: quotes are those of a shell, nearly.
fn split_string(walk: &mut Walk<'_>, text: &Text, more: &[Text]) {
    match text {
        Some(text) if !text.contains(['$', '\\', '`']) => walk.script(&format!("env {text}")),
        _ => walk.unclear(),
    }
    if !more.is_empty() {
        walk.unclear();
    }
}

/// Programs that write no file, whatever their words are.
const READERS: &[&str] = &[
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "cat",
    "tac",
    "nl",
    "head",
    "tail",
    "wc",
    "ls",
    "echo",
    "printf",
    "file",
    "stat",
    "du",
    "basename",
    "dirname",
    "realpath",
    "readlink",
    "cut",
    "tr",
    "fold",
    "column",
    "test",
    "true",
    "diff",
    "cmp",
    "comm",
    "cksum",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "od",
    "strings",
    "jq",
    "ps",
    "kill",
    "which",
];

/// The targets come from standard input: what is named already is judged, the rest is not known.
fn xargs(walk: &mut Walk<'_>, command: &[Text], replaced: Option<&str>) {
    let known = |arg: &Text| arg.clone().filter(|arg| replaced.is_none_or(|mark| !arg.contains(mark)));
    let words: Vec<Text> = command.iter().map(known).collect();
    let Some((Some(program), args)) = words.split_first() else { return walk.unclear() };
    let name = program.rsplit('/').next().unwrap_or(program);
    let verb = args.first().cloned().flatten();
    let reads = match name {
        "sed" => !split(args, &sed::OPTIONS).has(&["i", "in-place"]),
        // Both write in the repository only, whatever they are given.
        "git" => matches!(verb.as_deref(), Some("add" | "rm")),
        _ => READERS.contains(&name),
    };
    if !reads {
        walk.unclear();
    }
    // Where they write is their last word, and that comes from standard input too.
    let into = args.iter().flatten().any(|arg| arg.starts_with("-t") || arg.starts_with("--target"));
    if !matches!(name, "cp" | "mv" | "ln" | "install") || into || replaced.is_some() {
        judge(walk, &words);
    }
}

/// `find DIR -delete` and `find DIR -exec PROGRAM … ;`.
pub(super) fn find(walk: &mut Walk<'_>, args: &[Text]) {
    let is = |arg: &Text, names: &[&str]| arg.as_ref().is_some_and(|arg| names.contains(&arg.as_str()));
    let starts =
        args.iter().take_while(|arg| !arg.as_ref().is_some_and(|arg| arg.starts_with(['-', '(', '!'])));
    if args.iter().any(|arg| is(arg, &["-delete"])) {
        starts.for_each(|start| walk.writes(start));
    }
    for (at, arg) in args.iter().enumerate() {
        if is(arg, &["-exec", "-execdir", "-ok", "-okdir"]) {
            let command = args[at + 1..].iter().take_while(|arg| !is(arg, &[";", "+"]));
            let known = |arg: &Text| arg.clone().filter(|arg| !arg.contains("{}"));
            let command: Vec<Text> = command.map(known).collect();
            walk.aside(|walk| judge(walk, &command));
        }
        if is(arg, &["-fprint", "-fprint0", "-fprintf", "-fls"]) {
            args.get(at + 1).into_iter().for_each(|path| walk.writes(path));
        }
    }
}

/// Modules of Python that run code from their words or their input.
const RUNNING_MODULES: &[&str] =
    &["asyncio", "code", "timeit", "pdb", "trace", "profile", "cProfile", "runpy", "idlelib"];

/// Inline code is not read; `perl -i` names its files.
pub(super) fn interpreter(walk: &mut Walk<'_>, name: &str, args: &[Text]) {
    let (options, inline, asks): (_, &[_], &[_]) = match name {
        "python" => (
            Options { short: "cmWXQ", long: &["check-hash-based-pycs"] },
            &["c", "i"],
            &["V", "h", "version", "help"],
        ),
        "perl" => (Options { short: "eEIMm", long: &[] }, &["e", "E"], &["v", "V", "h", "version", "help"]),
        "ruby" => (Options { short: "eEIrC", long: &[] }, &["e"], &["v", "h", "version", "help"]),
        "php" => {
            let asks = &["v", "i", "m", "h", "version", "info", "modules", "help"];
            (Options { short: "rfdBREFSt", long: &["run", "file"] }, &["r", "B", "R", "E", "a", "run"], asks)
        }
        _ => {
            let asks = &["v", "h", "version", "help", "test", "run"];
            let long = &["eval", "print", "require", "import", "loader", "test-reporter", "run"];
            (Options { short: "epr", long }, &["e", "p", "i", "eval", "print", "interactive"], asks)
        }
    };
    // What comes after a module or a script is its own.
    let end = args.iter().position(|arg| arg.as_deref() == Some("-m")).filter(|_| name == "python");
    let own = end.map_or(args, |at| args.get(..at + 2).unwrap_or(args));
    let words = split(own, &options);
    if matches!(name, "perl" | "ruby") && words.has(&["i"]) && words.has(&["e", "E"]) {
        words.operands.iter().for_each(|path| walk.writes(path));
    }
    let module = words.value(&["m"]).filter(|_| name == "python");
    let file = words.operands.first().or_else(|| words.value(&["f", "file"]).filter(|_| name == "php"));
    let runs_known = match (module, file) {
        (Some(Some(module)), _) => !RUNNING_MODULES.contains(&module.as_str()),
        (Some(None), _) => false,
        (None, Some(file)) => !is_standard_input(file),
        (None, None) => words.has(asks),
    };
    if words.has(inline) || !runs_known {
        walk.unclear();
    }
    if let (Some(Some(module)), Some(at)) = (module, end)
        && matches!(module.as_str(), "venv" | "virtualenv")
    {
        let places = split(args.get(at + 2..).unwrap_or_default(), &Options { short: "", long: &["prompt"] });
        places.operands.iter().for_each(|place| walk.writes(place));
    }
}

/// `print > FILE` and `print | COMMAND` write; a comparison looks the same.
pub(super) fn awk(walk: &mut Walk<'_>, args: &[Text]) {
    let words =
        split(args, &Options { short: "vFfieE", long: &["file", "assign", "field-separator", "include"] });
    let file = words.value(&["f", "file", "E", "exec"]);
    if file.is_some_and(is_standard_input) {
        walk.unclear();
    }
    let inline = if file.is_some() { None } else { words.operands.first() };
    if words.value(&["i", "include"]).is_some_and(|library| library.as_deref() == Some("inplace")) {
        let files = words.operands.get(usize::from(inline.is_some())..).unwrap_or_default();
        files.iter().for_each(|file| walk.writes(file));
    }
    let texts = inline.into_iter().chain(words.value(&["e", "source"]));
    for program in texts.map(|text| text.as_deref().unwrap_or(">")) {
        if program.contains(['>', '|']) || program.contains("system") {
            walk.unclear();
        }
    }
}
