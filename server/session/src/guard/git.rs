//! What `git` writes, and what its settings would run.

use super::shell::{Text, Walk};
use super::writers::{self, Options, Words, split};

/// Subcommands that write nothing to the repository they look at.
const READS: &[&str] = &[
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
    "diff-index",
    "diff-files",
    "range-diff",
    "cherry",
    "check-ignore",
    "check-attr",
    "whatchanged",
    "show-branch",
    "var",
    "name-rev",
    "version",
    "help",
    "show-ref",
    "count-objects",
    "archive",
];

/// Options with which `git branch` and `git tag` list.
const LISTS: &[&str] =
    &["l", "list", "contains", "no-contains", "merged", "no-merged", "points-at", "show-current"];
/// Options that change how they list.
const LOOKS: &[&str] = &[
    "a",
    "all",
    "r",
    "remotes",
    "v",
    "vv",
    "verbose",
    "n",
    "i",
    "ignore-case",
    "sort",
    "format",
    "color",
    "no-color",
    "column",
    "no-column",
    "abbrev",
    "no-abbrev",
    "omit-empty",
];

/// Whether the command only says what is there.
fn reads(command: &str, args: &[Text]) -> bool {
    let long = &["sort", "format", "contains", "no-contains", "merged", "no-merged", "points-at"];
    let words = split(args, &Options { short: "", long });
    let verb = words.operands.first().map(|verb| verb.as_deref().unwrap_or("?"));
    match command {
        "branch" | "tag" => {
            let digits = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
            let known = |name: &str| LISTS.contains(&name) || LOOKS.contains(&name) || digits(name);
            let lists = words.has(LISTS) || command == "tag" && words.has(&["n"]);
            words.options.iter().all(|(name, _)| known(name)) && (lists || verb.is_none())
        }
        "remote" => matches!(verb, None | Some("show" | "get-url")),
        "stash" => matches!(verb, Some("list" | "show")),
        "reflog" => !matches!(verb, Some("expire" | "delete" | "drop" | "write" | "?")),
        "worktree" | "sparse-checkout" => verb == Some("list"),
        "notes" => matches!(verb, None | Some("list" | "show")),
        "submodule" => matches!(verb, None | Some("status" | "summary")),
        "symbolic-ref" => words.operands.len() == 1 && !words.has(&["d", "delete"]),
        "config" => {
            let gets = |arg: &String| arg.starts_with("--get") || arg == "-l" || arg == "--list";
            args.iter().flatten().any(gets) || matches!(verb, Some("get" | "list"))
        }
        _ => READS.contains(&command),
    }
}

pub(super) fn judge(walk: &mut Walk<'_>, args: &[Text]) {
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
            "-c" => {
                setting(walk, &value());
                (None, 2)
            }
            "--config-env" => {
                walk.unclear();
                (None, 2)
            }
            "--namespace" => (None, 2),
            _ => match arg.split_once('=') {
                Some(("--git-dir" | "--work-tree", path)) => {
                    (Some(Walk::below(&dir, &Some(path.to_owned()))), 1)
                }
                Some(("--exec-path" | "--config-env", _)) => {
                    walk.unclear();
                    (None, 1)
                }
                _ if arg.starts_with('-') => (None, 1),
                _ => break,
            },
        };
        places.extend(place);
        rest = rest.get(used..).unwrap_or_default();
    }
    places.push(dir.clone());
    let Some((command, args)) = rest.split_first() else { return };
    let Some(command) = command else { return walk.unclear() };
    let reads = reads(command, args);
    if !reads {
        places.iter().for_each(|place| walk.writes(place));
    }
    output(walk, command, args, &dir);
    runs(walk, command, args);
    if command == "config" && !reads {
        return config(walk, args, &dir);
    }
    let words = split(args, &Options { short: "bcou", long: &["branch", "origin", "depth", "reference"] });
    let target = match (command.as_str(), words.operands.first()) {
        ("clone", _) => words.operands.get(1),
        ("init", first) => first,
        ("worktree", Some(Some(verb))) if verb == "add" || verb == "remove" => words.operands.get(1),
        ("bundle", Some(Some(verb))) if verb == "create" => words.operands.get(1),
        _ => None,
    };
    target.into_iter().for_each(|path| walk.writes(&Walk::below(&dir, path)));
}

