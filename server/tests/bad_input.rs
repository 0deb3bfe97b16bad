//! Bad input: refused with what to do, nothing half done, nothing run.

#[path = "support/fleet.rs"]
mod fleet;
#[path = "support/server.rs"]
mod support;

use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fleet::{Fleet, items};
use serde_json::{Value, json};
use support::{Answer, OWNER, PASSWORD, Server, output_of, run, wait_until};

fn mode(path: &Path, bits: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).expect("a mode");
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn git(path: &Path, args: &[&str]) {
    let done = Command::new("git").arg("-C").arg(path).args(args).output().expect("git runs");
    assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// What a failing command says, which is one line for people.
fn sentence(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let last = said.lines().rev().find(|line| line.starts_with("opkit: ")).unwrap_or_default().to_owned();
    assert!(last.len() > 20 && !said.contains("panicked"), "no sentence in {said}");
    last
}

fn detail(answer: &Answer) -> String {
    assert!((400..500).contains(&answer.status), "{} {}", answer.status, answer.body);
    answer.json()["detail"].as_str().expect("a reason").to_owned()
}

/// A repository that belongs to another user behind a closed door, or for anybody but root a closed one.
fn unreadable(folder: &Path) -> PathBuf {
    let closed = folder.join("closed");
    std::fs::create_dir(&closed).expect("a folder");
    let path = PathBuf::from(support::repository(&closed));
    if is_root() {
        let mut open = vec![path.clone()];
        while let Some(next) = open.pop() {
            chown(&next, Some(54_321), Some(54_321)).expect("another owner");
            if next.is_dir() {
                open.extend(std::fs::read_dir(&next).expect("a folder").flatten().map(|entry| entry.path()));
            }
        }
        mode(&closed, 0o700);
    } else {
        mode(&path, 0o000);
    }
    path
}

#[test]
fn repositories_that_cannot_be_used_leave_nothing_behind() {
    let fleet = Fleet::start(4);
    let place = fleet.folder.path();
    let mirrors = || std::fs::read_dir(fleet.data().join("mirrors")).expect("mirrors").count();
    let handovers = || {
        let run = std::fs::read_dir(fleet.data().join("run")).expect("the run directory").flatten();
        run.filter(|entry| entry.file_name().to_string_lossy().contains("handover")).count()
    };
    let empty = place.join("empty");
    std::fs::create_dir(&empty).expect("a folder");
    git(&empty, &["init", "-q"]);
    let plain = place.join("plain");
    std::fs::create_dir(&plain).expect("a folder");
    std::fs::write(place.join("file"), "no repository").expect("a file");
    let closed = unreadable(place);
    let good = support::repository(&place.join("more"));
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    for (source, extra, wanted) in [
        (text(&empty), &[][..], "no commit yet"),
        (text(&plain), &[], "cannot be read"),
        (text(&place.join("file")), &[], ""),
        (text(&place.join("nowhere")), &[], ""),
        (text(&closed), &[], "cannot be read"),
        (good.clone(), &["--base", "develop"], "has no branch “develop”. It has: main"),
        (good.clone(), &["--base=-x"], ""),
        (good.clone(), &["--base", "../../main"], ""),
        (good.clone(), &["--name", "a/b"], ""),
        (good.clone(), &["--name", "sample"], "registered already"),
        ("--upload-pack=touch x".to_owned(), &[], ""),
        ("ext::touch x".to_owned(), &[], ""),
        ("relative/path".to_owned(), &[], ""),
    ] {
        let name = if extra.contains(&"--name") { &[][..] } else { &["--name", "other"] };
        let args = [&["repos", "add"], extra, name, &["--", source.as_str()]].concat();
        let said = sentence(&fleet.server.cli(&args));
        assert!(said.contains(wanted), "{args:?} says {said}");
        if extra.is_empty() {
            detail(&fleet.post("/api/v1/repos", &json!({"source": source, "name": "other"})));
        }
        assert_eq!((mirrors(), handovers()), (1, 0), "{args:?} leaves something behind");
    }
    assert_eq!(items(fleet.get("/api/v1/repos")).len(), 1);
    let base = fleet.post("/api/v1/objectives", &fleet::objective(&json!({"base": "develop"})));
    assert!(detail(&base).contains("no branch “develop”"), "{}", base.body);
    for base in ["--all", "main:x", "refs/../x", "a b", "main~1"] {
        detail(&fleet.post("/api/v1/objectives", &fleet::objective(&json!({"base": base}))));
    }
    assert!(items(fleet.get("/api/v1/objectives")).is_empty());
    // A base that vanishes later is no crash either.
    output_of(fleet.data(), &["repos", "add", &good, "--name", "more"], "");
    git(Path::new(&good), &["branch", "-q", "-m", "main", "trunk"]);
    let gone =
        fleet.post("/api/v1/objectives", &fleet::objective(&json!({"repo": "more", "base": "master"})));
    assert!(detail(&gone).contains("no branch “master”"), "{}", gone.body);
    // Once it has a commit the empty one is taken.
    git(
        &empty,
        &["-c", "user.name=t", "-c", "user.email=t@x.invalid", "commit", "-q", "--allow-empty", "-m", "1"],
    );
    output_of(fleet.data(), &["repos", "add", &text(&empty)], "");
}

#[test]
fn fields_that_are_not_known_change_nothing() {
    let fleet = Fleet::start(4);
    let id = fleet.add(&json!({"hold": true}));
    let before = fleet.objective(id);
    let path = format!("/api/v1/objectives/{id}");
    for (name, fields) in [
        ("move", json!({"status": "cancelled"})),
        ("approve", json!({"reason": "x"})),
        ("reject", json!({"findings": "x"})),
        ("answer", json!({"text": "x"})),
        ("review", json!({})),
        ("reopen", json!({"reason": "x"})),
        ("resume", json!({})),
        ("cancel", json!({})),
        ("restore", json!({})),
        ("message", json!({"text": "x"})),
        ("integrate", json!({"how": "keep"})),
    ] {
        let mut body = fields;
        body["sudo"] = json!(true);
        let answer = fleet.post(&format!("{path}/{name}"), &body);
        assert_eq!(answer.status, 400, "{name}: {}", answer.body);
        assert!(detail(&answer).contains("sudo"), "{name}: {}", answer.body);
    }
    for (address, body) in [
        ("/api/v1/objectives", fleet::objective(&json!({"sudo": 1}))),
        ("/api/v1/objectives", fleet::objective(&json!({"status": "done"}))),
        ("/api/v1/repos", json!({"source": "/x", "sudo": 1})),
        ("/api/v1/stop-all", json!({"sudo": 1})),
    ] {
        let answer = fleet.post(address, &body);
        assert_eq!(answer.status, 400, "{body}: {}", answer.body);
    }
    let patch = |body: &str| fleet.server.request("PATCH", &path).bearer(&fleet.token).json(body).send();
    for body in [r#"{"sudo":1}"#, r#"{"title":"New","sudo":1}"#, r#"{"title":7}"#, "7", "{", "nonsense"] {
        assert_eq!(patch(body).status, 400, "{body}");
    }
    assert_eq!(fleet.objective(id), before, "nothing was half done");
    assert!(!fleet.data().join("DISABLED").exists());
    assert_eq!(items(fleet.get("/api/v1/objectives")).len(), 1);
}

#[test]
fn a_title_is_text_and_never_a_command() {
    let fleet = Fleet::start(4);
    let place = fleet.folder.path();
    // Whoever ran it could write here.
    mode(place, 0o777);
    let marker = place.join("marker");
    let touch = format!("touch {}", marker.display());
    let long = format!("{}\u{1b}]0;x\u{7}\r\n#({touch})", "a".repeat(10_240));
    for title in [long.as_str(), "", " \t ", "two\nlines", "bell\u{7}", "\u{1b}[31mred", "zero\0"] {
        let answer = fleet.post("/api/v1/objectives", &fleet::objective(&json!({"title": title})));
        assert_eq!(answer.status, 400, "{}", answer.body);
        let said = detail(&answer);
        assert!(said.contains("title") && !said.chars().any(char::is_control), "{said}");
    }
    let control =
        fleet.server.cli(&["objective", "add", "--repo", "sample", "--type", "bug", "--title", &long]);
    sentence(&control);
    assert!(items(fleet.get("/api/v1/objectives")).is_empty());

    let titles = [
        format!("#({touch})"),
        format!("$({touch})"),
        format!("`{touch}`"),
        format!("'; {touch}; '"),
        format!("\"; {touch} #"),
        "--help -rf %s #{pane_id} <script>alert(1)</script>".to_owned(),
    ];
    let add = |title: &String| {
        let criteria = json!([{"text": title, "check": "test -f hello.txt"}]);
        fleet.add(&json!({"title": title, "brief": title, "criteria": criteria, "script": "slow:1"}))
    };
    let ids: Vec<i64> = titles.iter().map(add).collect();
    for (id, title) in ids.iter().zip(&titles) {
        let card = fleet.rests(*id);
        assert_eq!(
            (&card["status"], card["title"].as_str()),
            (&json!("done"), Some(title.as_str())),
            "{}",
            fleet.story(*id)
        );
        assert!(!marker.exists(), "{title} was run");
    }
    // Ask tmux to draw everything it has: formats are expanded then.
    for socket in std::fs::read_dir(fleet.data().join("run/tmux")).expect("sockets").flatten() {
        if socket.path().extension().is_none_or(|ending| ending != "sock") {
            continue;
        }
        let drawn = Command::new("tmux").arg("-S").arg(socket.path()).args(["list-windows", "-a"]).output();
        let drawn = String::from_utf8_lossy(&drawn.expect("tmux runs").stdout).into_owned();
        assert!(drawn.contains("obj-") && !drawn.contains("touch"), "{drawn}");
    }
    fleet.check_no(&marker);
}

impl Fleet {
    /// Nothing made this file, neither here nor in any checkout.
    fn check_no(&self, marker: &Path) {
        assert!(!marker.exists());
        assert!(!self.data().join("marker").exists() && !Path::new("/marker").exists());
    }
}

#[test]
fn an_artifact_that_is_no_file_delivers_nothing() {
    let fleet = Fleet::start(8);
    for (script, wanted) in [("links-artifact", "is a link"), ("pipes-artifact", "is not a regular file")] {
        let id = fleet.add(&json!({"script": script, "max_review_rounds": 1}));
        let card = fleet.rests(id);
        let found = (card["status"].as_str(), card["attention"].as_str());
        assert_eq!(found, (Some("human_review"), Some("no_deliverable")), "{script}: {}", fleet.story(id));
        assert!(fleet.story(id).contains(wanted), "{}", fleet.story(id));
        let artifact = card["artifact"].as_str().unwrap_or_default();
        assert!(!artifact.contains("root:"), "the link was followed: {artifact}");
        assert!(
            fleet.sessions(id).iter().all(|session| session["role"] == "work"),
            "it never came to a review"
        );
    }
}

#[test]
fn data_directories_that_cannot_work_are_refused_plainly() {
    let server = Server::start();
    let said = sentence(&run(server.data.path(), &["serve", "--listen", "127.0.0.1:0"], ""));
    assert!(said.contains("in use by another opkit") && said.contains("--data"), "{said}");
    assert_eq!(server.get("/healthz").status, 200, "the first goes on");

    let place = support::data_dir();
    let serve = |data: &Path| {
        run(
            data.parent().expect("a parent"),
            &["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().expect("UTF-8")],
            "",
        )
    };
    let file = place.path().join("file");
    std::fs::write(&file, "no directory").expect("a file");
    assert!(sentence(&serve(&file)).contains("--data"));
    let link = place.path().join("link");
    symlink("nowhere", &link).expect("a link");
    assert!(sentence(&serve(&link)).contains("--data"));
    if !is_root() {
        return;
    }
    // Agents run as another user: a parent closed to them is said before anything runs.
    let closed = place.path().join("closed");
    std::fs::create_dir(&closed).expect("a folder");
    mode(&closed, 0o700);
    let said = sentence(&serve(&closed.join("data")));
    assert!(said.contains(&format!("chmod o+x {}", closed.display())) && said.contains("--data"), "{said}");
}

#[test]
fn a_path_too_long_for_a_socket_works_all_the_same() {
    let place = support::data_dir();
    let long = "a-directory-name-of-forty-eight-characters-exact";
    let data = place.path().join(long).join(long);
    std::fs::create_dir_all(&data).expect("a folder");
    for path in [place.path().join(long), data.clone()] {
        mode(&path, 0o711);
    }
    // The server's own directory is inside the one that goes away at the end.
    let inside = tempfile::Builder::new().prefix("data-").tempdir_in(&data).expect("a data directory");
    mode(inside.path(), 0o711);
    let server = Server::start_with(inside, &[], &[("OPKIT_DEMO_SPEED", "0")]);
    output_of(server.data.path(), &["setup", "--owner", OWNER, "--password-stdin"], PASSWORD);
    let elsewhere =
        std::fs::read_to_string(server.data.path().join("run/where")).expect("a place for sockets");
    assert!(Path::new(&elsewhere).join("control.sock").exists(), "{elsewhere}");
    assert_eq!(std::fs::metadata(&elsewhere).expect("a directory").permissions().mode() & 0o777, 0o700);
    let path = support::repository(place.path());
    output_of(server.data.path(), &["repos", "add", &path, "--name", "sample"], "");
    let add =
        ["objective", "add", "--repo", "sample", "--type", "bug", "--title", "Long way", "--criterion", "a"];
    let id = output_of(server.data.path(), &[&add[..], &["--check", "test -f hello.txt"]].concat(), "");
    let watched = server.cli(&["watch", &id]);
    assert_eq!(watched.status.code(), Some(0), "{}", String::from_utf8_lossy(&watched.stdout));
    assert!(Path::new(&elsewhere).join("tmux/ccuser-0.sock").exists());
}

#[test]
fn an_agent_that_cannot_be_used_is_said() {
    let data = support::data_dir();
    output_of(data.path(), &["setup", "--owner", OWNER, "--password-stdin"], PASSWORD);
    let place = support::data_dir();
    let closed = place.path().join("closed");
    std::fs::create_dir(&closed).expect("a folder");
    let claude = closed.join("claude");
    std::fs::write(&claude, "#!/bin/sh\nexit 1\n").expect("a program");
    mode(&claude, 0o755);
    mode(&closed, 0o700);
    let server = Server::start_with(data, &[], &[("OPKIT_CLAUDE", claude.to_str().expect("UTF-8"))]);
    let path = support::repository(place.path());
    output_of(server.data.path(), &["repos", "add", &path, "--name", "sample"], "");
    let token = server.token();
    let post = |fields: Value| {
        let body = fleet::objective(&fields).to_string();
        server.request("POST", "/api/v1/objectives").bearer(&token).json(&body).send()
    };
    for fields in
        [json!({"agent": "codex"}), json!({"agent": "claude", "script": "good"}), json!({"script": "rm -rf"})]
    {
        detail(&post(fields));
    }
    if !is_root() {
        return;
    }
    let id = post(json!({"agent": "claude"})).json()["id"].as_i64().expect("a number");
    // Nothing of it starts, and whoever looks is told what to do.
    let said = wait_until("the reason", || {
        let output = server.cli(&["doctor"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let wanted = format!("chmod o+rx {}", closed.display());
        text.lines().find(|line| line.contains(&wanted)).map(str::to_owned).ok_or(text)
    });
    assert!(said.trim_start().starts_with("!!"), "{said}");
    let sessions = server.request("GET", &format!("/api/v1/objectives/{id}/sessions")).bearer(&token).send();
    assert_eq!(sessions.json()["items"], json!([]));
    let card = server.request("GET", &format!("/api/v1/objectives/{id}")).bearer(&token).send().json();
    assert_eq!(card["status"], "queue", "{card}");
    output_of(server.data.path(), &["cancel", &id.to_string()], "");
}
