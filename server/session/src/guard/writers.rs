//! The usual programs that write, and which of their words name what is written.

use super::shell::{Text, Walk, is_glob, is_session_variable};
use super::{git, runners, sed};

/// Options with a value, in short form (letters) and long form.
pub(super) struct Options {
    pub(super) short: &'static str,
    pub(super) long: &'static [&'static str],
}

pub(super) const NONE: Options = Options { short: "", long: &[] };

/// Words of a command line, taken apart.
#[derive(Default)]
pub(super) struct Words {
    pub(super) operands: Vec<Text>,
    /// Name (without dashes) and value.
    pub(super) options: Vec<(String, Text)>,
}

impl Words {
    pub(super) fn value(&self, names: &[&str]) -> Option<&Text> {
        self.options.iter().rev().find(|(name, _)| names.contains(&name.as_str())).map(|(_, value)| value)
    }

    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(&name.as_str()))
    }
}

/// Takes arguments apart; a word that is not known counts as an operand.
pub(super) fn split(args: &[Text], with_value: &Options) -> Words {
    let mut words = Words::default();
    let mut rest = args.iter();
    let mut only_operands = false;
    while let Some(arg) = rest.next() {
        let text = arg.as_deref().unwrap_or_default();
        if only_operands || !text.starts_with('-') || text == "-" {
            words.operands.push(arg.clone());
        } else if text == "--" {
            only_operands = true;
        } else if let Some(long) = text.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None if with_value.long.contains(&long) => (long, rest.next().cloned().flatten()),
                None => (long, None),
            };
            words.options.push((name.to_owned(), value));
        } else {
            for (at, letter) in text[1..].char_indices() {
                let after = &text[1 + at + letter.len_utf8()..];
                if with_value.short.contains(letter) {
                    let value = if after.is_empty() {
                        rest.next().cloned().flatten()
                    } else {
                        Some(after.to_owned())
                    };
                    words.options.push((letter.to_string(), value));
                    break;
                }
                words.options.push((letter.to_string(), Some(after.to_owned())));
            }
        }
    }
    words
}

/// Judges one command: the program's name and its arguments.
pub(super) fn judge(walk: &mut Walk<'_>, words: &[Text]) {
    let Some((name, args)) = words.split_first() else { return };
    let Some(name) = name.as_deref().filter(|name| !is_glob(name)) else { return walk.unclear() };
    if walk.is_mover(name) {
        walk.lose_directory();
    }
    let name = name.rsplit('/').next().unwrap_or(name);
    // python3.12 and the like.
    let family = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    match name {
        "cd" | "chdir" => walk.change_directory(split(args, &NONE).operands.first()),
        "pushd" | "popd" => walk.lose_directory(),
        "." | "source" | "trap" | "alias" => builtin(walk, name, args),
        "export" | "declare" | "typeset" | "local" | "readonly" | "read" | "unset" | "printf" | "mapfile"
        | "readarray" | "getopts" => assigns(walk, name, args),
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" => runners::shell(walk, args),
        "eval" => match args.iter().cloned().collect::<Option<Vec<String>>>() {
            Some(parts) => walk.script(&parts.join(" ")),
            None => {
                walk.assigned = true;
                walk.lose_directory();
                walk.unclear();
            }
        },
        "command" | "builtin" | "exec" | "nohup" | "setsid" | "time" | "sudo" | "doas" | "env" | "nice"
        | "ionice" | "stdbuf" | "timeout" | "busybox" | "coproc" | "xargs" => {
            runners::wrapper(walk, name, args);
        }
        "find" => runners::find(walk, args),
        "git" => git::judge(walk, args),
        "sed" => sed::judge(walk, args),
        "tar" => tar(walk, args),
        "dd" => {
            let outputs = args.iter().flatten().filter_map(|arg| arg.strip_prefix("of="));
            outputs.for_each(|path| walk.writes(&Some(path.to_owned())));
            if args.contains(&None) {
                walk.unclear();
            }
        }
        "curl" | "wget" => download(walk, name, args),
        "patch" => patch(walk, args),
        "awk" | "gawk" | "mawk" => runners::awk(walk, args),
        _ if ["python", "perl", "ruby", "node", "nodejs", "php"].contains(&family) => {
            runners::interpreter(walk, family, args);
        }
        _ => plain(walk, name, args),
    }
}