/// `--output FILE` and its like.
fn output(walk: &mut Walk<'_>, command: &str, args: &[Text], dir: &Text) {
    let files = matches!(command, "archive" | "format-patch");
    let short = if files { "o" } else { "" };
    let words = split(args, &Options { short, long: &["output", "output-directory", "format", "prefix"] });
    for (name, value) in &words.options {
        let named = "output".starts_with(name.as_str()) && name.len() > 1 || name == "output-directory";
        if named || files && name == "o" {
            walk.writes(&Walk::below(dir, value));
        }
    }
}

/// Commands in the words of a command.
fn runs(walk: &mut Walk<'_>, command: &str, args: &[Text]) {
    let long = &["exec", "upload-pack", "receive-pack", "extcmd", "config"];
    let short = match command {
        "rebase" => "xXsCO",
        "clone" => "cubo",
        _ => "",
    };
    let words = split(args, &Options { short, long });
    for (name, value) in &words.options {
        match (command, name.as_str()) {
            ("rebase", "x" | "exec") => match value {
                Some(script) => walk.aside(|walk| walk.script(script)),
                None => walk.unclear(),
            },
            ("clone", "c" | "config") => setting(walk, value),
            ("clone", "u")
            | ("grep", "O" | "open-files-in-pager")
            | ("difftool", "x")
            | (_, "exec" | "upload-pack" | "receive-pack" | "extcmd") => walk.unclear(),
            _ => {}
        }
    }
    match (command, args) {
        ("filter-branch", _) => walk.unclear(),
        ("bisect", [Some(verb), rest @ ..]) if verb == "run" => {
            walk.aside(|walk| writers::judge(walk, rest));
        }
        ("submodule", [Some(verb), rest @ ..]) if verb == "foreach" => {
            let rest = rest.iter().filter(|arg| arg.as_deref() != Some("--recursive"));
            match rest.cloned().collect::<Option<Vec<String>>>() {
                Some(parts) => walk.aside(|walk| {
                    walk.lose_directory();
                    walk.script(&parts.join(" "));
                }),
                None => walk.unclear(),
            }
        }
        _ => {}
    }
}

/// `git config` that writes.
fn config(walk: &mut Walk<'_>, args: &[Text], dir: &Text) {
    let Words { mut operands, options } = split(args, &Options { short: "f", long: &["file", "type"] });
    let has = |name: &str| options.iter().any(|(option, _)| option == name);
    if operands.first().is_some_and(|verb| verb.as_deref() == Some("set")) {
        operands.remove(0);
    }
    if let [Some(key), value] = operands.as_slice() {
        let assigned = value.as_ref().map(|value| format!("{key}={value}"));
        setting(walk, &assigned.or_else(|| is_harmless(key, None).then(|| key.clone())));
    }
    if has("system") {
        walk.writes(&Some("/etc/gitconfig".to_owned()));
    }
    if has("global") {
        let home = walk.variable("HOME").map(|home| Walk::below(&home, &Some(".gitconfig".to_owned())));
        walk.variable("GIT_CONFIG_GLOBAL").or(home).iter().for_each(|path| walk.writes(path));
    }
    let files = options.iter().filter(|(name, _)| name == "f" || name == "file");
    files.for_each(|(_, path)| walk.writes(&Walk::below(dir, path)));
}

/// `KEY=VALUE`: many settings name programs.
fn setting(walk: &mut Walk<'_>, text: &Text) {
    let clear = text.as_deref().is_some_and(|text| match text.split_once('=') {
        Some((key, value)) => is_harmless(key, Some(value)),
        None => is_harmless(text, Some("true")),
    });
    if !clear {
        walk.unclear();
    }
}

