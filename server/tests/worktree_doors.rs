//! Worktrees through every door: command line, REST, pages.

#[path = "support/server.rs"]
mod support;

use serde_json::json;
use support::{Server, output_of, run, wait_within};

/// Set-up that leaves a change and an untracked file.
const SETUP: &str = "echo precious > untracked.txt";

/// Checkouts are made ahead, and thrown away, only when nothing else wants the processor.
fn at_leisure<T>(what: &str, ask: impl FnMut() -> Result<T, String>) -> T {
    wait_within(std::time::Duration::from_secs(90), what, ask)
}

#[test]
fn what_was_kept_is_shown_given_and_brought_back() {
    let server = Server::with_owner();
    let folder = support::data_dir();
    let path = support::repository(folder.path());
    let cli = |args: &[&str]| output_of(server.data.path(), args, "");
    cli(&["repos", "add", &path, "--name", "shop", "--setup", SETUP]);
    cli(&[
        "objective",
        "add",
        "--repo",
        "shop",
        "--type",
        "bug",
        "--title",
        "Leaves work",
        "--criterion",
        "It is so",
        "--script",
        "asks-nothing",
        "--max-review-rounds",
        "1",
    ]);
    assert_eq!(server.cli(&["watch", "1"]).status.code(), Some(3));
    let list = cli(&["objective", "kept", "1"]);
    assert!(list.starts_with("1  session ") && list.contains("added  untracked.txt  +1 -0"), "{list}");
    let patch = cli(&["objective", "kept", "1", "--patch", "1"]);
    assert!(patch.starts_with("diff --git") && patch.contains("+precious"), "{patch}");

    let token = server.token();
    let get = |path: &str| server.request("GET", path).bearer(&token).send();
    let post = |path: &str, body: &str| server.request("POST", path).bearer(&token).json(body).send();
    let kept = get("/api/v1/objectives/1/kept").json();
    assert_eq!(kept["items"][0]["files"]["files"][0]["path"], "untracked.txt", "{kept}");
    let download = get("/api/v1/objectives/1/kept/patch?kept=1");
    assert_eq!(download.header("content-disposition"), "attachment; filename=\"objective-1-kept-1.patch\"");
    assert_eq!(get("/api/v1/objectives/1/kept/patch").status, 400);
    assert_eq!(get("/api/v1/objectives/1/kept/patch?kept=x").status, 400);
    assert_eq!(get("/api/v1/objectives/1/kept/patch?kept=77").status, 404);
    assert_eq!(get("/api/v1/objectives/2/kept").status, 404);
    assert_eq!(post("/api/v1/objectives/1/kept/restore", r#"{"kept":1,"force":true}"#).status, 400);
    let viewer =
        output_of(server.data.path(), &["tokens", "create", "--actor", "eve", "--scope", "read"], "");
    let path = "/api/v1/objectives/1/kept/restore";
    let refused = server.request("POST", path).bearer(viewer.trim()).json(r#"{"kept":1}"#).send();
    assert_eq!(refused.status, 403, "{}", refused.body);

    let page = server.request("GET", "/objective/1?tab=kept").header("cookie", &server.cookie()).send();
    assert!(page.body.contains("untracked.txt") && page.body.contains("data-restore"), "{}", page.body);
    let said = cli(&["objective", "restore-files", "1", "1"]);
    assert!(said.contains("branch rescue/1"), "{said}");
    let again = server.cli(&["objective", "restore-files", "1", "1"]);
    assert!(
        !again.status.success() && String::from_utf8_lossy(&again.stderr).contains("already"),
        "{again:?}"
    );
    assert!(cli(&["objective", "kept", "1"]).contains("brought back"));
}

#[test]
fn repositories_and_upkeep_are_changed_by_command_and_rest() {
    let server = Server::with_owner();
    let folder = support::data_dir();
    let path = support::repository(folder.path());
    let cli = |args: &[&str]| output_of(server.data.path(), args, "");
    cli(&["repos", "add", &path, "--name", "my shop"]);
    let said =
        cli(&["repos", "set", "my shop", "--pool", "1", "--setup", "make deps", "--integrate", "merge"]);
    assert_eq!(
        said.trim(),
        "my shop: set-up make deps, verify none, merge on approval, checkouts made ahead: 1."
    );
    assert!(!run(server.data.path(), &["repos", "set", "my shop"], "").status.success(), "nothing to change");
    assert!(!run(server.data.path(), &["repos", "set", "nobody", "--pool", "1"], "").status.success());
    let token = server.token();
    let patch = |path: &str, body: serde_json::Value| {
        server.request("PATCH", path).bearer(&token).json(&body.to_string()).send()
    };
    assert_eq!(patch("/api/v1/repos", json!({"name": "my shop", "change": {"color": "red"}})).status, 400);
    assert_eq!(patch("/api/v1/repos", json!({"name": "my shop", "pool": "3"})).status, 400);
    assert_eq!(patch("/api/v1/repos", json!({"name": "my shop", "change": {"pool": "99"}})).status, 400);
    assert_eq!(patch("/api/v1/upkeep", json!({"worktree_days": 9})).status, 403, "operators do not");
    at_leisure("the checkout is ready", || {
        let list = server.request("GET", "/api/v1/repos").bearer(&token).send().json();
        if list["items"][0]["ready"] == 1 { Ok(()) } else { Err(list.to_string()) }
    });
    let said = cli(&["upkeep", "--worktree-days", "9", "--disk-budget", "5000"]);
    assert!(said.contains("cleared after 9 days") && said.contains("of a budget of 5000 MB"), "{said}");
    assert!(said.contains("counted at 20"), "{said}");
    let shown = serde_json::from_str::<serde_json::Value>(&cli(&["upkeep", "--json"])).unwrap();
    assert_eq!(shown["upkeep"]["worktree_days"], 9, "{shown}");
    // One more may have been under way when the number became smaller; it goes again.
    let cookie = server.cookie();
    at_leisure("the page to show one checkout", || {
        let page = server.request("GET", "/repositories").header("cookie", &cookie).send();
        let right = page.body.contains("1 of 1") && page.body.contains("make deps");
        if right { Ok(()) } else { Err(page.body) }
    });
    let page = server.request("GET", "/health").header("cookie", &server.cookie()).send();
    assert!(page.body.contains("data-disk"), "{}", page.body);
}

#[test]
fn after_a_kill_what_is_whole_is_used_and_what_is_half_made_goes() {
    let server = Server::with_owner();
    let folder = support::data_dir();
    let path = support::repository(folder.path());
    output_of(server.data.path(), &["repos", "add", &path, "--name", "shop"], "");
    let token = server.token();
    let ready = |server: &Server| {
        at_leisure("two checkouts are ready", || {
            let list = server.request("GET", "/api/v1/repos").bearer(&token).send().json();
            if list["items"][0]["ready"] == 2 { Ok(()) } else { Err(list.to_string()) }
        });
    };
    ready(&server);
    let data = server.kill_hard();
    let shelf = data.path().join("pool/1");
    let whole = || {
        let entries = std::fs::read_dir(&shelf).unwrap().flatten().map(|entry| entry.path());
        let mut list: Vec<_> = entries.filter(|path| path.join("README.md").exists()).collect();
        list.sort();
        list
    };
    let before = whole();
    let half = [shelf.join("new-0123"), shelf.join("without-a-marker"), data.path().join("pool/trash/old")];
    for dir in &half {
        std::fs::create_dir_all(dir.join(".git")).unwrap();
        std::fs::write(dir.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    }
    let server = Server::start_in(data, &[]);
    at_leisure("what is half made is gone", || {
        let left: Vec<_> = half.iter().filter(|dir| dir.exists()).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    ready(&server);
    assert_eq!(whole(), before, "the same ones, not made again");
}
