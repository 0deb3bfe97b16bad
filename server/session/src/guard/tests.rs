//! The guard's decisions as tables, in a real directory with real links.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

struct Ground {
    _temp: tempfile::TempDir,
    root: PathBuf,
    policy: GuardPolicy,
}

fn ground() -> Ground {
    let temp = tempfile::tempdir().expect("a directory");
    let root = temp.path().canonicalize().expect("its path");
    for dir in ["tree/src", "tree2", "memory", "outside"] {
        fs::create_dir_all(root.join(dir)).expect("a directory");
    }
    symlink(root.join("outside"), root.join("tree/out")).expect("a link");
    symlink(root.join("outside/new.txt"), root.join("tree/dangling")).expect("a link");
    symlink("src", root.join("tree/in")).expect("a link");
    symlink("loop", root.join("tree/loop")).expect("a link");
    let policy = GuardPolicy {
        worktree: root.join("tree"),
        write: vec![root.join("tree"), root.join("memory")],
        tools: ["Bash", "Edit", "Read", "Write", "MultiEdit", "NotebookEdit", "Custom"]
            .map(str::to_owned)
            .to_vec(),
        mode: WallMode::Enforced,
        operator_hooks: vec![],
    };
    Ground { _temp: temp, root, policy }
}

fn allows(ground: &Ground, tool: &str, path: Option<&str>) -> bool {
    decide(&ground.policy, &Call { tool, path, cwd: Some(&ground.policy.worktree), command: Some("true") })
        == Decision::Allow
}

#[test]
fn writes_are_judged_by_where_they_really_go() {
    let ground = ground();
    let at = |path: &str| ground.root.join(path).display().to_string();
    let allowed = [
        at("tree/a.txt"),
        at("tree/new/deep/a.txt"),
        at("memory/NOTES.md"),
        "src/a.rs".to_owned(),
        "./src/../b.rs".to_owned(),
        "in/a.rs".to_owned(),
        "../memory/NOTES.md".to_owned(),
    ];
    for path in allowed {
        assert!(allows(&ground, "Write", Some(&path)), "{path} must be allowed");
    }
    let denied = [
        at("tree2/a.txt"),
        at("outside/a.txt"),
        at("tree/../outside/a.txt"),
        at("tree/out/a.txt"),
        at("tree/dangling"),
        at("tree/loop"),
        at("tree/in/../../outside/a"),
        at("tree/missing/../../outside/a"),
        at("memory2"),
        "/etc/passwd".to_owned(),
        "/".to_owned(),
        "../tree2/a".to_owned(),
        "~/a".to_owned(),
        "~root/a".to_owned(),
        String::new(),
        "a\0b".to_owned(),
    ];
    for path in denied {
        for tool in ["Write", "Edit", "MultiEdit", "NotebookEdit"] {
            assert!(!allows(&ground, tool, Some(&path)), "{tool} {path:?} must be denied");
        }
    }
    assert!(!allows(&ground, "Write", None));
}

#[test]
fn tools_are_allowed_by_name_and_only_known_ones() {
    let ground = ground();
    for (tool, expected) in [
        ("Bash", true),
        ("Read", true),
        ("Glob", false),
        ("mcp__x__y", false),
        ("Task", false),
        ("Custom", false),
    ] {
        assert_eq!(allows(&ground, tool, None), expected, "{tool}");
    }
}

#[test]
fn an_empty_or_relative_root_allows_nothing() {
    let mut ground = ground();
    for root in ["", "/", "tree", "."] {
        ground.policy.write = vec![PathBuf::from(root)];
        assert!(!allows(&ground, "Write", Some("/etc/passwd")), "{root:?}");
        assert!(!allows(&ground, "Write", Some("a")), "{root:?}");
    }
}

#[test]
fn a_denial_names_the_path_and_what_is_allowed() {
    let ground = ground();
    let call = Call { tool: "Write", path: Some("/etc/x"), ..Call::default() };
    let Decision::Deny(reason) = decide(&ground.policy, &call) else { panic!("it must be denied") };
    assert!(reason.starts_with("BLOCKED: write to '/etc/x' outside worktree. "), "{reason}");
    assert!(reason.contains(&ground.root.join("memory").display().to_string()), "{reason}");
}

