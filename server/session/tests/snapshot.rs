//! `opkit-session snapshot` against real git: what would be lost with a worktree is in it, whatever its index says.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A checkout with three committed files, and scratch beside it.
struct Tree(TempDir);

impl Tree {
    fn new() -> Tree {
        let tree = Tree(tempfile::tempdir().expect("a step of the test"));
        fs::create_dir_all(tree.0.path().join("scratch")).expect("a step of the test");
        fs::create_dir_all(tree.0.path().join("work")).expect("a step of the test");
        tree.git(&["init", "-q", "-b", "obj/1"]);
        tree.write(".gitignore", "*.log\n");
        tree.write("kept", "kept\n");
        tree.write("changed", "before\n");
        tree.write("deep/er", "deep\n");
        tree.commit("base");
        tree
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join("work").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a step of the test")).expect("a step of the test");
        fs::write(path, text).expect("a step of the test");
    }

    fn command(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.path("")).stdin(Stdio::null());
        for (name, value) in [("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")] {
            command.env(name, value);
        }
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "t").env(format!("GIT_{role}_EMAIL"), "t@opkit.invalid");
        }
        command
    }

    /// Runs git; a failure is the test's unless it is expected.
    fn try_git(&self, args: &[&str]) -> Output {
        self.command(Path::new("git"), args).output().expect("a step of the test")
    }

    fn git(&self, args: &[&str]) -> String {
        let output = self.try_git(args);
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("a step of the test")
    }

    fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-qm", message]);
    }

    /// Takes a snapshot; gives what it said, after checking that the worktree's own index is as it was.
    fn snapshot(&self) -> String {
        let index = self.path(".git/index");
        let read = || index.is_file().then(|| fs::read(&index).expect("a step of the test"));
        let before = read();
        let output = self
            .command(Path::new(env!("CARGO_BIN_EXE_opkit-session")), &["snapshot", "git"])
            .env("OPKIT_SCRATCH", self.0.path().join("scratch"))
            .env("OPKIT_SESSION", "s1")
            .output()
            .expect("a step of the test");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert_eq!(read(), before, "the worktree's index is not the snapshot's");
        said
    }

    /// A file of the last snapshot.
    fn snapped(&self, name: &str) -> Option<String> {
        let output = self.try_git(&["show", &format!("refs/opkit/rescue:{name}")]);
        output.status.success().then(|| String::from_utf8(output.stdout).expect("a step of the test"))
    }
}

#[test]
fn changes_and_new_files_are_kept_and_a_clean_tree_makes_nothing() {
    let tree = Tree::new();
    tree.snapshot();
    assert!(!tree.try_git(&["rev-parse", "-q", "--verify", "refs/opkit/rescue"]).status.success());
    tree.write("changed", "after\n");
    tree.write("new", "new\n");
    tree.write("noise.log", "ignored\n");
    fs::remove_file(tree.path("deep/er")).expect("a step of the test");
    tree.snapshot();
    assert_eq!(tree.snapped("changed").as_deref(), Some("after\n"));
    assert_eq!(tree.snapped("new").as_deref(), Some("new\n"));
    assert_eq!(tree.snapped("kept").as_deref(), Some("kept\n"));
    assert_eq!((tree.snapped("deep/er"), tree.snapped("noise.log")), (None, None));
}

#[test]
fn marks_that_hide_a_change_from_git_hide_nothing() {
    let tree = Tree::new();
    tree.git(&["update-index", "--assume-unchanged", "changed"]);
    tree.git(&["update-index", "--skip-worktree", "deep/er"]);
    tree.write("changed", "hidden\n");
    tree.write("deep/er", "hidden too\n");
    tree.snapshot();
    assert_eq!(tree.snapped("changed").as_deref(), Some("hidden\n"));
    assert_eq!(tree.snapped("deep/er").as_deref(), Some("hidden too\n"));
}

#[test]
fn what_was_added_by_force_or_taken_out_of_the_index_is_kept() {
    let tree = Tree::new();
    tree.write("forced.log", "wanted\n");
    tree.git(&["add", "-f", "forced.log"]);
    tree.git(&["rm", "-q", "--cached", "kept", "deep/er"]);
    // Ignored and not in the index: only HEAD still knows it.
    tree.write(".gitignore", "*.log\nkept\n");
    tree.write("kept", "kept, and changed\n");
    // Behind a link nothing belongs to the tree.
    fs::rename(tree.path("deep"), tree.path("real")).expect("a step of the test");
    symlink("real", tree.path("deep")).expect("a step of the test");
    tree.snapshot();
    assert_eq!(tree.snapped("forced.log").as_deref(), Some("wanted\n"));
    assert_eq!(tree.snapped("kept").as_deref(), Some("kept, and changed\n"));
    assert_eq!(tree.snapped("real/er").as_deref(), Some("deep\n"));
    assert_eq!(tree.snapped("deep").as_deref(), Some("real"));
}

#[test]
fn a_conflict_that_nobody_resolved_is_kept_as_it_stands() {
    let tree = Tree::new();
    tree.git(&["switch", "-qc", "other"]);
    tree.write("changed", "theirs\n");
    tree.commit("theirs");
    tree.git(&["switch", "-q", "obj/1"]);
    tree.write("changed", "ours\n");
    tree.commit("ours");
    assert!(!tree.try_git(&["merge", "-q", "other"]).status.success());
    tree.snapshot();
    let text = tree.snapped("changed").expect("a step of the test");
    assert!(text.contains("ours") && text.contains("theirs") && text.contains("<<<<<<<"), "{text}");
}

#[test]
fn an_index_that_cannot_be_used_is_not_needed() {
    let tree = Tree::new();
    tree.write("changed", "after\n");
    let index = tree.path(".git/index");
    fs::write(&index, "no index").expect("a step of the test");
    let said = tree.snapshot();
    assert!(said.contains("cannot be used"), "{said}");
    assert_eq!(tree.snapped("changed").as_deref(), Some("after\n"));
    fs::remove_file(&index).expect("a step of the test");
    tree.write("changed", "once more\n");
    tree.snapshot();
    assert_eq!(tree.snapped("changed").as_deref(), Some("once more\n"));
    // A pipe that nobody writes into must not hold the end of a session up.
    assert!(Command::new("mkfifo").arg(&index).status().expect("a step of the test").success());
    tree.write("changed", "and again\n");
    tree.snapshot();
    assert_eq!(tree.snapped("changed").as_deref(), Some("and again\n"));
}

#[test]
fn repositories_inside_are_named_and_left_out() {
    let tree = Tree::new();
    let nested = tree.path("nested");
    fs::create_dir(&nested).expect("a step of the test");
    let inside = |args: &[&str]| {
        let mut all = vec!["-C", nested.to_str().expect("a step of the test")];
        all.extend(args);
        tree.git(&all);
    };
    inside(&["init", "-q"]);
    tree.write("nested/file", "inside\n");
    inside(&["add", "-A"]);
    inside(&["commit", "-qm", "inside"]);
    tree.write("new", "new\n");
    let said = tree.snapshot();
    assert!(said.contains("1 git repositories inside"), "{said}");
    assert_eq!(tree.snapped("new").as_deref(), Some("new\n"));
    assert_eq!(tree.snapped("nested/file"), None);
    let message = tree.git(&["log", "-1", "--format=%B", "refs/opkit/rescue"]);
    assert!(message.contains("repositories inside the worktree"), "{message}");
}