/// What a shell does itself and what is a script or changes how later words are read.
fn builtin(walk: &mut Walk<'_>, name: &str, args: &[Text]) {
    let operands = split(args, &NONE).operands;
    match (name, operands.first()) {
        // The file is a program like any other, but it can move this shell.
        ("." | "source", file) => {
            if file.is_none_or(is_standard_input) {
                walk.unclear();
            }
            walk.assigned = true;
            walk.lose_directory();
        }
        // It runs wherever the shell is then.
        ("trap", Some(Some(script))) if script != "-" => walk.aside(|walk| {
            walk.lose_directory();
            walk.script(script);
        }),
        ("trap", Some(None)) => walk.unclear(),
        ("alias", _) if args.iter().any(|arg| arg.as_ref().is_none_or(|arg| arg.contains('='))) => {
            walk.unclear();
        }
        _ => {}
    }
}

/// Builtins that assign the variables they name.
fn assigns(walk: &mut Walk<'_>, name: &str, args: &[Text]) {
    if name == "printf" && !matches!(args.first(), Some(Some(option)) if option.starts_with("-v")) {
        return;
    }
    let names = |arg: &Text| {
        arg.as_deref().is_none_or(|arg| {
            let name = arg.strip_prefix("-v").unwrap_or(arg);
            is_session_variable(name.split(['=', '+', '[']).next().unwrap_or(name))
        })
    };
    walk.assigned |= args.iter().any(names);
}

/// Whether a script of this name comes from standard input.
pub(super) fn is_standard_input(name: &Text) -> bool {
    name.as_deref().is_none_or(|name| {
        name == "-"
            || name == "/dev/stdin"
            || name.starts_with("/dev/fd/")
            || name.starts_with("/proc/") && name.contains("/fd/")
    })
}

/// Options with a value of programs whose operands name what is written. None: another program.
fn plain_options(name: &str) -> Option<Options> {
    Some(match name {
        "tee" | "rm" | "rmdir" | "unlink" => NONE,
        "mkdir" | "mkfifo" | "mknod" => Options { short: "m", long: &["mode"] },
        "touch" => Options { short: "drt", long: &["date", "reference"] },
        "truncate" => Options { short: "sr", long: &["size", "reference"] },
        "shred" => Options { short: "ns", long: &["iterations", "size"] },
        "cp" | "mv" | "ln" => Options { short: "tS", long: &["target-directory", "suffix"] },
        "install" => {
            Options { short: "tSmog", long: &["target-directory", "suffix", "mode", "owner", "group"] }
        }
        "rsync" => Options { short: "efBTM", long: &["rsh", "exclude", "include", "filter", "files-from"] },
        "scp" => Options { short: "cDFiJloPSX", long: &[] },
        "chmod" | "chown" | "chgrp" => Options { short: "", long: &["reference"] },
        "split" => Options { short: "abClnt", long: &["bytes", "lines", "number"] },
        "sort" => Options { short: "oktST", long: &["output", "key"] },
        "unzip" => Options { short: "dx", long: &[] },
        _ => return None,
    })
}

/// Programs whose operands name what is written.
fn plain(walk: &mut Walk<'_>, name: &str, args: &[Text]) {
    let Some(options) = plain_options(name) else { return };
    let words = split(args, &options);
    let operands = words.operands.as_slice();
    let targets: &[Text] = match name {
        "cp" | "ln" | "rsync" | "scp" | "install" | "mv" => {
            if let Some(target) = words.value(&["t", "target-directory"]) {
                walk.writes(target);
            }
            let all = name == "mv" || name == "install" && words.has(&["d", "directory"]);
            let into = words.has(&["t", "target-directory"]);
            links(walk, name, &words);
            match operands {
                _ if all => operands,
                // It may stand for two words.
                [None] => operands,
                [_, .., last] if !into && !is_remote(name, last) => std::slice::from_ref(last),
                _ => &[],
            }
        }
        "mknod" => operands.get(..1).unwrap_or_default(),
        "split" => operands.get(1..).unwrap_or_default(),
        "chmod" if args.iter().flatten().any(|arg| is_mode(arg)) => operands,
        "chmod" | "chown" | "chgrp" => {
            operands.get(usize::from(!words.has(&["reference"]))..).unwrap_or_default()
        }
        "sort" => words.value(&["o", "output"]).map_or(&[], std::slice::from_ref),
        "unzip" => words.value(&["d"]).map_or(&[], std::slice::from_ref),
        _ => operands,
    };
    targets.iter().for_each(|target| walk.writes(target));
}