#[test]
fn a_session_that_only_reads_the_worktree_is_told_so() {
    let mut ground = ground();
    ground.policy.write.remove(0);
    let memory = ground.root.join("memory").display().to_string();
    let rest = format!("This session reads the worktree and does not write in it. Write below: {memory}.");
    let table = [
        ("Write", "a.txt", format!("BLOCKED: write to 'a.txt' in the worktree. {rest}")),
        ("Write", "/etc/x", format!("BLOCKED: write to '/etc/x' outside worktree. {rest}")),
        ("Bash", "touch src/a", format!("BLOCKED: write to 'src/a' in the worktree. {rest}")),
        ("Bash", "git commit -m x", format!("BLOCKED: write to '.' in the worktree. {rest}")),
        ("Bash", "git branch new", format!("BLOCKED: write to '.' in the worktree. {rest}")),
        ("Bash", "git branch -D old", format!("BLOCKED: write to '.' in the worktree. {rest}")),
        ("Bash", "git tag v1", format!("BLOCKED: write to '.' in the worktree. {rest}")),
        ("Bash", "git stash", format!("BLOCKED: write to '.' in the worktree. {rest}")),
        ("Bash", "git remote add a b", format!("BLOCKED: write to '.' in the worktree. {rest}")),
    ];
    for (tool, what, expected) in table {
        let (path, command) = if tool == "Bash" { (None, Some(what)) } else { (Some(what), None) };
        let decision = decide(&ground.policy, &Call { tool, path, command, cwd: None });
        assert_eq!(decision, Decision::Deny(expected), "{what}");
    }
    ground.policy.mode = WallMode::HookOnly;
    for command in [
        "git branch",
        "git branch -a",
        "git branch -r --sort=-committerdate",
        "git branch -vv",
        "git branch --list 'a*'",
        "git branch --show-current",
        "git branch --merged main",
        "git tag",
        "git tag -l 'v*'",
        "git tag -n5",
        "git remote",
        "git remote -v",
        "git remote get-url origin",
        "git stash list",
        "git stash show -p",
        "git reflog",
        "git reflog show main",
        "git worktree list --porcelain",
        "git config --get user.name",
        "git status --short && git log -3 && git diff HEAD~1",
        "git log > /dev/null",
    ] {
        let call = Call { tool: "Bash", command: Some(command), ..Call::default() };
        assert_eq!(decide(&ground.policy, &call), Decision::Allow, "{command}");
    }
}

#[test]
fn a_refusal_by_the_kernel_is_explained_when_the_path_is_outside() {
    let ground = ground();
    let inside = ground.root.join("tree/a").display().to_string();
    let table = [
        ("sh: 1: cannot create /etc/x: Permission denied".to_owned(), Some("/etc/x")),
        ("touch: cannot touch '../outside/a': Operation not permitted".to_owned(), Some("../outside/a")),
        ("EACCES: permission denied, open '/usr/lib/y'".to_owned(), Some("/usr/lib/y")),
        (format!("cannot open {inside}: Permission denied"), None),
        ("/etc/x: No such file or directory".to_owned(), None),
        ("/bin/bash: line 1: /tmp/x: Permission denied".to_owned(), Some("/tmp/x")),
        (
            "ln: failed to create hard link 'a' => '/etc/x': Invalid cross-device link".to_owned(),
            Some("/etc/x"),
        ),
        ("(eval):1: permission denied: /etc/x".to_owned(), Some("/etc/x")),
        ("PermissionError: [Errno 13] Permission denied: '/etc/x'".to_owned(), Some("/etc/x")),
        ("mkdir: cannot create directory ‘/etc/x’: Permission denied".to_owned(), Some("/etc/x")),
        ("error: could not lock config file /etc/x: Permission denied".to_owned(), Some("/etc/x")),
        (
            "Exit code 1\ncp: cannot create regular file '/etc/x': Permission denied".to_owned(),
            Some("/etc/x"),
        ),
        ("bash: ./run.sh: Permission denied".to_owned(), None),
        ("all good".to_owned(), None),
    ];
    for (text, expected) in table {
        let value = serde_json::json!({"stdout": "", "stderr": text});
        let found = refused_path(&ground.policy, &ground.policy.worktree, &value);
        assert_eq!(found.as_deref(), expected, "{text}");
    }
}