/// Sections in which no setting names a program or a file.
const HARMLESS_SECTIONS: &[&str] = &[
    "user",
    "author",
    "committer",
    "color",
    "advice",
    "log",
    "status",
    "column",
    "push",
    "pull",
    "fetch",
    "rebase",
    "rerere",
    "branch",
    "blame",
    "feature",
    "index",
    "pack",
    "versionsort",
];

const HARMLESS: &[&str] = &[
    "core.quotepath",
    "core.autocrlf",
    "core.safecrlf",
    "core.eol",
    "core.abbrev",
    "core.filemode",
    "core.ignorecase",
    "core.longpaths",
    "core.symlinks",
    "core.bare",
    "core.compression",
    "core.commentchar",
    "core.excludesfile",
    "commit.gpgsign",
    "commit.verbose",
    "commit.cleanup",
    "tag.gpgsign",
    "tag.sort",
    "safe.directory",
    "init.defaultbranch",
    "diff.renames",
    "diff.renamelimit",
    "diff.noprefix",
    "diff.mnemonicprefix",
    "diff.algorithm",
    "diff.context",
    "diff.colormoved",
    "merge.conflictstyle",
    "merge.ff",
    "merge.renamelimit",
    "gc.auto",
    "gc.autodetach",
    "format.pretty",
    "grep.linenumber",
    "submodule.recurse",
    "protocol.version",
    "protocol.file.allow",
    "http.postbuffer",
    "http.version",
];

/// Whether a setting runs nothing. Without a value: whatever it is.
fn is_harmless(key: &str, value: Option<&str>) -> bool {
    let key = key.to_ascii_lowercase();
    let section = key.split('.').next().unwrap_or_default();
    match key.as_str() {
        "core.hookspath" => value == Some("/dev/null"),
        "core.fsmonitor" => matches!(value, Some("false" | "0" | "")),
        "core.pager" | "core.editor" | "sequence.editor" => value.is_some_and(is_harmless_program),
        "credential.helper" | "core.attributesfile" => value == Some(""),
        _ if section == "remote" => {
            [".url", ".pushurl", ".fetch", ".prune"].iter().any(|end| key.ends_with(end))
        }
        _ if section == "pager" => matches!(value, Some("true" | "false" | "cat")),
        key => HARMLESS_SECTIONS.contains(&section) || HARMLESS.contains(&key),
    }
}

/// Programs that show something or do nothing.
fn is_harmless_program(command: &str) -> bool {
    let plain =
        ["", "cat", "true", ":", "false", "less", "more", "vi", "vim", "nano", "/bin/true", "/bin/cat"];
    plain.contains(&command) || ["less -R", "less -F", "less -FRX", "less -FR"].contains(&command)
}

/// Variables that name what git, pagers and shells run.
pub(super) fn variable(walk: &mut Walk<'_>, name: &str, value: &Text) {
    let names_program = [
        "GIT_PAGER",
        "PAGER",
        "MANPAGER",
        "GIT_EDITOR",
        "EDITOR",
        "VISUAL",
        "GIT_SEQUENCE_EDITOR",
        "GIT_SSH_COMMAND",
        "GIT_SSH",
        "GIT_PROXY_COMMAND",
        "GIT_EXTERNAL_DIFF",
        "GIT_ASKPASS",
        "SSH_ASKPASS",
        "GIT_EXEC_PATH",
        "BASH_ENV",
        "PROMPT_COMMAND",
        "LD_PRELOAD",
    ];
    let settings = ["GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_KEY_"];
    let runs = names_program.contains(&name) && !value.as_deref().is_some_and(is_harmless_program);
    if runs || settings.iter().any(|setting| name.starts_with(setting)) {
        walk.unclear();
    }
}
