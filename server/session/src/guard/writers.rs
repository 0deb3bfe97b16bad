//! The usual programs that write, and which of their words name what is written.

use super::shell::{Text, Walk};

/// Options with a value, in short form (letters) and long form.
struct Options {
    short: &'static str,
    long: &'static [&'static str],
}

const NONE: Options = Options { short: "", long: &[] };

/// Words of a command line, taken apart.
#[derive(Default)]
struct Words {
    operands: Vec<Text>,
    /// Name (without dashes) and value.
    options: Vec<(String, Text)>,
}

impl Words {
    fn value(&self, names: &[&str]) -> Option<&Text> {
        self.options.iter().rev().find(|(name, _)| names.contains(&name.as_str())).map(|(_, value)| value)
    }

    fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(&name.as_str()))
    }
}

/// Takes arguments apart; a word that is not known counts as an operand.
fn split(args: &[Text], with_value: &Options) -> Words {
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
    let Some(name) = name else { return walk.unclear() };
    let name = name.rsplit('/').next().unwrap_or(name);
    match name {
        "cd" | "chdir" => walk.change_directory(split(args, &NONE).operands.first()),
        "pushd" | "popd" => walk.lose_directory(),
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" => shell(walk, args),
        "eval" => match args.iter().cloned().collect::<Option<Vec<String>>>() {
            Some(parts) => walk.script(&parts.join(" ")),
            None => walk.unclear(),
        },
        "command" | "builtin" | "exec" | "nohup" | "setsid" | "time" | "sudo" | "doas" | "env" | "nice"
        | "ionice" | "stdbuf" | "timeout" | "busybox" | "xargs" => wrapper(walk, name, args),
        "find" => find(walk, args),
        "git" => git(walk, args),
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
        "python" | "python3" | "perl" | "ruby" | "node" | "php" | "awk" | "gawk" | "mawk" => {
            interpreter(walk, name, args);
        }
        _ => plain(walk, name, args),
    }
}

/// Programs whose operands name what is written.
fn plain(walk: &mut Walk<'_>, name: &str, args: &[Text]) {
    let options = match name {
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
        "chmod" | "chown" | "chgrp" => Options { short: "", long: &["reference"] },
        "sed" => Options { short: "efl", long: &["expression", "file", "line-length"] },
        "split" => Options { short: "abClnt", long: &["bytes", "lines", "number"] },
        "sort" => Options { short: "oktST", long: &["output", "key"] },
        "unzip" => Options { short: "dx", long: &[] },
        _ => return,
    };
    let words = split(args, &options);
    let operands = words.operands.as_slice();
    let targets: &[Text] = match name {
        "cp" | "ln" | "rsync" | "install" | "mv" => {
            if let Some(target) = words.value(&["t", "target-directory"]) {
                walk.writes(target);
            }
            let all = name == "mv" || name == "install" && words.has(&["d", "directory"]);
            let into = words.has(&["t", "target-directory"]);
            match operands {
                _ if all => operands,
                [_, .., last] if !into && !is_remote(last) => std::slice::from_ref(last),
                _ => &[],
            }
        }
        "mknod" => operands.get(..1).unwrap_or_default(),
        "split" => operands.get(1..).unwrap_or_default(),
        "chmod" | "chown" | "chgrp" => {
            operands.get(usize::from(!words.has(&["reference"]))..).unwrap_or_default()
        }
        "sed" if !words.has(&["i", "in-place"]) => &[],
        "sed" => {
            let script_is_option = words.has(&["e", "expression", "f", "file"]);
            operands.get(usize::from(!script_is_option)..).unwrap_or_default()
        }
        "sort" => words.value(&["o", "output"]).map_or(&[], std::slice::from_ref),
        "unzip" => words.value(&["d"]).map_or(&[], std::slice::from_ref),
        _ => operands,
    };
    targets.iter().for_each(|target| walk.writes(target));
}

fn is_remote(path: &Text) -> bool {
    path.as_ref().is_some_and(|path| path.split('/').next().is_some_and(|host| host.contains(':')))
}

/// `sh -c TEXT`, `sh FILE` or a script on standard input.
fn shell(walk: &mut Walk<'_>, args: &[Text]) {
    let words = split(args, &Options { short: "oO", long: &["rcfile", "init-file"] });
    match (words.has(&["c"]), words.operands.first()) {
        (true, Some(Some(script))) => walk.script(script),
        // A script in a file is a program like any other.
        (false, Some(Some(_))) => {}
        _ => walk.unclear(),
    }
}