/// A link that leads outside would make later paths mean something else.
fn links(walk: &mut Walk<'_>, name: &str, words: &Words) {
    let makes_links = name == "ln" || name == "cp" && words.has(&["s", "symbolic-link", "l", "link"]);
    let into = words.has(&["t", "target-directory"]);
    let (sources, place): (&[Text], Option<&Text>) = match words.operands.as_slice() {
        operands if into => (operands, words.value(&["t", "target-directory"])),
        [only] => (std::slice::from_ref(only), None),
        [sources @ .., last] => (sources, Some(last)),
        [] => return,
    };
    // A relative link starts where it lies, not where the shell is.
    let lies_inside = |source: &Text| {
        place.is_none_or(|place| {
            let dir =
                place.as_deref().map(|place| place.rsplit_once('/').map_or("", |(dir, _)| dir).to_owned());
            walk.stays_inside(&Walk::below(&dir, source))
                || source.as_deref().is_some_and(|it| it.starts_with('/'))
        })
    };
    if makes_links && !sources.iter().all(|source| walk.stays_inside(source) && lies_inside(source)) {
        walk.unclear();
    }
}

/// `chmod -x FILE`: an option that is the mode.
fn is_mode(arg: &str) -> bool {
    let letters = arg.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    letters.is_some_and(|letters| letters.contains(|c: char| "rwxXstugoa,+=01234567".contains(c)))
}

fn is_remote(name: &str, path: &Text) -> bool {
    let has_host = |path: &str| path.split('/').next().is_some_and(|host| host.contains(':'));
    matches!(name, "rsync" | "scp") && path.as_deref().is_some_and(has_host)
}

fn tar(walk: &mut Walk<'_>, args: &[Text]) {
    let mut args = args.to_vec();
    // The old form: the first word holds the letters, without a dash.
    if let Some(Some(first)) = args.first_mut()
        && !first.starts_with('-')
    {
        first.insert(0, '-');
    }
    let words = split(&args, &Options { short: "fCTXbKN", long: &["file", "directory", "exclude"] });
    if words.has(&["x", "extract", "get"]) {
        walk.writes(words.value(&["C", "directory"]).unwrap_or(&Some(".".to_owned())));
    } else if words.has(&["c", "create", "r", "append", "u", "update"])
        && let Some(file) = words.value(&["f", "file"])
        && file.as_deref() != Some("-")
    {
        walk.writes(file);
    }
}

fn download(walk: &mut Walk<'_>, name: &str, args: &[Text]) {
    let here = Some(".".to_owned());
    let (options, file, dir) = match name {
        "curl" => (
            Options {
                short: "oHdXuAebcmTFKDwx",
                long: &["output", "output-dir", "header", "data", "request"],
            },
            ["o", "output"],
            ["output-dir", "output-dir"],
        ),
        _ => (
            Options { short: "OPoaUtTi", long: &["output-document", "directory-prefix", "output-file"] },
            ["O", "output-document"],
            ["P", "directory-prefix"],
        ),
    };
    let words = split(args, &options);
    let base = words.value(&dir).unwrap_or(&here).clone();
    match words.value(&file) {
        Some(path) if path.as_deref() == Some("-") => {}
        Some(path) => walk.writes(&Walk::below(&base, path)),
        None if name == "wget" || words.has(&["O", "remote-name"]) => walk.writes(&base),
        None => {}
    }
    if name == "wget" {
        words.value(&["o", "output-file", "a"]).into_iter().for_each(|path| walk.writes(path));
    }
}

fn patch(walk: &mut Walk<'_>, args: &[Text]) {
    let words =
        split(args, &Options { short: "dopiFDrBzY", long: &["directory", "output", "input", "strip"] });
    let here = Some(".".to_owned());
    let base = words.value(&["d", "directory"]).unwrap_or(&here).clone();
    walk.writes(&base);
    let named = words.value(&["o", "output"]).or_else(|| words.operands.first());
    named.into_iter().for_each(|path| walk.writes(&Walk::below(&base, path)));
}