/// Programs that run the command in their own arguments.
fn wrapper(walk: &mut Walk<'_>, name: &str, args: &[Text]) {
    let with_value = match name {
        "env" => "uCS",
        "sudo" | "doas" => "ugCDhpRrTt",
        "nice" => "n",
        "ionice" => "cn",
        "stdbuf" => "ioe",
        "timeout" => "ks",
        "xargs" => "IniLPdEsa",
        "exec" => "a",
        _ => "",
    };
    let mut rest = args;
    while let [Some(arg), tail @ ..] = rest {
        let assigns = matches!(name, "env" | "sudo") && !arg.starts_with('-') && arg.contains('=');
        if !assigns && (!arg.starts_with('-') || arg == "-" && name != "env") {
            break;
        }
        let takes = arg.len() == 2 && arg[1..].chars().all(|letter| with_value.contains(letter));
        rest = tail.get(usize::from(takes)..).unwrap_or_default();
    }
    if name == "timeout" {
        rest = rest.get(1..).unwrap_or_default();
    }
    match (name, rest) {
        (_, []) => {}
        // The targets come from standard input: what is named already is judged, the rest is not known.
        ("xargs", [Some(program), ..]) => {
            let writes =
                ["rm", "touch", "tee", "cp", "mv", "mkdir", "sh", "bash", "truncate", "ln", "install"];
            let moves = matches!(program.as_str(), "cp" | "mv" | "ln" | "install");
            if !moves {
                judge(walk, rest);
            }
            if writes.contains(&program.as_str()) {
                walk.unclear();
            }
        }
        _ => judge(walk, rest),
    }
}

/// `find DIR -delete` and `find DIR -exec PROGRAM … ;`.
fn find(walk: &mut Walk<'_>, args: &[Text]) {
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
            judge(walk, &command.map(known).collect::<Vec<_>>());
        }
        if is(arg, &["-fprint", "-fprint0", "-fprintf", "-fls"]) {
            args.get(at + 1).into_iter().for_each(|path| walk.writes(path));
        }
    }
}

/// Subcommands that write nothing to the repository they look at.
const GIT_READS: &[&str] = &[
    "log",
    "show",
    "diff",
    "status",
    "rev-parse",
    "rev-list",
    "cat-file",
    "ls-files",
    "ls-tree",
    "ls-remote",
    "describe",
    "blame",
    "grep",
    "shortlog",
    "for-each-ref",
    "merge-base",
    "diff-tree",
    "name-rev",
    "version",
    "help",
    "show-ref",
    "count-objects",
    "archive",
];

fn git(walk: &mut Walk<'_>, args: &[Text]) {
    let here = || Some(".".to_owned());
    let (mut dir, mut places, mut rest) = (here(), Vec::new(), args);
    for name in ["GIT_DIR", "GIT_WORK_TREE"] {
        places.extend(walk.variable(name));
    }
    while let [Some(arg), tail @ ..] = rest {
        let value = || tail.first().cloned().flatten();
        let (place, used) = match arg.as_str() {
            "-C" => {
                dir = Walk::below(&dir, &value());
                (None, 2)
            }
            "--git-dir" | "--work-tree" => (Some(Walk::below(&dir, &value())), 2),
            "-c" | "--namespace" | "--config-env" => (None, 2),
            _ => match arg.split_once('=') {
                Some(("--git-dir" | "--work-tree", path)) => {
                    (Some(Walk::below(&dir, &Some(path.to_owned()))), 1)
                }
                _ if arg.starts_with('-') => (None, 1),
                _ => break,
            },
        };
        places.extend(place);
        rest = rest.get(used..).unwrap_or_default();
    }
    places.push(dir.clone());
    let Some((Some(command), args)) = rest.split_first() else { return };
    let args: Vec<Text> = args.to_vec();
    let reads_config = command == "config"
        && args.iter().flatten().any(|arg| arg.starts_with("--get") || arg == "-l" || arg == "--list");
    if !GIT_READS.contains(&command.as_str()) && !reads_config {
        places.iter().for_each(|place| walk.writes(place));
    }
    let words = split(&args, &Options { short: "bcou", long: &["branch", "origin", "depth", "reference"] });
    let target = match command.as_str() {
        "clone" => words.operands.get(1),
        "init" => words.operands.first(),
        "worktree" if matches!(words.operands.first(), Some(Some(verb)) if verb == "add" || verb == "remove") => {
            words.operands.get(1)
        }
        "config" if words.has(&["system"]) && !reads_config => {
            return walk.writes(&Some("/etc/gitconfig".to_owned()));
        }
        "config" if words.has(&["global"]) && !reads_config => {
            let home = walk.variable("HOME").map(|home| Walk::below(&home, &Some(".gitconfig".to_owned())));
            return walk.variable("GIT_CONFIG_GLOBAL").or(home).iter().for_each(|path| walk.writes(path));
        }
        _ => None,
    };
    target.into_iter().for_each(|path| walk.writes(&Walk::below(&dir, path)));
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

/// Inline code is not read; `perl -i` names its files.
fn interpreter(walk: &mut Walk<'_>, name: &str, args: &[Text]) {
    let words = split(args, &Options { short: "eEcrfvFmMIW", long: &["eval", "print", "run", "command"] });
    let edits = matches!(name, "perl" | "ruby") && words.has(&["i"]);
    if edits && words.has(&["e", "E"]) {
        words.operands.iter().for_each(|path| walk.writes(path));
    }
    let inline = words.has(&["e", "E", "c", "r", "eval", "print", "command"]) || words.operands.is_empty();
    let asks = words.has(&["V", "version", "h", "help"]);
    if matches!(name, "awk" | "gawk" | "mawk") {
        let program = words.operands.first().and_then(Option::as_deref).unwrap_or(">");
        // `print > FILE` and `print | COMMAND` write; a comparison looks the same.
        if program.contains(['>', '|']) || program.contains("system") {
            walk.unclear();
        }
    } else if inline && !asks {
        walk.unclear();
    }
}
